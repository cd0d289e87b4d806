#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What was skipped is seen: by .ci/run, here with another make, and by ctest."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Ends as ctest does with these tests, and leaves this log.
MAKE = """#!/bin/bash
folder=build
if [[ $1 == tsan ]]; then folder=build/tsan; fi
if [[ $1 == asan-unit ]]; then folder=build/asan; fi
if [[ -e $LOGS/$1 ]]; then mkdir -p $folder/Testing/Temporary; cp "$LOGS/$1" $folder/Testing/Temporary/LastTest.log; fi
echo "90% tests passed"
if [[ $1 == test ]]; then printf 'The following tests did not run:\\n\\t  7 - users_test (Skipped)\\n\\t112 - with space (Not Run)\\n'; fi
if [[ $1 == $FAILS ]]; then printf 'The following tests FAILED:\\n\\t  8 - other_test (Failed)\\n' >&2; exit 2; fi
"""
# The log of a GoogleTest program.
LOG_OF_GTEST = """Start testing: Nov 26 10:01 UTC
----------------------------------------------------------
1/2 Testing: socket_test
1/2 Test: socket_test
Output:
----------------------------------------------------------
[ RUN      ] SocketTest.V6
socket_test.cc:107: Skipped
there is no IPv6 here
[  SKIPPED ] SocketTest.V6 (0 ms)
[       OK ] SocketTest.V4 (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] SocketTest.V6
<end of output>
"""
# The log of a unittest program, and of the fault matrix.
LOG_OF_PYTHON = """2/2 Testing: limits
2/2 Test: limits
test_memory (__main__.LadderTest.test_memory) ... ok
test_threads (__main__.LadderTest.test_threads) ... skipped 'root only'
OK (skipped=1)
1/2 Testing: faults quick
disk: logdir read-only, before the capture: not run: no tmpfs (0.9 s)
disk: disk full, renaming: holds (1.1 s): failed
faults: 2 rows, 0 failed, 1 not run
"""


def run(fails="", seconds=0, **logs):
    """(exit code, lines). `seconds`: what has passed when it starts; `logs`: what ctest writes for a target."""
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        (tree / ".ci").mkdir()
        shutil.copy(ROOT / ".ci/run", tree / ".ci/run")
        (tree / "make").write_text(MAKE, "utf-8")
        (tree / "make").chmod(0o755)
        (tree / "logs").mkdir()
        for target, text in logs.items():
            (tree / "logs" / target).write_text(text, "utf-8")
        paths = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": folder, "LOGS": f"{folder}/logs"}
        environment = {**os.environ, **paths, "FAILS": fails, "SECONDS": str(seconds)}
        done = subprocess.run([tree / ".ci/run"], stdout=subprocess.PIPE, text=True, check=False, env=environment)
        return done.returncode, done.stdout.splitlines()


class CiRunTest(unittest.TestCase):
    def test_names_what_was_skipped_and_passes(self):
        code, lines = run()
        self.assertEqual(code, 0)
        self.assertEqual(lines[-4:], ["ci: skipped in make test: users_test", "ci: skipped in make test: with space", "ci: 2 skipped",
                                      "ci: 5 passed, 0 failed"])

    def test_names_the_cases_that_passed_tests_have_skipped(self):
        code, lines = run(interop=LOG_OF_GTEST + LOG_OF_PYTHON, tsan=LOG_OF_GTEST, **{"asan-unit": LOG_OF_GTEST})
        self.assertEqual(code, 0)
        self.assertEqual(
            lines[-9:],
            [
                "ci: skipped in make test: users_test",
                "ci: skipped in make test: with space",
                "ci: skipped in make interop: socket_test: SocketTest.V6",
                "ci: skipped in make interop: limits: test_threads (__main__.LadderTest.test_threads) ... skipped 'root only'",
                "ci: skipped in make interop: faults quick: disk: logdir read-only, before the capture: not run: no tmpfs (0.9 s)",
                "ci: skipped in make tsan: socket_test: SocketTest.V6",
                "ci: skipped in make asan-unit: socket_test: SocketTest.V6",
                "ci: 7 skipped",
                "ci: 5 passed, 0 failed",
            ],
        )

    def test_leaves_out_the_last_part_where_there_is_no_time_for_it(self):
        code, lines = run(seconds=3400)
        self.assertEqual(code, 0)
        self.assertRegex(lines[-2], r"^ci: LEFT OUT: make asan-unit, because the other parts took 34\d\d s$")
        self.assertEqual(lines[-1], "ci: 4 passed, 0 failed, 1 left out")

    def test_a_failed_part_fails_it(self):
        code, lines = run(fails="lint")
        self.assertEqual(code, 1)
        self.assertEqual(lines[-1], "ci: 4 passed, 1 failed")
        self.assertIn("\t  8 - other_test (Failed)", lines)


# One that skips its class, one that skips some cases, and one that skips a case and fails in another one.
PROGRAM = """
import unittest
import run_tests
class Skipped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("reason")
    def test_a(self): pass
class Some(unittest.TestCase):
    def test_a(self): self.skipTest("reason")
    def test_b(self): pass
    def test_c(self): self.fail()
run_tests.main()
"""


class RunTestsTest(unittest.TestCase):
    """Python programs: ctest's exit code for a skipped test."""

    def test_exit_codes(self):
        for cases, code in (
            ("Skipped", 77),
            ("Skipped Some.test_a", 77),
            ("Some.test_b", 0),
            ("Some.test_a Some.test_b", 0),
            ("Some.test_a Some.test_c", 1),
        ):
            with self.subTest(cases=cases):
                command = [sys.executable, "-Bc", PROGRAM, *cases.split()]
                environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests/python")}
                done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=environment)
                self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    unittest.main()
