# SPDX-License-Identifier: Apache-2.0
"""Forked and spawned children, threads, sub-interpreters, other Pythons: each works, or is refused with a reason."""
import glob
import itertools
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import unittest

import jobscope
import workers
import xspace

SETUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "setup.py")


# ---- data loaders with captures running all the time ----


def _load(indices, batches):
    """A process of a data loader: it uses jobscope as the modules that it imports do."""
    import jobscope as imported

    for index in iter(indices.get, None):
        with imported.trace("decode", index=index), imported.input_wait("disk"):
            batch = [index] * 100
        imported.counter("decoded", index)
        batches.put((index, batch, bool(imported._native.mask())))
    batches.close()
    batches.join_thread()


def _batches(method, count, processes):
    """What a DataLoader(num_workers=...) does: the batches in order, through queues."""
    context = multiprocessing.get_context(method)
    indices, batches = context.Queue(), context.Queue()
    children = [context.Process(target=_load, args=(indices, batches)) for _ in range(processes)]
    for child in children:
        child.start()
    for index in range(count):
        indices.put(index)
    for _ in children:
        indices.put(None)
    waiting, recorded = {}, 0
    for index in range(count):
        while index not in waiting:
            number, batch, records = batches.get(timeout=60)
            waiting[number] = batch
            recorded += records
        yield waiting.pop(index)
    for child in children:
        child.join(60)
    if any(child.exitcode != 0 for child in children) or recorded and method == "fork":
        raise AssertionError((method, [child.exitcode for child in children], recorded))


def worker_data_loader(method, logdir):
    """Three epochs, each with new children, while one capture follows upon the other."""
    with jobscope.start_server("127.0.0.1:0") as server:
        going = True
        runs = []

        def capture():
            while going:
                with jobscope.capture(logdir) as it:
                    begun = step
                    started.set()
                    # Two whole steps at least lie in it, however busy the machine is.
                    workers.until(lambda: not going or step >= begun + 4, 30)
                runs.append(it.result.run_directory)

        step = total = 0
        started = threading.Event()
        capturer = threading.Thread(target=capture)
        capturer.start()
        started.wait(30)
        for _ in range(3):
            for batch in jobscope.input_waits(_batches(method, 40, 4)):
                with jobscope.step(step):
                    with jobscope.trace("forward", rows=len(batch)):
                        total += sum(batch)
                        sum(range(100000))
                step += 1
            workers.until(lambda: runs, 30)  # there is a second one, in the epochs to come
        going = False
        capturer.join(60)
        workers.tell(steps=step, total=total, runs=runs, address=server.address)


# ---- fork ----


def _in_child(function):
    """What `function` returns in a forked child, and how the child ends."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            os.write(writer, repr(function()).encode())
        except BaseException as error:  # pylint: disable=broad-except
            os.write(writer, repr(error).encode())
        sys.exit(0)  # through the exit handlers
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    return text, os.waitpid(pid, 0)[1]


def _refused(call):
    try:
        call()
    except jobscope.ForkedError as error:
        return f"refused: {error}"
    return "not refused"


def worker_fork_of_a_server(logdir):
    server = jobscope.start_server("127.0.0.1:0")

    def child():
        with jobscope.step(1), jobscope.trace("in the child"):
            jobscope.counter("in the child", 1)
        return (
            server.running,
            jobscope._native.mask(),
            _refused(lambda: jobscope.start_server("127.0.0.1:0", strict=True)),
            _refused(lambda: jobscope.start(logdir)),
            _refused(jobscope.stop),
            server.stop(),
        )

    with jobscope.capture(logdir) as it:
        with jobscope.trace("around the fork"):
            text, status = _in_child(child)
    workers.tell(text=text, status=status, running=server.running, run=it.result.run_directory)


def worker_fork_before_anything(logdir):
    """A launcher imports jobscope, then forks its ranks: each has a server and captures of its own."""

    def child():
        with jobscope.start_server("127.0.0.1:0") as server:
            with jobscope.capture(logdir) as it:
                with jobscope.trace("rank"):
                    pass
            return server.address, len(xspace.named(xspace.host_events(it.result.run_directory), "rank"))

    text, status = _in_child(child)
    own, own_status = _in_child(child)
    workers.tell(children=[text, own], status=[status, own_status], here=child())


def worker_fork_of_a_recorder():
    """A recorder, but no server, in the parent: in the child there would be a server that never has an event."""
    jobscope._native.configure(os.path.join(workers.PACKAGE, "lib"), True)
    text, status = _in_child(lambda: _refused(lambda: jobscope.start_server("127.0.0.1:0", strict=True)))
    with tempfile.TemporaryDirectory() as logdir:
        capture, _ = _in_child(lambda: _refused(lambda: jobscope.start(logdir)))
        steps, _ = _in_child(lambda: _refused(lambda: jobscope.capture_steps(logdir, 1, 2)))
    workers.tell(text=text, status=status, capture=capture, steps=steps)


def worker_fork_in_a_scope(logdir):
    with jobscope.capture(logdir) as it:
        pids = []
        with jobscope.trace("outer"):
            for _ in range(20):
                pid = os.fork()
                if pid == 0:
                    break
                pids.append(pid)
        # The children leave the scope, too, and go on as a program does.
        if len(pids) < 20:
            with jobscope.trace("child"):
                pass
            sys.exit(0)
        statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    workers.tell(statuses=statuses, run=it.result.run_directory)


class ForkTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="jobscope-python-")
        self.addCleanup(self._folder.cleanup)
        self.logdir = self._folder.name

    def _hear(self, name, *arguments):
        # From 3.12 on Python warns of forks in a process with threads, whosever they are.
        quiet = ("-W", "ignore::DeprecationWarning")
        with workers.Worker(__file__, name, *arguments, interpreter_options=quiet) as worker:
            said = worker.hear()
            self.assertEqual((worker.finish(), worker.errors), (0, ""))
            return said

    def test_child_of_a_server(self):
        said = self._hear("fork_of_a_server", self.logdir)
        self.assertEqual(said["status"], 0)
        self.assertTrue(said["running"], "the child ended the parent's server")
        self.assertTrue(said["text"].startswith("(False, 0, 'refused: "), said["text"])
        self.assertEqual(said["text"].count("refused: "), 3, said["text"])
        self.assertIn("spawn", said["text"])
        events = xspace.host_events(said["run"])
        self.assertEqual(len(xspace.named(events, "around the fork")), 1)
        self.assertEqual(xspace.named(events, "in the child"), [])

    def test_fork_before_anything(self):
        said = self._hear("fork_before_anything", self.logdir)
        self.assertEqual(said["status"], [0, 0])
        for text in said["children"]:
            self.assertRegex(text, r"^\('127\.0\.0\.1:\d+', 1\)$")
        self.assertEqual(said["here"][1], 1)

    def test_child_of_a_recorder_is_refused(self):
        said = self._hear("fork_of_a_recorder")
        self.assertEqual(said["status"], 0)
        self.assertIn("refused: this process was forked", said["text"])
        self.assertIn("refused: this process was forked", said["capture"])
        self.assertIn("refused: this process was forked", said["steps"])

    def test_fork_in_a_scope(self):
        said = self._hear("fork_in_a_scope", self.logdir)
        self.assertEqual(said["statuses"], [0] * 20)
        events = xspace.host_events(said["run"])
        self.assertEqual(len(xspace.named(events, "outer")), 1)
        self.assertEqual(xspace.named(events, "child"), [])


class DataLoaderTest(unittest.TestCase):
    def _captured(self, method):
        with tempfile.TemporaryDirectory(prefix="jobscope-python-") as logdir:
            with workers.Worker(__file__, "data_loader", method, logdir) as worker:
                said = worker.hear()
                self.assertEqual((worker.finish(), worker.errors), (0, ""))
            self.assertEqual(said["steps"], 120)
            self.assertEqual(said["total"], 3 * 100 * sum(range(40)))
            self.assertGreater(len(said["runs"]), 1)
            events = [event for run in said["runs"] for event in xspace.host_events(run)]
        # A step that two captures cut is in neither as a whole; nearly all are in one.
        forward = xspace.named(events, "forward")
        # The one that is open when a capture ends has no arguments yet.
        self.assertTrue([event for event in forward if "rows" in event.stats])
        self.assertTrue(all(event.stats.get("rows", 100) == 100 for event in forward))
        # What the children did is theirs: they are not traced.
        self.assertEqual(xspace.named(events, "decode"), [])
        self.assertTrue([event for event in events if "input_wait" in event.name])

    @unittest.skipIf("ASAN_OPTIONS" in os.environ, "GCC 12's AddressSanitizer forks while its allocator is locked: children hang")
    def test_fork(self):
        self._captured("fork")

    def test_spawn(self):
        self._captured("spawn")

    def test_forkserver(self):
        self._captured("forkserver")


# ---- threads ----


class ThreadTest(unittest.TestCase):
    def test_many_threads(self):
        threads_count, each = 16, 500

        def work(index):
            for number in range(each):
                with jobscope.trace("outer", thread=index):
                    with jobscope.trace("inner", number=number, text=f"{index}/{number}"):
                        pass

        with tempfile.TemporaryDirectory() as logdir:
            with jobscope.capture(logdir) as it:
                threads = [threading.Thread(target=work, args=(index,)) for index in range(threads_count)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            events = xspace.host_events(it.result.run_directory)
        self.assertEqual(it.result.lost, 0)
        self.assertEqual(len(xspace.named(events, "outer")), threads_count * each)
        inner = {event.stats["text"] for event in xspace.named(events, "inner")}
        self.assertEqual(len(inner), threads_count * each)

    def test_scope_that_ends_on_another_thread(self):
        """It is recorded there, once, and not shown as open where it began."""
        for expected in (1, 0):
            with tempfile.TemporaryDirectory() as logdir:
                with jobscope.capture(logdir) as it:
                    if expected:
                        scope = jobscope.trace("moves")
                        scope.__enter__()
                        thread = threading.Thread(target=scope.__exit__, args=(None, None, None))
                        thread.start()
                        thread.join()
                events = xspace.named(xspace.host_events(it.result.run_directory), "moves")
            self.assertEqual(len(events), expected)


# ---- interpreters ----


SUB_INTERPRETERS = """
import sys
sys.path[:0] = {path!r}
try:
    import jobscope
except ImportError as error:
    print("refused:", error, flush=True)
else:
    print("imported", flush=True)
"""


def worker_sub_interpreters():
    """All kinds that this Python can make, with and without a lock of their own."""
    script = SUB_INTERPRETERS.format(path=[os.path.dirname(workers.PACKAGE)])
    kinds = 0
    with tempfile.TemporaryFile("w+") as output:
        saved = os.dup(1)
        os.dup2(output.fileno(), 1)
        try:
            for name in ("_interpreters", "_xxsubinterpreters"):
                try:
                    interpreters = __import__(name)
                except ImportError:
                    continue
                for option in ("isolated", "legacy"):
                    try:
                        one = interpreters.create(option) if name == "_interpreters" else interpreters.create(isolated=option == "isolated")
                    except TypeError:
                        continue
                    kinds += 1
                    interpreters.run_string(one, script)
                    interpreters.destroy(one)
                break
        finally:
            os.dup2(saved, 1)
        output.seek(0)
        lines = output.read().splitlines()
    # The main one still records.
    with tempfile.TemporaryDirectory() as logdir:
        with jobscope.capture(logdir) as it:
            with jobscope.trace("main"):
                pass
        found = len(xspace.named(xspace.host_events(it.result.run_directory), "main"))
    workers.tell(kinds=kinds, lines=lines, found=found)


class InterpreterTest(unittest.TestCase):
    def test_sub_interpreters_are_refused(self):
        with workers.Worker(__file__, "sub_interpreters") as worker:
            said = worker.hear()
            self.assertEqual(worker.finish(), 0, worker.errors)
        if said["kinds"] == 0:
            self.skipTest("this Python makes no sub-interpreters")
        self.assertEqual(len(said["lines"]), said["kinds"], said)
        for line in said["lines"]:
            self.assertRegex(line, "^refused: .*(main interpreter only|does not support loading in subinterpreters)")
        self.assertEqual(said["found"], 1)

    def test_free_threaded_builds_are_reported(self):
        """By what tells them from others."""
        self.assertFalse(sysconfig.get_config_var("Py_GIL_DISABLED"))
        self.assertTrue(jobscope._native.__file__.endswith("_native.abi3.so"))
        imported = "import sys; sys.abiflags = 't'; import jobscope"
        build = f"""
import runpy, sys, sysconfig, types
class SetupError(Exception): pass
def module(name, **attributes):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(attributes)
module("setuptools", setup=lambda **_: print("built"))
module("setuptools.command")
module("setuptools.command.bdist_wheel", bdist_wheel=object)
module("setuptools.command.build_py", build_py=object)
module("setuptools.dist", Distribution=object)
module("setuptools.errors", SetupError=SetupError)
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
runpy.run_path({SETUP!r})
"""
        for script, error in ((imported, "ImportError"), (build, "SetupError")):
            done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertNotIn("built", done.stdout)
            self.assertRegex(done.stderr.splitlines()[-1], f"{error}: jobscope: not for free-threaded Python: .* ordinary build")


    def test_a_free_threaded_build(self):
        pythons = glob.glob(os.path.expanduser("~/.pyenv/versions/3.*t*/bin/python3")) + glob.glob("/usr/bin/python3.*t")
        pythons += filter(None, [os.environ.get("JOBSCOPE_TEST_FREE_THREADED")])
        if not pythons:
            self.skipTest("there is none here: name one in JOBSCOPE_TEST_FREE_THREADED")
        for python in pythons:
            suffix = subprocess.run([python, "-c", "import _imp; print(_imp.extension_suffixes()[0])"], capture_output=True,
                                    text=True, check=True).stdout.strip()  # fmt: skip
            with self.subTest(python), tempfile.TemporaryDirectory() as copy:
                shutil.copy(jobscope._native.__file__, os.path.join(copy, "_native" + suffix))
                for path, module in ((os.path.dirname(workers.PACKAGE), "jobscope"), (copy, "_native")):
                    done = subprocess.run([python, "-B", "-c", f"import {module}"], env={**os.environ, "PYTHONPATH": path},
                                          capture_output=True, text=True, check=False)  # fmt: skip
                    self.assertEqual(done.returncode, 1, done)
                    self.assertRegex(done.stderr.splitlines()[-1], "ImportError: jobscope: not for free-threaded Python: .* ordinary build")


class VersionsTest(unittest.TestCase):
    def test_one_binary_serves_other_versions(self):
        pythons = workers.other_pythons()
        if not pythons:
            self.skipTest("no other Python of 3.10 or later is installed here")
        here = os.path.dirname(os.path.abspath(__file__))
        tests = [os.path.join(here, name) for name in ("recording_test.py", "traced_test.py", "exits_test.py")]
        for (minor, path), test in itertools.product(sorted(pythons.items()), tests):
            with self.subTest(version=f"3.{minor}", test=test):
                done = subprocess.run(
                    [path, "-B", test], capture_output=True, text=True, timeout=workers.DEADLINE_S, check=False
                )
                self.assertEqual(done.returncode, 0, done.stderr[-4000:])
                print(f"3.{minor}:", done.stderr.strip().splitlines()[-1], file=sys.stderr)


if __name__ == "__main__":
    workers.main(globals())
