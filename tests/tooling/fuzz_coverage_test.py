#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fuzz_coverage.py over made-up counts, in place of llvm's tools."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import fuzz_coverage

LLVM_COV = """#!{python}
import json, sys
fuzzer = sys.argv[-1].rsplit("/", 1)[1]
percent = {{"good_fuzzer": 90, "bad_fuzzer": 84.9}}[fuzzer]
segments = [[3, 1, 0, True, True, False], [5, 2, 0, False, False, False], [9, 1, 7, True, True, False], [9, 9, 0, False, False, False]]
name = "build/fuzz/../../common/" + fuzzer + ".cc"
print(json.dumps({{"data": [{{"files": [{{"filename": name, "segments": segments, "summary": {{"lines": {{"count": 10, "percent": percent}}}}}}]}}]}}))
"""


class FuzzCoverageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "coverage").mkdir()
        for name, text in (("llvm-cov", LLVM_COV.format(python=sys.executable)), ("llvm-profdata", "#!/bin/sh\n")):
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)
        self.document = self.folder / "document.md"
        self.out = io.StringIO()
        self.document.write_text(f"a\n{fuzz_coverage.BEGIN}\nold\n{fuzz_coverage.END}\nb\n", encoding="utf-8")

    def run_with(self, *fuzzers, stats="1234567 90"):
        (self.folder / "fuzzers.txt").write_text("".join(f"{each} common/{each}_fuzzer.cc\n" for each in fuzzers), encoding="utf-8")
        for each in fuzzers:
            (self.folder / "coverage" / f"{each}.profraw").touch()
            (self.folder / "coverage" / f"{each}.stats").write_text(f"{stats}\n", encoding="ascii")
        return self.main("--lines", "--write"), self.out.getvalue()

    def main(self, *flags):
        path = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
        self.out = io.StringIO()
        with mock.patch.object(fuzz_coverage, "DOCUMENT", self.document), mock.patch.dict(os.environ, PATH=path), \
             mock.patch.object(sys, "argv", ["", str(self.folder), *flags]), \
             contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.out):
            return fuzz_coverage.main()

    def test_writes_the_table(self):
        code, out = self.run_with("good")
        self.assertEqual(code, 0, out)
        row = "| `common/good_fuzzer.cc` | `good` | 10 | 90 % | 1,234,567 | 90 |\n"
        self.assertIn(row, out)
        self.assertIn("common/good_fuzzer.cc: 3-5\n", out)
        text = self.document.read_text(encoding="utf-8")
        self.assertIn(row, text)
        self.assertNotIn("old", text)
        self.assertTrue(text.startswith("a\n") and text.endswith("\nb\n"))

    def test_fails_below_the_least(self):
        code, out = self.run_with("bad", "good")
        self.assertEqual(code, 1)
        self.assertIn("below 85 %: common/bad_fuzzer.cc\n", out)
        self.assertIn("old", self.document.read_text(encoding="utf-8"))

    def test_refuses_a_run_without_numbers(self):
        for stats in ("", " 90", "many 90"):
            with self.assertRaisesRegex(SystemExit, "no numbers"):
                self.run_with("good", stats=stats)
        self.assertIn("old", self.document.read_text(encoding="utf-8"))

    def test_a_fuzzer_that_did_not_run_keeps_its_row(self):
        self.run_with("good")
        (self.folder / "coverage" / "good.profraw").unlink()
        self.assertEqual(self.main("--write"), 0)
        self.assertIn("| 1,234,567 | 90 |", self.document.read_text(encoding="utf-8"))
        (self.folder / "fuzzers.txt").write_text("good common/new.cc\n", encoding="utf-8")
        with self.assertRaisesRegex(SystemExit, "fuzz.sh"):
            self.main("--write")

    def test_the_table_has_each_parser_and_no_other(self):
        self.run_with("good")
        self.assertEqual(self.main("--check"), 0)
        (self.folder / "fuzzers.txt").write_text("good common/new.cc\n", encoding="utf-8")
        self.assertEqual(self.main("--check"), 1)
        self.assertRegex(self.out.getvalue(), "common/good_fuzzer.cc .*not declared any more\n.*common/new.cc .*not in the table\n")

    def test_a_row_without_runs_is_neither_kept_nor_counted(self):
        self.run_with("good")
        (self.folder / "coverage" / "good.profraw").unlink()
        text = self.document.read_text(encoding="utf-8")
        self.document.write_text(text.replace(" 1,234,567 | 90 |\n", "\n"), encoding="utf-8")
        self.assertIn("| `common/good_fuzzer.cc` | `good` | 10 | 90 % |\n", self.document.read_text(encoding="utf-8"))
        self.assertEqual(self.main("--check"), 1)
        self.assertIn("common/good_fuzzer.cc (good): not in the table\n", self.out.getvalue())
        with self.assertRaisesRegex(SystemExit, "fuzz.sh"):
            self.main("--write")

    def test_refuses_a_parser_that_is_not_linked(self):
        self.run_with("good")
        (self.folder / "fuzzers.txt").write_text("good common/other.cc\n", encoding="utf-8")
        with self.assertRaisesRegex(SystemExit, "does not have"):
            self.main()


if __name__ == "__main__":
    unittest.main()
