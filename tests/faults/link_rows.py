# SPDX-License-Identifier: Apache-2.0
"""Links that are cut, cut in one direction, slow, far, lossy."""
import link
from process_rows import BROKEN, LATE, LATE_IN_PART, NOT_READY, OK
from row import Ending, Row
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


def _silence(*directions):
    def run(scene, phase):
        client = scene.capture_at(phase, lambda of: of.link.silence(*directions), hasty=True)
        client.finish()
        scene.idle()  # though no end of the connection has come
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


_CUT = r"then could not be reached again: "
_DIED = Ending("died", 4, rf"\Athe connection broke: ({BROKEN}); {_CUT}")
_DIED_IN_PART = Ending("truncated", 0, rf"\Adied while recording: ({BROKEN}); {_CUT}")
# Draining and delivering: the end of the recording may have come.
_BROKE_OFF = Ending("truncated", 0, rf"\A(died while recording|broke off while the trace was sent): ({BROKEN}); {_CUT}")
_BACK = Ending("ok", 0, r"the connection was lost once, for [\d.]+ s; nothing is missing")
_SILENT_TO_CLIENT = {
    "before arm": [NOT_READY],
    "armed": [LATE],
    "recording": [LATE],
    "streaming": [LATE_IN_PART],
    "draining": [LATE, LATE_IN_PART],
    "delivering": [LATE, LATE_IN_PART],
}
FAULTS = {
    "link cut": (_cut, {
        "before arm": [Ending("unreachable", 4, rf"{BROKEN}")],
        "armed": [_DIED],
        "recording": [_DIED],
        "streaming": [_DIED_IN_PART],
        "draining": [_DIED, _BROKE_OFF],
        "delivering": [_DIED, _BROKE_OFF],
    }),
    "link cut, back at once": (_cut_and_back, {
        "before arm": [OK],
        "armed": [Ending("failed", 4, "its stream was lost before the start")],
        "recording": [_BACK],
        "streaming": [_BACK],
        "draining": [_BACK],
        "delivering": [_BACK],
    }),
    "link cut towards the worker": (_silence(link.TO_WORKER), {
        "before arm": [NOT_READY],
        "armed": [LATE],
        "recording": [OK],
        "streaming": [OK],
        "draining": [OK],
        "delivering": [OK],
    }),
    "link cut towards the client": (_silence(link.TO_CLIENT), _SILENT_TO_CLIENT),
    "cable pulled (silence both ways)": (_silence(link.TO_WORKER, link.TO_CLIENT), _SILENT_TO_CLIENT),
    "link of 1 Mbit/s": (_changed(bytes_per_s=125_000), {"whole capture": [OK]}),
    "link of 200 ms each way": (_changed(delay_s=0.2), {"whole capture": [OK]}),
    "link that loses 5 % of the packets": (_changed(loss=0.05), {"whole capture": [OK]}),
}
_QUICK = {("link cut", "streaming"), ("link cut, back at once", "streaming"), ("link cut towards the client", "delivering"),
          ("cable pulled (silence both ways)", "before arm")}

ROWS = [
    Row("link", fault, phase, endings, lambda scene, run=run, phase=phase: run(scene, phase), (fault, phase) in _QUICK)
    for fault, (run, phases) in FAULTS.items()
    for phase, endings in phases.items()
]
assert all(phase in PHASES or phase == "whole capture" for row in ROWS for phase in [row.phase])
