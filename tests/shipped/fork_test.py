# SPDX-License-Identifier: Apache-2.0
"""Forked children of a worker: they hold no port, get no server, end well, and never harm the parent's server."""
import ctypes
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import warnings

import harness

# Since 3.12 Python warns of each fork of a process with several threads, on the stderr that tests compare.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)


def _pool_child(port, library, results):
    code, _, error = library.start()
    results.put((os.getpid(), harness.holds_port(port), library.running(), code, error))


def worker_multiprocessing():
    library = harness.serve()
    address = harness.wait()
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [
        context.Process(target=_pool_child, args=(harness.port_of(address), library, results))
        for _ in range(4)
    ]
    for child in children:
        child.start()
    answers = [results.get(timeout=30) for _ in children]
    for child in children:
        child.join(30)
    harness.tell(answers=answers, codes=[child.exitcode for child in children])
    harness.wait()


def worker_fork_exit():
    harness.serve()
    harness.wait()
    codes = []
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            sys.exit(0)  # through the exit handlers and static destructors
        codes.append(os.waitpid(pid, 0)[1])
    harness.tell(codes=codes)
    harness.wait()


def worker_while_nobody_forks():
    library = harness.Library()
    library.start()
    calls = []
    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls.append)
    run = lambda: library.c.jobscope_while_nobody_forks(body, ctypes.c_void_p(5))  # noqa: E731
    library.c.jobscope_while_nobody_forks(None, None)
    run()
    pid = os.fork()
    if pid == 0:
        # The fork that made it is never over in it: a wait for its end would give up the processor again and again.
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        run()
        os._exit(resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before if calls == [5, 5] else 255)
    harness.tell(calls=calls, switches=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def worker_many_forks(count):
    library = harness.serve()
    address = harness.wait()
    port = harness.port_of(address)
    codes = []
    for i in range(int(count)):
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            leave = os._exit if i % 2 else sys.exit
            leave(7 if harness.holds_port(port) else library.running())
        codes.append(os.waitpid(pid, 0)[1])
    harness.tell(codes=codes)
    harness.wait()


def worker_surviving_child():
    harness.serve()
    harness.wait()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"x")
        signal.pause()
    os.read(reader, 1)
    harness.tell(child=pid)
    harness.wait()


def worker_fork_first():
    """The child of a process that has loaded the library but no server may have its own."""
    library = harness.Library()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code, address, error = library.start()
        os.write(writer, f"{code} {address} {error}".encode())
        os.read(0, 1)
        os._exit(0)
    code, address, error = os.read(reader, 2000).decode().split(" ", 2)
    harness.tell(code=int(code), address=address, error=error)
    os.waitpid(pid, 0)


def worker_fork_recording():
    """A child that is forked in the middle of a capture records nothing, and may try to."""
    harness.serve()
    recorder = harness.Recorder("forked scope")
    harness.wait()
    recorded = recorder.record()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        os._exit(any([recorder.record() for _ in range(1000)]))
    code = os.waitpid(pid, 0)[1]
    harness.tell(parent=recorded, code=code)
    harness.wait()


def worker_exec():
    harness.serve()
    address = harness.wait()
    port = harness.port_of(address)
    script = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import harness; sys.exit(harness.holds_port({port}))"
    code = subprocess.run([sys.executable, "-B", "-c", script], close_fds=False, check=False).returncode
    harness.tell(code=code)
    harness.wait()


class _UnderLoad(harness.TestCase):
    def _forks_under_load(self, count, environment):
        if "libasan" in os.environ.get("LD_PRELOAD", ""):
            self.skipTest("a child of gcc 12's AddressSanitizer inherits its allocator's locks as the parent's threads held them")
        with harness.Worker(__file__, "many_forks", str(count), environment=environment) as worker:
            address = worker.hear()["address"]
            loop = harness.Caller(address, "loop", "4")
            self.assertEqual(loop.first, "looping")
            worker.go_on(address)
            codes = worker.hear()["codes"]
            calls = loop.result()
            self.assertEqual(codes, [0] * count)
            self.assertEqual(calls["failed"], 0, calls)
            self.assertEqual(calls["refused"], 0, calls)
            self.assertGreater(calls["ok"], 0)
            self.assert_serves(address)
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))


class SoakTest(_UnderLoad):
    def test_500_forks_with_calls_in_flight(self):
        self._forks_under_load(500, {})

    def test_500_forks_with_grpc_fork_support(self):
        self._forks_under_load(500, {"GRPC_ENABLE_FORK_SUPPORT": "1"})


class ForkTest(_UnderLoad):
    def test_multiprocessing_children(self):
        with harness.Worker(__file__, "multiprocessing") as worker:
            address = worker.hear()["address"]
            worker.go_on(address)
            said = worker.hear()
            self.assertEqual(said["codes"], [0] * 4)
            for _, holds, running, code, error in said["answers"]:
                self.assertFalse(holds, "a child holds a socket of the server")
                self.assertEqual(running, 0)
                self.assertEqual(code, harness.E_FORKED)
                self.assertIn("fork", error)
            self.assert_serves(address)
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_fork_and_exit(self):
        with harness.Worker(__file__, "fork_exit") as worker:
            address = worker.hear()["address"]
            worker.go_on()
            self.assertEqual(worker.hear()["codes"], [0] * 20)
            self.assert_serves(address)
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_forks_with_calls_in_flight(self):
        self._forks_under_load(50, {})

    def test_forks_with_grpc_fork_support(self):
        self._forks_under_load(50, {"GRPC_ENABLE_FORK_SUPPORT": "1"})

    def test_port_is_free_when_a_child_outlives_its_parent(self):
        with harness.Worker(__file__, "surviving_child") as worker:
            address = worker.hear()["address"]
            self.assert_serves(address)
            worker.go_on()
            child = worker.hear()["child"]
            try:
                worker.process.kill()
                worker.process.wait()
                os.kill(child, 0)  # it lives
                port = harness.port_of(address)
                with socket.socket() as client:
                    self.assertNotEqual(client.connect_ex(("127.0.0.1", port)), 0)
                with socket.socket() as server:
                    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    server.bind(("127.0.0.1", port))
                    server.listen()
            finally:
                os.kill(child, signal.SIGKILL)

    def test_child_of_a_capture_records_nothing(self):
        for length_ms in (2000, 10_000, 60_000):
            with harness.Worker(__file__, "fork_recording") as worker:
                caller = harness.Caller(worker.hear()["address"], "profile", str(length_ms), "forked scope")
                worker.go_on()
                said = worker.hear()
                answer = caller.result()
                self.assertEqual((answer["code"], said["code"]), (0, 0), answer)
                worker.go_on()
                self.assertEqual(worker.finish(), (0, ""))
            if said["parent"]:  # otherwise the capture had ended when the worker ran
                break
        self.assertEqual((said["parent"], answer["events"]), (True, 1), answer)

    def test_fork_before_the_start(self):
        with harness.Worker(__file__, "fork_first") as worker:
            said = worker.hear()
            self.assertEqual(said["code"], 0, said)
            self.assert_serves(said["address"])
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))

    def test_a_pause_of_forks(self):
        with harness.Worker(__file__, "while_nobody_forks") as worker:
            said = worker.hear()
            self.assertEqual(said["calls"], [5])
            self.assertLess(said["switches"], 5)
            self.assertEqual(worker.finish()[0], 0)

    def test_exec_children_inherit_nothing(self):
        with harness.Worker(__file__, "exec") as worker:
            address = worker.hear()["address"]
            worker.go_on(address)
            self.assertEqual(worker.hear()["code"], 0)
            worker.go_on()
            self.assertEqual(worker.finish(), (0, ""))


if __name__ == "__main__":
    harness.main(globals())
