# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of tracing Python functions for a training step, by level.

  PYTHONPATH=build/python python3 bench/python_tracer_bench.py [--rounds N] [--steps N] [--json FILE]

Three kinds of step, each of about 10 ms:
  python   functions of some 25 us, in pure Python
  calls    a recursion of functions that only call each other: the worst case of level 2
  native   calls that release the GIL, like those of NumPy and PyTorch, with little Python in between

Each round measures no capture, and captures at levels 0, 1 and 2, in turn, so that other load affects all of them
alike. Prints ratios of the median step to that without a capture: the median over the rounds, and the least and
largest.
"""
import argparse
import hashlib
import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time

import figures
import jobscope

WAYS = (None, 0, 1, 2)


def small(count):
    total = 0
    for i in range(count):
        total += i * i
    return total


def middle(count):
    return sum(small(300) for _ in range(count))


def python_step():
    for _ in range(40):
        middle(10)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def calls_step():
    fibonacci(22)


BLOCK = bytes(1 << 20)


def native_step():
    for _ in range(10):
        hashlib.sha256(BLOCK).digest()
        small(20)


STEPS = {"python": python_step, "calls": calls_step, "native": native_step}


def median_step(step, count):
    """Returns (wall time, CPU time of the thread) of the median step in ns."""
    walls, cpus = [], []
    for _ in range(count):
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        step()
        walls.append(time.perf_counter_ns() - wall)
        cpus.append(time.thread_time_ns() - cpu)
    return statistics.median(walls), statistics.median(cpus)


def measure(step, level, count, logdir):
    if level is None:
        return (*median_step(step, count), 0, 0)
    jobscope.start(logdir, python_tracer_level=level)
    wall, cpu = median_step(step, count)
    result = jobscope.stop()
    return wall, cpu, result.events, result.lost


def bench(step, rounds, count, logdir):
    step()
    ratios = {level: {"wall": [], "cpu": [], "events": [], "lost": 0} for level in WAYS[1:]}
    base = []
    for _ in range(rounds):
        measured = {level: measure(step, level, count, logdir) for level in WAYS}
        wall, cpu = measured[None][:2]
        base.append(wall)
        for level in WAYS[1:]:
            ratios[level]["wall"].append(measured[level][0] / wall)
            ratios[level]["cpu"].append(measured[level][1] / cpu)
            ratios[level]["events"].append(measured[level][2])
            ratios[level]["lost"] += measured[level][3]
    return statistics.median(base), ratios


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=0, help="threads that wait, beside the one that is measured")
    parser.add_argument("--json", help="writes the figures there")
    arguments = parser.parse_args()
    leave = threading.Event()
    waiters = [threading.Thread(target=leave.wait) for _ in range(arguments.threads)]
    for waiter in waiters:
        waiter.start()
    logdir = tempfile.mkdtemp(prefix="jobscope-bench-")
    where, results = figures.machine(), []
    try:
        print(f"CPython {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, "
              f"{arguments.rounds} rounds of {arguments.steps} steps, {arguments.threads} waiting threads")
        print("| step | level | wall | CPU of the thread | events per s | lost |")
        print("|---|---|---|---|---|---|")
        for name, step in STEPS.items():
            base, ratios = bench(step, arguments.rounds, arguments.steps, logdir)
            for level, found in ratios.items():
                results += [figures.figure(f"{name} step, level {level}, {key}", "x", found[key]) for key in ("wall", "cpu")]
                rate = statistics.median(found["events"]) / (arguments.steps * base * 1e-9)
                print(f"| {name}, {base / 1e6:.1f} ms | {level} | {spread(found['wall'])} | {spread(found['cpu'])} | "
                      f"{rate:,.0f} | {found['lost']} |")
    finally:
        leave.set()
        shutil.rmtree(logdir, ignore_errors=True)
    if arguments.json:
        figures.save(arguments.json, where, results, "jobscope")
    return 0


if __name__ == "__main__":
    sys.exit(main())
