# SPDX-License-Identifier: Apache-2.0
"""One session of a framework's own profiler, driven by jobscope from within the traced program.

Loaded behind the text of one framework (jax_session.py, tensorflow_session.py), which gives ORIGIN, begin, end
and starts, and with functions of the collector's: hand_over, refuse, interrupt and leave. Imports nothing of the framework's.

A framework has one session at a time, and the program comes first: while a session of ours is open, the functions by which the
program starts one of its own (starts()) are wrapped, and end ours before they do their work.
"""

import _thread
import atexit
import functools
import os
import sys
import time

_MAX_STOP_S = 60  # a profiler that hangs delays the program's exit, or its own trace, by no more than this
_MAX_MERGE_S = 1

_given = globals()
_process = os.getpid()
_busy = _thread.RLock()  # held by the thread that starts or ends a session of ours
_sessions = []  # at most one
_starting = []  # one entry per call of the program that is starting a session of its own
_wrapped = []  # (owner, name, wrapper, the owner's own attribute) while a session of ours is open
_leaving = False
_hooked = False
_quiet = -1  # readable once the collector is done, after leave()
_memories = ()  # where XSpaces go, in turn: one is being merged while the next is written
_turn = 0
_max_bytes = 0  # of one XSpace


def use(quiet, *memories):
    global _quiet, _memories
    _quiet, _memories = quiet, memories


def start(host_level, device_level, deadline_ns, max_bytes):
    """Why nothing is recorded, or None."""
    global _hooked, _max_bytes
    with _busy:
        if _leaving:
            return "the program is ending"
        if time.monotonic_ns() > deadline_ns:
            return f"could not acquire the GIL within 0.8 s: nothing of {_given['ORIGIN']} is recorded"
        if _starting:
            return f"the program is starting a trace of its own: {_given['ORIGIN']} has one session at a time"
        _wrap_starts()
        try:
            session, reason = _given["begin"](host_level, device_level)
        except BaseException:
            _unwrap_starts()
            raise
        if reason is not None:
            _unwrap_starts()
            return reason
        _sessions.append(session)
        _max_bytes = max_bytes
        if not _hooked:
            # Hooks run in reverse: before whatever the framework, which is loaded, takes down at exit.
            atexit.register(_at_exit)
            _hooked = True
    return None


def stop():
    """Gives the XSpace, or why there is none, to the collector; neither, if somebody else has ended the session and does so."""
    with _busy:
        if _sessions:
            _end()


def _end():
    try:
        reason = _given["end"](_sessions.pop(), _give)
    finally:
        _unwrap_starts()
    if reason is not None:
        _given["refuse"](reason)


def _wrap_starts():
    for owner, name in _given["starts"]():
        wrapper = _after_ours(getattr(owner, name))
        _wrapped.append((owner, name, wrapper, vars(owner)[name]))
        setattr(owner, name, wrapper)


def _unwrap_starts():
    while _wrapped:
        owner, name, wrapper, own = _wrapped.pop()
        if vars(owner).get(name) is wrapper:  # else somebody has put another one around it, which keeps calling this one
            setattr(owner, name, own)


def _after_ours(function):
    @functools.wraps(function)
    def start_own(*args, **kwargs):
        if os.getpid() != _process:  # a forked child, in which the lock may be held for ever
            return function(*args, **kwargs)
        _starting.append(None)  # from now on no session of ours begins
        try:
            _make_way()
            return function(*args, **kwargs)
        finally:
            _starting.pop()

    return start_own


def _make_way():
    """Ends our session: the program starts one of its own, on this thread."""
    if not _busy.acquire(timeout=_MAX_STOP_S):
        return
    try:
        # The collector's own start comes by here too, before there is a session.
        if _sessions:
            _given["interrupt"](
                f"the program began its own trace, and {_given['ORIGIN']} has one session at a time: what it did from then on is"
                " not in this one"
            )
            _end()
    except Exception:  # pylint: disable=broad-except  # of ours; the program's own start goes on
        pass
    finally:
        _busy.release()


def _give(pieces):
    """An XSpace in pieces of bytes. Why it is not taken, or None."""
    global _turn
    turn, _turn = _turn, (_turn + 1) % len(_memories)
    memory = _memories[turn]
    reason = None
    try:
        os.ftruncate(memory, 0)
        size = os.lseek(memory, 0, os.SEEK_SET)
        for piece in pieces:
            left = memoryview(piece)
            size += len(left)
            if size > _max_bytes:
                reason = (
                    f"{_given['ORIGIN']} recorded more than the {_max_bytes >> 20} MiB that a capture may take in this process:"
                    " capture for a shorter time, or raise JOBSCOPE_STORE_MB"
                )
                break
            while left:
                left = left[os.write(memory, left) :]  # gives the GIL up
        if reason is not None:
            os.ftruncate(memory, 0)
    except OSError as error:
        reason = f"what {_given['ORIGIN']} recorded cannot be handed over: {error}"
    if reason is None:
        _given["hand_over"](turn, size)
    return reason


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
