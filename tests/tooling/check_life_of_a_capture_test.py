#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_life_of_a_capture.py on small trees."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).with_name("check_life_of_a_capture.py")
SOURCE = """class Session { void Arm(); };
void Session::Arm() {}
void Session::Drain() {}
void Session::Record() { while (true) { Drain(); } }
void Session::Run() { if (armed_) Record(); }
#define JOBSCOPE_SCOPE(name) Begin(name)
"""


def check(document):
    """Runs the checker on a tree with server/session/session.cc and `document`; returns (exit code, output)."""
    with tempfile.TemporaryDirectory() as root:
        source = pathlib.Path(root, "server/session/session.cc")
        source.parent.mkdir(parents=True)
        source.write_text(SOURCE, "utf-8")
        pathlib.Path(root, "docs").mkdir()
        if document is not None:
            pathlib.Path(root, "docs/life_of_a_capture.md").write_text(document, "utf-8")
        run = subprocess.run([sys.executable, str(CHECKER), root], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout


class CheckLifeOfACaptureTest(unittest.TestCase):
    def expect_fault(self, document, fault):
        code, output = check(document)
        self.assertEqual(code, 1, output)
        self.assertIn(fault, output)

    def test_true_document(self):
        code, output = check("# Life\n\n1. Arm: `server/session/session.cc:Session::Arm`\n   waits.\n"
                             "2. A scope: `server/session/session.cc:JOBSCOPE_SCOPE`.\n\n## More\ntext\n")
        self.assertEqual(code, 0, output)

    def test_missing_document(self):
        self.expect_fault(None, "is missing")

    def test_step_without_place(self):
        self.expect_fault("1. Arm: `server/session/session.cc:Arm`\n2. Then it starts.\n", "step 2 names no")

    def test_missing_file(self):
        self.expect_fault("1. Arm: `server/gone.cc:Arm`\n", "server/gone.cc does not exist")

    def test_missing_function(self):
        self.expect_fault("1. Arm: `server/session/session.cc:Start`\n", "no function Start")

    def test_part_of_a_name_is_not_the_function(self):
        self.expect_fault("1. Arm: `server/session/session.cc:rm`\n", "no function rm")

    def test_missing_class(self):
        self.expect_fault("1. Arm: `server/session/session.cc:Collector::Arm`\n", "no function Collector::Arm")

    def test_a_function_that_nothing_before_it_calls(self):
        code, output = check("1. Arm: `server/session/session.cc:Session::Arm`\n2. Drain: `server/session/session.cc:Session::Drain`\n")
        self.assertEqual(code, 1, output)
        self.assertIn("step 2: Drain is not called", output)

    def test_a_function_that_is_called_through_others(self):
        code, output = check("1. Run: `server/session/session.cc:Session::Run`\n2. Drain: `server/session/session.cc:Session::Drain`\n")
        self.assertEqual(code, 0, output)

    def test_too_many_steps(self):
        steps = "".join(f"{n}. Arm: `server/session/session.cc:Arm`\n" for n in range(1, 27))
        self.expect_fault(steps, "26 steps")

    def test_wrong_numbers(self):
        self.expect_fault("1. Arm: `server/session/session.cc:Arm`\n3. Arm: `server/session/session.cc:Arm`\n", "not numbered")

    def test_no_steps(self):
        self.expect_fault("# Life\n", "0 steps")


if __name__ == "__main__":
    unittest.main()
