# SPDX-License-Identifier: Apache-2.0
"""The output in docs/report.md is what `jobscope report` and `jobscope diff` print of the runs of build/tests/made_runs.

  report_test.py BUILD_DIRECTORY
  report_test.py --write BUILD_DIRECTORY     writes the verdicts of the runs into docs/report.md
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
DOCUMENT = documents.ROOT / "docs/report.md"
# A block for each run, or for several: "`few_steps`, `missing`: …" precedes it.
EXAMPLE = re.compile(r"^(`\w+`(?:, `\w+`)*)(: [^\n]*\n```text\n)(.*?)(\n```)$", re.MULTILINE | re.DOTALL)


def examples():
    return list(EXAMPLE.finditer(DOCUMENT.read_text(encoding="utf-8")))


def names_of(example):
    return re.findall(r"`(\w+)`", example[1])


def answer(text):
    """The lines before the tables."""
    return text.strip("\n").split("\n\n")[0]


def verdict_of(directory):
    return answer(run(BUILD / "bin" / "jobscope", "report", directory))


def write():
    with tempfile.TemporaryDirectory(prefix="jobscope-report-") as scratch:
        run(BUILD / "tests" / "made_runs", scratch)

        def fill(example):
            verdicts = "\n\n".join(verdict_of(pathlib.Path(scratch) / name) for name in names_of(example))
            return f"{example[1]}{example[2]}{verdicts}{example[4]}"

        text = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(EXAMPLE.sub(fill, text), encoding="utf-8")


def texts_of(pattern, source):
    """The texts in C++ that follow `pattern`, each in one or more literals."""
    found = re.findall(pattern + r'\s*((?:"[^"]*"\s*)+);', (documents.ROOT / source).read_text(encoding="utf-8"))
    return ["".join(re.findall(r'"([^"]*)"', literals)) for literals in found]


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="jobscope-report-")
        cls.addClassCleanup(scratch.cleanup)
        cls.runs = pathlib.Path(scratch.name)
        run(BUILD / "tests" / "made_runs", cls.runs)

    def test_verdicts(self):
        shown = {}
        for example in examples():
            shown.update(zip(names_of(example), example[3].split("\n\n"), strict=True))
        self.assertEqual(set(shown), {path.name for path in self.runs.iterdir()} - {"slower", "short"})  # which are for the diff
        for name, verdict in shown.items():
            with self.subTest(run=name):
                self.assertEqual(verdict, verdict_of(self.runs / name))
        self.assertEqual(documents.block("README.md", "text", "median rank").text.strip(), shown["training"])

    def test_diff(self):
        command, shown = documents.block("docs/report.md", "console", "$ jobscope diff").text.split("\n", 1)
        words = command.removeprefix("$ ").split()
        runs = {"before": self.runs / "training", "after": self.runs / "slower"}
        done = subprocess.run([BUILD / "bin" / words[0], *(runs.get(pathlib.Path(word).name, word) for word in words[1:])],
                              stdout=subprocess.PIPE, text=True, check=False, timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 1, "a regression")
        self.assertEqual(answer(shown), answer(done.stdout))


class EveryVerdictHasAnExample(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shown = " ".join(" ".join(example[3] for example in examples()).split())

    def test_bounds(self):
        text = (documents.ROOT / "analysis/blame/bounds.cc").read_text(encoding="utf-8")
        titles = re.findall(r'\{StepClass::k\w+, [\d.]+, "([^"]+)"', text)
        self.assertEqual(len(titles), 12)
        for title in titles:
            with self.subTest(bound=title):
                self.assertIn(" are unexplained " if title == "unexplained" else f": {title}, ", self.shown)

    def test_advice(self):
        """All advice that is not a class's own, and that against limits."""
        advice = [text for text in texts_of(r"string_view kAdvice\w+ =", "analysis/blame/advice.h")
                  if not text.startswith("fix the reason")]  # of a run without a trace, of which `report` fails
        self.assertGreater(len(advice), 12)
        limits = texts_of("return", "analysis/blame/advice.cc")
        self.assertEqual(len(limits), 4)
        for text in advice + limits:
            with self.subTest(advice=text):
                self.assertIn(text, self.shown)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop()).resolve()
    if "--write" in sys.argv:
        write()
    else:
        unittest.main(verbosity=2)
