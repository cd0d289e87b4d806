# SPDX-License-Identifier: Apache-2.0
"""Implements TensorFlow's own profiler session for profiler_session.py. Runs within the traced program: imports nothing
of TensorFlow."""

import os
import shutil
import sys
import tempfile

ORIGIN = "TensorFlow"
_MODULE = "tensorflow.python.profiler.internal._pywrap_profiler"
_CLIENT_MODULE = "tensorflow.python.profiler.internal._pywrap_profiler_plugin"


def unfit():
    """Returns why there is nothing to record, or None."""
    profiler = sys.modules.get(_MODULE)
    if not hasattr(getattr(profiler, "ProfilerSession", None), "export_to_tb"):
        return "this version of TensorFlow has no profiler that jobscope knows"
    return None


def starts():
    """Returns the functions by which the program starts its own session, as (owner, attribute). The first is used by
    tf.profiler.experimental.start, Profile, Keras' TensorBoard callback and tf.summary.trace_on; the second by
    tf.profiler.experimental.client.trace, which may call the server of this very process.
    """
    found = [(sys.modules[_MODULE].ProfilerSession, "start")]
    client = sys.modules.get(_CLIENT_MODULE)
    if hasattr(client, "trace"):
        found.append((client, "trace"))
    return found


def begin(host_level, device_level):
    """Returns a session with its folder, or None and the reason why there is none."""
    options = {"host_tracer_level": host_level, "python_tracer_level": 0, "device_tracer_level": device_level}
    try:
        folder = tempfile.mkdtemp(prefix="jobscope-tensorflow-")
    except OSError as error:
        return None, f"there is no folder for what TensorFlow records ({error}); set TMPDIR"
    try:
        session = sys.modules[_MODULE].ProfilerSession()
        session.start(folder, options)
    except Exception as error:  # its class is TensorFlow's own
        shutil.rmtree(folder, ignore_errors=True)
        if type(error).__name__ == "AlreadyExistsError" or "Another profiling session" in str(error):
            return None, (
                "TensorFlow is being profiled already, by the program (tf.profiler.experimental.start, the TensorBoard"
                " callback) or through its own profiler server; it has one session at a time"
            )
        return None, f"TensorFlow's profiler did not start: {error}"
    return (session, folder), None


def end(session_and_folder, give):
    """Passes on the XSpace. Returns why there is none, or None."""
    session, folder = session_and_folder
    try:
        session.export_to_tb()
        return _give_file(folder, give)
    except OSError as error:
        return f"what TensorFlow wrote into {folder} cannot be read: {error}"
    except Exception as error:  # its class is TensorFlow's own
        return f"TensorFlow's profiler failed: {error}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _give_file(folder, give):
    for where, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".xplane.pb"):
                with open(os.path.join(where, name), "rb") as file:
                    return give(iter(lambda: file.read(1 << 20), b""))
    return "TensorFlow wrote no trace; is its temporary folder full? Set TMPDIR"
