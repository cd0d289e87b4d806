# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own profiler session, driven by jobscope. Runs within the traced program: imports nothing of the framework's."""

import _thread
import atexit
import os
import shutil
import sys
import tempfile
import time

_MODULE = "tensorflow.python.profiler.internal._pywrap_profiler"
_MAX_BYTES = 1 << 30

_process = os.getpid()
_stopping = _thread.allocate_lock()  # held while a session is being stopped
_sessions = []  # at most one, with its folder; taken out by whoever stops it


def unfit():
    """Why there is nothing to record, or None."""
    profiler = sys.modules.get(_MODULE)
    if not hasattr(getattr(profiler, "ProfilerSession", None), "export_to_tb"):
        return "this version of TensorFlow has no profiler that jobscope knows"
    return None


def start(host_level, device_level, deadline_ns):
    """Why nothing is recorded, or None."""
    if time.monotonic_ns() > deadline_ns:
        return "Python's lock was not to be had for 0.8 s: nothing of TensorFlow is recorded"
    options = {"host_tracer_level": host_level, "python_tracer_level": 0, "device_tracer_level": device_level}
    try:
        folder = tempfile.mkdtemp(prefix="jobscope-tensorflow-")
    except OSError as error:
        return f"there is no folder for what TensorFlow records ({error}); set TMPDIR"
    try:
        session = sys.modules[_MODULE].ProfilerSession()
        session.start(folder, options)
    except Exception as error:  # its class is TensorFlow's own
        shutil.rmtree(folder, ignore_errors=True)
        if type(error).__name__ == "AlreadyExistsError" or "Another profiling session" in str(error):
            return (
                "TensorFlow is being profiled already, by the program (tf.profiler.experimental.start, the TensorBoard"
                " callback) or through its own profiler server; it has one session at a time"
            )
        return f"TensorFlow's profiler did not start: {error}"
    _sessions.append((session, folder))
    atexit.register(_at_exit)
    return None


def stop():
    """The XSpace's bytes, or why there are none."""
    with _stopping:
        try:
            session, folder = _sessions.pop()
        except IndexError:
            return "its session was ended by the program's exit"
        try:
            session.export_to_tb()
            answer = _read(folder)
        except OSError as error:
            answer = f"what TensorFlow wrote into {folder} cannot be read: {error}"
        finally:
            del session
            shutil.rmtree(folder, ignore_errors=True)
    atexit.unregister(_at_exit)
    return answer


def _read(folder):
    for where, _, files in os.walk(folder):
        for name in files:
            if not name.endswith(".xplane.pb"):
                continue
            path = os.path.join(where, name)
            if os.path.getsize(path) > _MAX_BYTES:
                return f"TensorFlow recorded more than {_MAX_BYTES >> 20} MiB; capture for a shorter time"
            with open(path, "rb") as file:
                return file.read()
    return "TensorFlow wrote no trace; is its temporary folder full? Set TMPDIR"


def _at_exit():
    """The interpreter ends before the capture does: this is the last moment at which TensorFlow can be asked."""
    if os.getpid() != _process:
        return  # a forked child has the list, but none of the profiler's threads
    if _sessions:
        globals()["hand_over"](stop())  # given by the collector
    # A thread of ours that is in the profiler must be back before the interpreter goes: it waits for the interpreter's lock where
    # C++ allows no end of the thread, and the process would be aborted.
    elif _stopping.acquire(timeout=60):
        _stopping.release()


def threads():
    """The program's threads: "pthread_t:tid,…"."""
    threading = sys.modules.get("threading")
    if threading is None:
        return ""
    # Not threading.enumerate(), which takes a lock that the program may hold.
    known = list(threading._active.values())
    return ",".join(f"{t.ident}:{t.native_id}" for t in known if t.ident and getattr(t, "native_id", None))
