#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of recording PyTorch's operators, per operator and training step, compared with PyTorch's profiler.

usage: torch_ops_bench.py [--json FILE] [--rounds N]      with the package on PYTHONPATH (build/python)

The ways take turns in short windows of one process. Uses CPU time of the thread, so that a busy machine matters less,
and medians over the rounds. The first way, nothing, is the baseline. A callback that does nothing is what PyTorch itself takes for
any recording; it is left out where PyTorch's headers (libtorch-dev) or a compiler are missing. Exit 77 without torch.
"""
import argparse
import ctypes
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time

import figures

STEPS = 150  # per window
OPERATORS = 20000
COLLECTIVES = 500


def training():
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.rand(32, 64)

    def step():
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    def window():
        times = []
        for _ in range(STEPS):
            begin = time.thread_time_ns()
            step()
            times.append(time.thread_time_ns() - begin)
        return statistics.median(times)

    return window


def operators():
    import torch

    tensor = torch.zeros(1)

    def window():
        begin = time.thread_time_ns()
        for _ in range(OPERATORS):
            tensor.neg_()
        return (time.thread_time_ns() - begin) / OPERATORS

    return window


class Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Captured:
    """A capture of this process, of one kind."""

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        import jobscope

        self.logdir = tempfile.TemporaryDirectory(prefix="jobscope-bench-")
        jobscope.start(self.logdir.name, **self.options)
        return self

    def __exit__(self, *_):
        import jobscope

        self.result = jobscope.stop()
        self.logdir.cleanup()


class Kineto:
    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        import torch

        self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **self.options)
        self.profile.__enter__()

    def __exit__(self, *_):
        self.profile.__exit__(None, None, None)


class EmptyCallback:
    """A callback of PyTorch for all operators, which does nothing."""

    def __init__(self, library):
        self.library = library

    def __enter__(self):
        self.handle = self.library.AddEmptyCallback()
        return self

    def __exit__(self, *_):
        self.library.RemoveCallback(ctypes.c_uint64(self.handle))


def callback_library(folder):
    """peers/torch_callback.cc, compiled for the PyTorch of this process; None if that fails."""
    import torch

    here = os.path.dirname(os.path.abspath(__file__))
    library = os.path.join(folder, "torch_callback.so")
    package = os.path.dirname(torch.__file__)
    command = [
        "g++", "-std=c++17", "-O2", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        f"-I{package}/include", os.path.join(here, "peers", "torch_callback.cc"), "-o", library, f"-L{package}/lib", "-ltorch_cpu", "-lc10",
    ]  # fmt: skip
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
        loaded = ctypes.CDLL(library)
    except subprocess.CalledProcessError as error:
        print("without the empty callback:", *error.stderr.splitlines()[:1], file=sys.stderr)
        return None
    except OSError as error:
        print("without the empty callback:", error, file=sys.stderr)
        return None
    loaded.AddEmptyCallback.restype = ctypes.c_uint64
    return loaded


EMPTY_CALLBACK = "a callback that does nothing"
WAYS = {
    "nothing": Nothing,
    "capture without operators (host_tracer_level 1)": lambda: Captured(host_tracer_level=1),
    "capture with operators": lambda: Captured(host_tracer_level=2),
    "capture with operators and shapes": lambda: Captured(host_tracer_level=2, record_shapes=True),
    "torch.profiler": Kineto,
    "torch.profiler with shapes": lambda: Kineto(record_shapes=True),
}


def collectives():
    """Creates a group of one rank over gloo, to measure what its calls cost the calling thread."""
    import tempfile as files

    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        folder = files.mkdtemp(prefix="jobscope-bench-")
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    tensor = torch.zeros(1)

    def window():
        begin = time.thread_time_ns()
        for _ in range(COLLECTIVES):
            dist.all_reduce(tensor)
        return (time.thread_time_ns() - begin) / COLLECTIVES

    return window


# Operators are recorded with their inputs in a process that uses gloo.
GLOO_WAYS = ("nothing", "capture without operators (host_tracer_level 1)", "capture with operators")


def measure(window, rounds, ways=None):
    ways = {name: WAYS[name] for name in ways or WAYS}
    taken = {name: [] for name in ways}
    window()
    for _ in range(rounds):
        for name, way in ways.items():
            with way():
                window()  # warms up the thread's first records and PyTorch's lists of callbacks
                taken[name].append(window())
    return taken


def medians(taken):
    return {name: statistics.median(values) for name, values in taken.items()}


def events_per_step():
    window = training()
    with Captured(host_tracer_level=2) as capture:
        window()
    if capture.result.lost:
        print("lost:", capture.result.lost, file=sys.stderr)
    return capture.result.events / STEPS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    for module in ("torch", "jobscope"):
        if importlib.util.find_spec(module) is None:
            print("skipped: no", module, "for", sys.executable)
            return 77
    import torch

    with tempfile.TemporaryDirectory(prefix="jobscope-bench-") as folder:
        library = callback_library(folder)
    if library is not None:
        WAYS[EMPTY_CALLBACK] = lambda: EmptyCallback(library)
    where, per_step = figures.machine(), events_per_step()
    steps, loops = measure(training(), options.rounds), measure(operators(), options.rounds)
    step, operator = medians(steps), medians(loops)
    print(f"PyTorch {torch.__version__}; a step of {per_step:.0f} events; an operator of {operator['nothing']:.0f} ns")
    print(f"{'way':50} {'step, us':>9} {'ratio':>6} {'ns/event':>9}   {'ns more per operator in a loop':>30}")
    for name in WAYS:
        more = step[name] - step["nothing"]
        print(
            f"{name:50} {step[name] / 1e3:9.1f} {step[name] / step['nothing']:6.3f} {more / per_step:9.0f}   "
            f"{operator[name] - operator['nothing']:30.0f}"
        )
    gloo_window = collectives()
    with Captured(host_tracer_level=2):
        gloo_window()
    gloo_steps, gloo_loops = (measure(make(), options.rounds, GLOO_WAYS) for make in (training, operators))
    gloo_step, gloo_operator = medians(gloo_steps), medians(gloo_loops)
    collectives_taken = measure(gloo_window, options.rounds, GLOO_WAYS)
    collective = medians(collectives_taken)
    print(f"\nin a process that uses gloo; a collective of one rank of {collective['nothing']:.0f} ns")
    print(f"{'way':50} {'step, us':>9} {'ratio':>6} {'ns more per operator':>21} {'ns more per collective':>23}")
    for name in GLOO_WAYS:
        print(
            f"{name:50} {gloo_step[name] / 1e3:9.1f} {gloo_step[name] / gloo_step['nothing']:6.3f} "
            f"{gloo_operator[name] - gloo_operator['nothing']:21.0f} {collective[name] - collective['nothing']:23.0f}"
        )
    if options.json:
        results = []
        for what, unit, taken in (
            ("step", "ns", steps), ("operator", "ns", loops), ("step with gloo", "ns", gloo_steps),
            ("operator with gloo", "ns", gloo_loops), ("collective", "ns", collectives_taken),
        ):  # fmt: skip
            results += [figures.figure(f"{what}, {name}", unit, values) for name, values in taken.items()]
        results += [
            figures.figure(f"more per operator, {name}", "ns", [value - operator["nothing"] for value in values])
            for name, values in loops.items() if name != "nothing"
        ]  # fmt: skip
        figures.save(options.json, where, results, "jobscope", "torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
