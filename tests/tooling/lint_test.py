#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lint.sh over a tree of its own, with tools that find nothing: its checks by grep."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


# Each of the tools, git too.
TOOL = """#!/bin/sh
if [ "$1 $2" = "ls-files *.cc" ]; then for file in $TRACKED; do echo "$file"; done; fi
"""


def lint(tracked, text):
    """(exit code, names of the checks that failed) where git lists `tracked`, and the only file there, a.cc, has that text."""
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        (tree / "tests/tooling").mkdir(parents=True)
        shutil.copy(ROOT / "tests/tooling/lint.sh", tree / "tests/tooling")
        (tree / "a.cc").write_text(text, "utf-8")
        (tree / "bin").mkdir()
        for tool in ("python3", "pyflakes3", "clang-format", "shellcheck", "git"):
            (tree / "bin" / tool).write_text(TOOL, "utf-8")
            (tree / "bin" / tool).chmod(0o755)
        environment = {**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}", "TRACKED": " ".join(tracked)}
        command, pipes = [tree / "tests/tooling/lint.sh", "build"], {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        done = subprocess.run(command, text=True, check=False, env=environment, **pipes)
        names = [line[len("lint: ") : -len(": FAILED")] for line in done.stdout.splitlines() if line.endswith(": FAILED")]
        return done.returncode, names


class LintTest(unittest.TestCase):
    LICENCES, LOOSE_ENDS, LINES = "licence lines", "loose ends", "lines of at most 100 columns"

    def test_nothing_to_find(self):
        self.assertEqual(lint(["a.cc"], LICENCE), (0, []))

    def test_what_is_found(self):
        self.assertEqual(lint(["a.cc"], ""), (1, [self.LICENCES]))
        self.assertEqual(lint(["a.cc"], LICENCE + "// TO" "DO\n"), (1, [self.LOOSE_ENDS]))
        self.assertEqual(lint(["a.cc"], LICENCE + "//" + 99 * "x" + "\n"), (1, [self.LINES]))

    def test_a_file_that_cannot_be_read(self):
        self.assertEqual(lint(["a.cc", "gone.cc"], LICENCE), (1, [self.LICENCES, self.LOOSE_ENDS, self.LINES]))

    def test_a_git_that_lists_nothing(self):
        """As in a clone of another user."""
        self.assertEqual(lint([], LICENCE), (2, []))


if __name__ == "__main__":
    unittest.main()
