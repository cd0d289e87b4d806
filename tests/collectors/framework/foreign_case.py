# SPDX-License-Identifier: Apache-2.0
"""What the tests of frameworks with a profiler of their own share: programs that train and obey lines, captures, XProf."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "server", "attach"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
import attached  # noqa: E402
import xspace  # noqa: E402

QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}  # fmt: skip

# The program trains on its main thread; another one obeys lines. Nothing in it knows of us, but for what a test puts into LOOP.
OBEY = """
import json, os, sys, threading
running = True

def obey():
    global running
    for line in sys.stdin:
        word, _, argument = line.strip().partition(" ")
        if word == "end":
            break
        try:
            answer = globals()["on_" + word](argument)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)
    running = False

def on_fork(argument):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)[1]

times = []

def on_times(argument):
    "Lengths of the iterations since the last time, in ms."
    found, times[:] = [round(1e3 * one, 4) for one in times], []
    return found
"""

# Of a program that starts the wheel's server itself.
START_SERVER = "import jobscope; print(jobscope.start_server('127.0.0.1:0').address, flush=True)"

XPROF = """
import json, sys
from xprof.convert import raw_to_tool_data
paths, tools, params = json.loads(sys.argv[1])
found = {"": raw_to_tool_data.xspace_to_tool_names(paths)}
for tool in tools:
    data, _ = raw_to_tool_data.xspace_to_tool_data(paths, tool, {"use_saved_result": False, **params})
    found[tool] = data.decode() if isinstance(data, bytes) else data
print(json.dumps(found))
"""


class Worker(attached.Process):
    """One for all tests of a class, so it may live longer than others."""

    deadline_s = 4 * attached.DEADLINE_S

    def ask(self, line):
        self.say(line)
        return self.hear_json()


class TensorflowClient(attached.Process):
    """TensorFlow's own client, in a process of its own."""

    def __init__(self):
        script = os.path.join(HERE, "..", "..", "interop", "peers", "stock_client.py")
        super().__init__([sys.executable, "-B", script, "tensorflow"], attached.environment(**QUIET))
        assert self.hear() == "ready"

    def begin(self, address, logs, duration_ms):
        self.say(json.dumps({"call": "trace", "addresses": [address], "logdir": logs, "duration_ms": duration_ms, "attempts": 1}))

    def end(self):
        """(whether it says that it got something, what it says)"""
        while not (line := self.hear()).startswith("answer "):
            pass
        answer = json.loads(line[len("answer ") :])
        return answer["ok"], answer.get("error", "")


class ForeignCase(attached.TestCase):
    """One program for all tests of a class, because a framework takes seconds to import; tests leave it training."""

    collector = None  # its name
    program = None

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="foreign")
        cls.addClassCleanup(directory.cleanup)
        cls.home = directory.name
        path = os.path.join(cls.home, "train.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(cls.program)
        cls.worker = Worker(cls.command(path), cls.environment())
        cls.addClassCleanup(cls.worker.__exit__)
        first = cls.worker.hear()  # the address, of a program that starts the server itself
        if first != "up":
            assert cls.worker.hear() == "up"
        said = re.search(r"listens on (\S+)\n", cls.worker.errors)
        cls.address = said.group(1) if said else first

    @classmethod
    def command(cls, path):
        """`jobscope run`, as a user starts it; it says the address before the program says anything."""
        return [attached.PROGRAM, "run", f"--attach_library={attached.LIBRARY}", "--", sys.executable, "-B", path]

    @classmethod
    def environment(cls):
        # In pieces only where a test wants them: by themselves they come with a machine's load.
        return attached.environment(TMPDIR=cls.home, JOBSCOPE_FRAMEWORK_PIECE_MS="20000", **QUIET)

    @classmethod
    def tearDownClass(cls):
        code, errors = cls.worker.finish("end")
        assert code == 0, (code, errors)
        assert "Traceback" not in errors, errors
        left = [name for name in os.listdir(cls.home) if name.startswith("jobscope-tensorflow")]
        assert not left, left

    def begin(self, *arguments, address=None):
        """A client that captures, and its log directory."""
        logs = tempfile.mkdtemp(dir=self.folder)
        client = subprocess.Popen(
            [attached.CAPTURE, *arguments, f"--service_addr={address or self.address}", f"--logdir={logs}", "--json",
             "--quiet"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=attached.environment(),
        )  # fmt: skip
        return client, logs

    def end(self, client, logs):
        """(what the manifest says of the worker, its collector, the trace's files)"""
        out, errors = client.communicate(timeout=attached.DEADLINE_S)
        self.assertEqual(client.returncode, 0, (out, errors))
        (worker,) = json.loads(out)["workers"]
        files = sorted(glob.glob(f"{logs}/plugins/profile/*/*.xplane.pb"))
        self.assertTrue(files)
        collectors = {one["name"]: one for one in worker.get("collectors", [])}
        return worker, collectors.get(self.collector), files

    def capture(self, *arguments, **options):
        return self.end(*self.begin(*arguments, **options))

    def capture_iterations(self):
        """A capture that has some of the program's iterations, however busy the machine is."""
        running = self.begin_and_wait("--duration_ms=60000")
        self.wait_for(self.session_is_taken, "ours does not begin")
        self.iterations(5)
        self.stop()
        return self.end(*running)

    def both_servers(self, port, is_theirs):
        """The framework's own server on `port`, captured by TensorFlow's client, and ours by ours: one after the other and at once, in
        both orders. `is_theirs(event)`: the framework has recorded it."""
        theirs = f"127.0.0.1:{port}"
        client = TensorflowClient()
        self.addCleanup(client.__exit__)

        def theirs_begins(duration_ms):
            logs = tempfile.mkdtemp(dir=self.folder)
            client.begin(theirs, logs, duration_ms)
            return logs

        def theirs_delivers(logs):
            ok, said = client.end()
            files = glob.glob(f"{logs}/plugins/profile/*/*.xplane.pb")
            return ok and bool(files) and any(map(is_theirs, self.host_events(files[:1]))), said

        def ours_is_whole(answer):
            worker, collector, files = answer
            self.assertIn(worker["outcome"], ("ok", "truncated"))
            self.assertEqual(collector["state"], "on", collector)
            self.assertTrue(any(map(is_theirs, self.host_events(files))))

        ours_is_whole(self.capture_iterations())
        logs = theirs_begins(1000)
        self.assertEqual(theirs_delivers(logs), (True, ""))
        ours_is_whole(self.capture_iterations())

        # Theirs has the session: ours goes on without the framework's events.
        # The look holds the session for a moment, in which theirs may find it taken: then it asks again.
        for _ in range(10):
            logs = theirs_begins(3000)
            if attached.harness.until(self.session_is_taken, 2.5):
                break
            client.end()
        else:
            self.fail("theirs does not begin")
        worker, collector, _ = self.capture("--duration_ms=50")
        self.assertEqual((worker["outcome"], collector["state"]), ("ok", "failed"), collector)
        self.assertIn("profiler server", collector["reason"])
        self.assertEqual(theirs_delivers(logs), (True, ""))

        # Ours has it: a request to theirs never comes by Python, so theirs ends without it, and ours is whole.
        running = self.begin_and_wait("--duration_ms=60000")
        self.wait_for(self.session_is_taken, "ours does not begin")
        logs = theirs_begins(200)
        delivered, said = theirs_delivers(logs)
        self.assertFalse(delivered, said)
        self.iterations(3)
        self.stop()
        ours_is_whole(self.end(*running))

        logs = theirs_begins(1000)
        self.assertEqual(theirs_delivers(logs), (True, ""))

    def the_program_traces_itself(self, way):
        """In the middle of a capture of ours, which ends there; both have what they recorded, and the next capture has all again."""
        folder = tempfile.mkdtemp(dir=self.folder)
        client, logs = self.begin_and_wait("--duration_ms=60000")
        self.wait_for(self.session_is_taken, "ours does not begin")
        self.iterations(5)
        # An exception in the program would be the answer.
        self.assertEqual(self.worker.ask(f"trace_by {way} {folder}"), 1)
        self.assertFalse(self.session_is_taken())
        self.stop()
        worker, collector, files = self.end(client, logs)
        self.assertEqual((worker["outcome"], collector["state"]), ("truncated", "degraded"), collector)
        self.assertIn("the program began its own trace", collector["reason"])
        self.assertGreater(collector["events"], 0)
        self.assertTrue(self.host_events(files))
        _, collector, _ = self.capture("--duration_ms=100")
        self.assertEqual(collector["state"], "on", collector)

    def iterations(self, count):
        """Lengths of so many of the program's iterations, in ms."""
        found = []

        def enough():
            found.extend(self.worker.ask("times"))
            return len(found) >= count

        self.worker.ask("times")
        self.wait_for(enough, f"the program has not come through {count} iterations")
        return found

    def records(self, address=None):
        command = [attached.CAPTURE, "check", f"--service_addr={address or self.address}", "--json"]
        return "recording" in attached.run(command, attached.environment())[1]

    def begin_and_wait(self, *arguments, **options):
        client, logs = self.begin(*arguments, **options)
        self.wait_for(lambda: self.records(options.get("address")), "the capture does not begin")
        return client, logs

    def stop(self, address=None):
        command = [attached.CAPTURE, "stop", f"--service_addr={address or self.address}"]
        self.assertEqual(attached.run(command, attached.environment())[0], 0)

    def compilations(self):
        """Names of the events that say they are compilations, of a capture in which a function is compiled for another shape."""
        client, logs = self.begin_and_wait("--duration_ms=60000")
        self.wait_for(self.session_is_taken, "the framework's own profiler does not begin")
        self.assertEqual(self.worker.ask("recompile 17"), "compiled")
        self.stop()
        _, collector, files = self.end(client, logs)
        self.assertIn(collector["state"], ("on", "degraded"), collector)
        return {event.name for event in self.host_events(files) if event.stats.get("compilation") == 1}

    def host_events(self, files):
        (file,) = files
        return [event for name, events in xspace.planes(file) if name == "/host:CPU" for event in events]

    def xprof(self, files, *tools, **params):
        """XProf's answers by tool, as JSON or text; under "" the tools that it offers."""
        done = subprocess.run(
            [sys.executable, "-B", "-c", XPROF, json.dumps([files, tools, params])],
            capture_output=True, check=False, timeout=120, env=attached.environment(**QUIET), cwd=self.folder,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        found = json.loads(done.stdout.decode().splitlines()[-1])
        return {tool: json.loads(text) if tool and text[:1] in "[{" else text for tool, text in found.items()}

    def steps(self, events):
        return [event for event in events if "_r" in event.stats and "step_num" in event.stats]

    def assert_nested(self, events):
        """On each line events lie within each other or apart, but for less than 1 ms."""
        worst_ps = 0
        by_line = {}
        for event in events:
            by_line.setdefault(event.line, []).append(event)
        for line in by_line.values():
            ends = []
            for event in sorted(line, key=lambda one: (one.start_ps, -one.duration_ps)):
                end = event.start_ps + event.duration_ps
                while ends and ends[-1] <= event.start_ps:
                    ends.pop()
                if ends and end > ends[-1]:
                    worst_ps = max(worst_ps, min(end - ends[-1], ends[-1] - event.start_ps))
                ends.append(end)
        self.assertLess(worst_ps, 1e9, "a scope and what runs in it lie apart")
        return worst_ps


class OwnServerCase(ForeignCase):
    """The program begins with START_SERVER."""

    @classmethod
    def command(cls, path):
        return [sys.executable, "-B", path]

    @classmethod
    def setUpClass(cls):
        if not os.environ.get("JOBSCOPE_TEST_PACKAGE"):
            raise unittest.SkipTest("the package is not built")
        super().setUpClass()


def step_rows(overview):
    """The steps of XProf's overview page: what it says of all, and how many it shows."""
    table = overview[1]
    return table.get("p", {}), len(table.get("rows", []))


def main():
    attached.main()
