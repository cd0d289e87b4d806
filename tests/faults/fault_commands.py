# SPDX-License-Identifier: Apache-2.0
"""Commands of the worker of the fault matrix, which it runs besides training: `do_NAME(server, arguments)`."""
import ctypes
import os
import resource
import signal
import sys
import threading
import time

import jobscope

_kept = []  # what was taken, until it is given back


def do_give_back(_):
    """Ends what the other commands have begun."""
    while _kept:
        _kept.pop()()
    return True


# ---- load ----


def do_flood(_, scopes_per_second):
    """Scopes from a thread of its own; 0 ends it."""
    do_give_back(_)
    if scopes_per_second == "0":
        return 0
    ended = threading.Event()

    def run():
        made, began = 0, time.monotonic()
        while not ended.wait(0.001):
            for made in range(made, int((time.monotonic() - began) * float(scopes_per_second))):
                with jobscope.trace("flood", sequence=made):
                    pass

    threading.Thread(target=run, daemon=True).start()
    _kept.append(ended.set)
    return scopes_per_second


def do_threads(_, count):
    """`count` threads, each with scopes of its own, that live until a command ends them."""
    threading.stack_size(128 << 10)
    ended, recorded = threading.Event(), threading.Semaphore(0)

    def run():
        while not ended.is_set():
            with jobscope.trace("in a thread"):
                pass
            recorded.release()
            ended.wait(2)

    made = [threading.Thread(target=run, daemon=True) for _ in range(int(count))]
    for thread in made:
        thread.start()
    for _ in made:
        recorded.acquire()

    def end():
        ended.set()
        for thread in made:
            thread.join()

    _kept.append(end)
    return len(made)


def do_long_names(_, size):
    """A scope, a step and a counter of such a name, an argument of such a text, again and again until the end."""
    name, ended = "n" * int(size), threading.Event()

    def run():
        jobscope.set_thread_name(name)
        while not ended.wait(0.005):
            with jobscope.trace(name, text=name, **{name: 1}):
                jobscope.instant(name)
                jobscope.counter(name, 1)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    _kept.append(lambda: (ended.set(), thread.join()))
    return len(name)


# ---- children ----


def _child(body):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        body()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def do_fork(_, how):
    """Exit code of a child that records, and then ends in this way: exec, exit, _exit."""

    def body():
        for step in range(1000):
            with jobscope.step(step), jobscope.trace("in a child"):
                pass
        code = 7 if jobscope.enabled() else 0
        if how == "exec":
            os.execv(sys.executable, [sys.executable, "-c", f"import sys; sys.exit({code})"])
        (os._exit if how == "_exit" else sys.exit)(code)

    return _child(body)


# ---- libraries ----


def do_dlclose(_, module):
    """Loads a library, records from it, unloads it, again and again. The number of its mappings that are left."""
    unload = ctypes.CDLL(None).dlclose
    unload.argtypes = [ctypes.c_void_p]
    for _ in range(20):
        library = ctypes.CDLL(module)
        library.module_a_record(b"text")
        unload(library._handle)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sum(module in line for line in maps)


# ---- what runs out ----


def do_take_descriptors(_):
    """All that are left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        pass
    _kept.append(lambda: [os.close(one) for one in taken])
    return len(taken)


def do_take_memory(_, left_mib):
    """All of the address space but so much."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (int(left_mib) << 20), hard))
    _kept.append(lambda: resource.setrlimit(resource.RLIMIT_AS, (soft, hard)))
    return True


def do_take_threads(_):
    """All that the user of this process may have; it must be one of its own (FAULTS_USER)."""
    threading.stack_size(128 << 10)
    resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))
    ended, taken = threading.Event(), []
    try:
        while len(taken) < 1000:
            thread = threading.Thread(target=ended.wait, daemon=True)
            thread.start()
            taken.append(thread)
    except RuntimeError:
        pass
    _kept.append(lambda: (ended.set(), [thread.join() for thread in taken]))
    return len(taken)


def become(user):
    """A user that nobody else is: root's threads are not limited."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    pr_set_dumpable = 4
    ctypes.CDLL(None).prctl(pr_set_dumpable, 1)  # /proc/self stays readable
