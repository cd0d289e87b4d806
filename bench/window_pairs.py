# SPDX-License-Identifier: Apache-2.0
"""Compares short windows of time that take turns, such as windows with a capture and without.

A machine's load differs from minute to minute by more than a capture costs, so a window is compared with its neighbour only. The
result is the median of the ratios, with an interval by the sign test, which needs no assumption about their distribution. Standard
library only.
"""
import math
import statistics


def take_turns(ways, rounds):
    """Returns {way: the figures of its windows, one per round}. `ways`: {way: function that lets a window pass and returns its figure, or
    None if there is none}. Each second round has the reverse order, so that a load that rises or falls favours none of them."""
    figures = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways)[:: -1 if number % 2 else 1]:
            figures[way].append(ways[way]())
    return figures


def ratios(figures, others):
    """Returns the ratios of windows of the same round, without the rounds that lack a figure."""
    return [figure / other for figure, other in zip(figures, others) if figure is not None and other is not None]


def interval(values, level=0.95):
    """Returns (low, high), between which the median is with at least the probability `level`; None if that takes more values."""
    count, beyond, outside = len(values), 0, 0
    # A value is above the median with the probability 1/2: `outside` counts the orders in which fewer than `beyond` values are.
    while outside + math.comb(count, beyond) <= (1 - level) / 2 * 2**count:
        outside += math.comb(count, beyond)
        beyond += 1
    if beyond == 0:
        return None
    ordered = sorted(values)
    return ordered[beyond - 1], ordered[-beyond]


def summary(values, digits):
    """Returns "median [low, high]" with the 95 % interval, if there is one."""
    text, between = f"{statistics.median(values):.{digits}f}", interval(values)
    return text + (f" [{between[0]:.{digits}f}, {between[1]:.{digits}f}]" if between else "")
