# SPDX-License-Identifier: Apache-2.0
"""The attach library in processes of the real frameworks: each that is installed, by each way of loading us, in each situation.

    frameworks_test.py --table FILE     writes the results into FILE, between the lines "<!-- frameworks -->"

A row is one process: the framework is imported and used, the process is captured while it works, forks, starts a pool, is
captured again and ends in the middle of that.
"""
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import unittest

import attached

WORKER = """
import ctypes, json, multiprocessing, os, sys, threading
import_module, way = sys.argv[1:3]

def use_tensorflow():
    import tensorflow as tf
    assert float(tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)))(tf.ones((64, 64)))) == 64.0**3

def use_jax():
    import jax, jax.numpy as jnp
    assert float(jax.jit(lambda x: jnp.sum(x @ x))(jnp.ones((64, 64)))) == 64.0**3

def use_torch():
    import torch
    x = torch.ones((64, 64), requires_grad=True)
    (x @ x).sum().backward()
    loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=2, num_workers=2)  # by fork
    assert sum(batch.sum() for batch in loader) == 28.0

def use_grpc():
    from concurrent import futures
    import grpc
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=(Echo(grpc),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary("/echo/Echo")(b"x", timeout=20) == b"x!"
    server.stop(None)

def Echo(grpc):
    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(lambda request, _: request + b"!")
    return Handler()

def child(queue):
    queue.put(os.getpid())

def pool(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=child, args=(queue,)) for _ in range(2)]
    for one in children:
        one.start()
    answers = [queue.get(timeout=60) for _ in children]
    for one in children:
        one.join(60)
    return [one.exitcode for one in children] if len(set(answers)) == 2 else answers

if __name__ == "__main__":
    use = globals()["use_" + import_module]
    use()
    if way == "injection":  # as libcuda does when the framework uses the GPU for the first time
        assert ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection() == 1
    print(json.dumps("up"), flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "use":
            use()
            print(json.dumps("used"), flush=True)
        elif word == "fork":
            pid = os.fork()
            if pid == 0:
                sys.exit(0)  # through all exit handlers
            print(json.dumps(os.waitpid(pid, 0)[1]), flush=True)
        elif word == "end":
            break
        else:
            print(json.dumps(pool(word.removeprefix("pool by "))), flush=True)
"""
FRAMEWORKS = ("tensorflow", "jax", "torch", "grpc")  # by the name of the module
WAYS = {"preload": "LD_PRELOAD", "injection": "CUDA_INJECTION64_PATH"}
CHILDREN = ("fork", "pool by fork", "pool by spawn", "pool by forkserver")
COLUMNS = ("capture", *CHILDREN, "end in a capture")
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"}


def installed():
    return [module for module in FRAMEWORKS if importlib.util.find_spec(module) is not None]


class Row(attached.TestCase):
    """One process, and its result for each column."""

    def children(self, process):
        """By column: whether all children of that kind end well."""
        came = {}
        for column in CHILDREN:
            process.say(column)
            came[column] = process.hear_json() in (0, [0, 0])
        return came

    def without_us(self, module):
        """What the framework does on its own: JAX 0.10.2 ends by SIGSEGV in a forked child that leaves through exit handlers."""
        with attached.Process([sys.executable, "-B", self.script(WORKER), module, ""], attached.environment(**QUIET)) as process:
            self.assertEqual(process.hear_json(), "up")
            came = self.children(process)
            self.assertEqual(process.finish("end")[0], 0)
        return came

    def row(self, module, way):
        env = {"JOBSCOPE_PORT_DIR": self.ports, "RANK": "0", **QUIET}
        if way == "preload":
            env = attached.preloaded(**env)
        else:
            env = attached.environment(
                CUDA_INJECTION64_PATH=attached.LIBRARY, JOBSCOPE_LISTEN="127.0.0.1:0", **env
            )
        came = {}
        command = [sys.executable, "-B", self.script(WORKER), module, way]
        with attached.Process(command, env) as process:
            self.assertEqual(process.hear_json(), "up")
            (address,) = self.wait_for_addresses(1).values()
            self.assert_serves(address, process.pid)

            client = self.capture(address, 300)
            process.say("use")
            self.assertEqual(process.hear_json(), "used")
            came["capture"] = self.delivered(client)
            came.update(self.children(process))
            self.assert_serves(address, process.pid)
            process.say("use")
            self.assertEqual(process.hear_json(), "used")

            client = self.capture(address, 60_000)
            self.assertTrue(attached.harness.until(lambda: self.busy(address), 30), "the capture does not begin")
            code, errors = process.finish("end")
            came["end in a capture"] = self.delivered(client) and code == 0
        self.assertNotIn("jobscope", errors)
        self.assertEqual(self.addresses(), {})
        return came

    def capture(self, address, duration_ms):
        return subprocess.Popen(
            [attached.CAPTURE, f"--service_addr={address}", f"--duration_ms={duration_ms}",
             f"--logdir={self.folder}/logs", "--json", "--quiet"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=attached.environment(),
        )  # fmt: skip

    def delivered(self, client):
        out, _ = client.communicate(timeout=attached.DEADLINE_S)
        (worker,) = json.loads(out)["workers"]
        return client.returncode == 0 and all(os.path.getsize(self.file(f["path"])) > 0 for f in worker["files"])

    def file(self, path):
        for folder, _, files in os.walk(self.folder):
            if os.path.basename(path) in files:
                return os.path.join(folder, os.path.basename(path))
        raise AssertionError(f"no {path}")

    def busy(self, address):
        command = [attached.CAPTURE, "check", f"--service_addr={address}", "--json"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=30, env=attached.environment())
        return b"recording" in done.stdout


def _make(module):
    @attached.harness.again_if_busy(0.5)  # a process gives one second to the delivery at its exit
    def test(self):
        alone = self.without_us(module)
        for way in WAYS:
            came = self.row(module, way)
            self.assertEqual([c for c in COLUMNS if not came[c] and alone.get(c, True)], [], way)

    return test


for _module in installed():
    setattr(Row, f"test_{_module}", _make(_module))


TRAIN = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(4)
sys.stdout.write("up\\n")
sys.stdout.flush()
while x[0] > 0:  # until the file asks rank 0 to end
    if dist.get_rank() == 0 and open(sys.argv[1]).read() == "end":
        x.fill_(-1.0)
    dist.broadcast(x, 0)
"""


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
class TorchrunTest(attached.TestCase):
    def test_two_ranks_by_the_real_launcher(self):
        """The launcher inherits everything and is passed over; its ranks have the ports in a row."""
        port = attached.free_port(2)
        flag = self.script("go", "flag")
        env = attached.preloaded(f"127.0.0.1:{port}+rank", JOBSCOPE_PORT_DIR=self.ports, OMP_NUM_THREADS="1", **QUIET)
        command = [
            sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={attached.free_port()}",
            # Without these two the launcher of 1.13 fails on Python 3.11.
            "--redirects=1", "--tee=1", f"--log_dir={self.folder}/log", self.script(TRAIN), flag,
        ]  # fmt: skip
        with attached.Process(command, env) as process:
            self.assertEqual(sorted([process.hear(), process.hear()]), ["[default0]:up", "[default1]:up"])
            ranks = {"0": f"127.0.0.1:{port}", "1": f"127.0.0.1:{port + 1}"}
            self.wait_for(lambda: self.addresses() == ranks, f"{ranks}; there are {self.addresses()}")
            for _ in range(20):  # on a busy machine a rank may not run during a capture
                done = subprocess.run(
                    [attached.CAPTURE, f"--service_addr=@{self.ports}", "--duration_ms=300", f"--logdir={self.folder}/logs",
                     "--json", "--quiet"],
                    capture_output=True, check=False, timeout=60, env=attached.environment(),
                )  # fmt: skip
                workers = json.loads(done.stdout)["workers"]
                if "empty" not in [worker["outcome"] for worker in workers]:
                    break
            self.assertEqual([worker["outcome"] for worker in workers], ["ok", "ok"], workers)
            self.assertEqual(sorted(worker["rank"] for worker in workers), [0, 1])
            with open(flag, "w", encoding="utf-8") as file:
                file.write("end")
            code, errors = process.finish(say=None)
        self.assertEqual(code, 0, errors)
        self.assertNotIn("jobscope", errors)


def rows(module):
    """The rows of one framework."""
    distribution = sorted(importlib.metadata.packages_distributions()[module])[0]
    name = f"{distribution} {importlib.metadata.version(distribution)}"
    row = Row("row")
    row.setUp()
    try:
        alone = row.without_us(module)
        for way, variable in WAYS.items():
            came = row.row(module, way)
            cells = [
                "ok" if came[column] else "FAILED" if alone.get(column, True) else "as without us"
                for column in COLUMNS
            ]
            yield f"| {name} | `{variable}` | {' | '.join(cells)} |"
    finally:
        row.doCleanups()


def write_table(path):
    mark = "<!-- frameworks -->\n"
    with open(path, encoding="utf-8") as file:
        before, table, after = file.read().split(mark)
    made = [line for module in installed() for line in rows(module)]
    names = {line.split()[1] for line in made}
    # Frameworks of another interpreter keep theirs.
    kept = [line for line in table.splitlines()[2:] if line.split()[1] not in names]
    head = [f"| process | loaded by | {' | '.join(COLUMNS)} |", "|---" * (2 + len(COLUMNS)) + "|"]
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + mark + "\n".join(head + kept + made) + "\n" + mark + after)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--table":
        write_table(sys.argv[2])
    elif not installed():
        print(f"skipped: {sys.executable} has none of {', '.join(FRAMEWORKS)}")
        sys.exit(77)
    else:
        attached.main()
