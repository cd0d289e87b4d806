# SPDX-License-Identifier: Apache-2.0
"""Workers and clients that are killed, stopped, ended."""
import signal

from row import Row
from scene import HANG_S, PHASES


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
        return client

    return run


def _client_stopped(scene, phase):
    client = scene.capture_at(phase, lambda of: of.client.process.send_signal(signal.SIGSTOP), hasty=True)
    scene.idle()  # though the client has not gone
    client.process.send_signal(signal.SIGCONT)
    client.finish()
    return client


_DELIVERED, _NOTHING = (0,), (4,)
_GONE = r"pid \d+, has ended"
_NO_PEER = r"UNAVAILABLE|refused"
_KILLED = ("none", (-signal.SIGKILL,), "")
_LATE = ("timeout", _NOTHING, "in time")
# Once a client goes on that was stopped for long, what has come meanwhile and its own time limits are both there.
_LATE_OR_THERE = ("timeout failed ok truncated", (0, 4), "")
# fault: how it is done, and by phase (outcome, exit codes, what is said).
FAULTS = {
    "worker killed": (_worker_killed, {
        "before arm": ("unreachable died", _NOTHING, ""),
        "armed": ("died", _NOTHING, _GONE),
        "recording": ("died", _NOTHING, _GONE),
        "streaming": ("truncated", _DELIVERED, _GONE),
        "draining": ("died truncated", (0, 4), _GONE),
        "delivering": ("ok", _DELIVERED, ""),
    }),
    "worker stopped (SIGSTOP)": (_worker_stopped, {
        "before arm": _LATE,
        "armed": _LATE,
        "recording": _LATE,
        "streaming": ("truncated", _DELIVERED, "in time"),
        "draining": ("timeout truncated", (0, 4), "in time"),
        "delivering": ("ok", _DELIVERED, ""),
    }),
    "worker ended (SIGTERM)": (_worker_ended, {
        "before arm": ("unreachable died failed", _NOTHING, ""),
        "armed": ("unreachable died failed", _NOTHING, ""),
        "recording": ("truncated", _DELIVERED, "ended by shutdown"),
        "streaming": ("truncated", _DELIVERED, "ended by shutdown"),
        "draining": ("ok truncated", _DELIVERED, ""),
        "delivering": ("ok", _DELIVERED, ""),
    }),
    "client killed": (_client_signalled(signal.SIGKILL), {phase: _KILLED for phase in PHASES}),
    "client stopped (SIGSTOP)": (_client_stopped, {
        "before arm": _LATE_OR_THERE,
        "armed": _LATE,
        "recording": _LATE,
        "streaming": ("truncated", _DELIVERED, "in time"),
        "draining": _LATE_OR_THERE,
        "delivering": _LATE_OR_THERE,
    }),
    "client interrupted (SIGINT)": (_client_signalled(signal.SIGINT), {
        "before arm": ("failed", _NOTHING, "interrupted before"),
        "armed": ("truncated", _DELIVERED, "ended by request"),
        "recording": ("truncated", _DELIVERED, "ended by request"),
        "streaming": ("truncated", _DELIVERED, "ended by request"),
        "draining": ("ok truncated", _DELIVERED, ""),
        "delivering": ("ok", _DELIVERED, ""),
    }),
}
_QUICK = {("worker killed", "streaming"), ("worker ended (SIGTERM)", "recording"), ("client killed", "armed"), ("client killed", "streaming"),
          ("client interrupted (SIGINT)", "recording")}

ROWS = [
    Row("process", fault, phase, outcome, codes, lambda scene, run=run, phase=phase: run(scene, phase), says, (fault, phase) in _QUICK)
    for fault, (run, phases) in FAULTS.items()
    for phase, (outcome, codes, says) in phases.items()
]
