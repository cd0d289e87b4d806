# SPDX-License-Identifier: Apache-2.0
"""Whether captures make training steps slower: steps in windows with a capture, beside windows without, in turn.

Two processes that compute the same differ by 1 to 2 % for as long as they run (where their memory lies), and so do two halves of
an hour (the machine's load). So each window's figure is the captured process's median step relative to that of a process without
a server in the same window, and only figures of the same two processes are compared.
"""
import os
import statistics
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

import window_pairs  # noqa: E402

WINDOW_MS = 1000
# How much longer steps may take, beyond the error.
MAX_SLOWER = 1.02
LEVEL = 0.997  # of the intervals
MIN_PAIRS = 30  # fewer tell nothing of a machine whose load changes
SLOWER, AS_FAST = "SLOWER", "as fast"
CAPTURED, BETWEEN = "with a capture", "between captures"


def relative(captured, alone):
    """Returns the figure of a window: the step time of the captured process relative to that of the process alone; None without a step of
    both. The times are in ns; 0: no step ended in the window."""
    return captured / alone if captured and alone else None


def measure(captured_window, idle_window, pairs):
    """`captured_window`, `idle_window`: functions that let a window pass and return its figure."""
    return window_pairs.take_turns({CAPTURED: captured_window, BETWEEN: idle_window}, pairs)


def compare(before, after):
    """(text, SLOWER, AS_FAST or None: too few windows to decide). `before`, `after`: what measure() returned before and after a soak."""
    rows = {
        "during captures, relative to between them, before the phases above": window_pairs.ratios(before[CAPTURED], before[BETWEEN]),
        "during captures, relative to between them, after the phases above": window_pairs.ratios(after[CAPTURED], after[BETWEEN]),
        "between captures, after the phases above relative to before them": window_pairs.ratios(after[BETWEEN], before[BETWEEN]),
    }
    if min(map(len, rows.values())) < MIN_PAIRS:
        return f"Step times were not compared: that takes {MIN_PAIRS} windows with a capture, and as many without.\n", None
    slower = False
    text = [f"| CPU time of a training step | median [{LEVEL:.1%} interval] | windows |\n|---|---|---|\n"]
    for what, values in rows.items():
        low, high = window_pairs.interval(values, LEVEL)
        slower = slower or low > MAX_SLOWER
        text.append(f"| {what} | {statistics.median(values):.4f} [{low:.4f}, {high:.4f}] | {len(values)} |\n")
    text.append(f"\nA window lasts {WINDOW_MS / 1000:g} s. A ratio certainly above {MAX_SLOWER}, with its whole interval, is a failure.\n")
    return "".join(text), SLOWER if slower else AS_FAST
