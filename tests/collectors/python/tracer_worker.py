# SPDX-License-Identifier: Apache-2.0
"""Cases of the tracer that end, fork or block a process, each in a process of its own; a failure is an exception.

usage: tracer_worker.py CASE [ARGUMENT...]
"""
import ctypes
import os
import re
import signal
import sys
import threading

from traced import DRIVER, INTERPRETERS, MONITORING, STORE_BYTES, Trace, outer_function, raises, recurse, spin, sub_interpreter

# Its functions are called with the GIL, which those of DRIVER are not.
DRIVER_WITH_GIL = ctypes.PyDLL(os.environ["JOBSCOPE_TEST_DRIVER"])


def has_many_stacks(level):
    leave, there = threading.Event(), threading.Semaphore(0)

    def stay():
        there.release()
        leave.wait()

    # sys.monitoring goes through all frames when it is switched, in one piece.
    count, depth = (50, 50) if level == "2" and MONITORING else (200, 300)
    threads = [threading.Thread(target=recurse, args=(depth, stay)) for _ in range(count)]
    for thread in threads:
        thread.start()
        there.acquire()
    with Trace(int(level)) as trace:
        outer_function(100)
    leave.set()
    for thread in threads:
        thread.join()
    holds = dict(re.findall(r"([a-z][a-z ]*) [0-9.]+ ms \(([0-9.]+)", trace.report["holds"]))
    assert {"arming", "sampling" if level == "1" else "installing"} <= set(holds), trace.report["holds"]
    assert max(map(float, holds.values())) < 3, trace.report["holds"]


def leaves(level, way):
    DRIVER.driver_start(int(level), STORE_BYTES)
    threads = [threading.Thread(target=outer_function, args=(20 if way != "daemon" else 10_000,), daemon=way == "daemon")
               for _ in range(4)]
    for thread in threads:
        thread.start()
    outer_function(30)
    if way == "exit":
        sys.exit(0)
    if way == "exception":
        sys.excepthook = lambda *_: os._exit(0)
        raises()


def forks(level):
    with Trace(int(level), MIN_US=0) as trace:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                outer_function(2)
                sys.exit(7)
            _, status = os.waitpid(child, 0)
            assert os.WEXITSTATUS(status) == 7, status
            outer_function(2)
    assert trace.report["state"] == "on", trace.report
    if level == "2":
        assert len(trace.named("outer_function")) == 10, trace.named("outer_function")


def check_held_gil(level, trace):
    if level == "1":  # samples do not need the GIL
        assert trace.report["state"] == "on", trace.report
        holding = [event for event in trace.events if "gil" in event.name and event.duration_ps > 50e9]
        assert holding, trace.events
    else:
        assert trace.report["state"] == "degraded", trace.report
        assert "could not acquire the GIL" in trace.report["reason"], trace.report


def holds_the_gil(level):
    with Trace(int(level)) as trace:
        outer_function(50)
        DRIVER.driver_stop_later(100)
        DRIVER_WITH_GIL.driver_await_end()
    check_held_gil(level, trace)
    # The session waits for a collector for 2 s.
    assert trace.report["longest_verb_ms"] < 1800, trace.report
    assert trace.named("outer_function"), trace.report
    report = trace.report
    assert report["attempted"] == report["events"] + sum(report["lost"].values()) + report["outside"], report
    # The late request for the GIL has ended before the next trace.
    with Trace(int(level)) as trace:
        outer_function(50)
    assert trace.report["state"] == "on", trace.report


def never_releases_the_gil(level):
    """From before the start until after the end: nobody waits for what comes later."""
    with Trace(int(level), start=False) as trace:
        DRIVER.driver_start_later(100)
        DRIVER.driver_stop_later(1500)  # a busy machine may be a second late with the start
        DRIVER_WITH_GIL.driver_await_end()
        # The late request gets the GIL now, within a few switch intervals, and finds that its session has ended.
        spin(100)
        assert sys.getprofile() is None
        if MONITORING:
            assert MONITORING.get_tool(MONITORING.PROFILER_ID) is None
    check_held_gil(level, trace)
    assert trace.report["longest_verb_ms"] < 1800, trace.report
    with Trace(int(level), MIN_US=0) as trace:
        outer_function(50)
    assert trace.report["state"] == "on" and trace.named("outer_function"), trace.report


RUNS = """
import os
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
os.set_blocking({until}, False)
os.write({here}, b"x")
while True:
    [fibonacci(5) for _ in (fibonacci(i) for i in range(5))]
    try:
        os.read({until}, 1)
        break
    except BlockingIOError:
        pass
"""


def opens_a_library(level):
    """While its constructor runs, a symbol lookup waits; a thread that waited for it with the GIL would wait for ever."""
    with Trace(int(level)):  # the first capture finds Python's functions
        pass
    here, here_writer = os.pipe()
    until, until_writer = os.pipe()
    os.environ["JOBSCOPE_TEST_PIPES"] = f"{here_writer} {until}"
    opening = threading.Thread(target=DRIVER.driver_open, args=(os.environ["JOBSCOPE_TEST_SLOW_LIBRARY"].encode(),))
    opening.start()
    assert os.read(here, 1) == b"\0"
    signal.alarm(60)  # ends the process, whichever thread has the GIL
    with Trace(int(level), MIN_US=0) as trace:
        outer_function(50)
        os.close(until_writer)  # reads and imports what it likes from here on
        opening.join()
    signal.alarm(0)
    assert trace.report["state"] == "on" and trace.named("outer_function"), trace.report


def runs_out_of_memory(level):
    with Trace(int(level), SAMPLE_HZ=1000, MIN_US=0) as trace:
        outer_function(20)
        DRIVER.driver_fail_allocations(int(level == "2"), 1)
        for depth in range(0, 300, 10):  # new stacks, for which memory is taken
            recurse(depth, lambda: spin(3))
    assert trace.report["state"] == {"1": "failed", "2": "degraded"}[level], trace.report
    assert "out of memory" in trace.report["reason"], trace.report
    assert trace.report["account_unknown"] == (level == "1"), trace.report
    with Trace(int(level), SAMPLE_HZ=1000, MIN_US=0) as trace:
        outer_function(20)
    assert trace.report["state"] == "on" and trace.named("outer_function"), trace.report


def has_sub_interpreters(level):
    here, here_writer = os.pipe()
    until, until_writer = os.pipe()
    others = [sub_interpreter() for _ in range(2)]
    threads = [threading.Thread(target=INTERPRETERS.run_string, args=(other, RUNS.format(here=here_writer, until=until)))
               for other in others]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert os.read(here, 1) == b"x"
    # Before 3.12 all share one lock, and wait for it.
    captures = 3 if sys.version_info < (3, 12) else 10 if level == "1" else 40
    for _ in range(captures):
        with Trace(int(level), SAMPLE_HZ=1000, MIN_US=0) as trace:
            outer_function(50 if level == "1" else 2)
        report = trace.report
        if sys.version_info >= (3, 12) and level == "1":
            assert report["state"] == "degraded" and "there were sub-interpreters" in report["reason"], report
            assert not trace.events, trace.events
        else:
            assert report["state"] == "on", report
            assert trace.named("outer_function"), report
    os.close(until_writer)
    for thread in threads:
        thread.join()
    for other in others:
        INTERPRETERS.destroy(other)
    # Without them all is as before.
    with Trace(int(level), SAMPLE_HZ=1000, MIN_US=0) as trace:
        outer_function(50)
    assert trace.report["state"] == "on" and trace.named("outer_function"), trace.report


CASES = {case.__name__: case for case in (has_many_stacks, leaves, forks, holds_the_gil, never_releases_the_gil,
                                      opens_a_library, runs_out_of_memory, has_sub_interpreters)}

if __name__ == "__main__":
    CASES[sys.argv[1]](*sys.argv[2:])
