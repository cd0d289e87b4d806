# SPDX-License-Identifier: Apache-2.0
"""A row of the fault matrix: a fault, when it happens, and its required outcome."""
import dataclasses
import os
import re
from typing import Callable, Tuple

from scene import check


class Unsupported(Exception):
    """This machine cannot have this fault (no root, mostly). The row is listed as not run."""


@dataclasses.dataclass
class Row:
    topic: str
    fault: str
    phase: str
    # Outcomes of the worker in the manifest, any of them; "none": there is no manifest (the client was killed, or refused).
    outcome: str
    exit_code: Tuple[int, ...]
    # run(scene) applies the fault, takes it away, and returns the client that has ended.
    run: Callable
    # A pattern of what the user reads: the worker's reason and warnings, or standard error. Something is said unless all is well.
    says: str = ""
    quick: bool = False  # one of those that the ordinary test runs
    environment: dict = dataclasses.field(default_factory=dict)  # of the worker
    memory_kib: int = 0  # that the worker may have kept beyond what others may

    @property
    def name(self):
        return f"{self.topic}: {self.fault}, {self.phase}"

    def judge(self, client, worker):
        outcome = worker.get("outcome", "none")
        says = told(client, worker)
        seen = f"exit {client.code}, {outcome}: {says or client.errors}"
        check(outcome in self.outcome.split(), f"the outcome is not {self.outcome}: {seen}")
        check(client.code in self.exit_code, f"the exit code is not {self.exit_code}: {seen}")
        check(outcome in ("ok", "none") or worker.get("reason"), f"no reason: {seen}")
        check(re.search(self.says, says + client.errors, re.S), f"it does not say '{self.says}': {seen}")
        return outcome, says


def told(client, worker):
    """The reason, else the last lines of standard error that tell of a fault."""
    if worker.get("reason"):
        return worker["reason"]
    errors = [line for line in client.errors.splitlines() if re.match("(capture: |warning)", line)]
    return " ".join(worker.get("warnings", []) + errors)


def needs_root(what):
    if os.geteuid() != 0:
        raise Unsupported(f"{what} needs root")
