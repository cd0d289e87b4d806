# SPDX-License-Identifier: Apache-2.0
"""A row of the fault matrix: a fault, when it happens, and its required outcome."""
import dataclasses
import os
import re
from typing import Callable, Tuple

import other_users
import workers
from scene import HANG_S, HASTY_S, Late, check

DELIVERED = ("ok", "truncated")


# A reason that only means that the machine is busy: removed from the texts of every row.
_BUSY = re.compile(r"gc degraded: could not acquire the GIL[^;]*; garbage collections are recorded in part or not at all(; )?")


class Unsupported(Exception):
    """This machine cannot have this fault (no root, mostly). The row is listed as not run."""


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a capture may end. A row has several only where the fault races with the capture."""

    # The outcome of the worker in the manifest; "none": no manifest (the client was killed, or asked no worker).
    outcome: str
    exit_code: int
    # A pattern of what the user reads: the worker's reason and warnings, or standard error. None: nothing is said.
    says: str = None


@dataclasses.dataclass
class Row:
    topic: str
    fault: str
    phase: str
    endings: Tuple[Ending, ...]
    # run(scene) applies the fault, takes it away, and returns the client that has ended.
    run: Callable
    quick: bool = False  # one of those that the ordinary test runs
    environment: dict = dataclasses.field(default_factory=dict)  # of the worker
    memory_kib: int = 0  # that the worker may have kept beyond what others may
    within_s: float = 0  # for the client; 0: HASTY_S for captures with short time limits, else as long as nothing hangs

    @property
    def name(self):
        return f"{self.topic}: {self.fault}, {self.phase}"

    def judge(self, client):
        """(outcome, what the user reads)."""
        outcome, says = client.worker.get("outcome", "none"), texts_of(client)
        seen = f"exit {client.code}, {outcome}: {says or client.errors}"
        ending = next((one for one in self.endings if (one.outcome, one.exit_code) == (outcome, client.code)), None)
        check(ending, f"none of {self.endings}: {seen}")
        if ending.says is None:
            check(not says, f"something is said: {seen}")
        else:
            check(re.search(ending.says, says, re.S), f"it does not say '{ending.says}': {seen}")
        files = client.worker.get("files", [])
        check(bool(files) == (outcome in DELIVERED), f"{len(files)} files: {seen}")
        return outcome, says

    def judge_time(self, client):
        within_s = self.within_s or (HASTY_S if client.hasty else HANG_S)
        if client.took_s > within_s:
            raise Late(f"the client took {client.took_s:.1f} s, more than {within_s} s")


def texts_of(client):
    """The reason, else warnings and the lines of standard error that report a fault."""
    if client.worker.get("reason"):
        return _BUSY.sub("", client.worker["reason"])
    errors = [line for line in client.errors.splitlines() if re.match("(capture: |warning)", line)]
    return _BUSY.sub("", " ".join(client.worker.get("warnings", []) + errors))


def needs_user(user):
    reason = other_users.why_not(user)
    if reason:
        raise Unsupported(f"this process cannot start others of a user of their own: {reason}")


def client_of(user, scene):
    """What starts a client as that user: options of Client."""
    needs_user(user)
    folder = os.path.join(scene.root, "program")
    os.mkdir(folder)
    return {"launcher": other_users.as_user(user), "program": other_users.copied([workers.CLIENT], folder)[0]}
