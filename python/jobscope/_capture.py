# SPDX-License-Identifier: Apache-2.0
"""Implements programmatic captures: this process captures itself into a logdir, without a client or a network."""
import atexit
import collections
import os

from jobscope import _errors, _native, _nvtx

CaptureResult = collections.namedtuple("CaptureResult", "run_directory events lost")
CaptureResult.__doc__ = "What became of a capture: where it is, the events in it, and the events attempted that are not in it."

# Process ids in which a capture was started and not stopped by the program. A set, because a forked child inherits its
# parent's entry and must ignore it.
_open_in = set()
_at_exit = False  # whether _stop_at_exit is registered


def _stop_at_exit():
    if os.getpid() in _open_in:
        _native.capture_stop()


def _options(
    host_tracer_level,
    device_tracer_level,
    python_tracer_level,
    max_trace_bytes,
    lookback_ms,
    part_limit_bytes,
    frameworks,
    record_shapes,
    device_tracer,
):
    levels = (host_tracer_level, device_tracer_level, python_tracer_level)
    for level in levels:
        if not isinstance(level, int):
            raise TypeError(f"a tracer level is an int, not {type(level).__name__}")
        if not 0 <= level <= 3:
            raise _errors.InvalidError(f"tracer level {level} is out of range: 0 to 3")
    return (
        *levels,
        _errors.whole_number("max_trace_bytes", max_trace_bytes),
        _errors.whole_number("lookback_ms", lookback_ms),
        _errors.whole_number("part_limit_bytes", part_limit_bytes),
        frameworks if isinstance(frameworks, str) else ",".join(frameworks),
        bool(record_shapes),
        device_tracer,
    )


def _opened():
    """Notes that a capture has begun. Its recorder must be alive, otherwise it will never have an event."""
    if not _native.recorder_lives():
        _native.capture_stop()
        raise _errors.ForkedError(_errors.DEAD_RECORDER)
    global _at_exit
    if not _at_exit:
        _at_exit = True
        atexit.register(_stop_at_exit)
    _open_in.add(os.getpid())
    _nvtx.serve()


def start(
    logdir,
    *,
    host_tracer_level=2,
    device_tracer_level=1,
    python_tracer_level=0,
    max_trace_bytes=0,
    lookback_ms=0,
    part_limit_bytes=0,
    frameworks="auto",
    record_shapes=False,
    device_tracer="auto",
):
    """Begins to capture this process into `logdir`; stop() ends it.

    First creates and checks the logdir. Recording has begun when this returns, in a few milliseconds (up to
    100 ms in the first 100 ms of a process). A capture that is still running at the end of the process is stopped then.

    `max_trace_bytes` bounds the trace in memory (0: 256 MiB); further events are lost and counted.
    `lookback_ms` takes events from before the start, if they are still in the rings. A trace of more
    than `part_limit_bytes` (0: 256 MiB) is cut by time into several runs. `frameworks` says whose own events are
    taken: "auto" (of all that the process has imported), "none", or names of collectors and providers, "torch,jax". With
    `record_shapes` PyTorch's operators have the shapes of their inputs. `device_tracer` says who traces GPUs: "auto" (JAX or
    TensorFlow where they use GPUs without PyTorch, else jobscope), "jobscope" or "framework".
    """
    options = _options(
        host_tracer_level,
        device_tracer_level,
        python_tracer_level,
        max_trace_bytes,
        lookback_ms,
        part_limit_bytes,
        frameworks,
        record_shapes,
        device_tracer,
    )
    _errors.raise_for(*_native.capture_start(logdir, *options))
    _opened()


def stop():
    """Ends the capture of start() or capture_steps(), writes it, and returns a CaptureResult.

    Blocks until the files are on disk, without the GIL. A step window that is still open is ended early.
    `lost` is None where it is not known, because a collector hung.
    """
    code, text, run_directory, events, lost = _native.capture_stop()
    _open_in.discard(os.getpid())
    if code == _errors.StateError.code:
        text = "no capture was started: use jobscope.start, jobscope.capture_steps or `with jobscope.capture(...)`"
    _errors.raise_for(code, text)
    return CaptureResult(run_directory, events, lost)


def capture_steps(
    logdir,
    first,
    last,
    *,
    host_tracer_level=2,
    device_tracer_level=1,
    python_tracer_level=0,
    max_trace_bytes=0,
    lookback_ms=0,
    part_limit_bytes=0,
    frameworks="auto",
    record_shapes=False,
    device_tracer="auto",
):
    """Captures whole steps: from the first step (jobscope.step) whose number is >= `first` to the end of the first
    whose number is >= `last`. Returns once armed; the capture ends and is written by itself. stop() can be called
    at any time and returns the result. Options as in start().
    """
    for name, value in (("first", first), ("last", last)):
        if not isinstance(value, int):
            raise TypeError(f"{name} is an int, not {type(value).__name__}")
        if not -(1 << 63) <= value < 1 << 63:
            raise _errors.InvalidError(f"{name} = {value} is not a number of a step")
    options = _options(
        host_tracer_level,
        device_tracer_level,
        python_tracer_level,
        max_trace_bytes,
        lookback_ms,
        part_limit_bytes,
        frameworks,
        record_shapes,
        device_tracer,
    )
    _errors.raise_for(*_native.capture_steps(logdir, *options, first, last))
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
