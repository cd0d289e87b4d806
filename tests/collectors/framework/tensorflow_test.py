# SPDX-License-Identifier: Apache-2.0
"""The real TensorFlow with Keras in a program that knows nothing of us, and beside JAX: their own events in our traces.

Run by tools/venv.sh.
"""
import glob
import os
import statistics

import foreign_case
from foreign_case import attached

TRAIN = foreign_case.OBEY + """
import tensorflow as tf, keras
import tensorflow.summary

def on_start_trace(folder):
    tf.profiler.experimental.start(folder)
    return "traces"

def on_stop_trace(folder):
    tf.profiler.experimental.stop()
    return sum(len(files) for _, _, files in os.walk(folder))

def on_try_a_session(folder):
    "Not as a program does, which would end ours."
    from tensorflow.python.profiler.internal import _pywrap_profiler
    session = _pywrap_profiler.ProfilerSession()
    start = _pywrap_profiler.ProfilerSession.start
    getattr(start, "__wrapped__", start)(session, folder, {})
    session.stop()
    return "started"

def on_trace_by(argument):
    "Traces itself, in one of the ways of TensorFlow's API; how many traces it got."
    way, folder = argument.split()
    work = lambda: tf.reduce_sum(tf.ones((64, 64))).numpy()
    if way == "start":
        tf.profiler.experimental.start(folder)
        work()
        tf.profiler.experimental.stop()
    elif way == "Profile":
        with tf.profiler.experimental.Profile(folder):
            work()
    elif way == "summary":
        with tf.summary.create_file_writer(folder).as_default():
            tf.summary.trace_on(graph=False, profiler=True, profiler_outdir=folder)
            work()
            tf.summary.trace_export("own", step=0)
    elif way == "callback":
        other = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(1)])
        other.compile(optimizer="sgd", loss="mse")
        sys.modules["tensorflow.summary"].scalar = lambda *args, **kwargs: True  # which needs TensorBoard
        board = keras.callbacks.TensorBoard(folder, profile_batch=(2, 3), write_graph=False)
        other.fit(tf.ones((64, 16)), tf.ones((64, 1)), batch_size=8, epochs=1, verbose=0, callbacks=[board])
    else:
        output = os.dup(1)  # the client writes there, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            tf.profiler.experimental.client.trace("grpc://127.0.0.1:" + way, folder, 200)
        finally:
            os.dup2(output, 1)
    return sum(name.endswith(".xplane.pb") for _, _, files in os.walk(folder) for name in files)

def on_recompile(size):
    update(tf.ones((int(size), int(size))))
    return "compiled"

def on_start_server(port):
    tf.profiler.experimental.server.start(int(port))
    return "serves"

class Obedient(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        times.append(0)
        if not running:
            self.model.stop_training = True

model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones((256, 16)), tf.ones((256, 1)))).batch(16).repeat()
model.fit(data, steps_per_epoch=3, epochs=1, verbose=0)
threading.Thread(target=obey, daemon=True).start()
PRELUDE
print("up", flush=True)
LOOP
"""
# Epochs so short that five steps are never of one, and calls so short that sixteen steps are never of one list of callbacks.
FIT = """
kept = []  # so that each list has an address of its own
while running:
    kept.append(keras.callbacks.CallbackList([Obedient()], model=model))
    model.fit(data, steps_per_epoch=4, epochs=3, verbose=0, callbacks=kept[-1])
"""
# A loop of the program's own, which marks its steps as TensorFlow's guide says.
OWN_LOOP = """
@tf.function
def update(x):
    return tf.reduce_sum(tf.tanh(tf.matmul(x, x)))

i = 0
x = tf.ones((64, 64))
update(x)
while running:
    with tf.profiler.experimental.Trace("train", step_num=i, _r=1):
        update(x)
    i += 1
"""
# The same, without marks.
UNMARKED = """
@tf.function
def normalize(x):
    return x / (1 + tf.reduce_max(tf.abs(x)))

@tf.function
def update(x):
    for _ in range(8):
        x = tf.tanh(tf.matmul(x, x))
    return tf.reduce_sum(x)

x = tf.ones((256, 256))
normalize(normalize(tf.ones(8))), update(x).numpy()
"""
UNMARKED_LOOP = """
while running:
    normalize(normalize(tf.ones(8))), update(x).numpy()
"""
# Both at once: each has a profiler of its own.
BOTH = """
import jax, jax.numpy as jnp
jitted = jax.jit(lambda x: jnp.tanh(x @ x))
y = jnp.ones((64, 64))
@tf.function
def update(x):
    return tf.reduce_sum(tf.tanh(tf.matmul(x, x)))

x = tf.ones((64, 64))
update(x), jitted(y)
"""
BOTH_LOOP = """
while running:
    update(x)
    jitted(y).block_until_ready()
    times.append(0)
"""
STEP = "Keras batch"


class KerasTest(foreign_case.ForeignCase):
    collector = "tensorflow"
    program = TRAIN.replace("PRELUDE", "").replace("LOOP", FIT)

    @attached.harness.again_if_busy(0.5)
    def test_events_steps_and_xprof(self):
        worker, tensorflow, files = self.capture("--duration_ms=500")
        self.assertEqual(tensorflow["state"], "on", tensorflow)
        self.assertEqual(worker["lost"], 0, worker)
        self.assertGreater(tensorflow["events"], 100)
        events = self.host_events(files)
        functions = [event for event in events if event.name.startswith("FunctionRun")]
        self.assertGreater(len(functions), 5)
        self.assertTrue([event for event in events if event.name.startswith("Iterator")])

        steps = self.steps(events)
        self.assertEqual({step.name for step in steps}, {STEP})
        self.assertGreater(len(steps), 5)
        self.assertEqual(worker["steps"], len(steps))
        # They and what TensorFlow says of their thread are on one line.
        (line,) = {step.line for step in steps}
        self.assertTrue([event for event in functions if event.line == line])
        self.assertEqual([event for event in functions if "_r" in event.stats], [])
        self.assert_nested([event for event in events if event.line == line])

        found = self.xprof(files, "overview_page", "trace_viewer", "framework_op_stats")
        _, rows = foreign_case.step_rows(found["overview_page"])
        self.assertGreater(rows, 3)
        self.assertGreater(len(found["framework_op_stats"][0]["rows"]), 3)
        shown = {event["name"] for event in found["trace_viewer"]["traceEvents"] if event.get("ph") == "X"}
        self.assertIn("FunctionRun", " ".join(shown))

    def test_a_number_of_steps(self):
        self.iterations(10)
        worker, _, files = self.capture("--steps=5")
        self.assertEqual(worker["steps"], 5)
        self.assertEqual(len(self.steps(self.host_events(files))), 5)

    @attached.harness.again_if_busy(0.5)
    def test_captures_in_a_row(self):
        for _ in range(5):
            _, tensorflow, _ = self.capture("--duration_ms=200")
            self.assertEqual(tensorflow["state"], "on", tensorflow)
            self.assertGreater(tensorflow["events"], 0)
        self.assertEqual(glob.glob(f"{self.home}/jobscope-tensorflow-*"), [])

    def test_the_programs_own_trace(self):
        folder = os.path.join(self.folder, "theirs")
        self.assertEqual(self.worker.ask(f"start_trace {folder}"), "traces")
        worker, tensorflow, _ = self.capture("--duration_ms=100")
        self.assertEqual((worker["outcome"], tensorflow["state"]), ("ok", "failed"))
        self.assertIn("tf.profiler.experimental.start", tensorflow["reason"])
        self.assertGreater(self.worker.ask(f"stop_trace {folder}"), 0)

        client, logs = self.begin_and_wait("--duration_ms=60000")
        self.assertTrue(self.session_is_taken())
        self.stop()
        _, tensorflow, _ = self.end(client, logs)
        self.assertEqual(tensorflow["state"], "on")
        self.assertEqual(self.worker.ask(f"start_trace {folder}3"), "traces")
        self.assertGreater(self.worker.ask(f"stop_trace {folder}3"), 0)

    def test_the_program_traces_itself_during_a_capture(self):
        for way in ("start", "Profile", "summary", "callback"):
            with self.subTest(way):
                self.the_program_traces_itself(way)

    def test_its_own_server(self):
        port = attached.free_port()
        self.assertEqual(self.worker.ask(f"start_server {port}"), "serves")
        self.the_program_traces_itself(str(port))  # by tf.profiler.experimental.client.trace
        self.both_servers(port, lambda event: event.name.startswith("FunctionRun"))
        worker, _, _ = self.capture("--duration_ms=100", address=f"127.0.0.1:{port}")
        self.assertEqual((worker["outcome"], worker["protocol"]), ("ok", "tensorflow"))

    def session_is_taken(self):
        """Not by tf.profiler.experimental.start: that stays unusable once it has failed."""
        return "AlreadyExists" in self.worker.ask(f"try_a_session {self.folder}")

    def test_a_fork_in_a_capture(self):
        client, logs = self.begin_and_wait("--duration_ms=60000")
        self.assertEqual(self.worker.ask("fork"), 0)
        self.stop()
        _, tensorflow, _ = self.end(client, logs)
        self.assertEqual(tensorflow["state"], "on", tensorflow)


class UnmarkedTest(foreign_case.ForeignCase):
    """A loop of the program's own, without Keras and without marks."""

    collector = "tensorflow"
    program = TRAIN.replace("PRELUDE", UNMARKED).replace("LOOP", UNMARKED_LOOP)
    session_is_taken = KerasTest.session_is_taken

    def test_compilations(self):
        self.assertEqual(self.compilations(), {"tf.function-graph_building"})

    @attached.harness.again_if_busy(0.5)
    def test_steps_are_found(self):
        worker, tensorflow, files = self.capture("--duration_ms=500")
        self.assertEqual(tensorflow["state"], "on", tensorflow)
        events = self.host_events(files)
        steps = self.steps(events)
        self.assertGreater(len(steps), 10)
        self.assertEqual({step.name for step in steps}, {"TensorFlow step"})
        self.assertEqual({step.stats["inferred_from"] for step in steps}, {"update"})
        self.assertEqual(worker["steps"], len(steps))
        self.assertIn("inferred from update", " ".join(worker["warnings"]))
        self.assert_nested([event for event in events if event.line in {step.line for step in steps}])

        found = self.xprof(files, "overview_page")
        properties, rows = foreign_case.step_rows(found["overview_page"])
        self.assertGreater(rows, 5)
        mean_ms = statistics.mean(step.duration_ps for step in steps) / 1e9
        self.assertAlmostEqual(float(properties["steptime_ms_average"]), mean_ms, delta=0.3 * mean_ms)


class BothTest(foreign_case.ForeignCase):
    """TensorFlow and JAX in one process, which ends in the middle of a capture."""

    collector = "tensorflow"
    program = TRAIN.replace("PRELUDE", BOTH).replace("LOOP", BOTH_LOOP)

    def test_both_and_an_end_in_the_middle(self):
        worker, _, files = self.capture("--duration_ms=300")
        states = {one["name"]: one["state"] for one in worker["collectors"]}
        self.assertEqual((states["jax"], states["tensorflow"]), ("on", "on"), worker["collectors"])
        self.assertEqual(worker["lost"], 0)
        events = self.host_events(files)
        self.assertTrue([one for one in events if one.name.startswith("FunctionRun")])
        calls = [one for one in events if one.name.startswith("PjitFunction")]
        self.assertTrue(calls)
        (line,) = {one.line for one in calls}
        self.assert_nested([event for event in events if event.line == line])
        self.assertIn("overview_page", self.xprof(files)[""])
        # The steps of one framework only: two kinds of steps would cut each other.
        self.assertEqual({step.name for step in self.steps(events)}, {"JAX step"})

        client, logs = self.begin_and_wait("--duration_ms=60000")
        self.iterations(20)
        code, errors = self.worker.finish("end")
        self.assertEqual(code, 0, errors)
        worker, _, files = self.end(client, logs)
        states = {one["name"]: one["state"] for one in worker["collectors"]}
        self.assertEqual((states["jax"], states["tensorflow"]), ("on", "on"), worker["collectors"])
        events = self.host_events(files)
        self.assertTrue([one for one in events if one.name.startswith("FunctionRun")], worker["collectors"])
        self.assertTrue([one for one in events if one.name.startswith("PjitFunction")], worker["collectors"])
        self.assertEqual(glob.glob(f"{self.home}/jobscope-tensorflow-*"), [])

    @classmethod
    def tearDownClass(cls):
        pass


class OwnMarksTest(foreign_case.OwnServerCase):
    """Steps that the program marks as TensorFlow's guide says, in a process that has our wheel's server."""

    collector = "tensorflow"
    program = TRAIN.replace("PRELUDE", foreign_case.START_SERVER).replace("LOOP", OWN_LOOP)

    @attached.harness.again_if_busy(0.5)
    def test_its_marks_are_steps(self):
        worker, tensorflow, files = self.capture("--duration_ms=300")
        self.assertEqual(tensorflow["state"], "on", tensorflow)
        events = self.host_events(files)
        steps = [step for step in self.steps(events) if step.name == "train"]
        self.assertGreater(len(steps), 5)
        self.assertEqual(worker["steps"], len(steps))
        numbers = sorted(step.stats["step_num"] for step in steps)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))


if __name__ == "__main__":
    foreign_case.main()
