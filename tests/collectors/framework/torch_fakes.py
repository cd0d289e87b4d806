# SPDX-License-Identifier: Apache-2.0
"""Modules with the names and the ways of PyTorch's own profiler, put among the loaded ones."""

import sys
import time
import types

live = 0  # profilers that were enabled and not disabled
enabled = 0  # times
asked_shapes = None
recorded = []  # what the next one hands over: (name, thread, scope, is async, shapes)
cancelled = False
refusal = None  # what the next start raises


class DeviceType:
    value = 0


class Event:
    def __init__(self, name, thread, scope, is_async, shapes):
        self._values = name, thread, scope, is_async, shapes
        self._start_ns = time.time_ns()

    def name(self):
        return self._values[0]

    def device_resource_id(self):
        return self._values[1]

    def scope(self):
        return self._values[2]

    def is_async(self):
        return self._values[3]

    def shapes(self):
        return self._values[4]

    def start_ns(self):
        return self._start_ns

    def duration_ns(self):
        return 5

    def device_type(self):
        return DeviceType


class Result:
    def trace_start_ns(self):
        return int(not cancelled)

    def events(self):
        return [Event(*one) for one in recorded]


class Profile:
    kineto_activities = {"CPU"}

    def __init__(self, use_cpu, use_kineto, record_shapes, experimental_config):
        self.shapes = record_shapes

    def config(self):
        return self


def enable(config, activities):
    global live, enabled, asked_shapes
    if refusal:
        raise RuntimeError(refusal)
    live, enabled, asked_shapes = live + 1, enabled + 1, config.shapes


def disable():
    global live
    live -= 1
    return Result()


def _module(name, **members):
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(members)
    return module


def load(all_threads):
    def config(**options):
        if options and not all_threads:
            raise TypeError("incompatible constructor arguments")

    _module("torch")
    _module("torch.autograd.profiler", profile=Profile, _is_profiler_enabled=False)
    _module(
        "torch._C",
        _profiler=types.SimpleNamespace(_ExperimentalConfig=config),
        _autograd=types.SimpleNamespace(
            _prepare_profiler=lambda config, activities: None,
            _enable_profiler=enable,
            _disable_profiler=disable,
            _profiler_enabled=lambda: False,
            _enable_record_function=lambda enable: None,
        ),
    )


def unload():
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        del sys.modules[name]


def take(is_taken):
    sys.modules["torch.autograd.profiler"]._is_profiler_enabled = bool(is_taken)


def refuse(text):
    global refusal
    refusal = text


def record(name, thread, scope, is_async, first_dimension):
    recorded.append((name, thread, scope, bool(is_async), [[first_dimension, 2], []] if first_dimension else [[]]))


def cancel(is_cancelled):
    global cancelled
    cancelled = bool(is_cancelled)


def clear():
    recorded.clear()


def running():
    return live


def begun():
    return enabled


def wanted_shapes():
    return int(asked_shapes)
