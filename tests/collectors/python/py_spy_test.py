# SPDX-License-Identifier: Apache-2.0
"""Samples of loops whose shares are known, taken by the tracer and by py-spy in the same run, with each interpreter. Run by
tools/venv.sh.

py_spy_test.py --loops THREADS WORK_MS REST_MS      runs the loops under the tracer; prints the share of samples in which they
                                                    work, and of their time
"""
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import machine
import run_tests
import tracer_test

MINORS = range(10, 16)
LOOPS = ((1, 3, 3), (8, 0.8, 3.2))  # threads, ms of work, ms of rest
PY_SPY_HZ = 100


def version_of(python):
    program = "import sys; print(*sys.version_info[:2])"
    return tuple(map(int, subprocess.check_output([python, "-c", program], text=True, timeout=60).split()))


@functools.lru_cache(maxsize=None)
def interpreters():
    """The installed ones by version."""
    pythons = os.environ["JOBSCOPE_TEST_PYTHONS"].split(":")
    return {version_of(python): python for python in pythons if os.path.exists(python)}


class PySpyTest(unittest.TestCase):
    def shares(self, python, *loops):
        """The share of their time in which the loops work: measured by themselves, seen by the tracer, seen by py-spy in how many
        samples."""
        with tempfile.TemporaryDirectory() as scratch:
            stacks = pathlib.Path(scratch) / "stacks"
            py_spy = pathlib.Path(sys.executable).parent / "py-spy"
            # It does not stop the program for its samples, which would distort what the tracer sees.
            command = [py_spy, "record", "--nonblocking", "--idle", f"--rate={PY_SPY_HZ}", "--format=raw", f"--output={stacks}", "--",
                       python, "-B", __file__, "--loops", *map(str, loops)]  # fmt: skip
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
            if "Unsupported version of Python" in done.stdout:
                self.skipTest("this py-spy does not know it")
            self.assertEqual(done.returncode, 0, done.stdout)
            text = stacks.read_text(encoding="utf-8")
        counts = {"working": 0, "resting": 0}
        for name, count in re.findall(r";(working|resting) \([^;\n]*\) (\d+)$", text, re.MULTILINE):
            counts[name] += int(count)
        ours, known = map(float, re.search(r"^shares (\S+) (\S+)$", done.stdout, re.MULTILINE).groups())
        samples = sum(counts.values())
        return known, ours, counts["working"] / max(samples, 1), samples

    @machine.again_if_busy(0.5)
    def check_loops(self, minor, threads, work_ms, rest_ms):
        known, ours, theirs, samples = self.shares(interpreters()[3, minor], threads, work_ms, rest_ms)
        seen = (f"Python 3.{minor}, threads: {threads}, {work_ms} ms of work, {rest_ms} ms of rest: they work {known:.1%} of the time;"
                f" jobscope {ours:.1%}, py-spy {theirs:.1%} of {samples} samples")  # fmt: skip
        print(seen)
        self.assertGreater(samples, 0)
        self.assertLessEqual(abs(ours - known), 0.05, seen)

    def check_shares(self, minor):
        if tracer_test.LINUX < (6, 12):
            self.skipTest("this kernel lets a sampler wait for the turn of the program")
        if (3, minor) not in interpreters():
            self.skipTest(f"Python 3.{minor} is not installed")
        for loops in LOOPS:
            self.check_loops(minor, *loops)


for each in MINORS:
    setattr(PySpyTest, f"test_shares_3_{each}", lambda self, minor=each: self.check_shares(minor))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--loops"]:
        seen_by_tracer, spent_by_loops = tracer_test.TracerTest().shares(int(sys.argv[2]), *map(float, sys.argv[3:]))
        print("shares", seen_by_tracer, spent_by_loops)
    else:
        run_tests.main()
