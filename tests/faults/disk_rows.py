# SPDX-License-Identifier: Apache-2.0
"""The client's disk: full, read-only, gone. A small tmpfs where the test may mount one, and RLIMIT_FSIZE."""
import os
import shutil
import subprocess

from row import Row, needs_root
from scene import check

_MIB = 1 << 20


def _mount(scene, megabytes):
    needs_root("a tmpfs")
    directory = os.path.join(scene.root, "disk")
    os.mkdir(directory)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", directory], capture_output=True, check=False)
    if done.returncode != 0:
        needs_root("a tmpfs")
        check(False, done.stderr.decode())
    scene.mounts.append(directory)
    return directory


def _fill(directory, left_bytes):
    """Leaves so much of a disk."""
    space = os.statvfs(directory)
    size = space.f_bavail * space.f_frsize - left_bytes
    with open(os.path.join(directory, "other_data"), "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, size))


def _full(phase, left_bytes):
    def run(scene, _):
        disk = _mount(scene, 64)
        scene.ask("flood", 20000)
        client = scene.capture_at(phase, lambda of: _fill(disk, left_bytes), duration_ms=3000, logdir=disk)
        client.finish()
        scene.ask("flood", 0)
        os.remove(os.path.join(disk, "other_data"))
        return client

    return run


def _full_before(scene, _):
    disk = _mount(scene, 4)
    _fill(disk, 0)
    client = scene.capture(300, logdir=disk)
    return client


def _read_only(scene, _):
    disk = _mount(scene, 4)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    client = scene.capture(300, logdir=disk)
    return client


def _no_right(scene, _):
    disk = os.path.join(scene.root, "disk")
    os.mkdir(disk, 0o500)
    if os.access(disk, os.W_OK):  # root may do all
        launcher = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        os.chmod(scene.root, 0o755)
    else:
        launcher = []
    client = scene.capture(300, logdir=disk, launcher=launcher)
    return client


def _rename_fails(scene, _):
    environment = {"LD_PRELOAD": os.environ["FAULTS_SHIM"], "FAULT_RENAME_SUFFIX": ".xplane.pb"}
    client = scene.capture(300, environment=environment)
    return client


def _file_size(scene, _):
    scene.ask("flood", 20000)
    client = scene.capture(2000, launcher=["prlimit", "--fsize=20000"])
    scene.ask("flood", 0)
    return client


def _vanishes(phase):
    def run(scene, _):
        disk = os.path.join(scene.root, "disk")
        client = scene.capture_at(phase, lambda of: shutil.rmtree(disk), duration_ms=1500, logdir=disk)
        client.finish()
        return client

    return run


def _row(fault, phase, run, outcome, codes, says="", quick=False):
    return Row("disk", fault, phase, outcome, codes, lambda scene: run(scene, phase), says, quick)


_SPACE = "No space left|no space"
ROWS = [
    _row("disk full", "before the capture", _full_before, "none", (2,), _SPACE + "|free"),
    _row("disk full", "spooling", _full("streaming", 0), "failed truncated", (0, 1, 3, 4), _SPACE),
    _row("disk full", "writing", _full("delivering", 256 << 10), "failed", (4,), _SPACE),
    _row("disk full", "renaming", _rename_fails, "failed", (4,), _SPACE, quick=True),
    _row("files of at most 20 kB (RLIMIT_FSIZE)", "spooling", _file_size, "failed truncated", (0, 4), "File too large", quick=True),
    _row("logdir read-only", "before the capture", _read_only, "none", (2,), "[Rr]ead-only", quick=True),
    _row("logdir of another user", "before the capture", _no_right, "none", (2,), "[Pp]ermission denied"),
    _row("logdir vanishes", "streaming", _vanishes("streaming"), "failed ok", (1, 4), "No such file"),
    _row("logdir vanishes", "delivering", _vanishes("delivering"), "failed ok", (1, 4), "No such file"),
]
