#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the figures of two bench runs, and lists those that got worse beyond noise.

  tools/venv.sh --run bench/compare.py BEFORE.json AFTER.json

Reads what Google Benchmark writes (with --benchmark_repetitions, so that there is a spread), and what embed_cost and the
benches in Python write (figures.py). A figure is worse if its median is worse by more than --least, and its values are worse by the
one-sided Mann-Whitney test at the level --level. With fewer than four values on a side that test cannot decide, and the
row says so. Exit code: 0; 1 if something got worse; 2 if a file cannot be compared.
"""
import argparse
import statistics
import sys

import figures
from scipy import stats

LEAST_VALUES = 4  # per side: with three and three, the level is 0.05 at best


def read(path):
    try:
        return {name: (one["own"], one["better"]) for name, one in figures.load(path).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"compare: {path}: {error!r}: it is no result file of a bench", file=sys.stderr)
        sys.exit(2)


def judge(before, after, better, least, level):
    """Returns (ratio of the medians, "better" | "worse" | "same" | "too few values")."""
    old, new = statistics.median(before), statistics.median(after)
    ratio = new / old if old else float("inf") if new else 1.0
    grew = new - old > least * abs(old)
    shrank = old - new > least * abs(old)
    if not grew and not shrank:
        return ratio, "same"
    if min(len(before), len(after)) < LEAST_VALUES:
        return ratio, "too few values"
    p = stats.mannwhitneyu(after, before, alternative="greater" if grew else "less").pvalue
    if p > level:
        return ratio, "same"
    return ratio, "worse" if grew == (better == "lower") else "better"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--least", type=float, default=0.05, help="a change of the median by less than this share is none (0.05)")
    parser.add_argument("--level", type=float, default=0.05, help="largest probability that noise alone did it (0.05)")
    options = parser.parse_args()
    before, after = read(options.before), read(options.after)
    common = [name for name in before if name in after]
    if not common:
        print(f"compare: {options.before} and {options.after} have no figure in common", file=sys.stderr)
        return 2
    worse = 0
    print("| what | before | after | after / before | n | verdict |")
    print("|---|---|---|---|---|---|")
    for name in common:
        (old, better), (new, _) = before[name], after[name]
        ratio, verdict = judge(old, new, better, options.least, options.level)
        worse += verdict == "worse"
        print(f"| {name} | {statistics.median(old):.4g} | {statistics.median(new):.4g} | {ratio:.2f} | {len(old)}, {len(new)} | {verdict} |")
    for name in [*(set(before) - set(after)), *(set(after) - set(before))]:
        print(f"| {name} | | | | | only in one of them |")
    print(f"compare: {worse} of {len(common)} figures got worse")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
