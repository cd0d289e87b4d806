# SPDX-License-Identifier: Apache-2.0
"""Implements programmatic captures: a process captures itself into a logdir, without a client or a network."""
import atexit
import collections
import os
import sys
from typing import Iterable, TypedDict, Union

from jobscope import _errors, _native, _nvtx

CaptureResult = collections.namedtuple("CaptureResult", "run_directory events lost")
CaptureResult.__doc__ = "The result of a capture: its directory, the number of events in it, and of those lost."

# Process ids in which a capture was started and not stopped by the program. A set, because a forked child inherits its
# parent's entry and must ignore it.
_open_in = set()
_at_exit = False  # whether _stop_at_exit is registered


def _stop_at_exit():
    pid = os.getpid()
    if pid in _open_in:
        _open_in.discard(pid)
        _native.capture_stop()  # the library logs an error


def _register_at_exit():
    global _at_exit
    if _at_exit:
        return
    _at_exit = True
    atexit.register(_stop_at_exit)
    util = sys.modules.get("multiprocessing.util")
    if util is not None and sys.modules["multiprocessing.process"].parent_process() is not None:
        # Before Python 3.13, children by fork and forkserver end without the functions of atexit.
        util.Finalize(None, _stop_at_exit, exitpriority=0)


class CaptureOptions(TypedDict, total=False):
    """Options of start(), capture_steps() and capture. Other options have the defaults of `jobscope capture`."""

    host_tracer_level: int
    device_tracer_level: int
    python_tracer_level: int
    frameworks: Union[str, Iterable[str]]
    record_shapes: bool
    device_tracer: str
    max_trace_bytes: int
    lookback_ms: int
    part_limit_bytes: int


# All others are recording options, which go to the library by their names.
_SIZES = ("max_trace_bytes", "lookback_ms", "part_limit_bytes")


def _text(name, value):
    kind = CaptureOptions.__annotations__[name]
    if kind is bool:
        return str(int(bool(value)))
    if kind is int:
        if not isinstance(value, int):
            raise TypeError(f"{name} is an int, not {type(value).__name__}")
        return str(int(value))
    text = value if isinstance(value, str) else ",".join(value)
    if "\n" in text:
        raise _errors.InvalidError(f"{name} = {text!r} has a line break")
    return text


def _native_options(options):
    for name in options:
        if name not in CaptureOptions.__annotations__:
            known = ", ".join(CaptureOptions.__annotations__)
            raise TypeError(f"{name!r} is not an option of captures; these are: {known}")
    by_name = [f"{name}={_text(name, value)}" for name, value in options.items() if name not in _SIZES]
    return ("\n".join(by_name), *(_errors.whole_number(name, options.get(name, 0)) for name in _SIZES))


def _opened():
    """Notes that a capture has begun. Its recorder must be alive, otherwise it will never have an event."""
    if not _native.recorder_lives():
        _native.capture_stop()
        raise _errors.ForkedError(_errors.DEAD_RECORDER)
    _register_at_exit()
    _open_in.add(os.getpid())
    _nvtx.serve()


def start(logdir, **options):
    """Begins to capture this process into `logdir`; stop() ends it.

    Creates and checks the logdir first. Returns when recording has begun: after a few milliseconds, or up to 100 ms in
    the first 100 ms of a process. A capture that is still running at the end of the process is stopped then.

    Options are those of CaptureOptions. `host_tracer_level` is 0 to 3 (default 2), `device_tracer_level` 0 or 1 (default 1),
    `python_tracer_level` 0 to 2 (default 0). `max_trace_bytes` limits the trace in memory (0: 256 MiB); further events count as
    lost. `lookback_ms` also includes events from before the start that are still in the rings. A trace of more than
    `part_limit_bytes` (0: 256 MiB) is split by time into several runs. `frameworks` selects the frameworks whose own events
    are recorded: "auto" (all that the process has imported), "none", or names of collectors and providers, "torch,jax".
    `record_shapes` also records the shapes of the inputs of PyTorch's operators. `device_tracer` selects the tracer for
    GPUs: "auto" (JAX or TensorFlow if they use GPUs without PyTorch, otherwise jobscope), "jobscope" or "framework".
    """
    _errors.raise_for(*_errors.call(_native.capture_start, logdir, *_native_options(options)))
    _opened()


def stop():
    """Ends the capture of start() or capture_steps(), writes it, and returns a CaptureResult.

    Blocks until the files are on disk, without the GIL. A step window that is still open is ended early.
    `lost` is None if it is unknown, because a collector hung.
    """
    code, text, run_directory, events, lost = _native.capture_stop()
    _open_in.discard(os.getpid())
    if code == _errors.StateError.code:
        text = "no capture was started: use jobscope.start, jobscope.capture_steps or `with jobscope.capture(...)`"
    _errors.raise_for(code, text)
    return CaptureResult(run_directory, events, lost)


def capture_steps(logdir, first, last, **options):
    """Captures whole steps: from the first step (jobscope.step) whose number is >= `first` to the end of the first
    whose number is >= `last`. If step `first` has begun already, captures the same number of later steps, also if
    their numbers restart. Returns when the capture is armed; the capture then ends and is written without
    further calls. stop() can be called at any time and returns the result. Options as in start(), except `lookback_ms`,
    because only whole steps are recorded.
    """
    for name, value in (("first", first), ("last", last)):
        if not isinstance(value, int):
            raise TypeError(f"{name} is an int, not {type(value).__name__}")
        if not -(1 << 63) <= value < 1 << 63:
            raise _errors.InvalidError(f"{name} = {value} is not a number of a step")
    _errors.raise_for(*_errors.call(_native.capture_steps, logdir, *_native_options(options), first, last))
    _opened()


class capture:  # pylint: disable=invalid-name
    """Captures a block: `with jobscope.capture(logdir) as it: ...`, then `it.result`. Options as in start()."""

    def __init__(self, logdir, **options):
        self._logdir = logdir
        self._options = options
        self.result = None

    def __enter__(self):
        start(self._logdir, **self._options)
        return self

    def __exit__(self, kind, error, _):
        try:
            self.result = stop()
        except _errors.Error:
            # The block's own exception is more informative.
            if error is None:
                raise
