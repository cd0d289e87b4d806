# SPDX-License-Identifier: Apache-2.0
"""Measures how long a program that computes in Python waits for the GIL while it is captured.

  PYTHONPATH=build/python python3 bench/python_lock_bench.py [--captures N] [--threads N] [--json FILE]

A thread computes in pieces of about 0.1 ms and measures three times for each: wall time, its CPU time, and the time for
which the kernel made it wait for a processor. The remainder is waiting for the GIL (and waking up); so other load on
the machine does not count, except for its effect on the thread that holds the GIL. The longest wait of a kind bounds
how long the GIL was held. The client requests the captures, from another process; nothing in this process does. The
output also shows what the library itself has measured for each use of the GIL: "1.2 ms (0.9)" are wall time and the
thread's CPU time; the latter is what an idle machine would show.
"""
import argparse
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import figures
import jobscope

KINDS = {
    "no capture": None,
    "level 0": ["--python_tracer_level=0", "--frameworks=none"],
    "level 0, frameworks": ["--python_tracer_level=0"],
    "level 1": ["--python_tracer_level=1", "--frameworks=none"],
    "level 2": ["--python_tracer_level=2", "--frameworks=none"],
    "a provider of 5,000 events": ["--python_tracer_level=0", "--frameworks=events"],
}
DURATION_MS = 300
TELLING_NS = 1_000_000


class Events:
    """A provider that adds its events at the end."""

    def start(self, session):
        pass

    def stop(self, session):
        begin = session.begin_monotonic_ns
        return (jobscope.Event("made up", begin + i, 1, "made up", {"number": i}) for i in range(5000))


def piece(count):
    total = 0
    for i in range(count):
        total += i * i
    return total


def many_functions(depth, innermost):
    """Returns a function that calls another, `depth` deep, each with its own code object."""
    scope = {"made_0": innermost}
    for number in range(1, depth + 1):
        exec(f"def made_{number}(*given):\n  return made_{number - 1}(*given)", scope)  # pylint: disable=exec-used
    return scope[f"made_{depth}"]


class Victim:
    """Waits of the calling thread."""

    def __init__(self):
        self._schedule = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)

    def close(self):
        os.close(self._schedule)

    def _times(self):
        delay = int(os.pread(self._schedule, 64, 0).split()[1])
        return time.perf_counter_ns() - time.thread_time_ns() - delay

    def run(self, going):
        """Returns the waits in ns, until going() is False."""
        waits = []
        work = many_functions(64, piece)
        before = self._times()
        while True:
            for _ in range(20):
                work(1500)
                now = self._times()
                waits.append(now - before)
                before = now
            if not going():
                return waits


def capture(victim, address, logdir, arguments):
    client = os.path.join(os.path.dirname(jobscope.__file__), "bin", "capture")
    if arguments is None:
        end = time.monotonic() + DURATION_MS / 1000
        return victim.run(lambda: time.monotonic() < end)
    process = subprocess.Popen(
        [client, f"--service_addr={address}", f"--logdir={logdir}", f"--duration_ms={DURATION_MS}", "--quiet", *arguments],
        stdout=subprocess.DEVNULL,
    )
    waits = victim.run(lambda: process.poll() is None)
    if process.returncode != 0:
        raise RuntimeError(f"the capture ended with {process.returncode}")
    return waits


def measure(arguments):
    """Runs in this process; the library's own figures go to standard error."""
    leave = threading.Event()
    waiters = [threading.Thread(target=many_functions(arguments.depth, leave.wait)) for _ in range(arguments.threads)]
    for waiter in waiters:
        waiter.start()
    for name in filter(None, arguments.imports.split(",")):
        importlib.import_module(name)
    if "jax" in sys.modules:  # takes part once it has computed something
        sys.modules["jax"].numpy.ones(3).sum().block_until_ready()
    jobscope.register_provider("events", Events())
    logdir = tempfile.mkdtemp(prefix="jobscope-bench-")
    found = {}
    try:
        with jobscope.start_server("127.0.0.1:0", max_levels="3/1/2") as server:
            victim = Victim()
            for name, options in KINDS.items():
                captures = [capture(victim, server.address, logdir, options) for _ in range(arguments.captures)]
                waits = [wait for one in captures for wait in one]
                found[name] = {
                    "pieces": len(waits),
                    "longest_ns": max(waits),
                    "longest_ms": [max(one) / 1e6 for one in captures if one],
                    "over_1_ms": sum(wait > TELLING_NS for wait in waits),
                    "waited": sum(max(wait, 0) for wait in waits) / (arguments.captures * DURATION_MS * 1e6),
                }
            victim.close()
    finally:
        leave.set()
        shutil.rmtree(logdir, ignore_errors=True)
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=int, default=10, help="of each kind")
    parser.add_argument("--threads", type=int, default=8, help="Python threads that wait, beside the one that computes")
    parser.add_argument("--depth", type=int, default=1, help="functions that each of them is in, all different")
    parser.add_argument("--imports", default="", help="modules to import before: jax,tensorflow")
    parser.add_argument("--json", help="writes the figures there")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments)
        return 0
    if not os.path.exists("/proc/self/schedstat"):
        print("skipped: this kernel does not report how long threads wait for a processor")
        return 77
    where = figures.machine()
    done = subprocess.run([sys.executable, *sys.argv, "--measure"], capture_output=True, text=True, check=False,
                          env={**os.environ, "JOBSCOPE_LOG_LEVEL": "debug"})  # fmt: skip
    if done.returncode != 0:
        sys.exit(done.stderr[-3000:])
    found = json.loads(done.stdout.splitlines()[-1])
    holds = re.findall(r"GIL was held longest for (.*)", done.stderr)
    print(f"CPython {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {arguments.captures} "
          f"captures of {DURATION_MS} ms of each kind, {arguments.threads} waiting threads {arguments.depth} deep")
    print("| | longest wait | waits over 1 ms | of the time |")
    print("|---|---|---|---|")
    for name, row in found.items():
        print(f"| {name} | {row['longest_ns'] / 1e6:.2f} ms | {row['over_1_ms']} of {row['pieces']} | {row['waited']:.2%} |")
    print("held, as the library has measured it:", holds[-1] if holds else "not at all")
    if arguments.json:
        results = [figures.figure(f"longest wait of a capture, {name}", "ms", row["longest_ms"]) for name, row in found.items()]
        results += [figures.figure(f"share of the time, {name}", "x", [row["waited"]]) for name, row in found.items()]
        figures.save(arguments.json, where, results, "jobscope", "jax")
    return 0


if __name__ == "__main__":
    sys.exit(main())
