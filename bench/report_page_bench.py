#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long `jobscope report` takes and how much memory, and how long Chromium takes to open its page from file://, until it is painted.
Budgets: docs/report.md, Costs.

usage: report_page_bench.py JOBSCOPE MADE_RUNS [--json FILE]     exit 77: no Chromium is installed, only the program was measured; 1: too much memory
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import figures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "browser"))
from browser import Browser, find_chromium  # noqa: E402

RUNS = {"training": (8, 1.0), "crowd": (1024, 5.0)}  # pages: workers, budget in seconds
# The program: directory, what is in it, budgets in seconds and MiB. That of memory is one of reading: most of the memory for 1,024
# workers is their digests, of up to 200 KiB each.
WHOLE_RUNS = (
    ("eight", "8 workers of 20,000 events in 2 s", 1, 200),
    ("thousand", "1,024 workers of 20,000 events each", 10, None),
    ("large", "one large part", None, 200),
)

PS_PER_S = 10**12
STEPS = 100  # in 2 s
COLLECTIVES = 5  # per step
NAMES = 300


def varint(value):
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, content):
    content = content.encode() if isinstance(content, str) else content
    return b"".join((varint(field << 3 | 2), varint(len(content)), content))


def event(name, begin_ps, duration_ps, *stats):
    return message(4, number(1, name) + number(2, begin_ps) + number(3, duration_ps) + b"".join(message(4, stat) for stat in stats))


def plane(name, lines, events, stats):
    """Names of events and stats by their ids from 1."""
    content = bytearray(message(2, name))
    for line, (line_name, line_events) in enumerate(lines, 1):
        content += message(3, number(1, line) + message(2, line_name) + line_events)
    for field, names in ((4, events), (5, stats)):
        for key, text in enumerate(names, 1):
            content += message(field, number(1, key) + message(2, number(1, key) + message(2, text)))
    return message(1, content)


def trace(rank, threads, events_per_thread):
    """Two seconds of a worker: steps, input waits and collectives on the first thread, pairs of nested operators on all."""
    step_ps = 2 * PS_PER_S // STEPS
    own_ps = step_ps * (8 if rank == 5 else 6) // 10
    operators = [f"aten::operator_{i}" for i in range(NAMES)]
    spacing_ps = 2 * PS_PER_S // (events_per_thread // 2)

    def pairs(begin_ps, end_ps):
        chunk = bytearray()
        for i, at_ps in enumerate(range(begin_ps, end_ps - spacing_ps, spacing_ps)):
            name = (begin_ps // step_ps * 31 + i * 7) % NAMES + 1
            chunk += event(name, at_ps, spacing_ps * 9 // 10)
            chunk += event(name % NAMES + 1, at_ps + spacing_ps // 10, spacing_ps * 6 // 10)
        return chunk

    first = bytearray()
    collectives = bytearray()
    for step in range(STEPS):
        begin_ps = step * step_ps
        first += event(NAMES + 1, begin_ps, step_ps, number(1, 1) + number(4, 1), number(1, 2) + number(4, step))
        first += event(NAMES + 2, begin_ps, step_ps // 20)
        first += pairs(begin_ps + step_ps // 20, begin_ps + own_ps)
        for i in range(COLLECTIVES):
            stats = (number(1, 1) + number(4, COLLECTIVES * step + i), number(1, 2) + message(5, "0"), number(1, 3) + number(4, 4096))
            reduce_ps = (step_ps - own_ps) // COLLECTIVES
            collectives += event(1, begin_ps + own_ps + i * reduce_ps, reduce_ps * 9 // 10, *stats)
    other = bytes(pairs(0, 2 * PS_PER_S))
    lines = [("MainThread/1", bytes(first))] + [(f"thread/{t}", other) for t in range(2, threads + 1)]
    host = plane("/host:CPU", lines, [*operators, "train", "IteratorGetNext next_batch"], ["_r", "step_num"])
    asynchronous = plane("/device:CUSTOM:async", [("collectives", bytes(collectives))], ["gloo:all_reduce"], ["sequence", "process_group", "bytes"])
    return host + asynchronous


def write_run(directory, traces, workers):
    """A run of `workers` that have `traces` in turn, as hard links."""
    directory.mkdir()
    rows = []
    for rank in range(workers):
        path = directory / f"w{rank}.xplane.pb"
        if rank < len(traces):
            path.write_bytes(traces[rank])
        else:
            os.link(directory / f"w{rank % len(traces)}.xplane.pb", path)
        rows.append({"name": f"w{rank}", "outcome": "ok", "rank": rank, "host": f"node{rank // 8}", "aligned": True,
                     "clock_uncertainty_ns": 20000, "lost": 0, "files": [{"path": path.name}]})  # fmt: skip
    (directory / "capture.json").write_text(json.dumps({"schema": 1, "run": directory.name, "workers": rows}), "utf-8")


# A process of its own, because the memory of a child counts from that of the process that starts it.
RUN = """import resource, subprocess, sys, time
begin = time.monotonic()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"""


def report(jobscope, run):
    """Seconds, and the most memory that the process had, in MiB."""
    done = subprocess.run([sys.executable, "-c", RUN, jobscope, "report", run], stdout=subprocess.PIPE, check=True)
    seconds, memory = done.stdout.split()
    return float(seconds), float(memory)


def measure_program(jobscope, scratch, rounds):
    """The figures, and whether the memory is within its budget: unlike the times, it does not depend on what else the machine does."""
    eight = [trace(rank, 8, 2500) for rank in range(8)]
    large = trace(0, 166, 100_000)
    write_run(scratch / "eight", eight, 8)
    write_run(scratch / "thousand", eight, 1024)
    write_run(scratch / "large", [large], 1)
    results = []
    within = True
    for run, what, budget_s, budget_mib in WHOLE_RUNS:
        measured = [report(jobscope, scratch / run) for _ in range(rounds)]
        seconds = [s for s, _ in measured]
        memory = max(mib for _, mib in measured)
        within = within and (budget_mib is None or memory <= budget_mib)
        budget = " and ".join(f"{bound} {unit}" for bound, unit in ((budget_s, "s"), (budget_mib, "MiB")) if bound)
        size = f" of {len(large) >> 20} MiB" if run == "large" else ""
        print(f"{what}{size}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), at most {memory:.0f} MiB; "
              f"budget {budget}")  # fmt: skip
        results += [figures.figure(f"report, {what}", "s", seconds), figures.figure(f"memory of the report, {what}", "MiB", [memory])]
    return results, within


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
    where = figures.machine()
    with tempfile.TemporaryDirectory() as scratch:
        results, within_budget = measure_program(arguments.jobscope, pathlib.Path(scratch), arguments.rounds)
        runs = RUNS if find_chromium() is not None else {}
        if runs:
            subprocess.run([arguments.made_runs, scratch, *runs], check=True)
        for run, (workers, budget) in runs.items():
            page = pathlib.Path(scratch) / f"{run}.html"
            begin = time.monotonic()
            subprocess.run([arguments.jobscope, "report", f"{scratch}/{run}", f"--html={page}"], check=True, stdout=subprocess.DEVNULL)
            made = time.monotonic() - begin
            seconds = [open_seconds(page) for _ in range(arguments.rounds)]
            results += [figures.figure(f"page opened, {workers} workers", "s", seconds),
                        figures.figure(f"report made, {workers} workers", "s", [made])]  # fmt: skip
            print(f"{workers} workers: page of {page.stat().st_size / 1e6:.2f} MB, made in {made:.2f} s, opened in "
                  f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}; budget {budget:g} s)")  # fmt: skip
    if arguments.json:
        figures.save(arguments.json, where, results)
    if not within_budget:
        print("the memory exceeds its budget")
        return 1
    if not runs:
        print("pages skipped: no Chromium is installed; tools/install_deps.sh interop installs chromium-headless-shell")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
