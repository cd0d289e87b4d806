# SPDX-License-Identifier: Apache-2.0
"""Start, check, capture and stop under every tight limit: a worker is never ended by a signal, never hangs, and a server that
says that it has started answers.

JOBSCOPE_TEST_FINE_LADDER=1 climbs further, and memory in steps of 8 MiB.
"""
import concurrent.futures
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import machine  # noqa: E402

LIBRARY = os.environ["JOBSCOPE_TEST_LIBRARY"]
PROBE = os.environ["JOBSCOPE_TEST_PROBE"]
CAPTURE = os.environ["JOBSCOPE_TEST_CAPTURE"]
WORKER = os.environ["JOBSCOPE_TEST_LIMITED_WORKER"]
FINE = os.environ.get("JOBSCOPE_TEST_FINE_LADDER") == "1"
WITHOUT_SANITIZER = unittest.skipIf(os.environ.get("JOBSCOPE_TEST_SANITIZED"), "a sanitizer ends the process where memory is short")
# The most that a start, a refusal, a stop, or a call takes. A call's time includes that of the program that makes it.
MOST_S = 3
# What has not come by then hangs. The library's own deadlines are a few seconds; the rest is for a busy machine.
HANG_S = 60
NOT_SUPPORTED = 77
RESOURCE_EXHAUSTED = 8
# The worker says this when it has given its stop up.
STOP_GIVEN_UP = "has not closed"


class Worker:
    def __init__(self, limit="none", free=0):
        self.process = subprocess.Popen([WORKER, LIBRARY, limit, str(free)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, bufsize=0)
        self.said = self.hear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def hear(self):
        ready, _, _ = select.select([self.process.stdout], [], [], HANG_S)
        return self.process.stdout.readline().decode().strip() if ready else "hangs"

    def tell(self, command):
        try:
            self.process.stdin.write(command.encode() + b"\n")
        except BrokenPipeError:
            return "has ended"
        return self.hear()

    @property
    def address(self):
        return self.said.split()[2]

    def call(self, *arguments):
        """The answer to a call from another process."""
        probe = subprocess.run([PROBE, self.address, *arguments], capture_output=True, text=True, timeout=HANG_S, check=False)
        return json.loads(probe.stdout.splitlines()[-1])

    def finish(self):
        """Returns (exit code, standard error)."""
        self.process.stdin.close()
        try:
            code = self.process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            code = "hangs"
        if code == "hangs":
            self.process.kill()
        errors = self.process.stderr.read().decode()
        self.process.stdin = open(os.devnull, "wb")  # for __exit__
        return code, errors


    def capture(self):
        """The worker's entry in the manifest of one native capture, with its exit code."""
        with tempfile.TemporaryDirectory(prefix="jobscope-limits-") as logdir:
            command = [CAPTURE, f"--service_addr={self.address}", f"--logdir={logdir}", "--duration_ms=50", "--protocol=native"]
            client = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=HANG_S, check=False)
        if client.returncode not in (0, 4):
            return {"exit": client.returncode, "outcome": client.stderr}
        (worker,) = json.loads(client.stdout)["workers"]
        return {"exit": client.returncode, **{key: worker.get(key) for key in ("outcome", "reason", "events")}}


def wrong_with_profile(worker):
    """(what the worker said to a unary capture, what is wrong with it, or None)"""
    captured = worker.call("profile", "50")
    return captured, None if captured["code"] in (0, RESOURCE_EXHAUSTED) else "no answer to a unary capture"


def wrong_with_native(worker):
    captured = worker.capture()
    delivered = captured["outcome"] in ("ok", "truncated") and captured["exit"] == 0
    refused = captured["outcome"] == "refused" and "raise" in captured["reason"]
    return captured, None if delivered or refused else "a native capture is neither delivered nor refused with a remedy"


# The first one of a process creates what the later ones use.
ORDERS = ((wrong_with_profile, wrong_with_native), (wrong_with_native, wrong_with_profile))


class Fault(typing.NamedTuple):
    text: str
    only_late: bool


def climb(limit, free, captures):
    """One rung: None if all is well, "unsupported", or what is wrong and whether it is only late."""
    with Worker(limit, free) as worker:
        said = [worker.said]
        if worker.said.startswith("unsupported"):
            return "unsupported"
        wrong = []
        took_s = {}

        def timed(what, call, *arguments):
            began = time.monotonic()
            answer = call(*arguments)
            took_s[what] = time.monotonic() - began
            return answer

        if worker.said.startswith("started"):
            said.append(timed("describe", worker.call, "describe"))
            if said[-1]["code"] != 0:
                wrong.append("has started, and does not answer")
            for capture in captures:
                captured, fault = timed(capture.__name__, capture, worker)
                said.append(captured)
                wrong += [fault] if fault else []
            said.append(worker.tell("stop"))
            if not said[-1].startswith("stopped"):
                wrong.append("does not stop")
        elif not worker.said.startswith("refused") or "raise" not in worker.said:
            wrong.append("neither starts nor says what to do")
        code, errors = worker.finish()
        if code != 0:
            wrong.append(f"ends with {code}")
        for line in (said[0], said[-1]):
            if isinstance(line, str) and re.match(r"(started|refused|stopped) \d", line):
                took_s[line.split()[0]] = int(line.split()[1]) / 1e3
        late = [f"{what} takes {seconds:.1f} s" for what, seconds in took_s.items() if seconds > MOST_S]
        if STOP_GIVEN_UP in errors:
            late.append("the server has not closed within its time")
        if not wrong and not late:
            return None
        return Fault(f"{free} free {limit}: {', '.join(wrong + late)}: {said} {errors[-500:]}", only_late=not wrong)


class LadderTest(unittest.TestCase):
    def _climb(self, limit, rungs):
        rungs = [(limit, free, captures) for free in rungs for captures in ORDERS]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda rung: climb(*rung), rungs))
        if "unsupported" in results:
            self.skipTest(f"the limit on {limit} cannot be set here (threads: root only)")
        self.assertEqual([fault.text for fault in results if fault and not fault.only_late], [])
        for rung, fault in zip(rungs, results):
            if fault:
                self._climb_alone(*rung)

    @machine.again_if_busy(0.5)
    def _climb_alone(self, limit, free, captures):
        """What was late beside others is not late by itself."""
        self.assertIsNone(climb(limit, free, captures))

    def test_descriptors(self):
        self._climb("descriptors", range(0, 65) if FINE else (*range(0, 25), *range(36, 42)))

    def test_threads(self):
        self._climb("threads", range(0, 65 if FINE else 25))

    @WITHOUT_SANITIZER
    def test_memory(self):
        self._climb("memory", range(0, 1537, 8) if FINE else (*range(0, 257, 16), *range(896, 1153, 64)))

    def test_starts_where_there_is_room(self):
        for limit, free in (("none", 0), ("descriptors", 64), ("threads", 64), ("memory", 4096)):
            with self.subTest(limit=limit), Worker(limit, free) as worker:
                if worker.said.startswith("unsupported"):
                    continue
                self.assertTrue(worker.said.startswith("started"), worker.said)
                self.assertEqual(worker.call("profile", "50")["code"], 0)
                self.assertEqual(worker.capture()["outcome"], "ok")


class LaterTest(unittest.TestCase):
    """What was there at the start is gone when it is needed."""

    def _started(self, limit="none", free=0):
        worker = Worker(limit, free)
        self.addCleanup(worker.__exit__)
        if worker.said.startswith("unsupported"):
            self.skipTest(f"the limit on {limit} cannot be set here")
        self.assertTrue(worker.said.startswith("started"), worker.said)
        return worker

    def _stops(self, worker):
        self.assertRegex(worker.tell("stop"), "^stopped")
        code, errors = worker.finish()
        self.assertEqual(code, 0, errors)
        self.assertNotIn(STOP_GIVEN_UP, errors)

    def test_stops_without_a_free_thread(self):
        worker = self._started("threads", 64)
        self.assertEqual(worker.call("profile", "50")["code"], 0)
        self.assertRegex(worker.tell("take"), "^taken [1-9]")
        self.assertEqual(worker.call("describe")["code"], 0)
        refused = worker.call("profile", "50")
        self.assertEqual(refused["code"], RESOURCE_EXHAUSTED, refused)
        self.assertIn("ulimit -u", refused["message"])
        self._stops(worker)

    def test_store_shrinks_to_the_memory_that_is_left(self):
        worker = self._started()
        self.assertEqual([w for w in worker.call("profile", "50")["warnings"] if "instead of" in w], [])
        worker.tell("squeeze 300")
        captured = worker.call("profile", "50")
        self.assertEqual(captured["code"], 0, captured)
        said = [warning for warning in captured["warnings"] if "instead of 256" in warning]
        self.assertEqual(len(said), 1, captured)
        self.assertIn("ulimit -v", said[0])
        self._stops(worker)

    def test_capture_without_memory_is_refused(self):
        worker = self._started()
        self.assertEqual(worker.call("profile", "50")["code"], 0)
        worker.tell("squeeze 60")
        refused = worker.call("profile", "50")
        self.assertEqual(refused["code"], RESOURCE_EXHAUSTED, refused)
        self.assertIn("ulimit -v", refused["message"])
        worker.tell("squeeze 4096")
        self.assertEqual(worker.call("profile", "50")["code"], 0)
        self._stops(worker)


class DeadConnectionTest(unittest.TestCase):
    """Peers that say nothing any more hold up neither a stop nor the end of the process."""

    def setUp(self):
        self.worker = Worker()
        self.addCleanup(self.worker.__exit__)
        host, port = self.worker.address.split(":")
        self.silent = socket.create_connection((host, int(port)))
        self.addCleanup(self.silent.close)
        # In the middle of a capture, and of other calls.
        for arguments in (("loop", "2"), ("profile", "60000")):
            probe = subprocess.Popen([PROBE, self.worker.address, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(probe.stdin.close)
            self.addCleanup(probe.stdout.close)
            self.addCleanup(probe.wait)
            self.addCleanup(probe.kill)
            self.assertTrue(probe.stdout.readline())
            probe.send_signal(signal.SIGSTOP)

    def test_stop(self):
        self.assertRegex(self.worker.tell("stop"), "^stopped")
        code, errors = self.worker.finish()
        self.assertEqual(code, 0, errors)
        self.assertNotIn(STOP_GIVEN_UP, errors)

    @machine.again_if_busy(0.5)
    def test_sigterm(self):
        if self.worker.process.poll() is not None:
            self.setUp()  # it is made again
        began = time.monotonic()
        self.worker.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.worker.process.wait(HANG_S), 0)
        # 2 s are documented. The calls would take a minute, gRPC's own end 6 to 11 s.
        self.assertLess(time.monotonic() - began, 4)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
