# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a scope in Python, compared with JAX, TensorFlow and PyTorch if these are installed.

  PYTHONPATH=build/python tools/venv.sh --run bench/python_scope_bench.py [--rounds N] [--json FILE]

All ways are measured in turn, round by round, in one process and on one thread, in CPU time of that thread: other load
on the machine affects all figures alike, so ratios hold. The time of an empty loop is subtracted. "Active" means that a
running capture or profiler records the scope.
"""
import argparse
import contextlib
import functools
import gc
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

LOOPS = 20_000


def loop_time(body):
    """Returns ns per call of `body(LOOPS)`."""
    begin = time.thread_time_ns()
    body(LOOPS)
    return (time.thread_time_ns() - begin) / LOOPS


# ---- the bodies: written out, because a call would cost as much as what is measured ----


def empty(count):
    for _ in range(count):
        pass


def lock(count):
    one = threading.Lock()
    for _ in range(count):
        with one:
            pass


def scope(count):
    trace = jobscope.trace
    for _ in range(count):
        with trace("x"):
            pass


def scope_step(count):
    trace = jobscope.trace
    for i in range(count):
        with trace("x", step=i):
            pass


def scope_three(count):
    trace = jobscope.trace
    for i in range(count):
        with trace("x", step=i, ratio=0.5, file="shard-00017"):
            pass


def step(count):
    one = jobscope.step
    for i in range(count):
        with one(i):
            pass


def instant(count):
    one = jobscope.instant
    for i in range(count):
        one("x", step=i)


def counter(count):
    one = jobscope.counter
    for i in range(count):
        one("x", i)


def collection(count):
    collect = gc.collect
    for _ in range(count):
        collect(0)


@jobscope.traced
def _traced():
    pass


class _Owner:
    @jobscope.traced
    def method(self, one, two=None):
        pass

    def plain(self, one, two=None):
        pass


def _plain():
    pass


def _as_python_function(function):
    """A decorator written in Python."""
    trace = jobscope.trace

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with trace("_plain"):
            return function(*args, **kwargs)

    return wrapper


def _with_its_signature(function):
    """The same for a function with known parameters, as a generated wrapper would be."""
    trace = jobscope.trace

    def wrapper():
        with trace("_plain"):
            return function()

    return wrapper


_wrapped = _as_python_function(_plain)
_generated = _with_its_signature(_plain)


def traced(count):
    function = _traced
    for _ in range(count):
        function()


def traced_method(count):
    owner = _Owner()
    for i in range(count):
        owner.method(i, two=i)


def plain_method(count):
    owner = _Owner()
    for i in range(count):
        owner.plain(i, two=i)


def wrapped(count):
    function = _wrapped
    for _ in range(count):
        function()


def generated(count):
    function = _generated
    for _ in range(count):
        function()


def plain(count):
    function = _plain
    for _ in range(count):
        function()


OURS = {
    "jobscope.trace(name)": scope,
    "jobscope.trace(name, step=i)": scope_step,
    "jobscope.trace(name, 3 arguments)": scope_three,
    "jobscope.step(i)": step,
    "jobscope.instant(name, step=i)": instant,
    "jobscope.counter(name, i)": counter,
    "@jobscope.traced function": traced,
    "@jobscope.traced method(i, two=i)": traced_method,
    "trace() in a wrapper(*args, **kwargs)": wrapped,
    "trace() in a wrapper with its signature": generated,
    "gc.collect(0)": collection,
}


@contextlib.contextmanager
def capturing():
    folder = tempfile.mkdtemp(prefix="jobscope-bench-")
    try:
        # Further events are lost and counted: the cost for the thread is the same, and the files stay small.
        with jobscope.capture(folder, max_trace_bytes=16 << 20):
            yield
    finally:
        shutil.rmtree(folder)


def jax_ways():
    import jax

    annotation, step_annotation = jax.profiler.TraceAnnotation, jax.profiler.StepTraceAnnotation

    def without(count):
        for _ in range(count):
            with annotation("x"):
                pass

    def with_step(count):
        for i in range(count):
            with annotation("x", step=i):
                pass

    def steps(count):
        for i in range(count):
            with step_annotation("train", step_num=i):
                pass

    @contextlib.contextmanager
    def active():
        folder = tempfile.mkdtemp(prefix="jobscope-bench-")
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        jax.profiler.start_trace(folder, profiler_options=options)
        try:
            yield
        finally:
            jax.profiler.stop_trace()
            shutil.rmtree(folder)

    ways = {
        "jax TraceAnnotation(name)": without,
        "jax TraceAnnotation(name, step=i)": with_step,
        "jax StepTraceAnnotation(name, step_num=i)": steps,
    }
    return f"jax {jax.__version__}", ways, active


def tensorflow_ways():
    import tensorflow as tf

    trace = tf.profiler.experimental.Trace

    def with_step(count):
        for i in range(count):
            with trace("x", step_num=i, _r=1):
                pass

    @contextlib.contextmanager
    def active():
        folder = tempfile.mkdtemp(prefix="jobscope-bench-")
        tf.profiler.experimental.start(folder, tf.profiler.experimental.ProfilerOptions(python_tracer_level=0))
        try:
            yield
        finally:
            tf.profiler.experimental.stop(save=False)
            shutil.rmtree(folder)

    return f"tensorflow {tf.__version__}", {"tf Trace(name, step_num=i, _r=1)": with_step}, active


def torch_ways():
    import torch

    record_function = torch.profiler.record_function

    def named(count):
        for _ in range(count):
            with record_function("x"):
                pass

    @contextlib.contextmanager
    def active():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            yield

    return f"torch {torch.__version__}", {"torch record_function(name)": named}, active


def nvtx_ways():
    import nvtx

    def named(count):
        for _ in range(count):
            with nvtx.annotate("x"):
                pass

    return "nvtx", {"nvtx.annotate(name), no tool": named}, None


def measure(rounds):
    """Returns {way: {"idle": [ns...], "active": [ns...]}}, and the versions of the installed packages."""
    groups = [("", {"empty loop": empty, "with threading.Lock()": lock, "plain function": plain, "plain method(i, two=i)": plain_method}, None), ("", OURS, capturing)]
    versions = [f"CPython {platform.python_version()}", f"jobscope {jobscope.__version__}"]
    for make in (jax_ways, tensorflow_ways, torch_ways, nvtx_ways):
        try:
            group = make()
        except ImportError as error:
            versions.append(f"without {error.name}")
            continue
        versions.append(group[0])
        groups.append(group)
    times = {way: {"idle": [], "active": []} for _, ways, _ in groups for way in ways}
    for number in range(rounds + 1):
        for _, ways, active in groups:
            for state in ("idle", "active"):
                if state == "active" and active is None:
                    continue
                with active() if state == "active" else contextlib.nullcontext():
                    for way, body in ways.items():
                        base = loop_time(empty) if body is not empty else 0
                        taken = loop_time(body) - base
                        if number > 0:  # the first round warms up
                            times[way][state].append(taken)
    return times, versions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    where = figures.machine()
    times, versions = measure(arguments.rounds)
    print(", ".join(versions))
    print(f"ns per use, above an empty loop: median (min) of {arguments.rounds} rounds of {LOOPS:,}")
    print("| way | idle | active |\n|---|---|---|")
    for way, states in times.items():
        cells = [f"{statistics.median(taken):.0f} ({min(taken):.0f})" if taken else "–" for taken in states.values()]
        print(f"| `{way}` | {cells[0]} | {cells[1]} |")
    if arguments.json:
        results = [figures.figure(f"{way}, {state}", "ns", taken) for way, states in times.items() for state, taken in states.items()]
        figures.save(arguments.json, where, results, "jobscope", "jax", "tensorflow-cpu", "torch", "nvtx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
