# SPDX-License-Identifier: Apache-2.0
"""A worker whose threads or memory become short after its start: no request ends the job, none hangs, and all is well again when there
is room again.

JOBSCOPE_TEST_FINE_LADDER=1 tries memory in steps of 8 MiB, up to 512 MiB.
"""
import concurrent.futures
import json
import subprocess
import sys
import time
import unittest

from limited import (FINE, MOST_S, PROBE, RESOURCE_EXHAUSTED, STOP_GIVEN_UP, UNSUPPORTED, WITHOUT_SANITIZER, Fault, Ladder, Worker,
                     fault_of, wrong_with_call, wrong_with_native, wrong_with_profile)

ALL_MIB = 4096
# With so much the worker accepts connections (kConnectionBytes in server/limits.h), also the first ones, which allocate most.
ACCEPTED_MIB = 512
CONNECTIONS = 4
# How memory becomes short: the limit is lowered on a running worker, or the job maps all but a part of what it allows.
WAYS = {"squeeze": ("none", 0), "eat": ("memory", ALL_MIB)}


def wrong_with_connections(worker):
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
        answers = [future.result() for future in [pool.submit(wrong_with_call, worker, "describe") for _ in range(CONNECTIONS)]]
    return [answer["code"] for answer, _ in answers], next((fault for _, fault in answers if fault), None)


class StockCapture:
    """Runs while memory becomes short: its connection and the threads of its session exist already."""

    def __init__(self, worker):
        # A busy machine may end a short one before the probe has seen that it records.
        for duration_ms in (200, 400, 800, 1600, 3200):
            self.process = subprocess.Popen([PROBE, worker.address, "profile", str(duration_ms)], stdout=subprocess.PIPE, text=True)
            if self.process.stdout.readline() == "recording\n":
                return
            self.process.wait()
        raise AssertionError("no capture was seen recording")

    def end(self):
        # Not communicate(): it leaves out what readline() has read ahead.
        answer = json.loads(self.process.stdout.read())
        self.process.wait()
        return answer, None if answer["code"] in (0, RESOURCE_EXHAUSTED) else "the running capture has no answer"


def run_short(way, left_mib, captures):
    """`captures`: memory becomes short during a capture, otherwise before the worker's first connection."""
    with Worker(*WAYS[way]) as worker:
        said, wrong, late = [], [], []

        def check(what, call, *arguments):
            began = time.monotonic()
            answer, fault = call(*arguments)
            took_s = time.monotonic() - began
            said.append({what: answer})
            if fault:
                wrong.append(fault)
            if took_s > MOST_S:
                late.append(f"{what} takes {took_s:.1f} s")
            return answer

        if worker.said.startswith("unsupported"):
            return UNSUPPORTED
        if not worker.said.startswith("started"):
            return Fault(worker.said, only_late=False)
        worker.settle()
        running = StockCapture(worker) if captures else None
        worker.short_of_memory = True
        worker.tell(f"{way} {left_mib}")
        if running:
            check("running", running.end)
        described = check("describe", wrong_with_call, worker, "describe")
        if left_mib >= ACCEPTED_MIB and described["code"] != 0:
            wrong.append("refuses a connection while there is memory")
        check("native", wrong_with_native, worker)
        check("stock", wrong_with_profile, worker)
        check("connections", wrong_with_connections, worker)

        worker.tell(f"{way} {ALL_MIB}")
        worker.short_of_memory = False
        if worker.process.poll() is None:
            described = check("describe again", wrong_with_call, worker, "describe")
            captured = check("native again", wrong_with_native, worker)
            profiled = check("stock again", wrong_with_profile, worker)
            if described["code"] != 0 or captured["outcome"] != "ok" or profiled["code"] != 0:
                wrong.append("is not well again with memory")
            said.append(worker.tell("stop"))
            if not said[-1].startswith("stopped"):
                wrong.append("does not stop")
            elif int(said[-1].split()[1]) > MOST_S * 1000:
                late.append(said[-1])
        code, errors = worker.finish()
        if code != 0:
            wrong.append(f"ends with {code}")
        return fault_of(f"{way} {left_mib}", wrong, late, said, errors)


class MemoryTest(Ladder):
    @WITHOUT_SANITIZER
    def test_ladder(self):
        """glibc maps 64 MiB for the heap of a thread. With little more than that, the first thread without a heap takes all."""
        mib = range(0, 513, 8) if FINE else (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
        rungs = [(way, left, captures) for left in mib for way in WAYS for captures in ((False, True) if FINE else ((way == "eat"),))]
        if not FINE:
            rungs += [("squeeze", 0, True), ("eat", 0, False), ("eat", 64, False)]
        self.climb(run_short, rungs, 6)


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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
