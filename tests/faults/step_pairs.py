# SPDX-License-Identifier: Apache-2.0
"""Whether captures make training steps slower: steps in windows with a capture, beside windows without, in turn.

Two processes that compute the same differ by 1 to 2 % for as long as they run (where their memory lies), and so do two halves of
an hour (the machine's load). So each window's figure is the captured process's median step relative to that of a process without
a server in the same window, and only figures of the same two processes are compared.
"""
import math
import statistics

WINDOW_MS = 1000
# How much longer steps may take, beyond the error.
MAX_SLOWER = 1.02
MIN_PAIRS = 30  # fewer tell nothing of a machine whose load changes
SLOWER, AS_FAST = "SLOWER", "as fast"


def median(values):
    """(median, its standard error), of values that are normally distributed but for outliers."""
    middle = statistics.median(values)
    deviation = 1.4826 * statistics.median(abs(value - middle) for value in values)
    return middle, 1.2533 * deviation / math.sqrt(len(values))


class StepPairs:
    """Relative step times of pairs of windows."""

    def __init__(self):
        self.captured, self.between = [], []

    def add(self, captured, between):
        """Of a window with a capture and of one without: (captured process, process alone), ns per step. 0: no step ended in it."""
        if all((*captured, *between)):
            self.captured.append(captured[0] / captured[1])
            self.between.append(between[0] / between[1])

    def during(self):
        """Step times during captures, relative to those between them, and the error."""
        return median([one / other for one, other in zip(self.captured, self.between)])

    def later(self, earlier):
        """Step times between these captures, relative to those between earlier ones, and the error."""
        (now, error), (before, error_before) = median(self.between), median(earlier.between)
        return now / before, now / before * math.hypot(error / now, error_before / before)


def measure(captured_window, idle_window, pairs):
    """`captured_window`, `idle_window`: functions that let a window pass and return the step times of both processes in it."""
    steps = StepPairs()
    for _ in range(pairs):
        captured = captured_window()
        steps.add(captured, idle_window())
    return steps


def compare(before, after):
    """(text, SLOWER, AS_FAST or None: too few windows to decide). `before`, `after`: StepPairs of before and after a soak."""
    if min(len(before.between), len(after.between)) < MIN_PAIRS:
        return f"Step times were not compared: that takes {MIN_PAIRS} windows with a capture, and as many without.\n", None
    rows = {
        "during captures, relative to between them, before the phases above": before.during(),
        "during captures, relative to between them, after the phases above": after.during(),
        "between captures, after the phases above relative to before them": after.later(before),
    }
    slower = any(ratio > MAX_SLOWER + 3 * error for ratio, error in rows.values())
    text = ["| CPU time of a training step | median |\n|---|---|\n"]
    text += [f"| {what} | {ratio:.4f} ± {error:.4f} |\n" for what, (ratio, error) in rows.items()]
    text.append(
        f"\nEach median is of {len(before.between)} and {len(after.between)} windows of {WINDOW_MS / 1000:g} s with a capture, and as many without; a ratio "
        f"above {MAX_SLOWER}, beyond three standard errors, is a failure.\n"
    )
    return "".join(text), SLOWER if slower else AS_FAST
