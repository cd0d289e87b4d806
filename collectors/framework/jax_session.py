# SPDX-License-Identifier: Apache-2.0
"""Implements JAX's own profiler session for profiler_session.py. Runs within the traced program: imports nothing of
JAX."""

import sys

ORIGIN = "JAX"
_TAKEN = (
    "JAX is being profiled already, by the program (jax.profiler.start_trace) or through its own profiler server; it has one"
    " session at a time"
)


def _profiler():
    found = sys.modules.get("jaxlib._profiler")
    if found is None:  # its name before 0.6
        found = getattr(sys.modules.get("jaxlib.xla_extension"), "profiler", None)
    return found


def unfit():
    """Returns why there is nothing to record, or None."""
    profiler = _profiler()
    if profiler is None or not hasattr(profiler, "ProfileOptions"):
        return "this version of JAX has no profiler that jobscope knows"
    if not hasattr(profiler.ProfilerSession, "stop"):
        return "this version of JAX has a profiler that does not hand over what it records"
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and not getattr(bridge, "_backends", True):
        return "JAX is loaded, and has not computed anything yet"
    return None


def starts():
    """Returns the functions by which the program starts its own session, as (owner, attribute):
    jax.profiler.start_trace and trace use this one."""
    return [(_profiler(), "ProfilerSession")]


def begin(host_level, device_level):
    """Returns a session, or None and the reason why there is none."""
    profiler = _profiler()
    options = profiler.ProfileOptions()
    options.host_tracer_level = host_level
    options.python_tracer_level = 0
    if device_level == 0 and hasattr(options, "advanced_configuration"):
        # There is no option for this: a name that XLA's GPU tracer does not know keeps it from starting.
        options.advanced_configuration = {"jobscope_traces_devices": True}
    if getattr(getattr(sys.modules.get("jax._src.profiler"), "_profile_state", None), "profile_session", None) is not None:
        return None, _TAKEN
    # A session by somebody else causes no error here, but when this one is stopped.
    return profiler.ProfilerSession(options), None


def end(session, give):
    """Passes on the XSpace. Returns why there is none, or None."""
    try:
        xspace = session.stop()
    except Exception as error:  # its class is the extension's own
        if "ALREADY_EXISTS" in str(error) or "Another profiling session" in str(error):
            return _TAKEN
        return f"JAX's profiler failed: {error}"
    return give([xspace])
