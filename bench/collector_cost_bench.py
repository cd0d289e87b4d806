#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the collectors of a capture cost the program: per event for its own threads, and per second for those of jobscope.

usage: collector_cost_bench.py [--only GROUP,...] [--rounds N] [--seconds S] [--json FILE]      with the package on PYTHONPATH (build/python)

Each operation is measured without a capture and in captures, in turn, in windows of one process. Uses CPU time of the calling
thread above an empty loop, so that a busy machine matters less. "more …" is a window in a capture, minus the window without one of
the same round. The operations of a group need what it is named for: python, jax, torch. Exit 77 if this interpreter has none of the
requested groups.
"""
import argparse
import contextlib
import gc
import importlib
import importlib.util
import os
import statistics
import sys
import time
import types

import figures
import torch_ops_bench

LOOPS = 4_000  # per window
DEADLINE_S = 30
TRIES = 3  # of a capture
WITHOUT = "without a capture"
DURING = "during a capture"
COLLECT_NAME = "jobscope-collec"  # "jobscope-collect": the kernel keeps 15 bytes of a thread's name
# The first threads of this name in a capture, in the order of their start (server/process/worker_runtime.cc).
MEASURED_THREADS = ("host collector's thread, nothing to read", "system collector's thread")


def loop_time(body):
    begin = time.thread_time_ns()
    body(LOOPS)
    return (time.thread_time_ns() - begin) / LOOPS


def window_of(body):
    """Returns a function that returns ns per iteration of `body`, above those of an empty loop."""
    return lambda: loop_time(body) - loop_time(empty)


def wait_until(condition, otherwise):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.01)


# ---- the operations: each function returns a window ----


def empty(count):
    for _ in range(count):
        pass


def collections():
    collect = gc.collect

    def body(count):
        for _ in range(count):
            collect(0)

    collect()
    return window_of(body)


def input_waits():
    import jobscope

    def body(count):
        for _ in jobscope.input_waits(range(count)):
            pass

    return window_of(body)


def jax_calls():
    import jax

    function = jax.jit(lambda x: x + 1)
    operand = jax.numpy.ones(8)
    function(operand).block_until_ready()

    def body(count):
        for _ in range(count):
            result = function(operand)
        result.block_until_ready()

    return window_of(body)


def loader_waits():
    from torch.utils.data import DataLoader

    def body(count):
        for _ in DataLoader(range(count), batch_size=None):
            pass

    return window_of(body)


class _CompilationCallbacks:
    """As much of PyTorch's list of callbacks as jobscope uses."""

    def __init__(self):
        self.start_callbacks, self.end_callbacks = [], []
        self.register_start_callback, self.register_end_callback = self.start_callbacks.append, self.end_callbacks.append


def compilations():
    """Calls jobscope's callbacks as PyTorch 2.4 and later do. For an earlier version, which has no such callbacks, jobscope
    registers them with a list of this bench."""
    importlib.import_module("torch")
    name = "torch._dynamo.callback"
    try:
        handler = importlib.import_module(name).callback_handler
    except (ImportError, AttributeError):
        handler = _CompilationCallbacks()
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].callback_handler = handler

    def ours(callbacks, function):
        return next((one for one in callbacks if getattr(one, "__name__", "") == function), None)

    def both():
        return ours(handler.start_callbacks, "_compile_starts"), ours(handler.end_callbacks, "_compile_ends")

    with torch_ops_bench.Captured(host_tracer_level=1):
        wait_until(lambda: all(both()), "jobscope has registered no callbacks for compilations")
    starts, ends = both()
    compilation = types.SimpleNamespace(callback_trigger=types.SimpleNamespace(name="DYNAMO"), compile_id="0/0")

    def body(count):
        for _ in range(count):
            starts(compilation)
            ends(compilation)

    return window_of(body)


def collectives():
    window = torch_ops_bench.collectives()
    with torch_ops_bench.Captured(host_tracer_level=2):
        window()  # from the next capture on, jobscope reads the process groups
    return window


def captured(**options):
    return lambda: torch_ops_bench.Captured(**options)


def served():
    """While a server listens, input waits are recorded into the ring without a capture, too."""
    import jobscope

    return jobscope.start_server("127.0.0.1:0", strict=True)


# (group, operation, makes its window, iterations of a window, {way: makes a context}). In a capture each iteration is an event or
# more. Gloo is last: once a process has used it, PyTorch passes the inputs of its operators to jobscope, which costs more.
OPERATIONS = (
    ("python", "gc.collect(0)", collections, LOOPS, {DURING: captured(frameworks="none")}),
    ("python", "next() of jobscope.input_waits", input_waits, LOOPS,
     {"with a server": served, DURING: captured(frameworks="none")}),
    ("jax", "call of a compiled function of JAX", jax_calls, LOOPS, {DURING: captured(frameworks="jax")}),
    ("torch", "next() of PyTorch's DataLoader", loader_waits, LOOPS, {DURING: captured(host_tracer_level=1)}),
    ("torch", "callbacks of one compilation by PyTorch", compilations, LOOPS, {DURING: captured(host_tracer_level=1)}),
    ("torch", "all_reduce of one rank over gloo", collectives, torch_ops_bench.COLLECTIVES,
     {f"{DURING} of level 1": captured(host_tracer_level=1), f"{DURING} of level 2": captured(host_tracer_level=2)}),
)  # fmt: skip
GROUPS = tuple(dict.fromkeys(operation[0] for operation in OPERATIONS))


def figure_names(group):
    """Returns the figures of a group, as figures.load names them."""
    names = [f"{thread} [us/s]" for thread in MEASURED_THREADS] if group == "python" else []
    for _, operation, _, _, ways in (one for one in OPERATIONS if one[0] == group):
        names += [f"{operation}, {WITHOUT} [ns]", *(f"{operation}, more {way} [ns]" for way in ways)]
    return names


def measured_in(enter, window, iterations):
    """Returns what `window` returns in a context that `enter` makes. A capture with less than an event per iteration is repeated: on
    a busy machine a collector may begin late."""
    for _ in range(TRIES):
        with enter() as context:
            window()  # warms up the thread's first records, and lists of callbacks
            ns = window()
        result = getattr(context, "result", None)  # of a capture
        if result is None or result.events + (result.lost or 0) >= 2 * iterations:
            return ns
    raise RuntimeError(f"only {result.events} events of {2 * iterations} iterations")


def measure(operation, make, iterations, ways, rounds):
    """Returns the figures of one operation."""
    window = make()
    taken = {way: [] for way in (WITHOUT, *ways)}
    for number in range(rounds + 1):
        for way, enter in {WITHOUT: contextlib.nullcontext, **ways}.items():
            ns = measured_in(enter, window, iterations)
            if number > 0:  # the first round warms up
                taken[way].append(ns)
    without = taken.pop(WITHOUT)
    return [figures.figure(f"{operation}, {WITHOUT}", "ns", without)] + [
        figures.figure(f"{operation}, more {way}", "ns", [ns - base for ns, base in zip(values, without)])
        for way, values in taken.items()
    ]


def collect_threads():
    """Returns the ids of the threads of this process that run collectors, in the order of their start."""
    found = []
    for tid in map(int, os.listdir("/proc/self/task")):
        with contextlib.suppress(OSError):  # it has ended
            with open(f"/proc/self/task/{tid}/comm", encoding="utf-8") as file:
                if file.read().strip() == COLLECT_NAME:
                    found.append(tid)
    return sorted(found)


def cpu_time_ns(tid):
    """Returns the CPU time of a thread of this process: pthread_getcpuclockid's clock, for a thread that is known by its id."""
    return time.clock_gettime_ns(~tid << 3 | 6)


def thread_costs(rounds, seconds):
    """Returns the CPU time of the threads of MEASURED_THREADS per second of a capture of an idle process, in us."""
    taken = {thread: [] for thread in MEASURED_THREADS}
    for number in range(rounds + 1):
        wait_until(lambda: not collect_threads(), "the threads of an earlier capture do not end")
        with torch_ops_bench.Captured(frameworks="none"):
            tids = collect_threads()[: len(taken)]
            if len(tids) < len(taken):
                raise RuntimeError(f"{len(tids)} threads run collectors in a capture")
            begin, before = time.monotonic(), [cpu_time_ns(tid) for tid in tids]
            time.sleep(seconds)
            after, end = [cpu_time_ns(tid) for tid in tids], time.monotonic()
        if number > 0:
            for values, late, early in zip(taken.values(), after, before):
                values.append((late - early) / 1e3 / (end - begin))
    return [figures.figure(thread, "us/s", values) for thread, values in taken.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(GROUPS), help=f"groups of operations, of {', '.join(GROUPS)}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a capture in which threads are measured")
    parser.add_argument("--json", help="writes the figures there")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(GROUPS):
        parser.error(f"--only: no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    groups = [group for group in wanted if group == "python" or importlib.util.find_spec(group)]
    if not groups or not importlib.util.find_spec("jobscope"):
        print("skipped: no", "jobscope" if groups else " or ".join(wanted), "for", sys.executable)
        return 77
    where = figures.machine()
    # Before a framework is imported: some have callbacks for garbage collections, and threads of their own.
    results = thread_costs(options.rounds, options.seconds) if "python" in groups else []
    for group, *operation in OPERATIONS:
        if group in groups:
            results += measure(*operation, options.rounds)
    print(f"{figures.versions('jobscope', 'jax', 'torch')}; median [min, max] of {options.rounds} rounds of {LOOPS:,}")
    for one in results:
        values = one["own"]
        print(f"{one['name']:70} {statistics.median(values):10.1f} [{min(values):.1f}, {max(values):.1f}] {one['unit']}")
    if options.json:
        figures.save(options.json, where, results, "jobscope", "jax", "torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
