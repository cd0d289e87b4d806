#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long Chromium takes to open the report's HTML from file://, until it is painted. Budgets: docs/report.md, Costs.

usage: report_page_bench.py JOBSCOPE MADE_RUNS [--json FILE]     exit 77: no Chromium is installed
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "browser"))
from browser import Browser, find_chromium  # noqa: E402

RUNS = {"training": (8, 1.0), "crowd": (1024, 5.0)}  # workers, budget in seconds


def open_seconds(page):
    """In a browser of its own: nothing is cached."""
    with Browser(find_chromium()) as browser:
        browser.size(1280, 900)
        begin = time.monotonic()
        browser.open(page)
        return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("jobscope")
    parser.add_argument("made_runs")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if find_chromium() is None:
        print("skipped: no Chromium is installed; tools/install_deps.sh interop installs chromium-headless-shell")
        return 77
    figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([arguments.made_runs, scratch, *RUNS], check=True)
        for run, (workers, budget) in RUNS.items():
            page = pathlib.Path(scratch) / f"{run}.html"
            begin = time.monotonic()
            subprocess.run([arguments.jobscope, "report", f"{scratch}/{run}", f"--html={page}"], check=True, stdout=subprocess.DEVNULL)
            made = time.monotonic() - begin
            seconds = [open_seconds(page) for _ in range(arguments.rounds)]
            figures[run] = {"workers": workers, "budget_s": budget, "report_s": made, "bytes": page.stat().st_size, "open_s": seconds}
            print(f"{workers} workers: page of {page.stat().st_size / 1e6:.2f} MB, made in {made:.2f} s, opened in "
                  f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}; budget {budget:g} s)")  # fmt: skip
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
