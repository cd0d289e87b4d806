#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the CUDA collector on this machine's GPU, from the bundle that `make gpu-bundle` made. Needs Python 3.9 and a driver.

usage: run_gpu_tests [--out=DIR] [--budget_s=SECONDS] [--only=CHECK,…] [--skip=CHECK,…] [--captures=N] [--cuda=12]
                     [--libcupti=FILE] [--list]

Each check is a process of its own with a deadline. Writes DIR/report.json, DIR/report.md, DIR/logs.tar.gz and the recordings
that were made. Exit code: 0 all passed · 1 some failed · 2 usage · 3 none failed, but the budget ended before all had run ·
77 no GPU: nothing was tested.
"""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
# In the bundle all modules lie beside this file; in the tree the trace reader lies with the Python tests.
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python")]

from gpu_tests import runner  # noqa: E402


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("--out", default="gpu-test-results")
    parser.add_argument("--budget_s", type=float, default=3600)
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--captures", type=int, default=0)
    parser.add_argument("--cuda", type=int, choices=(12, 13), default=0, help="programs and libcupti of this CUDA; default: the driver's")
    parser.add_argument("--libcupti", default="", help="the workers load this library; of the CUDA of their programs")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--root", default=HERE, help="the bundle")
    parser.add_argument("--one", help="of the runner itself: a check's options, as a file")
    options = parser.parse_args()
    if options.one:
        return runner.run_one(options.one)
    if options.list:
        return runner.list_checks()
    return runner.run_all(options)


if __name__ == "__main__":
    sys.exit(main())
