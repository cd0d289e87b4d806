#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each framework, with the library coming in each way, before and after it: captured, captured while it forks, and leaving in
the middle of a capture. Real processes; prints the table of docs/embedding.md.

  embedding_matrix.py PACKAGE [--write|--check] [--only TEXT]

PACKAGE is the directory of the Python package, complete (build/python/jobscope). --check compares the table with the one in the
document, row by row; --write writes it there. A framework that is in no Python here is left out, and said to be; with --check
the exit code is 77 if that leaves nothing. Pythons: .venv/interop (TensorFlow, JAX), Debian's /usr/bin/python3 (torch).
"""
import argparse
import concurrent.futures
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
DOCUMENT = os.path.join(REPOSITORY, "docs", "embedding.md")
BEGIN, END = "<!-- embedding_matrix begin -->", "<!-- embedding_matrix end -->"
INTEROP_PYTHON = os.path.join(REPOSITORY, ".venv", "interop", "bin", "python")
PYTHONS = {"none": sys.executable, "torch": "/usr/bin/python3", "tensorflow": INTEROP_PYTHON, "jax": INTEROP_PYTHON}
TITLES = {"none": "no framework", "torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}
DEADLINE_S = 100
# TensorFlow exports its trace before it goes; at a load of 30 on two cores that alone took longer.
MAX_LEAVE_S = 10
HEADER = (
    "| in the process | the library comes | order | capture | fork in a capture | exit in a capture |\n"
    "|---|---|---|---|---|---|\n"
)

# ---- the training process ----


def steps_of(framework):
    """A function that trains for one step."""
    if framework == "torch":
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        batch = torch.ones(32, 64)

        def step():
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()

    elif framework == "tensorflow":
        import tensorflow as tf

        weights = tf.Variable(tf.ones((64, 64)))
        batch = tf.ones((32, 64))

        @tf.function
        def train(batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(batch, weights))
            weights.assign_sub(0.01 * tape.gradient(loss, weights))

        def step():
            train(batch)

    elif framework == "jax":
        import jax

        train = jax.jit(lambda weights: weights - 0.01 * jax.grad(lambda w: (w @ w).sum())(weights))
        weights = jax.numpy.ones((64, 64))

        def step():
            nonlocal weights
            weights = train(weights).block_until_ready()

    else:

        def step():
            sum(range(20000))

    return step


def fork_once():
    """What a child of multiprocessing does: it uses what is loaded, and leaves by _exit."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if "jobscope" in sys.modules:
                with sys.modules["jobscope"].trace("in the child"):
                    sum(range(1000))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def worker(framework, way, order):
    """Trains until the matrix asks it to end."""
    gc.disable()  # collections are events of the host, and come when they like
    if order == "library first":
        serve(way)
    step = steps_of(framework)
    if way == "wheel":
        import jobscope

        bare, numbers = step, iter(range(1 << 62))

        def step():
            with jobscope.step(next(numbers)):
                bare()

    step()
    if order == "framework first":
        serve(way)
    say(ready=True)
    commands = []
    threading.Thread(target=lambda: commands.extend(iter(sys.stdin.readline, "")), daemon=True).start()
    commands_read = 0
    while True:
        step()
        if len(commands) == commands_read:
            continue
        command = commands[commands_read].strip()
        commands_read += 1
        if command == "leave":
            return
        say(child=fork_once())


def serve(way):
    if way == "wheel":
        import jobscope

        say(address=jobscope.start_server("127.0.0.1:0").address)
        return
    if way == "injected":
        # As the driver does with CUDA_INJECTION64_PATH, at the first use of the GPU.
        import ctypes

        ctypes.CDLL(os.environ["MATRIX_LIBRARY"]).InitializeInjection()
    # Preloaded or injected: the library starts its server by itself, and writes where.
    directory = os.environ["JOBSCOPE_PORT_DIR"]
    while not (found := [name for name in os.listdir(directory) if name.endswith(".addr")]):
        time.sleep(0.005)
    with open(os.path.join(directory, found[0]), encoding="utf-8") as file:
        say(address=file.read().split()[0])


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


# ---- the matrix ----


class Row:
    """One process, and its results."""

    def __init__(self, package, framework, way, order):
        self.package, self.framework, self.way, self.order = package, framework, way, order
        self.process = self.timer = None
        self.cells = ["not reached"] * 3
        self.errors = ""

    def title(self):
        way = {"wheel": "`start_server`", "preload": "`LD_PRELOAD`", "injected": "injected late"}[self.way]
        order = "–" if self.framework == "none" else self.order
        return f"| {TITLES[self.framework]} | {way} | {order} |"

    def __str__(self):
        return f"{self.title()} {' | '.join(self.cells)} |"

    def hear(self, key):
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                message = json.loads(line)
                if key in message:
                    return message[key]
        self.process.wait()
        raise AssertionError(f"the process ended with {self.process.returncode}")

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def start(self, folder):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not re.match(r"JOBSCOPE_|LD_PRELOAD$|(CUDA|NVTX)_INJECTION64_PATH$|PYTHON", name)
        }
        ports = os.path.join(folder, "ports")
        os.mkdir(ports)
        library = os.path.join(self.package, "lib", "libjobscope_attach.so")
        environment.update(
            PYTHONPATH=os.path.dirname(self.package), PYTHONWARNINGS="ignore", TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cpu"
        )
        if self.way != "wheel":
            environment.update(JOBSCOPE_LISTEN="127.0.0.1:0", JOBSCOPE_PORT_DIR=ports, MATRIX_LIBRARY=library)
        if self.way == "preload":
            environment["LD_PRELOAD"] = library
        self.process = subprocess.Popen(
            [PYTHONS[self.framework], "-B", __file__, "--worker", self.framework, self.way, self.order],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(os.path.join(folder, "errors"), "w+b"),
            text=True,
            env=environment,
        )
        self.timer = threading.Timer(DEADLINE_S, self.process.kill)
        self.timer.start()

    def capture(self, address, logdir, milliseconds):
        """The client, running."""
        client = os.path.join(self.package, "bin", "capture")
        return subprocess.Popen(
            [client, f"--service_addr={address}", f"--duration_ms={milliseconds}", f"--logdir={logdir}", "--json", "--quiet"],
            stdout=subprocess.PIPE,
            text=True,
        )

    def captured_now(self, address, logdir, recorded_ms, *durations_ms):
        """The client of a capture that was seen after `recorded_ms` of recording; a longer one if it ended before that was seen."""
        check = [os.path.join(self.package, "bin", "capture"), "check", f"--service_addr={address}", "--json", "--quiet"]
        end = time.monotonic() + DEADLINE_S
        for duration_ms in durations_ms:
            client = self.capture(address, logdir, duration_ms)
            while client.poll() is None and time.monotonic() < end:
                answer = subprocess.run(check, stdout=subprocess.PIPE, check=False)
                busy = json.loads(answer.stdout)["workers"][0].get("busy", {})
                if busy.get("state") == "recording" and busy.get("remaining_ms", 0) <= duration_ms - recorded_ms:
                    return client
            client.communicate()
        raise AssertionError("the capture does not begin")

    def delivered(self, client):
        """Who has given events: what a cell says. AssertionError: there is no whole trace."""
        answer = json.loads(client.communicate(timeout=DEADLINE_S)[0])
        (one,) = answer["workers"]
        if client.returncode != 0 or one["outcome"] not in ("ok", "truncated"):
            raise AssertionError(f"{one['outcome']}: {one.get('reason')}")
        given = {c["name"] for c in one["collectors"] if c.get("events", 0) > 0}
        # Operators of PyTorch are scopes of the recorder: its collector has no events of its own.
        on = {c["name"] for c in one["collectors"] if c["state"] == "on"}
        words = [name for name in ("host", "system", "tensorflow", "jax") if name in given]
        words += ["torch"] if "torch" in on and "host" in given else []
        words += ["steps"] if one.get("steps", 0) > 0 else []
        words += [f"{c['name']} {c['state']}: {c['reason']}" for c in one["collectors"] if c["state"] in ("wedged", "failed", "degraded")]
        return ("truncated: " if one["outcome"] == "truncated" else "") + (", ".join(words) or "nothing")

    def run(self):
        with tempfile.TemporaryDirectory(prefix="jobscope-matrix-") as folder:
            logdir = os.path.join(folder, "logdir")
            self.start(folder)
            try:
                address = self.hear("address")
                self.hear("ready")
                self.cells[0] = "capturing"
                self.cells[0] = self.delivered(self.capture(address, logdir, 400))
                self.cells[1] = "forking"
                client = self.captured_now(address, logdir, 100, 700, 3_000, 12_000)
                self.tell("fork")
                child = self.hear("child")
                self.cells[1] = self.delivered(client) + (f", child {child}" if child != 0 else "")
                self.cells[2] = "leaving"
                client = self.captured_now(address, logdir, 800, 20_000)
                begin = time.monotonic()
                self.tell("leave")
                code = self.process.wait(DEADLINE_S)
                taken = time.monotonic() - begin
                self.cells[2] = self.delivered(client)
                if code != 0:
                    self.cells[2] += f", exit code {code}"
                if taken > MAX_LEAVE_S:
                    self.cells[2] += f", took {taken:.0f} s to leave"
            except (AssertionError, json.JSONDecodeError, OSError, subprocess.TimeoutExpired) as error:
                at = next((i for i, cell in enumerate(self.cells) if cell.endswith("ing")), 0)
                self.cells[at] = f"FAILED: {error}"
            finally:
                self.timer.cancel()
                if self.process.poll() is None:
                    self.process.kill()
                    self.process.wait()
                with open(os.path.join(folder, "errors"), encoding="utf-8", errors="replace") as file:
                    self.errors = file.read()
        return self


def is_there(framework):
    python = PYTHONS[framework]
    if not os.access(python, os.X_OK):
        return False
    if framework == "none":
        return True
    script = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{framework}') is None)"
    return subprocess.run([python, "-c", script], check=False).returncode == 0


def rows_of(package):
    for framework in TITLES:
        for way, order in (
            ("wheel", "framework first"),
            ("wheel", "library first"),
            ("injected", "framework first"),
            ("preload", "library first"),
        ):
            if (framework, way, order) == ("none", "wheel", "library first"):
                continue  # no order
            yield Row(package, framework, way, order)


def document():
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text, begin, end


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--worker":
        worker(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="", help="rows whose beginning contains this")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    package = os.path.abspath(arguments.package)
    absent = [framework for framework in TITLES if not is_there(framework)]
    if absent:
        print("not here, and not run:", ", ".join(absent))
    rows = [row for row in rows_of(package) if row.framework not in absent and arguments.only in row.title()]
    if not any(row.framework != "none" for row in rows) and arguments.check:
        print("skipped: none of the frameworks is here")
        return 77
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(Row.run, rows):
            print(row, flush=True)
            if any("FAILED" in cell or "exit code" in cell for cell in row.cells):
                print(row.errors[-3000:])
    print(f"{len(rows)} processes in {time.monotonic() - begin:.0f} s")
    failed = [row for row in rows if any(word in str(row) for word in ("FAILED", "exit code", "child ", "to leave", "nothing"))]
    table = HEADER + "".join(f"{row}\n" for row in rows)
    text, start, end = document()
    if arguments.write and not failed:
        with open(DOCUMENT, "w", encoding="utf-8") as file:
            file.write(text[:start] + "\n" + table + text[end:])
    if arguments.check:
        known = set(text[start:end].splitlines())
        different = [row for row in rows if str(row) not in known]
        for row in different:
            print(f"not what docs/embedding.md says: {row}")
        failed += different
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
