#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_words.py: retired words are those of the glossary's table, and are found in all kinds of files."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).with_name("check_words.py")
# Words of no real glossary, so that this file passes the check.
GLOSSARY = """# Glossary

| term | meaning |
|---|---|
| GIL | the lock |

## Retired words

| retired | say |
|---|---|
| snake's lock, of the snake | GIL |
| `OfSnakes` | Queue |
"""


def check(files, glossary=GLOSSARY):
    """Runs the checker on a tree of these files, path to text, and a glossary; returns (exit code, output)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in {"docs/glossary.md": glossary, **files}.items():
            pathlib.Path(root, path).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(root, path).write_text(text, "utf-8")
        run = subprocess.run([sys.executable, str(CHECKER), root], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout


class CheckWordsTest(unittest.TestCase):
    def test_a_retired_word_is_found(self):
        code, output = check({"common/x.h": "// Waits.\n// Snake's  lock is taken.\n"})
        self.assertEqual(code, 1)
        self.assertIn("common/x.h:2", output)
        self.assertIn("say GIL", output)

    def test_a_phrase_over_two_lines_is_found(self):
        for text in ("\n// x snake's\n    // lock is taken.\n", "\n# Snake's\n# lock\n", "\n* the snake's\n  lock\n"):
            with self.subTest(text):
                code, output = check({"common/x.h": text})
                self.assertEqual(code, 1)
                self.assertIn("common/x.h:2", output)

    def test_all_kinds_of_files_are_read(self):
        for path in ("tests/a/x_test.cc", "bench/x.py", "cmake/x.cmake", "Makefile", "CMakeLists.txt", "tests/CMakeLists.txt", "README.md",
                     "analysis/output/x.css", "analysis/output/x.js", "docs/glossary/x.md"):  # fmt: skip
            with self.subTest(path):
                code, output = check({path: "of the snake"})
                self.assertEqual(code, 1)
                self.assertIn(f"{path}:1", output)

    def test_a_word_in_backticks_is_part_of_an_identifier(self):
        self.assertIn("say Queue", check({"common/x.h": "void WaitOfSnakes();\n"})[1])
        self.assertEqual(check({"common/x.h": "// ofsnakes\n"})[0], 0)

    def test_other_words_pass(self):
        self.assertEqual(check({"common/x.h": "// Takes the GIL of the snakes.\n"})[0], 0)

    def test_the_glossary_is_read_too_except_its_table(self):
        self.assertEqual(check({})[0], 0)
        self.assertIn("docs/glossary.md:5", check({}, GLOSSARY.replace("the lock", "the snake's lock"))[1])

    def test_a_glossary_without_the_table_is_an_error(self):
        code, output = check({"common/x.h": ""}, "# Glossary\n")
        self.assertEqual(code, 1)
        self.assertIn("no table", output)


if __name__ == "__main__":
    unittest.main()
