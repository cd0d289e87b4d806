# SPDX-License-Identifier: Apache-2.0
"""JAX's own profiler session, driven by jobscope. Runs within the traced program: imports nothing of the framework's."""

import _thread
import atexit
import os
import sys
import time

_TAKEN = (
    "JAX is being profiled already, by the program (jax.profiler.start_trace) or through its own profiler server; it has one"
    " session at a time"
)
_process = os.getpid()
_stopping = _thread.allocate_lock()  # held while a session is being stopped
_sessions = []  # at most one; taken out by whoever stops it


def _profiler():
    found = sys.modules.get("jaxlib._profiler")
    if found is None:  # as it was called before 0.6
        found = getattr(sys.modules.get("jaxlib.xla_extension"), "profiler", None)
    return found


def unfit():
    """Why there is nothing to record, or None."""
    profiler = _profiler()
    if profiler is None or not hasattr(profiler, "ProfileOptions"):
        return "this version of JAX has no profiler that jobscope knows"
    if not hasattr(profiler.ProfilerSession, "stop"):
        return "this version of JAX has a profiler that does not hand over what it records"
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and not getattr(bridge, "_backends", True):
        return "JAX is loaded, and has not computed anything yet"
    return None


def start(host_level, device_level, deadline_ns):
    """Why nothing is recorded, or None."""
    if time.monotonic_ns() > deadline_ns:
        return "Python's lock was not to be had for 0.8 s: nothing of JAX is recorded"
    profiler = _profiler()
    options = profiler.ProfileOptions()
    options.host_tracer_level = host_level
    options.python_tracer_level = 0
    if device_level == 0 and hasattr(options, "advanced_configuration"):
        # There is no option for this: a name that XLA's tracer of GPUs does not know keeps it from starting.
        options.advanced_configuration = {"jobscope_traces_devices": True}
    if getattr(getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None), "profile_session", None) is not None:
        return _TAKEN
    # Somebody else's session is no error here yet, but when this one is stopped.
    session = profiler.ProfilerSession(options)
    _sessions.append(session)
    atexit.register(_at_exit)
    return None


def stop():
    """The XSpace's bytes, or why there are none."""
    with _stopping:
        try:
            session = _sessions.pop()
        except IndexError:
            return "its session was ended by the program's exit"
        try:
            answer = session.stop()
        except Exception as error:  # its class is the extension's own
            answer = _refusal(error)
        del session
    atexit.unregister(_at_exit)
    return answer


def _refusal(error):
    if "ALREADY_EXISTS" in str(error) or "Another profiling session" in str(error):
        return _TAKEN
    return f"JAX's profiler failed: {error}"


def _at_exit():
    """The interpreter ends before the capture does: this is the last moment at which JAX can be asked."""
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
