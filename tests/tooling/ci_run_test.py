#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
""".ci/run with another make: what it counts, and which skipped tests it names."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Ends as ctest does with these tests.
MAKE = """#!/bin/bash
echo "90% tests passed"
if [[ $1 == test ]]; then printf 'The following tests did not run:\\n\\t  7 - users_test (Skipped)\\n\\t112 - with space (Not Run)\\n'; fi
if [[ $1 == $FAILS ]]; then printf 'The following tests FAILED:\\n\\t  8 - other_test (Failed)\\n' >&2; exit 2; fi
"""


def run(fails=""):
    """(exit code, lines)."""
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        (tree / ".ci").mkdir()
        shutil.copy(ROOT / ".ci/run", tree / ".ci/run")
        (tree / "make").write_text(MAKE, "utf-8")
        (tree / "make").chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "FAILS": fails, "HOME": folder}
        done = subprocess.run([tree / ".ci/run"], stdout=subprocess.PIPE, text=True, check=False, env=environment)
        return done.returncode, done.stdout.splitlines()


class CiRunTest(unittest.TestCase):
    def test_names_what_was_skipped_and_passes(self):
        code, lines = run()
        self.assertEqual(code, 0)
        self.assertEqual(lines[-4:], ["ci: skipped in make test: users_test", "ci: skipped in make test: with space", "ci: 2 skipped",
                                      "ci: 4 passed, 0 failed"])

    def test_a_failed_part_fails_it(self):
        code, lines = run(fails="lint")
        self.assertEqual(code, 1)
        self.assertEqual(lines[-1], "ci: 3 passed, 1 failed")
        self.assertIn("\t  8 - other_test (Failed)", lines)


if __name__ == "__main__":
    unittest.main()
