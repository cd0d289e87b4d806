# SPDX-License-Identifier: Apache-2.0
"""Processes whose CPU time is judged come before whatever else runs on the machine, where that is allowed."""
import os

NICENESS = -10


def prefer():
    """For `preexec_fn`. Linux may share the CPUs among sessions first (sched_autogroup): so it is one of its own."""
    os.setsid()
    for set_niceness in (_of_session, _of_process):
        try:
            set_niceness()
        except OSError:
            pass


def _of_session():
    with open("/proc/self/autogroup", "w", encoding="ascii") as file:
        file.write(str(NICENESS))


def _of_process():
    os.nice(NICENESS)
