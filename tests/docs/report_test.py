# SPDX-License-Identifier: Apache-2.0
"""The output in docs/report.md is what `jobscope report` and `jobscope diff` print of the runs of build/tests/made_runs.

  report_test.py BUILD_DIRECTORY
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import documents
from programs import run

BUILD = pathlib.Path()


def answer(text):
    """What stands before the tables."""
    return text.strip("\n").split("\n\n")[0]


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="jobscope-report-")
        cls.addClassCleanup(scratch.cleanup)
        cls.runs = pathlib.Path(scratch.name)
        run(BUILD / "tests" / "made_runs", cls.runs)

    def report(self, name):
        return answer(run(BUILD / "bin" / "jobscope", "report", self.runs / name))

    def test_verdicts(self):
        """A block for each run, or for several: "`few_steps`, `missing`: …" stands before it."""
        text = (documents.ROOT / "docs/report.md").read_text(encoding="utf-8")
        shown = {}
        for match in re.finditer(r"^(`\w+`(?:, `\w+`)*): [^\n]*\n```text\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL):
            names = re.findall(r"`(\w+)`", match[1])
            shown.update(zip(names, match[2].split("\n\n"), strict=True))
        self.assertEqual(set(shown), {path.name for path in self.runs.iterdir()} - {"slower", "short"})  # which are for the diff
        for name, verdict in shown.items():
            with self.subTest(run=name):
                self.assertEqual(verdict, self.report(name))

    def test_diff(self):
        command, shown = documents.block("docs/report.md", "console", "$ jobscope diff").text.split("\n", 1)
        words = command.removeprefix("$ ").split()
        runs = {"before": self.runs / "training", "after": self.runs / "slower"}
        done = subprocess.run([BUILD / "bin" / words[0], *(runs.get(pathlib.Path(word).name, word) for word in words[1:])],
                              stdout=subprocess.PIPE, text=True, check=False, timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 1, "a regression")
        self.assertEqual(answer(shown), answer(done.stdout))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
