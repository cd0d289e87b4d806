# SPDX-License-Identifier: Apache-2.0
"""Workers and clients that are killed, stopped, ended."""
import os
import signal

from row import Ending, Row
from scene import HANG_S, PHASES, check


def _worker_killed(scene, phase):
    def fault(of):
        of.worker.process.kill()
        of.worker.process.wait()

    client = scene.capture_at(phase, fault)
    client.finish()
    scene.replace_worker()
    return client


def _worker_ended(scene, phase):
    def fault(of):
        of.worker.process.send_signal(signal.SIGTERM)
        # A capture that has begun is delivered meanwhile; the end must not prevent that.
        if phase in ("before arm", "armed"):
            of.worker.process.wait(HANG_S)

    client = scene.capture_at(phase, fault)
    client.finish()
    scene.replace_worker(exit_code=0)
    return client


def _worker_stopped(scene, phase):
    client = scene.capture_at(phase, lambda of: of.worker.process.send_signal(signal.SIGSTOP), hasty=True)
    client.finish()
    scene.worker.process.send_signal(signal.SIGCONT)
    return client


def _client_signalled(number):
    def run(scene, phase):
        client = scene.capture_at(phase, lambda of: of.client.process.send_signal(number))
        client.finish()
        check(client.code >= 0 or not client.traces(), f"the client was killed before it had all, and leaves {client.traces()}")
        return client

    return run


def _client_stopped(scene, phase):
    client = scene.capture_at(phase, lambda of: of.client.process.send_signal(signal.SIGSTOP), hasty=True)
    if phase == "before arm":  # else the worker has not yet heard of the capture, and is idle
        check(scene.link.await_message("armed", HANG_S), "the worker does not arm")
    scene.idle()  # though the client has not gone
    client.go_on()
    client.finish()
    return client


def _client_killed_at_rename(suffix):
    """It has written all of a file, and dies before that gets its name."""

    def run(scene):
        client = scene.capture(300, environment={"LD_PRELOAD": os.environ["FAULTS_SHIM"], "FAULT_KILL_SUFFIX": suffix})
        traces = client.traces()
        check(len(traces) == (suffix == "capture.json"), f"killed before the rename to {suffix}: {traces}")
        return client

    return run


# gRPC's texts for a connection that was reset; they depend on which call notices it.
BROKEN = "Socket closed|Connection reset|Broken pipe|Stream removed"
OK, KILLED = Ending("ok", 0), Ending("none", -signal.SIGKILL)
NOT_READY = Ending("timeout", 4, r"\Adid not become ready in time\Z")
LATE = Ending("timeout", 4, r"\Athe trace did not arrive in time; record for a shorter time")
# Some of the trace has come, because the recording was long, or because a busy machine sent the first events early.
LATE_IN_PART = Ending("truncated", 0, r"\Abroke off while the trace was sent: the trace did not arrive in time")
_GONE = r"its process, pid \d+, has ended"
_DIED = Ending("died", 4, rf"\Athe connection broke: .*{_GONE}\Z")
_DIED_IN_PART = Ending("truncated", 0, rf"(\Adied while recording|\Abroke off while the trace was sent): .*{_GONE}")
_CLOSED = r"the other side closed the connection: does the worker require TLS"
_BY_SHUTDOWN = Ending("truncated", 0, r"\Aended by shutdown after \d+ ms")
_BY_REQUEST = Ending("truncated", 0, r"\Aended by request after \d+ ms")
# fault: how it is done, and by phase how it may end.
FAULTS = {
    "worker killed": (_worker_killed, {
        "before arm": [Ending("unreachable", 4, rf"({BROKEN}).*{_CLOSED}")],
        "armed": [_DIED],
        "recording": [_DIED],
        "streaming": [_DIED_IN_PART],
        "draining": [_DIED, _DIED_IN_PART],
        "delivering": [OK],
    }),
    "worker stopped (SIGSTOP)": (_worker_stopped, {
        "before arm": [NOT_READY],
        "armed": [LATE],
        "recording": [LATE],
        "streaming": [LATE_IN_PART],
        "draining": [LATE, LATE_IN_PART],
        "delivering": [OK],
    }),
    "worker ended (SIGTERM)": (_worker_ended, {
        "before arm": [Ending("unreachable", 4, rf"the profiler server of this process has ended|({BROKEN}).*{_CLOSED}")],
        "armed": [Ending("died", 4, r"\Athe connection broke: the profiler server of this process has ended\Z")],
        "recording": [_BY_SHUTDOWN],
        "streaming": [_BY_SHUTDOWN],
        "draining": [OK],
        "delivering": [OK],
    }),
    "client killed": (_client_signalled(signal.SIGKILL), {phase: [KILLED] for phase in PHASES}),
    "client stopped (SIGSTOP)": (_client_stopped, {
        # When the client continues, messages have arrived and its own time limits have expired: either may be processed first.
        "before arm": [NOT_READY, OK, Ending("failed", 4, r"its stream was lost before the start\Z")],
        "armed": [LATE, OK],
        "recording": [LATE, LATE_IN_PART, OK],
        "streaming": [LATE_IN_PART, OK],
        "draining": [LATE, LATE_IN_PART, OK],
        "delivering": [LATE, LATE_IN_PART, OK],
    }),
    "client interrupted (SIGINT)": (_client_signalled(signal.SIGINT), {
        "before arm": [Ending("failed", 4, r"\Ainterrupted before anything was recorded\Z")],
        "armed": [_BY_REQUEST],
        "recording": [_BY_REQUEST],
        "streaming": [_BY_REQUEST],
        "draining": [OK],
        "delivering": [OK],
    }),
}
_QUICK = {("worker killed", "streaming"), ("worker ended (SIGTERM)", "recording"), ("client killed", "armed"), ("client killed", "streaming"),
          ("client interrupted (SIGINT)", "recording")}

ROWS = [
    Row("process", fault, phase, endings, lambda scene, run=run, phase=phase: run(scene, phase), (fault, phase) in _QUICK)
    for fault, (run, phases) in FAULTS.items()
    for phase, endings in phases.items()
] + [
    Row("process", "client killed", "renaming the trace", [KILLED], _client_killed_at_rename(".xplane.pb"), quick=True),
    Row("process", "client killed", "renaming the manifest", [KILLED], _client_killed_at_rename("capture.json")),
]
