# SPDX-License-Identifier: Apache-2.0
"""JAX's own profiler session, driven by jobscope. Runs within the traced program: imports nothing of the framework's."""

import atexit
import os
import sys
import time

_process = os.getpid()
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
    try:
        session = profiler.ProfilerSession(options)
    except Exception as error:  # its class is the extension's own
        if "ALREADY_EXISTS" in str(error) or "Another profiling session" in str(error):
            return (
                "JAX is being profiled already, by the program (jax.profiler.start_trace) or through its own profiler"
                " server; it has one session at a time"
            )
        return f"JAX's profiler did not start: {error}"
    _sessions.append(session)
    atexit.register(_at_exit)
    return None


def stop():
    """The XSpace's bytes, or why there are none."""
    try:
        session = _sessions.pop()
    except IndexError:
        return "its session was ended by the program's exit"
    atexit.unregister(_at_exit)
    return session.stop()


def _at_exit():
    """The interpreter ends before the capture does: this is the last moment at which JAX can be asked."""
    if _sessions and os.getpid() == _process:  # a forked child has the list, but not the profiler's threads
        hand_over(stop())  # noqa: F821: given by the collector


def threads():
    """The program's threads: "pthread_t:tid,…"."""
    threading = sys.modules.get("threading")
    if threading is None:
        return ""
    # Not threading.enumerate(), which takes a lock that the program may hold.
    known = list(threading._active.values())
    return ",".join(f"{t.ident}:{t.native_id}" for t in known if t.ident and getattr(t, "native_id", None))
