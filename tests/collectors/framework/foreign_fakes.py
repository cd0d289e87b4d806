# SPDX-License-Identifier: Apache-2.0
"""Modules with the names and the ways of JAX's and TensorFlow's profilers, put among the loaded ones."""

import atexit
import os
import shutil
import sys
import tempfile
import threading
import types

_TENSORFLOW = "tensorflow.python.profiler.internal._pywrap_profiler"

xspace = b""  # what a session hands over
error = None  # what it raises instead
live = 0  # sessions that were started and not stopped
options = None  # of the last one
gate = threading.Event()  # that a stop waits for
gate.set()
stopping = threading.Event()


class ProfileOptions:
    host_tracer_level = 2
    python_tracer_level = 1


class JaxSession:
    def __init__(self, given):
        global live, options
        self.refused = live > 0  # says so only in the end
        if not self.refused:
            live, options = live + 1, given

    def stop(self):
        global live
        if self.refused:
            raise RuntimeError("ALREADY_EXISTS: Another profiling session active.")
        stopping.set()
        gate.wait(20)
        live -= 1
        if error:
            raise RuntimeError(error)
        return xspace


class AlreadyExistsError(Exception):
    pass


class TensorflowSession:
    def start(self, folder, given):
        global live, options
        if error or live > 0:
            raise AlreadyExistsError(error or "Another profiling session active.")
        live, options, self.folder = live + 1, given, folder

    def export_to_tb(self):
        global live
        stopping.set()
        gate.wait(20)
        live -= 1
        os.makedirs(self.folder + "/plugins/profile/run")
        with open(self.folder + "/plugins/profile/run/host.xplane.pb", "wb") as file:
            file.write(xspace)


def _module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)


def load(computed):
    _module("jaxlib")
    _module("jaxlib._profiler", ProfileOptions=ProfileOptions, ProfilerSession=JaxSession)
    _module("jax._src.xla_bridge", _backends={"cpu": 1} if computed else {})
    _module(_TENSORFLOW, ProfilerSession=TensorflowSession)


def unload():
    for name in [name for name in sys.modules if name.startswith(("jax", "tensorflow"))]:
        del sys.modules[name]


def set_trace(bytes_of_all, text):
    global xspace, error
    xspace, error = bytes_of_all, text


def running():
    return live


def asked_level():
    return options["host_tracer_level"] if isinstance(options, dict) else options.host_tracer_level


def asked_python_level():
    return options["python_tracer_level"] if isinstance(options, dict) else options.python_tracer_level


def folders():
    return len([name for name in os.listdir(tempfile.gettempdir()) if name.startswith("jobscope-tensorflow-")])


def program_traces(framework):
    """What a program does that traces itself. Empty: it got its trace; else what went wrong."""
    try:
        if framework == "jax":
            session = sys.modules["jaxlib._profiler"].ProfilerSession(ProfileOptions())
            return "" if session.stop() == xspace else "nothing was recorded"
        folder = tempfile.mkdtemp()
        try:
            session = sys.modules[_TENSORFLOW].ProfilerSession()
            session.start(folder, {})
            session.export_to_tb()
            return "" if os.listdir(folder) else "nothing was recorded"
        finally:
            shutil.rmtree(folder)
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"


def untouched():
    """Whether the framework's own functions are in their places."""
    return int(sys.modules["jaxlib._profiler"].ProfilerSession is JaxSession and TensorflowSession.start is _tensorflow_start)


_tensorflow_start = TensorflowSession.start


def close_gate():
    gate.clear()
    stopping.clear()


def await_stopping():
    stopping.wait(20)


def open_gate():
    gate.set()


def leave():
    """What the interpreter does first when it ends."""
    atexit._run_exitfuncs()
