#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/window_pairs.py: load that rises favours no way; an interval contains the median as often as it says."""
import os
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import window_pairs  # noqa: E402


class TurnsTest(unittest.TestCase):
    def test_each_second_round_is_reversed(self):
        order = []
        ways = {way: lambda way=way: order.append(way) or len(order) for way in "abc"}
        figures = window_pairs.take_turns(ways, 3)
        self.assertEqual("".join(order), "abccbaabc")
        self.assertEqual(figures, {"a": [1, 6, 7], "b": [2, 5, 8], "c": [3, 4, 9]})

    def test_load_that_rises(self):
        windows = iter(range(100, 1000))
        figures = window_pairs.take_turns({"one": lambda: next(windows), "other": lambda: next(windows)}, 40)
        low, high = window_pairs.interval(window_pairs.ratios(figures["one"], figures["other"]))
        self.assertLess(low, 1)
        self.assertGreater(high, 1)

    def test_rounds_without_a_figure_are_left_out(self):
        self.assertEqual(window_pairs.ratios([2, None, 6, 8], [1, 1, None, 4]), [2, 2])


class IntervalTest(unittest.TestCase):
    def test_ranks(self):
        self.assertIsNone(window_pairs.interval([1, 2, 3, 4, 5]))
        self.assertEqual(window_pairs.interval([6, 5, 4, 3, 2, 1]), (1, 6))
        self.assertEqual(window_pairs.interval(range(1, 21)), (6, 15))
        self.assertEqual(window_pairs.interval(range(1, 21), level=0.99), (4, 17))

    def test_it_contains_the_median(self):
        chance = random.Random(5)
        contained = 0
        for _ in range(1000):
            low, high = window_pairs.interval([chance.lognormvariate(0, 1) for _ in range(30)])
            contained += low <= 1 <= high
        self.assertGreaterEqual(contained, 940)

    def test_summary(self):
        self.assertEqual(window_pairs.summary([1.5, 1.25], 3), "1.375")
        self.assertEqual(window_pairs.summary([1.0, 1.1, 1.2, 1.3, 1.4, 9.0], 2), "1.25 [1.00, 9.00]")


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    unittest.main(verbosity=2)
