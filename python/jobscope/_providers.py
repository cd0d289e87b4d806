# SPDX-License-Identifier: Apache-2.0
"""Implements providers: collectors that are armed, started and stopped with each capture and add events to its trace."""
import atexit
import os
import traceback
from typing import NamedTuple, Optional

from jobscope import _errors, _native


class Event(NamedTuple):
    """An event of `duration_ns` from `begin_ns` on (0: a point in time). `line` is the name of a timeline on the
    provider's own plane, or the native id of a thread of this process (threading.get_native_id()), whose timeline it joins.
    `arguments` is a dict of at most 16 values."""

    name: str
    begin_ns: int
    duration_ns: int = 0
    line: object = None
    arguments: Optional[dict] = None


class Sample(NamedTuple):
    """A sample of a number, which viewers draw as a counter."""

    name: str
    at_ns: int
    value: float


class ProviderSession:
    """One capture, as passed to a provider. The times are those of the capture's window, None while unknown: the
    beginning is known from start() on, the end in stop(), or already in start() if it is planned.
    """

    __slots__ = (
        "_sink",
        "begin_monotonic_ns",
        "begin_realtime_ns",
        "device_tracer_level",
        "end_monotonic_ns",
        "end_realtime_ns",
        "host_tracer_level",
        "python_tracer_level",
    )

    def __init__(self, sink, levels, times):
        self._sink = sink
        self.host_tracer_level, self.device_tracer_level, self.python_tracer_level = levels
        times = [time or None for time in times]
        self.begin_monotonic_ns, self.begin_realtime_ns, self.end_monotonic_ns, self.end_realtime_ns = times

    def add(self, events):
        """Adds an iterable of Event, Sample or equivalent tuples, of any time and in any order. Any thread may call it,
        between start() and the end of stop(). Returns False if nothing is recorded.
        """
        code = _native.provider_add(self._sink, events, Sample)
        if code == _errors.StateError.code:
            return False
        _errors.raise_for(code, "the events could not be taken")
        return True

    def add_xspace(self, data):
        """Adds a serialized XSpace, whose planes become planes of the trace. May be called only inside of stop()."""
        _errors.raise_for(*_native.provider_add_xspace(self._sink, bytes(data)))


class _Adapter:
    """Called by the library: calls the provider's methods, and converts their exceptions to texts."""

    def __init__(self, provider):
        self._methods = {verb: getattr(provider, verb, None) for verb in ("arm", "start", "stop")}
        if not any(self._methods.values()):
            self._methods["stop"] = provider
        for verb, method in self._methods.items():
            if method is not None and not callable(method):
                raise TypeError(
                    f"a provider is a callable, or has methods arm, start or stop: {verb} of {provider!r} cannot be called"
                )

    def __call__(self, verb, sink, levels, times):
        method = self._methods[verb]
        if method is None:
            return None
        try:
            session = ProviderSession(sink, levels, times)
            result = method(session)
            if verb == "stop" and result is not None:
                if isinstance(result, (bytes, bytearray, memoryview)):
                    session.add_xspace(result)
                else:
                    session.add(result)
        except BaseException as error:  # pylint: disable=broad-except  # it would end one of the library's threads
            return _error_text(error)
        return None


def _error_text(error):
    frames = traceback.extract_tb(error.__traceback__)
    # The deepest frame outside of this package: where the provider's author looks first.
    here = os.path.dirname(os.path.abspath(__file__))
    place = next((f" ({f.filename}:{f.lineno})" for f in reversed(frames) if os.path.dirname(f.filename) != here), "")
    return f"{type(error).__name__}: {error}{place}"


_names = set()
_at_exit = False  # whether _unregister_all is registered


def _unregister_all():
    # While Python still works: a recording provider is stopped, and its events are in the trace.
    for name in tuple(_names):
        _native.provider_unregister(name)


def register_provider(name, provider, *, clock="monotonic"):
    """Registers `provider` for all later captures of this process that do not exclude it (`capture --frameworks`). May
    be called before or after a server has started.

    A provider has the methods arm(session), start(session) and stop(session), all optional. A capture calls them on a
    separate thread, for at most 5, 1 and 2 seconds, and continues without a provider that takes longer. stop() may return
    events (an iterable of Event, Sample or equivalent tuples) or an XSpace (bytes); a provider that is a callable is
    used as stop(). While the capture runs, any thread may call session.add(events). An exception becomes the
    provider's reason in the capture's table.

    `name` identifies it in the table and in --frameworks: 1 to 40 of a-z, 0-9, "_", "-", ".", beginning with a letter.
    `clock` is the clock of its times: "monotonic" (time.monotonic_ns) or "realtime" (time.time_ns).
    """
    if not isinstance(name, str):
        raise TypeError(f"a provider's name is a str, not {type(name).__name__}")
    if clock not in ("monotonic", "realtime"):
        raise _errors.InvalidError(f'clock = {clock!r} is none: "monotonic" or "realtime"')
    adapter = _Adapter(provider)
    _errors.raise_for(*_errors.call(_native.provider_register, name, clock == "realtime", adapter))
    global _at_exit
    if not _at_exit:
        _at_exit = True
        atexit.register(_unregister_all)
    _names.add(name)


def unregister_provider(name):
    """Removes a provider. If it records in a capture, stops it first. None of its methods is called afterwards."""
    if not isinstance(name, str):
        raise TypeError(f"a provider's name is a str, not {type(name).__name__}")
    _names.discard(name)
    _errors.raise_for(*_native.provider_unregister(name))
