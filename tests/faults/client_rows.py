# SPDX-License-Identifier: Apache-2.0
"""Clients that may have too few descriptors, threads or bytes of address space."""
import os

import other_users
from row import Ending, Row, needs_user

# Nobody else's, and not that of the workers: threads are counted by user.
_USER = 1_500_000_000


def _limited(*limits):
    return lambda scene: scene.capture(300, launcher=["prlimit", *limits])


def _few_threads(scene):
    user = _USER + os.getpid()
    needs_user(user)
    logdir = os.path.join(scene.root, "of_that_user")
    os.mkdir(logdir)
    os.chown(logdir, user, user)
    return scene.capture(300, logdir=logdir, launcher=[*other_users.as_user(user), "prlimit", "--nproc=8"])


def _row(fault, run, says):
    return Row("client", fault, "before the capture", [Ending("none", 2, r"\Acapture: .*raise the limit.*\(" + says)], run, quick=True)


ROWS = [
    _row("client with 8 descriptors", _limited("--nofile=8"), "ulimit -Hn"),
    _row("client with 8 threads", _few_threads, "ulimit -u"),
    _row("client with 256 MiB of address space", _limited(f"--as={256 << 20}"), "ulimit -v"),
]
