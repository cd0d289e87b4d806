#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report's HTML file in Chromium, opened from file://: no requests, no errors, light and dark, keys, print, no scripts.

usage: report_page_test.py JOBSCOPE MADE_RUNS [SCREENSHOTS]     exit 77: no Chromium is installed
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, find_chromium

JOBSCOPE, MADE_RUNS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
RUNS = {"training": 8, "crowd": 1024}


class ReportPageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        runs = pathlib.Path(scratch.name)
        cls.screenshots = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else runs / "screenshots"
        cls.screenshots.mkdir(parents=True, exist_ok=True)
        subprocess.run([MADE_RUNS, runs, *RUNS], check=True)
        cls.pages = {}
        for run in RUNS:
            cls.pages[run] = runs / f"{run}.html"
            subprocess.run([JOBSCOPE, "report", runs / run, f"--html={cls.pages[run]}"], check=True, stdout=subprocess.DEVNULL)

    def setUp(self):
        self.browser = self.enterContext(Browser(find_chromium()))
        self.browser.size(1280, 900)

    def open(self, run):
        self.browser.open(self.pages[run])

    def assert_quiet(self, run):
        """Nothing but the file itself was asked for, and nothing went wrong."""
        self.assertEqual(self.browser.requests, [self.pages[run].resolve().as_uri()])
        self.assertEqual(self.browser.complaints, [])

    def focus(self, selector):
        """Presses Tab until an element that `selector` matches has the focus."""
        for _ in range(1500):
            self.browser.press("Tab")
            if self.browser.evaluate(f"document.activeElement.matches({selector!r})"):
                return
        self.fail(f"Tab does not reach {selector}")

    def test_light_and_dark(self):
        for run in RUNS:
            grounds = []
            for scheme in ("light", "dark"):
                with self.subTest(run=run, scheme=scheme):
                    self.browser.media(scheme=scheme)
                    self.open(run)
                    self.assert_quiet(run)
                    self.assertIn("rank", self.browser.evaluate("document.querySelector('h1').textContent"))
                    grounds.append(self.browser.evaluate("getComputedStyle(document.body).backgroundColor"))
                    drawn = "[...document.querySelectorAll('canvas')].map((c) => c.width * c.height)"
                    self.assertTrue(all(self.browser.evaluate(drawn)), "a chart has no size")
                    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                    self.assertEqual(self.browser.evaluate(wide), 0, "the page scrolls sideways")
                    self.browser.screenshot(self.screenshots / f"{run}_{scheme}.png")
            self.assertEqual(len(set(grounds)), 2, f"light and dark look alike: {grounds}")

    def test_tables_by_keys(self):
        self.open("training")
        self.focus("#operators th button")
        self.browser.press("Enter")
        head = "document.activeElement.parentElement"
        self.assertEqual(self.browser.evaluate(f"{head}.getAttribute('aria-sort')"), "descending")
        column = self.browser.evaluate(f"{head}.cellIndex")
        cells = f"[...document.querySelectorAll('#operators tbody tr')].map((row) => row.cells[{column}].textContent)"
        first = self.browser.evaluate(cells)
        self.browser.press("Enter")
        self.assertEqual(self.browser.evaluate(f"{head}.getAttribute('aria-sort')"), "ascending")
        self.assertEqual(self.browser.evaluate(cells), first[::-1])
        self.browser.evaluate("document.body.focus(), document.activeElement.blur()")
        self.focus("input[type=search][data-table=operators]")
        for key in "decode":
            self.browser.press(key)
        shown = "[...document.querySelectorAll('#operators tbody tr')].filter((r) => !r.hidden).map((r) => r.cells[0].textContent)"
        self.assertEqual(self.browser.evaluate(shown), ["decode_image"])
        self.assert_quiet("training")

    def test_order_of_a_column(self):
        cases = {
            "worker": ["10.0.0.12_6009", "10.0.0.2_6009", "10.0.0.2_6010", "9.0.0.1_6009", "rank 10", "rank 2", "rank 2 a", "x"],
            "p50 ms": ["not recorded", "10.50", "9.25", "", "100.00", "0.00", "not known", "2.00"],
        }
        orders = {
            "worker": [cases["worker"][i] for i in (3, 1, 2, 0, 5, 6, 4, 7)],
            "p50 ms": ["0.00", "2.00", "9.25", "10.50", "100.00"],
        }
        for title, texts in cases.items():
            with self.subTest(title):
                self.open("training")
                head = f"[...document.querySelectorAll('#workers th')].find((h) => h.textContent === {title!r})"
                cells = f"[...document.querySelectorAll('#workers tbody tr')].map((row) => row.cells[{head}.cellIndex])"
                self.assertEqual(self.browser.evaluate(f"{cells}.length"), len(texts))
                self.browser.evaluate(f"{cells}.forEach((cell, i) => {{ cell.textContent = {texts}[i]; }})")
                # The first click sorts downwards. What is not known comes last both times.
                order = orders[title]
                for wanted in (order[::-1], order):
                    self.browser.evaluate(f"{head}.querySelector('button').click()")
                    shown = self.browser.evaluate(f"{cells}.map((cell) => cell.textContent)")
                    self.assertEqual(shown[: len(order)], wanted)
                self.assert_quiet("training")

    def test_timeline_by_keys(self):
        self.open("training")
        self.focus(".pictures")
        reading = "document.activeElement.closest('figure').querySelector('.reading').textContent"
        self.assertIn("Arrow keys", self.browser.evaluate(reading))
        seen = []
        for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowDown"):
            self.browser.press(key)
            seen.append(self.browser.evaluate(reading))
        self.assertEqual(len(set(seen)), len(seen), seen)
        for text in seen:
            self.assertRegex(text, r"^rank \d.*: .* ms \(from [\d.]+ to [\d.]+ ms\)$")
        width = "document.activeElement.querySelector('.wide').clientWidth"
        before = self.browser.evaluate(width)
        self.browser.press("+")
        self.assertAlmostEqual(self.browser.evaluate(width), 2 * before, delta=2)
        self.browser.press("0")
        self.assertAlmostEqual(self.browser.evaluate(width), before, delta=2)
        self.assert_quiet("training")

    def test_print(self):
        for run in RUNS:
            with self.subTest(run=run):
                self.open(run)
                pdf = self.browser.pdf()
                self.assertGreater(len(re.findall(rb"/Type\s*/Page\b", pdf)), 2)
                self.browser.media(media="print")
                self.assertEqual(self.browser.evaluate("getComputedStyle(document.querySelector('.zoom')).display"), "none")
                self.browser.media()
                self.assert_quiet(run)

    def test_without_scripts(self):
        self.browser.call("Emulation.setScriptExecutionDisabled", value=True)
        self.browser.open(self.pages["training"], await_paint=False)
        # The test's own expressions run nevertheless.
        self.assertIn("rank 5", self.browser.evaluate("document.querySelector('h1').textContent"))
        self.assertGreater(self.browser.evaluate("document.querySelectorAll('#workers tbody tr').length"), 7)
        boxes = "[...document.querySelectorAll('.timeline svg.line')].map((s) => s.getBoundingClientRect()).filter((b) => b.width > 100)"
        self.assertGreater(self.browser.evaluate(f"{boxes}.length"), 50)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('.zoom').length"), 0)
        self.browser.screenshot(self.screenshots / "training_without_scripts.png")


if __name__ == "__main__":
    if find_chromium() is None:
        print("skipped: no Chromium is installed; tools/install_deps.sh interop installs chromium-headless-shell")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
