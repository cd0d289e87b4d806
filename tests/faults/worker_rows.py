# SPDX-License-Identifier: Apache-2.0
"""A worker that forks, unloads libraries, runs out of something, has very many threads or very long names; clocks that jump."""
import os
import random
import signal
import struct
import tempfile
import threading

import xspace
from process_rows import OK
from row import Ending, Row
from scene import HANG_S, Client, check

_USER = 1_000_000_000
_RINGS_KIB = 64 << 10  # those of threads that have ended wait for the next threads


def _during(*command, answer=None, duration_ms=3000):
    """The worker does something in the middle of a capture."""

    def run(scene):
        scene.link.forget()
        client = Client(scene, duration_ms)
        check(scene.link.await_message("started", HANG_S), "the capture does not start")
        said = scene.ask(*command)
        client.finish()
        check(answer in (None, said), f"{command} answered {said}")
        scene.ask("give_back")
        return client

    return run


def _before(*command, duration_ms=500, hasty=False):
    """The worker does something before the capture, and goes on with it."""

    def run(scene):
        scene.ask(*command)
        client = scene.capture(duration_ms, hasty=hasty)
        scene.ask("give_back")
        return client

    return run


def _events(client):
    return [event for trace in client.traces() for _, events in xspace.planes(trace) for event in events]


def _forked(how):
    """What a child records is not in the trace of its parent."""

    def run(scene):
        client = _during("fork", how, answer=0)(scene)
        names = {event.name for event in _events(client)}
        check("forward" in names, f"no event of the parent is in its trace: {sorted(names)[:20]} {client.worker}")
        check("in a child" not in names, "events of the child are in the trace of its parent")
        return client

    return run


# What tests/collectors/host/recorder/modules/module.cc records when it is loaded, called and unloaded.
_OF_THE_MODULE = {"static constructor", "in a module", "inline function", "template function", "async in a module", "static destructor"}


def _unloaded(scene):
    """What a library has recorded is in the trace, with its names, though the library has gone."""
    client = _during("dlclose", os.environ["FAULTS_MODULE"], answer=0)(scene)
    missing = _OF_THE_MODULE - {event.name for event in _events(client)}
    check(not missing, f"not in the trace: {sorted(missing)}: {client.worker}")
    return client


def _long_names(scene):
    """Names and texts are in the trace, cut; a cut text is flagged."""
    client = _during("long_names", 1 << 20)(scene)
    cut = [event for event in _events(client) if event.name == "n" * 127 and event.stats.get("text") == "n" * 120]
    check(cut, "no scope has the beginning of its name and text")
    check(all(event.stats.get("truncated_args") == 1 for event in cut), f"a cut text is not flagged: {cut[0].stats.keys()}")
    return client


# ---- clocks ----


def _step_clock(path, seconds):
    with open(path, "r+b") as file:
        file.write(struct.pack("q", int(seconds * 1e9)))


def _clock_file():
    handle, path = tempfile.mkstemp(prefix="jobscope-faults-clock-")
    os.write(handle, struct.pack("q", 0))
    os.close(handle)
    return path


def _clock_steps(side, seconds):
    def run(scene):
        path = scene.clock_file if side == "worker" else _clock_file()
        environment = {"LD_PRELOAD": os.environ["FAULTS_SHIM"], "FAULT_CLOCK_FILE": path} if side == "client" else {}
        try:
            client = scene.capture_at("recording", lambda of: _step_clock(path, seconds), duration_ms=1500, environment=environment)
            worker = client.finish()
            length = worker.get("duration_ns", 0)
            check(1.4e9 < length < 1.6e9, f"the trace is {length} ns long, 1.5 s were asked for: {worker} {client.errors}")
        finally:
            if side == "client":
                os.remove(path)
        return client

    return run


# ---- cancels ----


def check_cancelled(scene, client):
    """What a client leaves that was ended at any moment: a whole run with its manifest, or nothing but whole files."""
    scene.files_are_whole(client, at_any_moment=True)
    if client.code == 130:  # it had not begun
        check(not client.runs and not client.manifest, f"interrupted before its run, and leaves {client.runs} {client.manifest}")
    if client.code < 0 or client.code == 130:
        return
    path = os.path.join(client.manifest["run_directory"], "capture.json")
    check(os.path.exists(path), f"there is no {path}")
    outcome, reason, files = (client.worker.get(field) for field in ("outcome", "reason", "files"))
    check((outcome in ("ok", "truncated", "empty")) == (client.code == 0) == bool(files), f"exit {client.code}: {client.worker}")
    check(outcome == "ok" or reason, f"without a reason: {client.worker}")


def _random_cancels(scene):
    """100 captures, each ended at a message and in a way that chance chooses."""
    chance = random.Random(14)
    messages = ["Describe request", "Describe answer", "arm", "armed", "start", "started", "progress", "items", "ack", "summary", "ended"]
    for number in range(100):
        message, how = chance.choice(messages), chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
        started, client = threading.Event(), []

        def cancel():
            started.wait(HANG_S)
            client[0].process.send_signal(how)

        scene.link.forget()
        scene.link.stop_at(message, cancel, hold=False)
        client.append(Client(scene, 100, "--num_tracing_attempts=20"))
        started.set()
        worker = client[0].finish()
        scene.link.release()
        check(client[0].code in (0, 4, 130, -how), f"cancel {number}: exit {client[0].code}, {worker}, {client[0].errors}")
        check_cancelled(scene, client[0])
    return scene.capture(300, "--num_tracing_attempts=20")


def _row(fault, phase, run, *endings, quick=False, memory_kib=0, **environment):
    return Row("worker", fault, phase, endings or [OK], run, quick, environment, memory_kib)


_USER_OF_ITS_OWN = {"FAULTS_USER": str(_USER + os.getpid())}
_NO_RING = Ending("ok", 0, r"threads have no ring because the memory for rings is used up")
# A provider in Python that gets no processor beside so many threads.
_STARVED = Ending("truncated", 0, r"\Aslow_end wedged: it did not return from the verb stop in time")
ROWS = [
    _row("fork, the child records and calls exec", "recording", _forked("exec")),
    _row("fork, the child records and calls exit", "recording", _forked("exit"), quick=True),
    _row("fork, the child records and calls _exit", "recording", _forked("_exit")),
    _row("dlclose of a library that records", "recording", _unloaded),
    _row("no descriptors left", "before the capture", _before("take_descriptors", hasty=True),
         Ending("timeout", 4, r"\Ano answer to the connection within 10s; .*without free descriptors\?\Z")),
    _row("no memory left", "before the capture", _before("take_memory", 20),
         Ending("refused", 4, r"\Acannot capture: the limit on address space \(ulimit -v\) leaves \d+ MiB"), quick=True),
    _row("no threads left", "before the capture", _before("take_threads"),
         Ending("refused", 4, r"raise the limit on (processes|threads) \(ulimit -u"), **_USER_OF_ITS_OWN),
    _row("no descriptors left", "recording", _during("take_descriptors")),
    _row("no memory left", "recording", _during("take_memory", 0), Ending("ok", 0, "degraded")),
    _row("no threads left", "recording", _during("take_threads"), **_USER_OF_ITS_OWN),
    _row("4,096 threads", "before the capture", _before("threads", 4096, duration_ms=2000), _NO_RING, _STARVED, memory_kib=_RINGS_KIB),
    _row("4,096 threads", "recording", _during("threads", 4096, duration_ms=6000), _NO_RING, _STARVED, memory_kib=_RINGS_KIB),
    _row("names of 1 MiB", "recording", _long_names, quick=True),
    _row("100 random cancels", "all", _random_cancels),
] + [
    _row(f"clock of the {side} stepped by {hours:+d} h", "recording", _clock_steps(side, hours * 3600),
         **({"FAULT_CLOCK_FILE": ""} if side == "worker" else {}))
    for side in ("worker", "client")
    for hours in (1, -1)
]
