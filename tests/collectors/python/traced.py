# SPDX-License-Identifier: Apache-2.0
"""A session of the tracer in this process, through a small library that drives the collector, and functions to trace."""
import ctypes
import json
import os
import sys
import tempfile
import time
import unittest

import xspace

try:
    import _interpreters as INTERPRETERS
except ImportError:
    import _xxsubinterpreters as INTERPRETERS

DRIVER = ctypes.CDLL(os.environ["JOBSCOPE_TEST_DRIVER"])
DRIVER.driver_start.argtypes = [ctypes.c_int, ctypes.c_uint64]
DRIVER.driver_arm.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_int]
DRIVER.driver_stop.restype = ctypes.c_char_p
STORE_BYTES = 64 << 20
MONITORING = getattr(sys, "monitoring", None)


class Trace:
    """One session around a block; then its report and its events. `start=False`: armed only."""

    def __init__(self, level, start=True, **environment):
        self.level = level
        self.start = start
        self.environment = {"JOBSCOPE_PYTHON_" + key: str(value) for key, value in environment.items()}

    def __enter__(self):
        os.environ.update(self.environment)
        self.pid = os.getpid()
        DRIVER.driver_arm(self.level, STORE_BYTES, self.start)
        return self

    def __exit__(self, *_):
        if os.getpid() != self.pid:  # a forked child, which leaves
            return
        with tempfile.NamedTemporaryFile(suffix=".xplane.pb") as file:
            answer = DRIVER.driver_stop(file.name.encode())
            self.report = json.loads(answer)
            self.events = [event for _, events in xspace.planes(file.name) for event in events]
        for key in self.environment:
            del os.environ[key]

    def named(self, function):
        return [event for event in self.events if event.name.endswith(" " + function)]

    def lines(self, function):
        return {event.line for event in self.named(function)}

    def total_ms(self, function):
        return sum(event.duration_ps for event in self.named(function)) / 1e9


class TraceCase(unittest.TestCase):
    def check_account(self, trace):
        report = trace.report
        self.assertEqual(report["attempted"], report["events"] + sum(report["lost"].values()) + report["outside"], report)
        self.assertEqual(report["events"], len(trace.events), report)

    def check_nesting(self, events):
        """Events of a line, in the file's order: each ends before the one around it."""
        open_ends = {}
        for event in events:
            ends = open_ends.setdefault(event.line, [])
            while ends and ends[-1] <= event.start_ps:
                ends.pop()
            end = event.start_ps + event.duration_ps
            if ends:
                self.assertLessEqual(end, ends[-1], event)
            ends.append(end)


def spin(milliseconds):
    """Computes, for that long by the thread's own clock: other work of the machine does not count."""
    end = time.thread_time() + milliseconds / 1000
    count = 0
    while time.thread_time() < end:
        count += 1
    return count


def outer_function(milliseconds):
    return inner_function(milliseconds)


def inner_function(milliseconds):
    return spin(milliseconds)


def recurse(depth, action):
    return action() if depth == 0 else recurse(depth - 1, action)


def generator(count):
    for index in range(count):
        yield index


def raises():
    raise ValueError("on purpose")


def sub_interpreter():
    """With a lock of its own where there is such a thing."""
    if sys.version_info >= (3, 13):
        return INTERPRETERS.create("isolated")
    return INTERPRETERS.create(isolated=True)
