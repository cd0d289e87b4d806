# SPDX-License-Identifier: Apache-2.0
"""Links that are cut, cut in one direction, slow, far, lossy."""
import link
from row import Row
from scene import PHASES


def _cut(scene, phase):
    client = scene.capture_at(phase, lambda of: of.link.cut(), hasty=True)
    client.finish()
    return client


def _cut_and_back(scene, phase):
    def fault(of):
        of.link.cut()
        of.link.restore()

    client = scene.capture_at(phase, fault)
    client.finish()
    return client


def _one_way(direction):
    def run(scene, phase):
        client = scene.capture_at(phase, lambda of: of.link.cut_one_way(direction), hasty=True)
        client.finish()
        return client

    return run


def _changed(**settings):
    """A link that is different from the beginning, and has much to carry."""

    def run(scene, _):
        scene.ask("flood", 20000)
        for name, value in settings.items():
            setattr(scene.link, name, value)
        client = scene.capture(2000)
        scene.ask("flood", 0)
        return client

    return run


_TO_WORKER, _TO_CLIENT = _one_way(link.TO_WORKER), _one_way(link.TO_CLIENT)
_NOTHING = (4,)
FAULTS = {
    "link cut": (_cut, {
        "before arm": ("unreachable died", _NOTHING, ""),
        "armed": ("died unreachable", _NOTHING, ""),
        "recording": ("died", _NOTHING, ""),
        "streaming": ("truncated", (0,), ""),
        "draining": ("died truncated", (0, 4), ""),
        "delivering": ("died truncated", (0, 4), ""),
    }),
    "link cut, back at once": (_cut_and_back, {
        "before arm": ("ok", (0,), ""),
        "armed": ("failed", _NOTHING, "its stream was lost before the start"),
        "recording": ("ok", (0,), ""),
        "streaming": ("ok", (0,), ""),
        "draining": ("ok", (0,), ""),
        "delivering": ("ok", (0,), ""),
    }),
    "link cut towards the worker": (_TO_WORKER, {
        "before arm": ("timeout", _NOTHING, "in time"),
        "armed": ("timeout", _NOTHING, "in time"),
        "recording": ("ok", (0,), ""),
        "streaming": ("ok", (0,), ""),
        "draining": ("ok", (0,), ""),
        "delivering": ("ok", (0,), ""),
    }),
    "link cut towards the client": (_TO_CLIENT, {
        "before arm": ("timeout", _NOTHING, "in time"),
        "armed": ("timeout", _NOTHING, "in time"),
        "recording": ("timeout", _NOTHING, "in time"),
        "streaming": ("truncated", (0,), "in time"),
        "draining": ("timeout truncated", (0, 4), "in time"),
        "delivering": ("timeout truncated", (0, 4), "in time"),
    }),
    "link of 1 Mbit/s": (_changed(bytes_per_s=125_000), {"whole capture": ("ok", (0,), "")}),
    "link of 200 ms each way": (_changed(delay_s=0.2), {"whole capture": ("ok", (0,), "")}),
    "link that loses 5 % of the packets": (_changed(loss=0.05), {"whole capture": ("ok", (0,), "")}),
}
_QUICK = {("link cut", "streaming"), ("link cut, back at once", "streaming"), ("link cut towards the client", "delivering")}

ROWS = [
    Row("link", fault, phase, outcome, codes, lambda scene, run=run, phase=phase: run(scene, phase), says, (fault, phase) in _QUICK)
    for fault, (run, phases) in FAULTS.items()
    for phase, (outcome, codes, says) in phases.items()
]
assert all(phase in PHASES or phase == "whole capture" for row in ROWS for phase in [row.phase])
