# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own profiler, as profiler_session.py drives it. Runs within the traced program: imports nothing of PyTorch.

What it records comes as one object per operator, and becomes an XSpace here.
"""

import os
import sys
import time

ORIGIN = "PyTorch"
_TAKEN = "PyTorch is being profiled already, by the program (torch.profiler); it has one profiler at a time"
_CANCELLED = "the program has started torch.profiler during the capture, which ends this recording"
_USER_SCOPE = 7
_MAX_SHAPE_CHARACTERS = 200
_ASYNC_LINE = 1 << 40  # no thread's
_DATA_LOADER = "enumerate(DataLoader)#"  # the user scope in which a DataLoader waits for its next batch
_ENDS_AT_ENQUEUE = ("nccl:", "xccl:")  # PyTorch ends the scopes of these collectives when they have been queued on the device
_INPUT_WAIT = "IteratorGetNext "  # events of this prefix are what XProf counts as waiting for input

_warm = False
_recording = False


def _autograd():
    return sys.modules["torch.autograd.profiler"]


def _native():
    return sys.modules["torch._C"]._autograd


def _profile(shapes):
    config = sys.modules["torch._C"]._profiler._ExperimentalConfig(profile_all_threads=True)
    return _autograd().profile(use_cpu=True, use_kineto=True, record_shapes=shapes, experimental_config=config)


def _enable(shapes):
    profile = _profile(shapes)
    config = profile.config()
    _native()._prepare_profiler(config, profile.kineto_activities)
    _native()._enable_profiler(config, profile.kineto_activities)


def _taken():
    # The first is of this process and by name private; the second of this thread.
    return getattr(_autograd(), "_is_profiler_enabled", False) or _native()._profiler_enabled()


def unfit():
    """Why there is nothing to record, or None."""
    global _warm
    try:
        _profile(False)
    except TypeError:
        return "this version of PyTorch has no profiler of all threads"
    except (AttributeError, KeyError) as error:
        return f"this version of PyTorch has no profiler that jobscope knows ({error})"
    if _taken():
        return _TAKEN
    if not _warm:
        _enable(False)  # the first one takes a second
        _native()._disable_profiler()
        os.register_at_fork(after_in_child=_in_child)
        _warm = True
    return None


def _in_child():
    """A forked child inherits a profiler that records, and that nobody will stop."""
    if _recording:
        _native()._enable_record_function(False)


def starts():
    """What the program starts a session of its own by: nothing has to make way, because PyTorch itself ends ours then."""
    return []


def begin(host_level, device_level, shapes):
    """A session, or None and why there is none."""
    global _recording
    if _taken():
        return None, _TAKEN
    begin_ns = time.time_ns()
    try:
        _enable(bool(shapes))
    except Exception as error:  # its class is PyTorch's own
        return None, f"PyTorch's profiler did not start: {error}"
    _recording = True
    return (host_level, shapes, begin_ns), None


def end(session, give):
    """Gives the XSpace. Why there is none, or None."""
    global _recording
    try:
        result = _native()._disable_profiler()
        _recording = False
        if result.trace_start_ns() == 0:
            return _CANCELLED
        events = result.events()
        del result
        xspace = _encode(events, *session)
    except Exception as error:  # its class is PyTorch's own
        return f"PyTorch's profiler failed: {error}"
    return give([xspace])


def _encode(events, host_level, shapes, begin_ns):
    # Some 8 us per event. Nobody waits for the GIL for longer than the interpreter's switch interval; to give it up more
    # often than that would cost the interval each time, in a program whose threads want it always.
    space = _Space(begin_ns)
    while events:
        event = events.pop()  # from the end: each goes as soon as it was read
        if event.device_type().value != 0 or (host_level < 2 and event.scope() != _USER_SCOPE):
            continue
        space.add(
            _ASYNC_LINE if event.is_async() else event.device_resource_id(),
            event.name(),
            event.start_ns(),
            event.duration_ns(),
            event.shapes() if shapes else None,
        )
    return space.encoded()


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _signed(number):
    return _varint(number & (1 << 64) - 1)


def _bytes(field, data):
    return bytes((field << 3 | 2,)) + _varint(len(data)) + data


def _text(field, text):
    return _bytes(field, text.encode("utf-8", "replace"))


class _Space:
    """An XSpace of one plane, /host:CPU, encoded as it grows."""

    def __init__(self, begin_ns):
        self._begin_ns = begin_ns
        self._names = {}  # text: id, encoded
        self._lines = {}  # id: events

    def add(self, line_id, name, start_ns, duration_ns, shapes):
        line = self._lines.get(line_id)
        if line is None:
            line = self._lines[line_id] = bytearray()
        if name.startswith(_DATA_LOADER):
            name = _INPUT_WAIT + name
        elif line_id == _ASYNC_LINE and name.startswith(_ENDS_AT_ENQUEUE):
            name += " (enqueue)"
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = b"\x08" + _varint(len(self._names) + 1)
        body = known + b"\x10" + _signed((start_ns - self._begin_ns) * 1000) + b"\x18" + _varint(max(duration_ns, 0) * 1000)
        if shapes and any(shapes):
            body += _bytes(4, b"\x08\x01" + _text(5, str(shapes)[:_MAX_SHAPE_CHARACTERS]))
        line += _bytes(4, body)

    def encoded(self):
        plane = bytearray(_text(2, "/host:CPU"))
        for line_id, events in self._lines.items():
            name = _text(2, "asynchronous operations") if line_id == _ASYNC_LINE else b""
            head = b"\x08" + _varint(line_id) + name + b"\x18" + _varint(self._begin_ns)
            plane += _bytes(3, head + bytes(events))
        for name, known in self._names.items():
            entry = known + _bytes(2, known + _text(2, name))
            plane += _bytes(4, entry)
        plane += _bytes(5, b"\x08\x01" + _bytes(2, b"\x08\x01" + _text(2, "shape")))
        return bytes(_bytes(1, bytes(plane)))
