# SPDX-License-Identifier: Apache-2.0
"""Runs one session of a framework's own profiler for jobscope, within the traced program.

Loaded after the text of one framework (jax_session.py, tensorflow_session.py), which defines ORIGIN, begin, end and
starts, and with functions of the collector: hand_over, refuse, interrupt and leave. Imports nothing of the framework.

A framework has one session at a time, and the program has priority: while our session is open, the functions by which
the program starts its own session (starts()) are wrapped, and end ours before they do their work.
"""

import _thread
import atexit
import functools
import os
import sys
import time

_MAX_STOP_S = 60  # maximum delay of the program's exit by a hanging profiler
_MAX_WAY_S = 5  # maximum delay of the program's own trace by one; handing over a recording takes under a second
_MAX_MERGE_S = 1

_given = globals()
_process = os.getpid()
_busy = _thread.RLock()  # held by the thread that starts or ends one of our sessions
_sessions = []  # at most one
_starting = []  # one entry per call of the program that is starting its own session
_wrapped = []  # (owner, name, wrapper, the owner's own attribute) while our session is open
_shutting_down = False
_hooked = False
_quiet = -1  # readable once the collector is done, after note_shutdown()
_memories = ()  # where XSpaces are written, in turn: one is being merged while the next is written
_turn = 0
_max_bytes = 0  # maximum size of one XSpace


def use(quiet, *memories):
    global _quiet, _memories
    _quiet, _memories = quiet, memories


def start(host_level, device_level, deadline_ns, max_bytes):
    """Returns why nothing is recorded, or None."""
    global _hooked, _max_bytes
    with _busy:
        if _shutting_down:
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
            # Hooks run in reverse order: this one runs before whatever the loaded framework shuts down at exit.
            atexit.register(_at_exit)
            _hooked = True
    return None


def stop():
    """Passes the XSpace, or the reason why there is none, to the collector; neither, if somebody else has ended the
    session and does so."""
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
        if vars(owner).get(name) is wrapper:  # else another wrapper is around it, which keeps calling this one
            setattr(owner, name, own)


def _after_ours(function):
    @functools.wraps(function)
    def start_own(*args, **kwargs):
        if os.getpid() != _process:  # a forked child, in which the lock may be held for ever
            return function(*args, **kwargs)
        _starting.append(None)  # from now on none of our sessions begins
        try:
            _make_way()
            return function(*args, **kwargs)
        finally:
            _starting.pop()

    return start_own


def _make_way():
    """Ends our session, because the program starts its own on this thread."""
    if _busy._is_owned():  # the collector's own start, before there is a session
        return
    ended = _thread.allocate_lock()
    ended.acquire()
    try:
        # On a thread of its own: a framework that hangs must not keep the program in here.
        _thread.start_new_thread(_end_for_the_program, (ended,))
    except RuntimeError:  # no thread is available
        _end_for_the_program(ended)
    if not ended.acquire(timeout=_MAX_WAY_S):
        _given["interrupt"](
            f"{_given['ORIGIN']} did not end this recording within {_MAX_WAY_S} s when the program began its own trace, which it may"
            " have refused: it has one session at a time"
        )


def _end_for_the_program(ended):
    try:
        with _busy:
            if _sessions and _starting:  # else the program has stopped waiting
                _given["interrupt"](
                    f"the program began its own trace, and {_given['ORIGIN']} has one session at a time: what it did from then on is"
                    " not in this one"
                )
                _end()
    except Exception:  # pylint: disable=broad-except  # our own error; the program's own start continues
        pass
    finally:
        ended.release()


def _give(pieces):
    """Writes an XSpace, given in pieces of bytes. Returns why it is not taken, or None."""
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
                left = left[os.write(memory, left) :]  # releases the GIL
        if reason is not None:
            os.ftruncate(memory, 0)
    except OSError as error:
        reason = f"what {_given['ORIGIN']} recorded cannot be handed over: {error}"
    if reason is None:
        _given["hand_over"](turn, size)
    return reason


def _at_exit():
    """Runs when the interpreter ends before the capture does: the last moment at which the framework can be queried."""
    global _shutting_down
    if os.getpid() != _process:
        return  # a forked child has the list, but none of the profiler's threads
    _shutting_down = True
    _given["note_shutdown"]()
    # A thread of ours that is in the profiler must return before the interpreter ends: it waits for the GIL in C++ code
    # that does not allow ending the thread, and the process would be aborted.
    if _busy.acquire(timeout=_MAX_STOP_S):
        try:
            if _sessions:
                _end()
        finally:
            _busy.release()
    # Nor may Python end it in the middle of a call, or before its recording is in the trace.
    deadline = time.monotonic() + _MAX_MERGE_S
    while _quiet >= 0 and time.monotonic() < deadline:
        try:
            os.read(_quiet, 8)
            return
        except BlockingIOError:
            time.sleep(0.002)


def threads():
    """Returns the program's threads: "pthread_t:tid,…"."""
    threading = sys.modules.get("threading")
    if threading is None:
        return ""
    # Not threading.enumerate(), which takes a lock that the program may hold.
    known = list(threading._active.values())
    return ",".join(f"{t.ident}:{t.native_id}" for t in known if t.ident and getattr(t, "native_id", None))
