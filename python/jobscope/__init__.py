# SPDX-License-Identifier: Apache-2.0
"""Profiles training jobs while they run.

    import jobscope

    server = jobscope.start_server("127.0.0.1:6009+rank")
    for i, batch in jobscope.steps(loader):
        with jobscope.trace("forward", rows=len(batch)):
            ...
"""
import os as _os
import sys as _sys

if _sys.version_info < (3, 10):
    # The extension would fail with "undefined symbol", because it uses the stable ABI of 3.10. pip refuses such a
    # wheel; a path does not.
    raise ImportError(
        "jobscope needs Python 3.10 or later, and this is %d.%d. Use a newer interpreter, or record a program of an older one from "
        "outside: jobscope run -- python train.py" % _sys.version_info[:2]
    )
if "t" in getattr(_sys, "abiflags", ""):
    # Some of these builds would find the extension (3.13t looks for .abi3.so), whose own error is less helpful.
    raise ImportError(
        "jobscope: not for free-threaded Python: its extension uses the stable ABI, which those builds do not have, and its "
        "tables are guarded by the GIL. Use the ordinary build of this version."
    )

from jobscope import _native
from jobscope._callbacks import KerasCallback, LightningCallback
from jobscope._capture import CaptureResult, capture, capture_steps, start, stop
from jobscope._errors import (
    AddressError,
    BusyError,
    DiskError,
    Error,
    ForkedError,
    InvalidError,
    RefusedError,
    StateError,
)
from jobscope._input_waits import input_waits
from jobscope._native import (
    counter,
    input_wait,
    instant,
    set_thread_name,
    step,
    trace,
    trace_at,
    trace_coarse,
)
from jobscope._providers import Event, ProviderSession, Sample, register_provider, unregister_provider
from jobscope._server import Server, start_server
from jobscope._steps import steps
from jobscope._traced import traced

__version__ = "0.1.0"

__all__ = [
    "AddressError",
    "BusyError",
    "CaptureResult",
    "DiskError",
    "Error",
    "Event",
    "ForkedError",
    "InvalidError",
    "KerasCallback",
    "LightningCallback",
    "ProviderSession",
    "RefusedError",
    "Sample",
    "Server",
    "StateError",
    "capture",
    "capture_steps",
    "counter",
    "enabled",
    "input_wait",
    "input_waits",
    "instant",
    "register_provider",
    "set_thread_name",
    "start",
    "start_server",
    "step",
    "steps",
    "stop",
    "trace",
    "trace_at",
    "trace_coarse",
    "traced",
    "unregister_provider",
]


def enabled(level=1):
    """Returns True while scopes of this level (1, 2 or 3) are recorded. Use it to skip work that only prepares the
    arguments of a scope."""
    if level not in (1, 2, 3):
        raise ValueError(f"enabled: the level is 1, 2 or 3, not {level!r}")
    return bool(_native.mask() >> (2 + level) & 1)


def _will_be_attached():
    """Returns whether an injected jobscope library will start the server, maybe later than this import."""
    injected = (_os.environ.get(name, "") for name in ("LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"))
    return "JOBSCOPE_LISTEN" in _os.environ and any("jobscope" in path for path in injected)


try:
    _native.configure(_os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "lib"), _will_be_attached())
except ImportError as _error:  # the job goes on without its profiler
    import warnings as _warnings

    _warnings.warn(f"jobscope: Python's scopes are not recorded: {_error}", RuntimeWarning, stacklevel=2)
