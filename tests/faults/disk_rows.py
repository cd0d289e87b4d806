# SPDX-License-Identifier: Apache-2.0
"""The client's disk: full, read-only, gone. A small tmpfs where the test may mount one, and RLIMIT_FSIZE."""
import errno
import os
import shutil
import subprocess

from row import Ending, Row, Unsupported, client_of
from scene import check

_NOBODY = 65534


def _mount(scene, megabytes):
    directory = os.path.join(scene.root, "disk")
    os.mkdir(directory)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # For root and CAP_SYS_ADMIN only, which the root of a container lacks.
        raise Unsupported(f"a tmpfs: {' '.join(done.stderr.split())}")
    scene.mounts.append(directory)
    return directory


def _fill(directory, left_bytes):
    """Leaves so much of a disk."""
    with open(os.path.join(directory, "other_data"), "wb") as file:
        while True:
            space = os.statvfs(directory)
            try:
                os.posix_fallocate(file.fileno(), 0, max(1, space.f_bavail * space.f_frsize - left_bytes))
                return
            except OSError as error:  # the client has taken some meanwhile
                if error.errno != errno.ENOSPC:
                    raise


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
    as_other = client_of(_NOBODY, scene) if os.access(disk, os.W_OK) else {}  # root may do all
    return scene.capture(300, logdir=disk, **as_other)


def _rename_fails(suffix):
    def run(scene, _):
        environment = {"LD_PRELOAD": os.environ["FAULTS_SHIM"], "FAULT_RENAME_SUFFIX": suffix}
        client = scene.capture(300, environment=environment)
        left = [path for run in client.runs for path in os.listdir(run) if path == suffix]
        check(not left, f"there is {left}")
        return client

    return run


def _turns_read_only(scene, phase):
    disk = _mount(scene, 64)
    # Short enough for the spool to stay in memory: it is the trace that cannot be written.
    remount = ["mount", "-o", "remount,ro", disk]
    client = scene.capture_at(phase, lambda of: subprocess.run(remount, check=True), duration_ms=1500, logdir=disk)
    client.finish()
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


def _row(fault, phase, run, *endings, quick=False):
    return Row("disk", fault, phase, endings, lambda scene: run(scene, phase), quick)


def _refused(text):
    return Ending("none", 2, r"\Acapture: logdir \S+: " + text)


def _failed(text):
    return Ending("failed", 4, r"\A" + text)


_TRACE = r"\S+\.xplane\.pb\.partial: "
ROWS = [
    _row("disk full", "before the capture", _full_before, _refused(r"only \d+ MiB free, at least \d+ MiB are needed; make room")),
    _row("disk full", "spooling", _full("streaming", 0), _failed(r"cannot write the spool file in \S+: No space left")),
    _row("disk full", "writing", _full("delivering", 256 << 10), _failed(rf"cannot write ({_TRACE}|the spool file in \S+: )No space left")),
    _row("disk full", "renaming", _rename_fails(".xplane.pb"), _failed(f"cannot rename {_TRACE}No space left"), quick=True),
    _row("disk full", "renaming the manifest", _rename_fails("capture.json"),
         Ending("ok", 1, r"the traces are as the table says, but their manifest is missing: cannot rename \S+: No space left"), quick=True),
    _row("files of at most 20 kB (RLIMIT_FSIZE)", "spooling", _file_size,
         _failed(r"cannot write the spool file in \S+: File too large; raise "), quick=True),
    _row("logdir read-only", "before the capture", _read_only, _refused(r"cannot create \S+: Read-only file system"), quick=True),
    _row("logdir turns read-only", "streaming", _turns_read_only, _failed(f"cannot create {_TRACE}Read-only file system; write elsewhere")),
    _row("logdir turns read-only", "delivering", _turns_read_only, _failed(f"cannot create {_TRACE}Read-only file system; write elsewhere")),
    _row("logdir of another user", "before the capture", _no_right, _refused(r"cannot create \S+: Permission denied")),
    _row("logdir vanishes", "streaming", _vanishes("streaming"), _failed(f"cannot create {_TRACE}No such file or directory; its directory does not exist: write elsewhere")),
    _row("logdir vanishes", "delivering", _vanishes("delivering"), _failed(f"cannot create {_TRACE}No such file or directory; its directory does not exist: write elsewhere")),
]
