# SPDX-License-Identifier: Apache-2.0
"""Clients that may have too few descriptors, threads or bytes of address space."""
import os

from row import Ending, Row, client_of

# Nobody else's, and not that of the workers: threads are counted by user.
_USER = 1_500_000_000


def _limited(*limits):
    return lambda scene: scene.capture(300, launcher=["prlimit", *limits])


def _few_threads(scene):
    user = _USER + os.getpid()
    client = client_of(user, scene)
    logdir = os.path.join(scene.root, "of_that_user")
    os.mkdir(logdir)
    os.chown(logdir, user, user)
    client["launcher"] += ["prlimit", "--nproc=8"]
    return scene.capture(300, logdir=logdir, **client)


def _row(fault, run, says):
    return Row("client", fault, "before the capture", [Ending("none", 2, r"\Acapture: .*raise the limit.*\(" + says)], run, quick=True)


ROWS = [
    _row("client with 8 descriptors", _limited("--nofile=8"), "ulimit -Hn"),
    _row("client with 8 threads", _few_threads, "ulimit -u"),
    _row("client with 256 MiB of address space", _limited(f"--as={256 << 20}"), "ulimit -v"),
]
