#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures steps of about 10 ms of JAX, TensorFlow and PyTorch: alone, during a capture, and during the framework's own profiler.

usage: framework_step_bench.py [--rounds N] [--steps N] [--json FILE]      with the package on PYTHONPATH (build/python)
       framework_step_bench.py --early [--rounds N]      only how long caches are cold after the start of a capture

The ways take turns in short windows of one process (window_pairs.py). Wall time, because frameworks compute on threads of their own: a
busy machine spoils it. A ratio is the median step of a window, divided by that of the window without a profiler in the same round.
Exit 77 without any of the frameworks.
"""
import argparse
import contextlib
import functools
import importlib.util
import os
import shutil
import statistics
import sys
import tempfile
import time

import figures
import window_pairs

STEP_S = 0.010
SIZE = 128
UNMEASURED_STEPS = 10  # of each window: caches are cold after the start of a capture, and after the end of one
EARLY_STEPS = {"1": slice(0, 1), "2": slice(1, 2), "3 to 9": slice(2, 9), "10 to 20": slice(9, 20)}


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp(prefix="jobscope-bench-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def captured(**options):
    import jobscope

    with folder() as path:
        with jobscope.capture(path, **options) as capture:
            yield capture
        if capture.result.lost:
            print("lost:", capture.result.lost, file=sys.stderr)


def jax_step(layers):
    import jax

    matrix = jax.numpy.ones((SIZE, SIZE)) / SIZE

    @jax.jit
    def product(x):
        for _ in range(layers):
            x = jax.numpy.tanh(x @ matrix)
        return x.sum()

    return lambda: product(matrix).block_until_ready()


@contextlib.contextmanager
def jax_profiler():
    import jax

    with folder() as path:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        jax.profiler.start_trace(path, profiler_options=options)
        try:
            yield
        finally:
            jax.profiler.stop_trace()


def tensorflow_step(layers):
    import tensorflow as tf

    matrix = tf.ones((SIZE, SIZE)) / SIZE

    @tf.function
    def product(x):
        for _ in range(layers):
            x = tf.tanh(tf.matmul(x, matrix))
        return tf.reduce_sum(x)

    return lambda: product(matrix).numpy()


@contextlib.contextmanager
def tensorflow_profiler():
    import tensorflow as tf

    tf.profiler.experimental.start("", tf.profiler.experimental.ProfilerOptions(python_tracer_level=0))
    try:
        yield
    finally:
        tf.profiler.experimental.stop(save=False)


def torch_step(layers):
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(SIZE, SIZE) for _ in range(layers)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.rand(SIZE, SIZE)

    def step():
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


@contextlib.contextmanager
def torch_profiler():
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        yield


FRAMEWORKS = {
    "jax": (jax_step, jax_profiler), "tensorflow": (tensorflow_step, tensorflow_profiler), "torch": (torch_step, torch_profiler),
}  # fmt: skip


@contextlib.contextmanager
def after_a_synced_file():
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(100_000))
        file.flush()
        os.fsync(file.fileno())
        yield


def step_times(step, steps):
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


def median_step(step, steps):
    return statistics.median(step_times(step, steps))


def calibrated(make):
    """Returns a step of about STEP_S."""
    few, many = 4, 24
    times = {}
    for layers in (few, many):
        step = make(layers)
        step()
        times[layers] = min(median_step(step, 10) for _ in range(3))
    per_layer = max((times[many] - times[few]) / (many - few), 1e-6)
    step = make(max(1, round(few + (STEP_S - times[few]) / per_layer)))
    step()
    return step


def ratio_names(framework):
    ways = "a capture", "a capture without its events", "its own profiler"
    return [f"step during {way} / without, {framework}" for way in ways]


def measure(framework, rounds, steps):
    make, profiler = FRAMEWORKS[framework]
    step = calibrated(make)

    def window(enter):
        with enter():
            for _ in range(UNMEASURED_STEPS):
                step()
            return median_step(step, steps)

    without = f"step without a capture, {framework}"
    enters = contextlib.nullcontext, captured, functools.partial(captured, frameworks="none"), profiler
    ways = {way: functools.partial(window, enter) for way, enter in zip([without, *ratio_names(framework)], enters)}
    window_pairs.take_turns(ways, 1)  # warms up
    seconds = window_pairs.take_turns(ways, rounds)
    with captured() as capture:
        median_step(step, steps)
    return [
        figures.figure(without, "ms", [value * 1e3 for value in seconds[without]]),
        figures.figure(f"events of a step, {framework}", "events", [capture.result.events / steps]),
        *(figures.figure(name, "x", window_pairs.ratios(seconds[name], seconds[without])) for name in ratio_names(framework)),
    ]


def print_early_steps(framework, rounds):
    """Prints how long the first steps after the start of a capture take, and after other things that no profiler takes part in."""
    step = calibrated(FRAMEWORKS[framework][0])

    def window(enter):
        with enter():
            times = step_times(step, 20)
        step_times(step, 20)  # the end has an effect of its own
        return times

    enters = {
        "nothing": contextlib.nullcontext,
        "nothing, again": contextlib.nullcontext,
        "the start of a capture, --frameworks=none": functools.partial(captured, frameworks="none"),
        "100 kB written and synced, without jobscope": after_a_synced_file,
    }
    ways = {way: functools.partial(window, enter) for way, enter in enters.items()}
    window_pairs.take_turns(ways, 1)  # warms up
    times = window_pairs.take_turns(ways, rounds)
    whole = [statistics.median(window) for window in times["nothing"]]
    for way, windows in times.items():
        for steps, part in EARLY_STEPS.items():
            early = [statistics.median(window[part]) for window in windows]
            print(f"{framework}: step {steps} after {way}: {window_pairs.summary(window_pairs.ratios(early, whole), 3)} x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=10, help="measured in a window")
    parser.add_argument("--early", action="store_true", help="print only the steps just after the start of a capture")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    found = [name for name in FRAMEWORKS if importlib.util.find_spec(name)]
    if not found or not importlib.util.find_spec("jobscope"):
        print("skipped: no", "jobscope" if found else "framework", "for", sys.executable)
        return 77
    if options.early:
        for name in found:
            print_early_steps(name, options.rounds)
        return 0
    where, results = figures.machine(), []
    for name in found:
        for figure in measure(name, options.rounds, options.steps):
            results.append(figure)
            print(f"{figure['name']}: {window_pairs.summary(figure['own'], 4)} {figure['unit']}", flush=True)
    if options.json:
        figures.save(options.json, where, results, "jobscope", "tensorflow-cpu", "jax", "torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
