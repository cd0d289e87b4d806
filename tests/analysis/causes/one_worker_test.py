# SPDX-License-Identifier: Apache-2.0
"""What bounds one worker, as `jobscope report` says: input, host work, or compilation, in JAX, in TensorFlow, and in C++.

Programs as their users write them, with steps marked as the frameworks' guides say; a line tells them what to suffer from. Run by
tools/venv.sh.
"""
import glob
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "server", "attach"), os.path.join(HERE, "..", "..", "python")]
import attached  # noqa: E402
import preference  # noqa: E402

QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}  # fmt: skip
TRAIN_LOOP = os.path.join(os.path.dirname(attached.CAPTURE), "train_loop")
STEPS = 40
# Answers some steps later with their time, in ms.
LOOP = """
import itertools, sys, threading, time
mode, settled = "host", None

def obey():
    global mode, settled
    for line in sys.stdin:
        mode, settled = line.strip(), 8

def batches():
    while True:
        if mode == "input":
            time.sleep(0.03)
        yield [1.0] * 64

PROGRAM

threading.Thread(target=obey, daemon=True).start()
data = iter(DATA)
batch = next(data)
train(0, batch)
print("up", flush=True)
for step in itertools.count(1):
    with MARK:
        batch = next(data) if mode == "input" else batch
        train(step, batch)
    if settled is not None:
        settled -= 1
        if settled == 6:
            begin = time.perf_counter()
        if settled == 0:
            settled = None
            print((time.perf_counter() - begin) * 1000 / 6, flush=True)
"""
# Small operations one by one are host work; a shape that nobody has seen is compiled.
JAX = """
import os, jax, jax.numpy as jnp, numpy as np
import tensorflow as tf

@jax.jit
def update(x):
    return jnp.tanh(x * 2).sum()

def train(step, batch):
    x = jnp.asarray(batch)
    update(jnp.ones(64 + step) if mode == "compile" else x).block_until_ready()
    for _ in range(400 if mode == "host" else 0):
        x = x + 1
"""
TENSORFLOW = """
import tensorflow as tf

@tf.function
def update(x, number):
    return tf.reduce_sum(tf.tanh(x * number))

def train(step, batch):
    # A number of Python's is another function each time; a tensor is not.
    update(batch, float(step) if mode == "compile" else tf.constant(2.0))
    for _ in range(400 if mode == "host" else 0):
        batch = batch + 1
"""
DATASET = "tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec((64,), tf.float32))"


class OneWorker(attached.TestCase):
    def report(self, address, step_ms):
        # By time: a step that a framework's own profiler knows is counted after the capture.
        duration_ms = round(max(500, STEPS * step_ms))
        self.captures = getattr(self, "captures", 0) + 1
        logs = os.path.join(self.folder, f"logs{self.captures}")
        code, _, errors = attached.run(
            [attached.CAPTURE, f"--service_addr={address}", f"--duration_ms={duration_ms}", f"--logdir={logs}", "--quiet"],
            attached.environment(),
        )
        self.assertEqual(code, 0, errors)
        (run,) = glob.glob(f"{logs}/plugins/profile/*")
        code, out, errors = attached.run([attached.PROGRAM, "report", run, "--json"], attached.environment())
        self.assertEqual(code, 0, errors)
        return json.loads(out)

    def assert_bound(self, report, step_class):
        """By that class, unless so much of the CPU went to somebody else that this bounds it more."""
        verdict, (worker,) = report["verdict"], report["workers"]
        self.assertEqual(verdict["finding"], "bound", verdict)
        classes = worker["classes_ms"]
        if verdict["class"] == "not_running":
            self.assertGreater(classes["not_running"], 0.1 * worker["mean_ms"], verdict)
            self.skipTest(f"the machine is busy: {classes['not_running']:.1f} of {worker['mean_ms']:.1f} ms without a CPU")
        self.assertEqual(verdict["class"], step_class, report["workers"])
        return verdict

    def start(self, program, data, mark):
        script = self.script(LOOP.replace("PROGRAM", program).replace("DATA", data).replace("MARK", mark))
        env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, **QUIET)
        process = attached.Process([sys.executable, "-B", script], env, preexec_fn=preference.prefer)
        self.addCleanup(process.__exit__)
        self.assertEqual(process.hear(), "up")
        (address,) = self.wait_for_addresses(1).values()
        return process, address

    def step_time_s(self, process, mode):
        """The time of a step, once it is in that mode."""
        process.say(mode)
        return float(process.hear())

    def check_python(self, program, data, mark, compiles, advice):
        process, address = self.start(program, data, mark)
        with self.subTest("input"):
            report = self.report(address, self.step_time_s(process, "input"))
            verdict = self.assert_bound(report, "input")
            self.assertIn("prefetch", verdict["advice"])
        with self.subTest("host"):
            report = self.report(address, self.step_time_s(process, "host"))
            verdict = self.assert_bound(report, "host")
            self.assertTrue(verdict["names"], verdict)
        with self.subTest("compilation"):
            report = self.report(address, self.step_time_s(process, "compile"))
            verdict = self.assert_bound(report, "compilation")
            self.assertIn(compiles, " ".join(verdict["names"]))
            self.assertIn(advice, verdict["advice"])

    def test_jax(self):
        mark = "jax.profiler.StepTraceAnnotation('train', step_num=step)"
        self.check_python(JAX, DATASET + ".as_numpy_iterator()", mark, "of PjitFunction(update)", "jax.log_compiles")

    def test_tensorflow(self):
        mark = "tf.profiler.experimental.Trace('train', step_num=step, _r=1)"
        self.check_python(TENSORFLOW, DATASET, mark, "tf.function-graph_building of update", "reduce_retracing")

    def test_cpp(self):
        for slow_ms, step_class in ((20, "input"), (0, "host")):
            with self.subTest(step_class):
                command = [TRAIN_LOOP, "--listen=127.0.0.1:0", f"--slow_ms={slow_ms}"]
                with attached.Process(command, attached.environment(), preexec_fn=preference.prefer) as process:
                    address = process.hear().rsplit(" ", 1)[1]
                    self.assert_bound(self.report(address, slow_ms + 5), step_class)


if __name__ == "__main__":
    attached.main()
