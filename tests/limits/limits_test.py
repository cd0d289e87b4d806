# SPDX-License-Identifier: Apache-2.0
"""Start, check, capture and stop under every tight limit: a worker is never ended by a signal, never hangs, and a server that
says that it has started answers.

JOBSCOPE_TEST_FINE_LADDER=1 climbs further, and memory in steps of 8 MiB.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import machine  # noqa: E402
from limited import (FINE, HANG_S, MOST_S, PROBE, STOP_GIVEN_UP, UNSUPPORTED, WITHOUT_SANITIZER, Fault, Ladder, Worker,  # noqa: E402
                     fault_of, wrong_with_native, wrong_with_profile)

# The first one of a process creates what the later ones use.
ORDERS = ((wrong_with_profile, wrong_with_native), (wrong_with_native, wrong_with_profile))


def start_under(limit, free, captures):
    with Worker(limit, free) as worker:
        said = [worker.said]
        if worker.said.startswith("unsupported"):
            return UNSUPPORTED
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
        return fault_of(f"{free} free {limit}", wrong, late, said, errors)


class LadderTest(Ladder):
    def _climb(self, limit, rungs):
        self.climb(start_under, [(limit, free, captures) for free in rungs for captures in ORDERS], 4)

    def test_descriptors(self):
        self._climb("descriptors", range(0, 65) if FINE else (*range(0, 25), *range(36, 42)))

    def test_threads(self):
        self._climb("threads", range(0, 65 if FINE else 25))

    @WITHOUT_SANITIZER
    def test_memory(self):
        self._climb("memory", range(0, 1537, 8) if FINE else (*range(0, 257, 16), *range(896, 1409, 64)))

    def test_starts_where_there_is_room(self):
        for limit, free in (("none", 0), ("descriptors", 64), ("threads", 64), ("memory", 4096)):
            with self.subTest(limit=limit), Worker(limit, free) as worker:
                if worker.said.startswith("unsupported"):
                    continue
                self.assertTrue(worker.said.startswith("started"), worker.said)
                self.assertEqual(worker.call("profile", "50")["code"], 0)
                self.assertEqual(worker.capture()["outcome"], "ok")


class UnsupportedTest(Ladder):
    def test_a_rung_that_is_unsupported_hides_no_fault_of_another(self):
        for fault in (Fault("wrong", only_late=False), Fault("late", only_late=True)):
            with self.subTest(fault=fault), self.assertRaises((AssertionError, unittest.SkipTest)) as ended:
                self.climb(lambda result: result, [(UNSUPPORTED,), (fault,)], 1)
            self.assertIsInstance(ended.exception, AssertionError)
        with self.assertRaises(unittest.SkipTest):
            self.climb(lambda result: result, [(UNSUPPORTED,), (None,)], 1)


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
