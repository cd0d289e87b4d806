# SPDX-License-Identifier: Apache-2.0
"""One session of a framework's own profiler, driven by jobscope from within the traced program.

Loaded behind the text of one framework (jax_session.py, tensorflow_session.py), which gives ORIGIN, begin and end, and with
functions of the collector's: hand_over, refuse and leave. Imports nothing of the framework's.
"""

import _thread
import atexit
import os
import sys
import time

_MAX_BYTES = 1 << 30
_MAX_STOP_S = 60  # a profiler that hangs does not keep the program from its end for longer
_MAX_MERGE_S = 1

_given = globals()
_process = os.getpid()
_busy = _thread.allocate_lock()  # held by whoever is in the framework's profiler
_sessions = []  # at most one
_leaving = False
_hooked = False
_quiet = -1  # readable once the collector is done, after leave()
_memory = -1  # where an XSpace goes


def use(quiet, memory):
    global _quiet, _memory
    _quiet, _memory = quiet, memory


def start(host_level, device_level, deadline_ns, shapes=0):
    """Why nothing is recorded, or None."""
    global _hooked
    with _busy:
        if _leaving:
            return "the program is ending"
        if time.monotonic_ns() > deadline_ns:
            return f"Python's lock was not to be had for 0.8 s: nothing of {_given['ORIGIN']} is recorded"
        session, reason = _given["begin"](host_level, device_level, shapes)
        if reason is not None:
            return reason
        _sessions.append(session)
        if not _hooked:
            # Hooks run in reverse: before whatever the framework, which is loaded, takes down at exit.
            atexit.register(_at_exit)
            _hooked = True
    return None


def stop():
    """Gives the XSpace, or why there is none, to the collector; neither, if the exit hook has done so."""
    with _busy:
        if _sessions:
            _end()


def _end():
    reason = _given["end"](_sessions.pop(), _give)
    if reason is not None:
        _given["refuse"](reason)


def _give(pieces):
    """An XSpace in pieces of bytes. Why it is not taken, or None."""
    try:
        os.ftruncate(_memory, 0)
        size = os.lseek(_memory, 0, os.SEEK_SET)
        for piece in pieces:
            left = memoryview(piece)
            size += len(left)
            if size > _MAX_BYTES:
                return f"{_given['ORIGIN']} recorded more than {_MAX_BYTES >> 20} MiB; capture for a shorter time"
            while left:
                left = left[os.write(_memory, left) :]  # gives Python's lock up
    except OSError as error:
        return f"what {_given['ORIGIN']} recorded cannot be handed over: {error}"
    _given["hand_over"](size)
    return None


def _at_exit():
    """The interpreter ends before the capture does: this is the last moment at which the framework can be asked."""
    global _leaving
    if os.getpid() != _process:
        return  # a forked child has the list, but none of the profiler's threads
    _leaving = True
    _given["leave"]()
    # A thread of ours that is in the profiler must be back before the interpreter goes: it waits for the interpreter's lock where
    # C++ allows no end of the thread, and the process would be aborted.
    if _busy.acquire(timeout=_MAX_STOP_S):
        try:
            if _sessions:
                _end()
        finally:
            _busy.release()
    # Nor may Python end it in the middle of a call, or before it has put what it got into the trace.
    deadline = time.monotonic() + _MAX_MERGE_S
    while _quiet >= 0 and time.monotonic() < deadline:
        try:
            os.read(_quiet, 8)
            return
        except BlockingIOError:
            time.sleep(0.002)


def threads():
    """The program's threads: "pthread_t:tid,…"."""
    threading = sys.modules.get("threading")
    if threading is None:
        return ""
    # Not threading.enumerate(), which takes a lock that the program may hold.
    known = list(threading._active.values())
    return ",".join(f"{t.ident}:{t.native_id}" for t in known if t.ident and getattr(t, "native_id", None))
