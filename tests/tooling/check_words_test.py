#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_words.py: a retired word is found where it stands, and an empty tree is an error."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).with_name("check_words.py")


def check(text):
    """Runs the checker on a tree with common/x.h of this text, if any; returns (exit code, output)."""
    with tempfile.TemporaryDirectory() as root:
        if text is not None:
            pathlib.Path(root, "common").mkdir()
            pathlib.Path(root, "common/x.h").write_text(text, "utf-8")
        run = subprocess.run([sys.executable, str(CHECKER), root], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout


class CheckWordsTest(unittest.TestCase):
    def test_a_retired_word_is_found(self):
        code, output = check("// Waits.\n// Python's lock is taken.\n")
        self.assertEqual(code, 1)
        self.assertIn("common/x.h:2", output)
        self.assertIn("say GIL", output)

    def test_other_words_pass(self):
        self.assertEqual(check("// Takes the GIL.\n")[0], 0)

    def test_an_empty_tree_is_an_error(self):
        self.assertEqual(check(None)[0], 1)


if __name__ == "__main__":
    unittest.main()
