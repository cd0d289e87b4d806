# SPDX-License-Identifier: Apache-2.0
"""jobscope.register_provider: collectors written in Python, in captures of this process and by the client."""
import atexit
import ctypes
import glob
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

import jobscope
import workers
import xspace

# For which a fork waits for a thread of jobscope that must not be interrupted by one (common/process/fork_pause.cc).
MAX_PAUSE_S = 2


class Disk:
    """A provider with all three methods."""

    def __init__(self):
        self.calls = []
        self.session = None
        self.thread = None

    def arm(self, session):
        self.calls.append("arm")
        assert session.begin_monotonic_ns is None

    def start(self, session):
        self.calls.append("start")
        self.session = session
        self.thread = threading.get_native_id()

    def stop(self, session):
        self.calls.append("stop")
        begin = session.begin_monotonic_ns
        return [
            jobscope.Event("read", begin + 1000, 2000, "sda", {"bytes": 4096, "ratio": 0.5, "file": "ä.bin", "object": self}),
            ("seek", begin + 4000),
            jobscope.Event("on main", begin + 5000, 10, threading.main_thread().native_id),
            jobscope.Sample("queue depth", begin + 6000, 3),
        ]


def worker_serve(how):
    """Serves with a provider that behaves as the arguments say."""

    def works(session):
        return [("tick", session.begin_monotonic_ns, 1000)]

    def raises(session):
        raise ValueError("the disk is gone")

    hang = threading.Event()

    def hangs(session):
        hang.wait(60)

    jobscope.register_provider("disk", {"works": works, "raises": raises, "hangs": hangs}[how])
    server = jobscope.start_server("127.0.0.1:0")
    workers.tell(address=server.address)
    workers.wait()
    hang.set()


def worker_leave(logdir):
    """Leaves in the middle of a capture, without a stop."""

    class Provider:
        def stop(self, session):
            return [("at the end", session.begin_monotonic_ns, 1000)]

    jobscope.register_provider("disk", Provider())
    jobscope.start(logdir)


def worker_fork(logdir):
    """Registers, then forks: the child may do all."""
    jobscope.register_provider("disk", lambda session: [("tick", session.begin_monotonic_ns, 1)])
    child = os.fork()
    with jobscope.capture(os.path.join(logdir, "child" if child == 0 else "parent")):
        pass
    if child == 0:
        sys.exit(0)
    workers.tell(child=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    # Now there is something to be forked from: the child's exit handlers must do nothing.
    with jobscope.capture(os.path.join(logdir, "again")):
        child = os.fork()
        if child == 0:
            sys.exit(0)
        workers.tell(child=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def worker_fork_while_arming(logdir):
    """Forks while captures register a thread with Python; tells how long the shortest fork took."""
    jobscope.register_provider("disk", Disk())
    with jobscope.capture(logdir):
        pass
    forking = threading.Event()

    def prepare():
        forking.set()
        time.sleep(0.2)  # without the GIL, but with the lock that the capture needs

    # Runs before the handlers of jobscope, within os.fork.
    prepare_in_c = ctypes.CFUNCTYPE(None)(prepare)
    ctypes.CDLL(None)["__register_atfork"](prepare_in_c, None, None, None)
    took = []

    def fork():
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            os._exit(0)
        took.append(time.monotonic() - begin)
        os.waitpid(child, 0)

    # A fork may be late because the machine is busy: one that is not is enough.
    while len(took) < 5 and min(took, default=MAX_PAUSE_S) >= MAX_PAUSE_S:
        forking.clear()
        thread = threading.Thread(target=fork)
        thread.start()
        forking.wait()
        with jobscope.capture(logdir, frameworks="disk"):
            thread.join()
    workers.tell(took=min(took))
    os._exit(0)


class ProviderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.logdir = folder.name

    def register(self, provider, **options):
        jobscope.register_provider("disk", provider, **options)
        self.addCleanup(lambda: "disk" in jobscope._providers._names and jobscope.unregister_provider("disk"))

    def capture(self, body=lambda: None, **options):
        with jobscope.capture(self.logdir, **options) as it:
            body()
        return it.result

    def events(self, result):
        return {
            event.name: (plane, event)
            for file in glob.glob(os.path.join(result.run_directory, "*.xplane.pb"))
            for plane, events in xspace.planes(file)
            for event in events
        }

    def collector(self, result):
        with open(os.path.join(result.run_directory, "capture.json"), encoding="utf-8") as file:
            collectors = json.load(file)["workers"][0]["collectors"]
        return next((c for c in collectors if c["name"] == "disk"), None)

    def test_events_of_an_object(self):
        disk = Disk()
        self.register(disk)
        result = self.capture()
        self.assertEqual(disk.calls, ["arm", "start", "stop"])
        self.assertNotEqual(disk.thread, threading.get_native_id())
        found = self.events(result)
        plane, read = found["read"]
        self.assertEqual((plane, read.line, read.duration_ps), ("/device:CUSTOM:disk", "sda", 2_000_000))
        self.assertEqual(read.stats, {"bytes": 4096, "ratio": 0.5, "file": "ä.bin", "object": "<Disk>"})
        self.assertEqual(found["seek"][1].line, "disk")
        plane, on_main = found["on main"]
        self.assertEqual(plane, "/host:CPU")
        self.assertTrue(on_main.line.endswith(f"/{threading.main_thread().native_id}"), on_main.line)
        self.assertEqual(found["queue depth"][1].line, "_counters_")
        self.assertEqual(found["queue depth"][1].stats, {"queue depth": 3.0})
        self.assertEqual(self.collector(result)["state"], "on")
        self.assertEqual(self.collector(result)["events"], 4)

    def test_events_during_the_capture(self):
        disk = Disk()
        disk.stop = None
        self.register(disk)

        def body():
            threads = [
                threading.Thread(
                    target=lambda: [disk.session.add([("work", time.monotonic_ns(), 1)]) for _ in range(50)]
                )
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        result = self.capture(body)
        self.assertEqual(self.collector(result)["events"], 200)
        self.assertFalse(disk.session.add([("late", 0)]))

    def test_times_of_the_other_clock(self):
        times = []
        self.register(lambda session: [("now", times[0], 1000)], clock="realtime")
        result = self.capture(lambda: times.append(time.time_ns()))
        self.assertIn("now", self.events(result))
        with self.assertRaises(jobscope.InvalidError):
            jobscope.register_provider("other", Disk(), clock="sundial")

    def test_many_events(self):
        self.register(lambda session: (("e", session.begin_monotonic_ns + i) for i in range(100_000)))
        result = self.capture(lambda: time.sleep(0.001))
        found = self.collector(result)
        self.assertEqual((found["events"], found["lost"]), (100_000 - self.outside(result), 0))

    def outside(self, result):
        # Returns the number of events outside the window of some milliseconds.
        self.assertGreater(self.collector(result)["events"], 1000)
        return 100_000 - self.collector(result)["events"]

    def test_exceptions_become_the_reason(self):
        for wrong, text in (
            (lambda session: 1 / 0, "ZeroDivisionError: division by zero"),
            (lambda session: [("no time",)], "TypeError: an event is"),
            (lambda session: [("text", "now")], "TypeError: an event's begin is an int"),
            (lambda session: [("huge", 1 << 70)], "OverflowError"),
            (lambda session: [("arguments", 1, 1, None, [1])], "TypeError: an event's arguments are a dict"),
            (lambda session: 5, "TypeError: 'int' object is not iterable"),
            (lambda: None, "TypeError"),
            (lambda session: sys.exit("bye"), "SystemExit: bye"),
        ):
            with self.subTest(text):
                jobscope.register_provider("disk", wrong)
                try:
                    found = self.collector(self.capture())
                finally:
                    jobscope.unregister_provider("disk")
                self.assertEqual(found["state"], "degraded")
                self.assertIn(text, found["reason"])
        self.assertIn(os.path.basename(__file__), found["reason"])

    def test_an_exception_without_a_text(self):
        for wrong, text in (
            (MemoryError, "Python has no memory left"),
            (ValueError, "an exception that has no text"),
        ):

            class Textless(Exception):
                def __str__(self, wrong=wrong):
                    raise wrong

            def stop(session, error=Textless):
                raise error

            with self.subTest(text):
                jobscope.register_provider("disk", stop)
                try:
                    found = self.collector(self.capture())
                finally:
                    jobscope.unregister_provider("disk")
                self.assertEqual(found["state"], "degraded")
                self.assertIn(text, found["reason"])

    def test_an_exception_in_the_middle_keeps_what_came_before(self):
        def half(session):
            yield ("good", session.begin_monotonic_ns)
            raise OSError("torn")

        self.register(half)
        result = self.capture()
        self.assertEqual(self.collector(result)["state"], "degraded")
        self.assertIn("OSError: torn", self.collector(result)["reason"])
        self.assertIn("good", self.events(result))

    def test_arm_that_fails_takes_it_out(self):
        disk = Disk()

        def arm(session):
            raise RuntimeError("no disk here")

        disk.arm = arm
        self.register(disk)
        found = self.collector(self.capture())
        self.assertEqual(found["state"], "failed")
        self.assertIn("RuntimeError: no disk here", found["reason"])
        self.assertEqual(disk.calls, [])

    def test_chosen_by_frameworks(self):
        disk = Disk()
        self.register(disk)
        self.assertEqual(self.collector(self.capture(frameworks="none"))["state"], "off")
        self.assertEqual(self.collector(self.capture(frameworks=["torch"]))["state"], "off")
        self.assertEqual(disk.calls, [])
        self.assertEqual(self.collector(self.capture(frameworks="disk"))["state"], "on")

    def test_names(self):
        self.register(Disk())
        with self.assertRaisesRegex(jobscope.BusyError, "registered already"):
            jobscope.register_provider("disk", Disk())
        for name in ("", "Disk", "host", "torch", "a b", "x" * 41):
            with self.assertRaises(jobscope.InvalidError):
                jobscope.register_provider(name, Disk())
        with self.assertRaises(TypeError):
            jobscope.register_provider(7, Disk())
        with self.assertRaisesRegex(TypeError, "cannot be called"):
            jobscope.register_provider("other", object())
        with self.assertRaises(jobscope.StateError):
            jobscope.unregister_provider("nobody")
        jobscope.unregister_provider("disk")
        jobscope.register_provider("disk", Disk())

    def test_registered_and_unregistered_by_several_threads(self):
        """A registered provider stays until it is unregistered, by any of the threads."""
        gone, busy = [], []

        def work():
            mine = 0
            while mine < 500:
                provider = Disk()
                try:
                    jobscope.register_provider("disk", provider)
                except jobscope.BusyError:
                    continue
                mine += 1
                there = weakref.ref(provider)
                del provider
                for _ in range(4):
                    time.sleep(0)  # lets the others have the GIL
                gone.append(there() is None)
                try:
                    jobscope.unregister_provider("disk")
                except jobscope.BusyError:
                    busy.append(1)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        self.assertEqual(len(gone), 1500)
        self.assertFalse(any(gone))
        self.assertFalse(busy, "it was this thread's")

    def test_nothing_piles_up_for_the_exit(self):
        self.register(Disk())
        self.capture()
        before = atexit._ncallbacks()
        for _ in range(5):
            jobscope.unregister_provider("disk")
            self.register(Disk())
            self.capture()
        self.assertEqual(atexit._ncallbacks(), before)

    def test_unregistered_in_the_middle(self):
        disk = Disk()
        self.register(disk)
        result = self.capture(lambda: jobscope.unregister_provider("disk"))
        self.assertEqual(disk.calls, ["arm", "start", "stop"])
        self.assertIn("read", self.events(result))
        self.assertIn("unregistered", self.collector(result)["reason"])

    def client(self, address):
        code, _, errors = workers.run_client(
            f"--service_addr={address}", "--duration_ms=50", f"--logdir={self.logdir}", "--json", "--quiet"
        )
        self.assertEqual(code, 0, errors)
        newest = max(glob.glob(os.path.join(self.logdir, "plugins/profile/*/capture.json")), key=os.path.getmtime)
        with open(newest, encoding="utf-8") as file:
            return next(c for c in json.load(file)["workers"][0]["collectors"] if c["name"] == "disk")

    def test_captures_by_the_client(self):
        for how, state, reason in (("works", "on", ""), ("raises", "degraded", "ValueError: the disk is gone")):
            with workers.Worker(__file__, "serve", how) as worker:
                found = self.client(worker.hear()["address"])
                self.assertEqual(found["state"], state)
                self.assertIn(reason, found.get("reason", ""))
                worker.go_on()
                self.assertEqual(worker.finish(), 0, worker.errors)

    def test_one_that_hangs(self):
        with workers.Worker(__file__, "serve", "hangs") as worker:
            address = worker.hear()["address"]
            self.assertEqual(self.client(address)["state"], "wedged")
            self.assertEqual(self.client(address)["state"], "wedged")
            worker.go_on()
            self.assertEqual(worker.finish(), 0, worker.errors)

    def test_exit_in_the_middle_of_a_capture(self):
        with workers.Worker(__file__, "leave", self.logdir) as worker:
            self.assertEqual(worker.finish(), 0, worker.errors)
            self.assertEqual(worker.errors, "")
        (run,) = glob.glob(os.path.join(self.logdir, "plugins/profile/*"))
        self.assertIn("at the end", self.events(jobscope.CaptureResult(run, 0, 0)))

    def test_the_example(self):
        example = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "gc_provider.py")
        if not os.path.exists(example):
            self.skipTest("not in a checkout")
        done = subprocess.run([sys.executable, "-B", example, self.logdir], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = self.events(jobscope.CaptureResult(done.stdout.strip(), 0, 0))
        plane, full = found["gc generation 2"]
        self.assertEqual(plane, "/host:CPU")
        self.assertIn("collected", full.stats)

    def test_forked_children(self):
        with workers.Worker(__file__, "fork", self.logdir) as worker:
            self.assertEqual(worker.hear()["child"], 0)
            self.assertEqual(worker.hear()["child"], 0)
            self.assertEqual(worker.finish(), 0, worker.errors)
        for who in ("child", "parent", "again"):
            (run,) = glob.glob(os.path.join(self.logdir, who, "plugins/profile/*"))
            self.assertIn("tick", self.events(jobscope.CaptureResult(run, 0, 0)), who)

    def test_forks_do_not_wait_for_an_arming_that_waits_for_them(self):
        """os.fork of 3.13 and later holds the lock that the arming needs."""
        pythons = {minor: path for minor, path in workers.other_pythons().items() if minor >= 13}
        if sys.version_info >= (3, 13):
            pythons[sys.version_info[1]] = sys.executable
        if not pythons:
            self.skipTest("no Python of 3.13 or later is installed here")
        package = {"PYTHONPATH": os.path.dirname(os.path.dirname(jobscope.__file__))}  # installed for this Python alone
        for minor, path in pythons.items():
            options = {"python": path, "interpreter_options": ("-W", "ignore"), "environment": package}
            with self.subTest(f"3.{minor}"), workers.Worker(__file__, "fork_while_arming", self.logdir, **options) as worker:
                self.assertLess(worker.hear()["took"], MAX_PAUSE_S)


if __name__ == "__main__":
    workers.main(globals())
