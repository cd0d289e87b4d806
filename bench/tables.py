#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/benchmarks.md from the result files of a run of bench/run.sh.

  python3 bench/tables.py OUT_DIRECTORY [--document FILE]

Each table names the machine, the versions and the date of its own runs. A table whose files are missing stays as it is; a figure that
was not measured is a dash. Standard library only.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys

import figures
import window_pairs

DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
HEADER = "| what | unit | n | jobscope: median [min, max] | stock: median [min, max] | stock / jobscope |\n|---|---|---|---|---|---|"
SCALE_FILES = ("scale_bench", "scale_10000", "scale_processes")

# (what, result file, its figure, factor into the unit of the budget, budget, unit). The best value is the least, or, with a budget
# that begins with ≥, the largest.
BUDGETS = (
    ("ordinary capture, wall minus duration", "capture_bench", "overhead, step loop [ms]", 1, "≤ 15", "ms"),
    ("1 M events/s for 1 s", "capture_bench", "overhead, 1 M events/s [ms]", 1, "≤ 50", "ms"),
    ("one thread at full speed for 1 s", "capture_bench", "overhead, one thread at full speed [ms]", 1, "≤ 300", "ms"),
    ("end of the recording to the file, ordinary", "capture_bench", "end to file, step loop [ms]", 1, "≤ 1", "ms"),
    ("end of the recording to the file, 1 M events/s", "capture_bench", "end to file, 1 M events/s [ms]", 1, "≤ 30", "ms"),
    ("end of the recording to the file, full speed", "capture_bench", "end to file, one thread at full speed [ms]", 1, "≤ 150", "ms"),
    ("the disk alone: the ordinary trace's bytes written and synced", "capture_bench",
     "the trace's bytes written and synced by one write, step loop [ms]", 1, None, "ms"),
    ("the disk alone: the bytes of 1 M events/s", "capture_bench",
     "the trace's bytes written and synced by one write, 1 M events/s [ms]", 1, None, "ms"),
    ("the disk alone: the bytes of full speed", "capture_bench",
     "the trace's bytes written and synced by one write, one thread at full speed [ms]", 1, None, "ms"),
    ("events lost, 5 M events/s, ring of 16 MiB", "capture_bench",
     "events lost and counted, 5 M events/s, ring of 16 MiB [events]", 1, "≤ 0", "events"),
    ("events kept, one thread at full speed, ring of 16 MiB", "capture_bench",
     "events kept, one thread at full speed, ring of 16 MiB [M/s]", 1, "≥ 15", "M/s"),
    ("events lost, bursts of 80 ms at 1 M/s", "capture_bench",
     "events lost and counted, 1 M events/s in bursts of 80 ms each 280 ms [events]", 1, "≤ 0", "events"),
    ("worker's CPU, first quiet capture of 2 s", "capture_bench", "CPU time of a quiet worker, first capture of 2 s [ms]", 1, "≤ 15", "ms"),
    ("worker's CPU, later quiet capture of 2 s", "capture_bench", "CPU time of a quiet worker, later capture of 2 s [ms]", 1, "≤ 5", "ms"),
    ("threads added to an idle worker", "embed_cost", "threads_added [threads]", 1, None, ""),
    ("wake-ups of an idle worker", "embed_cost", "idle_switches [1/s]", 1, None, "1/s"),
    ("active scope above two tick reads", "scope_bench", "Scope, above TwoTickReads", 1, "≤ 3", "ns"),
    ("active scope above two tick reads, two threads", "scope_bench", "ScopeTwoThreads/threads:2, above TwoTickReads", 1, "≤ 3", "ns"),
    ("four numbers, above the scope alone", "scope_bench", "ScopeWithFourNumbers, above Scope", 1, "≤ 8", "ns"),
    ("a string of 20 bytes, above the scope alone", "scope_bench", "ScopeWithString, above Scope", 1, "≤ 12", "ns"),
    ("drain and encode, plain", "drain_bench", "BM_DrainAndEncode/0/manual_time, rate", 1e-6, "≥ 25", "M/s"),
    ("drain and encode, integer", "drain_bench", "BM_DrainAndEncode/2/manual_time, rate", 1e-6, "≥ 20", "M/s"),
    ("drain and encode, integer and string", "drain_bench", "BM_DrainAndEncode/3/manual_time, rate", 1e-6, "≥ 14", "M/s"),
    ("assemble, events of 8 runs interleaved", "segment_bench", "BM_Assemble/runs:8/stretch:1, rate", 1e-9, "≥ 1.2", "GB/s"),
    ("1,000 addresses, 100 dead", "scale_bench", "1000 workers: overhead_s [s]", 1, "≤ 1", "s"),
    ("10,000 addresses (9,960 fit 20,000 open files), 996 dead", "scale_10000", "9960 workers: overhead_s [s]", 1, "≤ 15", "s"),
    ("client's memory for 10,000 addresses", "scale_10000", "9960 workers: peak_bytes [bytes]", 2**-20, "≤ 700", "MiB"),
    ("250 quiet processes and 750 dead addresses", "scale_processes",
     "1000 workers, one process each, 750 of them dead: overhead_s [s]", 1, "≤ 4", "s"),
    ("worker's memory after a capture at full speed", "capture_bench",
     "worker's memory added after the answer, one thread at full speed [MiB]", 1, "≤ 4", "MiB"),
    ("start spread, 8 workers", "capture_bench", "start spread, 8 workers [ms]", 1, "≤ 0.2", "ms"),
    ("step of 10 ms during a capture, JAX", "framework_step_bench", "step during a capture / without, jax [x]", 1, "≤ 1.01", "x"),
    ("… events that such a step has", "framework_step_bench", "events of a step, jax [events]", 1, None, "events"),
    ("… with `--frameworks=none`", "framework_step_bench", "step during a capture without its events / without, jax [x]", 1, None, "x"),
    ("… during JAX's own profiler", "framework_step_bench", "step during its own profiler / without, jax [x]", 1, None, "x"),
    ("step of 10 ms during a capture, TensorFlow", "framework_step_bench",
     "step during a capture / without, tensorflow [x]", 1, "≤ 1.01", "x"),
    ("… events that such a step has", "framework_step_bench", "events of a step, tensorflow [events]", 1, None, "events"),
    ("… with `--frameworks=none`", "framework_step_bench",
     "step during a capture without its events / without, tensorflow [x]", 1, None, "x"),
    ("… during TensorFlow's own profiler", "framework_step_bench",
     "step during its own profiler / without, tensorflow [x]", 1, None, "x"),
    ("step of 10 ms during a capture, PyTorch", "torch_step_bench", "step during a capture / without, torch [x]", 1, "≤ 1.01", "x"),
    ("… events that such a step has", "torch_step_bench", "events of a step, torch [events]", 1, None, "events"),
    ("… with `--frameworks=none`", "torch_step_bench", "step during a capture without its events / without, torch [x]", 1, None, "x"),
    ("… during PyTorch's own profiler", "torch_step_bench", "step during its own profiler / without, torch [x]", 1, None, "x"),
    ("one operator of PyTorch", "torch_ops_bench", "more per operator, capture with operators [ns]", 1, "≤ 100", "ns"),
    ("one operator of PyTorch, with a callback that does nothing", "torch_ops_bench",
     "more per operator, a callback that does nothing [ns]", 1, None, "ns"),
    ("report: host events read, per core", "report_bench", "BM_ReadHost/1000000, rate", 1e-6, "≥ 10", "M/s"),
    ("report: kernels and launches read, per core", "report_bench", "BM_ReadDevice/1000000, rate", 1e-6, "≥ 10", "M/s"),
    ("report: 1,024 digests reduced", "report_bench", "BM_Reduce/1024, wall", 1e-9, "≤ 2", "s"),
    ("report: 8 workers of 20,000 events in 2 s", "report_page_bench", "report, 8 workers of 20,000 events in 2 s [s]", 1, "≤ 1", "s"),
    ("report: 1,024 workers of 20,000 events each", "report_page_bench", "report, 1,024 workers of 20,000 events each [s]", 1, "≤ 10", "s"),
    ("report: memory, 8 workers", "report_page_bench", "memory of the report, 8 workers of 20,000 events in 2 s [MiB]", 1, "≤ 200", "MiB"),
    ("report: memory, one large part", "report_page_bench", "memory of the report, one large part [MiB]", 1, "≤ 200", "MiB"),
    ("report: page of 8 workers opened", "report_page_bench", "page opened, 8 workers [s]", 1, "≤ 1", "s"),
    ("report: page of 1,024 workers opened", "report_page_bench", "page opened, 1024 workers [s]", 1, "≤ 5", "s"),
)  # fmt: skip

# Likewise, without budgets of their own.
OPERATIONS = (
    ("empty loop", "scope_bench", "EmptyLoop", 1, None, "ns"),
    ("two tick reads", "scope_bench", "TwoTickReads", 1, None, "ns"),
    ("inactive scope (budget: 1 ns above the empty loop)", "scope_bench", "InactiveScope", 1, None, "ns"),
    ("inactive scope with two arguments", "scope_bench", "InactiveScopeWithArgs", 1, None, "ns"),
    ("active scope, above two tick reads", "scope_bench", "Scope, above TwoTickReads", 1, None, "ns"),
    ("… on two threads", "scope_bench", "ScopeTwoThreads/threads:2, above TwoTickReads", 1, None, "ns"),
    ("… while a reader drains", "scope_bench", "ScopeWhileDrained, above TwoTickReads", 1, None, "ns"),
    ("an integer, above the scope alone", "scope_bench", "ScopeWithInteger, above Scope", 1, None, "ns"),
    ("step (two records, trigger, recent steps), above two tick reads", "scope_bench", "Step, above TwoTickReads", 1, None, "ns"),
    ("scope around dependent work, above the work alone", "scope_bench", "ScopeAroundWork, above WorkAlone", 1, None, "ns"),
    ("events copied out of a full ring", "scope_bench", "ReadEvents, rate", 1e-6, None, "M/s"),
    ("add, sort and encode an event, depth 3", "segment_bench", "BM_AddAndEncode/depth:3/fanout:4, rate", 1e-6, None, "M/s"),
    ("… with one integer stat", "segment_bench", "BM_AddAndEncodeWithStats, rate", 1e-6, None, "M/s"),
    ("… into the store, page faults included", "segment_bench", "BM_AddIntoStore, rate", 1e-6, None, "M/s"),
    ("assemble: index alone", "segment_bench", "BM_AssembleIndexOnly, rate", 1e-9, None, "GB/s"),
    ("assemble, 1 run per line, everything copied once", "segment_bench", "BM_Assemble/runs:1/stretch:1, rate", 1e-9, None, "GB/s"),
    ("assemble, 8 runs per line, in stretches of 100 events", "segment_bench", "BM_Assemble/runs:8/stretch:100, rate", 1e-9, None, "GB/s"),
    ("assemble into parts of 16 MiB, 2 runs per line", "segment_bench", "BM_AssembleParts, rate", 1e-9, None, "GB/s"),
    ("scan a finished trace", "segment_bench", "BM_Scan, rate", 1e-9, None, "GB/s"),
)  # fmt: skip

# What the collectors of a capture cost the program, without budgets of their own.
COLLECTORS = (
    ("end of a step: its resource usage, thread not switched (budget: 10 µs)", "scope_bench", "StepWithUsage, above Step", 1e-3, None, "µs"),
    ("… after a sleep of 2 ms (budget: 10 µs)", "scope_bench", "StepUsageAfterLongSleep/iterations:5/manual_time", 1e-3, None, "µs"),
    ("system collector: samples", "collector_cost_bench", "system collector's thread [us/s]", 1, None, "µs per s"),
    ("host collector: reading empty rings", "collector_cost_bench", "host collector's thread, nothing to read [us/s]", 1, None, "µs per s"),
    ("garbage collection of an empty generation 0, without a capture", "collector_cost_bench", "gc.collect(0), without a capture [ns]",
     1, None, "ns"),
    ("… more during a capture", "collector_cost_bench", "gc.collect(0), more during a capture [ns]", 1, None, "ns"),
    ("`next()` of `jobscope.input_waits`, above that of its iterator, without a capture", "collector_cost_bench",
     "next() of jobscope.input_waits, without a capture [ns]", 1, None, "ns"),
    ("… more while a server listens", "collector_cost_bench", "next() of jobscope.input_waits, more with a server [ns]", 1, None, "ns"),
    ("… more during a capture", "collector_cost_bench", "next() of jobscope.input_waits, more during a capture [ns]", 1, None, "ns"),
    ("call of a compiled function of JAX, without a capture", "collector_cost_bench",
     "call of a compiled function of JAX, without a capture [ns]", 1e-3, None, "µs"),
    ("… more during a capture", "collector_cost_bench", "call of a compiled function of JAX, more during a capture [ns]", 1e-3, None, "µs"),
    ("`next()` of PyTorch's `DataLoader`, without a capture", "torch_collector_cost_bench",
     "next() of PyTorch's DataLoader, without a capture [ns]", 1e-3, None, "µs"),
    ("… more during a capture", "torch_collector_cost_bench", "next() of PyTorch's DataLoader, more during a capture [ns]", 1e-3, None, "µs"),
    ("both callbacks of a compilation by PyTorch, without a capture", "torch_collector_cost_bench",
     "callbacks of one compilation by PyTorch, without a capture [ns]", 1e-3, None, "µs"),
    ("… more during a capture", "torch_collector_cost_bench", "callbacks of one compilation by PyTorch, more during a capture [ns]",
     1e-3, None, "µs"),
    ("`all_reduce` of one rank over gloo, without a capture", "torch_collector_cost_bench",
     "all_reduce of one rank over gloo, without a capture [ns]", 1e-3, None, "µs"),
    ("… more during a capture of level 1", "torch_collector_cost_bench",
     "all_reduce of one rank over gloo, more during a capture of level 1 [ns]", 1e-3, None, "µs"),
    ("… more during a capture of level 2", "torch_collector_cost_bench",
     "all_reduce of one rank over gloo, more during a capture of level 2 [ns]", 1e-3, None, "µs"),
)  # fmt: skip


def spread(values, digits):
    text = f"{statistics.median(values):.{digits}f}"
    return text + (f" [{min(values):.{digits}f}, {max(values):.{digits}f}]" if len(values) > 1 else "")


def format_row(result):
    """Returns a row of the comparison with the stock profilers."""
    own, stock = result["own"], result["stock"]
    digits = {"s": 3, "ms": 3, "x": 3, "M/s": 1}.get(result["unit"], 0)
    cells = [spread(values, digits) if values else "-" for values in (own, stock)]
    ratio = f"{statistics.median(stock) / statistics.median(own):.2f}" if own and stock and statistics.median(own) else "-"
    n = max(len(own), len(stock))
    return f"| {result['name']} | {result['unit']} | {n} | {cells[0]} | {cells[1]} | {ratio} |"


def read(path):
    """Returns (figures by name, the line that says where and when), or (None, None) without a file."""
    if not path.exists():
        return None, None
    data = json.loads(path.read_text(encoding="utf-8"))
    found = figures.load(path)
    for one in data.get("benchmarks", []):
        if one.get("run_type") == "aggregate" or one.get("error_occurred"):
            continue
        rate = one.get("items_per_second", one.get("bytes_per_second"))
        if rate is not None:
            name = one["run_name"] + ", rate"
            found.setdefault(name, figures.figure(name, "1/s", [], better="higher"))["own"].append(rate)
        # figures.load has the CPU time.
        if "real_time" in one:
            name = one["run_name"] + ", wall"
            wall_ns = one["real_time"] * figures.TO_NS[one["time_unit"]]
            found.setdefault(name, figures.figure(name, "ns", []))["own"].append(wall_ns)
    context = data.get("context")  # of Google Benchmark
    if context:
        return found, f"{context['num_cpus']} cores, load {context['load_avg'][0]:.2f} at the start, {context['date'][:10]}"
    return found, ", ".join(data[key] for key in ("machine", "versions", "date") if key in data)


def comparison(out):
    found, where = read(out / "capture_bench.json")
    if found is None:
        return None
    return "\n".join([where[0].upper() + where[1:] + ".", "", HEADER, *map(format_row, found.values())])


def scale(out):
    lines = []
    for file in SCALE_FILES:
        found, where = read(out / f"{file}.json")
        if found is None:
            continue
        title = next(iter(found)).split(":")[0]
        key = lambda name: next((one["own"] for label, one in found.items() if label.startswith(f"{title}: {name} ")), [])  # noqa: B023, E731
        cells = [
            spread(key("overhead_s"), 2), spread(key("client_cpu_s"), 2), spread(key("workers_cpu_s"), 2),
            spread([value / 2**20 for value in key("peak_bytes")], 0),
            spread([value / 1e6 for value in key("start_spread_ns")], 3) if key("start_spread_ns") else "-", where,
        ]  # fmt: skip
        lines.append("| " + " | ".join([title, *cells]) + " |")
    if not lines:
        return None
    head = ("what", "wall - duration s", "client's CPU s", "all workers' CPU s", "client's peak MiB", "start spread ms", "where")
    return "\n".join(["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *lines])


def measured(out, rows):
    """Returns (the line that says where and when, [(row, its values in the row's unit), ...]), or (None, None) without files."""
    files = {file: read(out / f"{file}.json") for file in dict.fromkeys(row[1] for row in rows)}
    if not any(found for found, _ in files.values()):
        return None, None
    where = "; ".join(dict.fromkeys(where for _, where in files.values() if where))
    values = lambda row: [value * row[3] for value in (files[row[1]][0] or {}).get(row[2], {"own": []})["own"]]  # noqa: E731
    return where, [(row, values(row)) for row in rows]


def cell(values, unit):
    if not values:
        return "-"
    return (window_pairs.summary(values, 4) if unit == "x" else spread(values, 2)) + f" {unit}".rstrip()


def verdict(values, budget, unit):
    """Returns whether the budget is kept: by the median, or, of ratios, by its whole interval."""
    bound = float(budget.split()[1])
    extent = window_pairs.interval(values) or (0, math.inf) if unit == "x" else [statistics.median(values)]
    kept = {value >= bound if budget[0] == "≥" else value <= bound for value in extent}
    return "open" if len(kept) > 1 else "kept" if True in kept else "**missed**"


def budgets(out):
    where, rows = measured(out, BUDGETS)
    if rows is None:
        return None
    lines = [f"{where}.", "", "| what | budget | measured: median [min, max] | n | |", "|---|---|---|---|---|"]
    for (what, _, _, _, budget, unit), values in rows:
        if not values and not budget:  # a comparison for which this machine lacks something
            continue
        judged = verdict(values, budget, unit) if values and budget else ""
        lines.append(f"| {what} | {f'{budget} {unit}' if budget else '-'} | {cell(values, unit)} | {len(values) or '-'} | {judged} |")
    return "\n".join(lines)


def without_budgets(out, table):
    where, rows = measured(out, table)
    if rows is None:
        return None
    lines = [f"{where}.", "", "| what | median [min, max] | n |", "|---|---|---|"]
    lines += [f"| {row[0]} | {cell(values, row[5])} | {len(values) or '-'} |" for row, values in rows]
    return "\n".join(lines)


TABLES = {
    "comparison": comparison, "scale": scale, "budgets": budgets, "operations": lambda out: without_budgets(out, OPERATIONS),
    "collectors": lambda out: without_budgets(out, COLLECTORS),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--document", type=pathlib.Path, default=DOCUMENT)
    options = parser.parse_args()
    text = options.document.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        table = make(options.out)
        if table is None:
            print(f"tables: {options.out} has no figures for the table '{name}', which stays as it is")
            continue
        begin, end = f"<!-- {name} begin -->\n", f"<!-- {name} end -->"
        before, rest = text.split(begin)
        text = before + begin + table + "\n" + end + rest.split(end)[1]
    options.document.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
