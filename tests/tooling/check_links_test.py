#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_links.py: dead links, headings and paths are found; valid ones, and text that is not a path, are not."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).with_name("check_links.py")


def check(readme):
    """Runs the checker on a tree with this README.md; returns (exit code, output)."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path in ("docs/design", "client/run", "tests/a"):
            (root / path).mkdir(parents=True)
        (root / "docs/page.md").write_text("# Page\n\n## What it's for, `x()`\n", "utf-8")
        (root / "client/run/spool.h").touch()
        (root / "README.md").write_text(readme, "utf-8")
        run = subprocess.run([sys.executable, str(CHECKER), folder], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout


class CheckLinksTest(unittest.TestCase):
    def test_what_exists_passes(self):
        text = """# Top
        [page](docs/page.md), [part](docs/page.md#what-its-for-x), [here](#top), [web](https://example.org/x).
        `client/run/spool.h`, `client/run/spool`, `client/run/`, `client/*/spool.h`, `client/run/spool.h:Spool::Add`, `build/bin/x`, `a/b`.
        """.replace("        ", "")
        self.assertEqual(check(text)[0], 0, check(text)[1])

    def test_what_does_not_exist_is_found(self):
        for text, name in (
            ("[x](docs/pages.md)", "docs/pages.md"),
            ("[x](docs/page.md#other)", "docs/page.md#other"),
            ("[x](#other)", "#other"),
            ("`tests/xspace/`", "tests/xspace/"),
            ("text\n\n|---|:--|\n| a | b |\n", "the header of a table |---|:--|"),
            ("`client/run/spool.cc`", "client/run/spool.cc"),
            ("`client/run/spools`", "client/run/spools"),
            ("`client/runs/spool.h:Spool::Add`", "client/runs/spool.h"),
        ):
            with self.subTest(text):
                code, output = check(text)
                self.assertEqual(code, 1)
                self.assertIn(f"README.md: {name} does not exist", output)

    def test_examples_are_not_read(self):
        self.assertEqual(check("```\n`tests/xspace/` [x](docs/pages.md)\n```\n")[0], 0)


if __name__ == "__main__":
    unittest.main()
