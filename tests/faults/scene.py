# SPDX-License-Identifier: Apache-2.0
"""One row of the matrix: a worker that trains, a link, a client, and the checks after the fault."""
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import link as links
import ports
import workers
import xspace

HERE = os.path.dirname(os.path.abspath(__file__))
# Time after which a program counts as hung. The programs' own time limits are seconds; the rest allows for a busy machine.
HANG_S = 150
# The same for captures with short time limits: theirs and the recording take 22 s at most.
HASTY_S = 30
# Duration of a capture in which the fault must hit, and of any other.
LONG_MS, SHORT_MS = 6000, 300
# gRPC starts some of its threads when it first needs them.
_WORKER_THREADS = 3
_WORKER_MEMORY_KIB = 16 << 10  # resident, more than before: allocators keep some

workers.Worker.deadline_s = 900  # rows end earlier

# Time limits of captures that end by them, because the fault is a silence. The others allow for a busy machine.
_HASTY = ["--connect_timeout_ms=10000", "--resume_timeout_ms=2000", "--transfer_timeout_ms=4000"]
_PATIENT = ["--connect_timeout_ms=60000", "--resume_timeout_ms=20000", "--transfer_timeout_ms=60000"]

# Phase of a capture: the message before which, or at which, the fault hits, and whether that message is held until it has.
PHASES = {
    "before arm": ("arm", True),
    "armed": ("start", True),
    "recording": ("started", False),
    "streaming": ("ack of events", False),
    "draining": (None, False),
    "delivering": ("summary", True),
}


class Failure(Exception):
    """What a row asserts does not hold."""


class Late(Failure):
    """A busy machine has kept the row from what it is about."""


def check(condition, text):
    if not condition:
        raise Failure(text)


def usage_of(pid):
    """Threads, descriptors and resident KiB of a process."""
    process = f"/proc/{pid}"
    with open(process + "/status", encoding="ascii", errors="replace") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["Threads"]), len(os.listdir(process + "/fd")), int(fields["VmRSS"].split()[0])


def is_back(usage, before, more_kib=0):
    """Whether a worker that has delivered its captures uses no more than before them."""
    (threads, descriptors, kib), (threads_before, descriptors_before, kib_before) = usage, before
    return (threads <= threads_before + _WORKER_THREADS and descriptors <= descriptors_before
            and kib <= kib_before + _WORKER_MEMORY_KIB + more_kib)  # fmt: skip


class Client:
    """A capture of the worker behind the link."""

    def __init__(self, scene, duration_ms, *arguments, logdir=None, launcher=(), program=None, environment=None, hasty=False):
        self.logdir = logdir or scene.logdir
        self.hasty = hasty
        self.earlier_runs, self.earlier_hidden = set(self._runs()), set(self._hidden())
        self.runs = []  # directories that it has made, once it has ended
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [
                *launcher,
                program or workers.CLIENT,
                "--service_addr=" + scene.link.address,
                "--logdir=" + self.logdir,
                f"--duration_ms={duration_ms}",
                *(_HASTY if hasty else _PATIENT),
                "--json",
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": scene.temporary, **(environment or {})},
        )
        scene.processes.append(self.process)
        self.code, self.errors, self.manifest, self.worker, self.took_s = None, "", {}, {}, 0.0

    def _runs(self):
        return glob.glob(os.path.join(self.logdir, "plugins", "profile", "*"))

    def _hidden(self):
        return glob.glob(os.path.join(self.logdir, "**", ".*"), recursive=True)

    def temporary_files(self):
        """Files that have come since its start and have no final name."""
        return set(self._hidden()) - self.earlier_hidden

    def traces(self):
        """Files under their final names."""
        return [trace for run in self.runs for trace in glob.glob(os.path.join(run, "*.xplane.pb"))]

    def go_on(self):
        """After SIGSTOP; it is measured from here."""
        self.process.send_signal(signal.SIGCONT)
        self.began = time.monotonic()

    def finish(self):
        """Waits for its end; the worker of its manifest, {} where there is none."""
        try:
            out, self.errors = self.process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            raise Failure("the client hangs") from None
        self.took_s = time.monotonic() - self.began
        self.runs = [path for path in self._runs() if path not in self.earlier_runs]
        self.code = self.process.returncode
        self.manifest = json.loads(out) if out.strip().startswith("{") else {}
        self.worker = (self.manifest.get("workers") or [{}])[0]
        return self.worker


class Scene:
    def __init__(self, environment=None, worker="train"):
        self.kind = worker
        self.root = tempfile.mkdtemp(prefix="jobscope-faults-")
        self.temporary = os.path.join(self.root, "tmp")
        self.logdir = os.path.join(self.root, "logdir")
        os.mkdir(self.temporary)
        os.chmod(self.temporary, 0o777)
        os.chmod(self.root, 0o755)  # for workers with a user of their own
        self.processes, self.mounts = [], []
        self.environment = {"TMPDIR": self.temporary, **(environment or {})}
        if "FAULT_CLOCK_FILE" in self.environment:
            self.clock_file = self.environment["FAULT_CLOCK_FILE"] = os.path.join(self.root, "clock")
            self.environment["LD_PRELOAD"] = os.environ["FAULTS_SHIM"]
            with open(self.clock_file, "wb") as file:
                file.write(bytes(8))
        self.worker = None
        self.client = None
        self.start_worker()
        self.link = links.Link(self.address)
        self.capture_works("before the fault")
        self.before = self.settled()

    def start_worker(self, address=None):
        """A new one. The port of one that was killed can be taken at once, and nobody else takes it meanwhile."""
        address = address or f"127.0.0.1:{ports.free_port()}"
        self.worker = workers.Worker(os.path.join(HERE, "fault_workers.py"), self.kind, address, environment=self.environment)
        self.processes.append(self.worker.process)
        said = self.worker.hear()
        check(said["address"], f"the server does not start: {said['error']}")
        self.address = said["address"]

    def replace_worker(self, exit_code=None):
        """The worker has gone, or goes: another one takes its port."""
        try:
            code, _ = self.worker.process.wait(HANG_S), self.worker.__exit__()
        except subprocess.TimeoutExpired:
            raise Failure("the worker does not end") from None
        check(exit_code is None or code == exit_code, f"the worker ended with {code}: {self.worker.errors[-2000:]}")
        self.start_worker(self.address)
        self.link.restore()
        self.capture_works("of the worker that has its port")
        self.before = self.settled()

    def fresh_logdir(self):
        """An empty one, for captures that nobody will read."""
        shutil.rmtree(self.logdir, ignore_errors=True)
        return self.logdir

    def command(self, *words):
        self.worker.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.worker.process.stdin.flush()

    def ask(self, *words):
        self.command(*words)
        return self.worker.hear()["done"]

    # ---- the capture with the fault ----

    def capture(self, duration_ms, *arguments, **options):
        """Starts a client, and waits for its end."""
        client = Client(self, duration_ms, *arguments, **options)
        client.finish()
        return client

    def capture_at(self, phase, fault, duration_ms=None, **options):
        """Starts a client, and runs `fault` when the capture is in that phase. The client may go on."""
        message, hold = PHASES[phase]
        if duration_ms is None:
            duration_ms = LONG_MS if phase in ("recording", "streaming") else SHORT_MS
        started, failures = threading.Event(), []

        def at_once():
            check(started.wait(HANG_S), "the client does not start")
            try:
                fault(self)
            except (Failure, AssertionError, OSError) as error:
                failures.append(error)

        self.link.forget()
        if message is None:
            self.ask("drain_slowly")
        else:
            self.link.stop_at(message, None if hold else at_once, hold)
        self.client = Client(self, duration_ms, **options)
        started.set()
        if message is None:
            self.reach("started")
            check(self.worker.hear().get("draining"), "the session does not drain")
        else:
            self.reach(message)
        if hold or message is None:
            at_once()
        if message is None and self.worker.process.poll() is None:
            self.command("go_on")
        if hold:
            self.link.release()
        if failures:
            raise failures[0]
        return self.client

    def reach(self, message):
        """Waits until the message comes, or the client ends without it, by its own time limits."""
        workers.until(lambda: self.link.await_message(message, 0.1) or self.client.process.poll() is not None, HANG_S)
        # Its fault may have ended the client before the link has noted the message.
        if not self.link.await_message(message, HANG_S if self.link.has_met(message) else 0):
            check(self.client.process.poll() is not None, f"no '{message}' within {HANG_S} s: {self.link.seen()}")
            self.client.finish()
            raise Late(f"the client ended before '{message}': {self.client.errors} {self.client.worker.get('reason')}")

    # ---- afterwards ----

    def check_worker(self, command="check"):
        """What the worker says of itself, or None."""
        done = subprocess.run(
            [workers.CLIENT, command, "--service_addr=" + self.address, "--json", "--connect_timeout_ms=20000"],
            capture_output=True, text=True, timeout=HANG_S, check=False,
        )
        found = json.loads(done.stdout)["workers"][0]
        return found if found["outcome"] == "ok" else None

    def idle(self):
        """Waits until the worker has no session, for at most the time that the server's own limits give."""
        check(workers.until(lambda: (self.check_worker() or {"busy": 1}).get("busy") is None, HANG_S), f"the worker stays busy: {self.check_worker()}")

    def settled(self):
        """Threads, descriptors and resident KiB of the worker, when it is idle: the least of them, since some end late."""
        self.idle()
        return self.usage()

    def usage(self):
        return usage_of(self.worker.process.pid)

    def capture_works(self, when):
        for _ in range(20):  # on a busy machine the worker may not run during a capture
            client = self.capture(SHORT_MS, "--num_tracing_attempts=20")
            worker = client.worker
            if worker.get("outcome") != "empty":
                break
        check(client.code == 0 and worker["outcome"] == "ok" and worker["events"] > 0,
              f"the capture {when} does not work: exit {client.code}, {worker.get('outcome')}: {worker.get('reason')} {client.errors}")
        self.files_are_whole(client)

    def files_are_whole(self, client, at_any_moment=False):
        """The files under their final names are those of the manifest, with as many events; nothing else is left. A client that
        was killed leaves no manifest, and whole files; one that was killed at any moment may have written all of its run before."""
        manifest = client.manifest
        if client.code < 0:
            manifests = [path for path in (os.path.join(run, "capture.json") for run in client.runs) if os.path.exists(path)]
            check(at_any_moment or not manifests, f"the client was killed and leaves {manifests}")
            for trace in client.traces():
                check(xspace.is_whole(trace), f"{trace} is cut off")
            if not manifests:
                return
            with open(manifests[0], encoding="utf-8") as file:
                manifest = json.load(file)
        said = {file["path"]: file["events"] for worker in manifest.get("workers", []) for file in worker["files"]}
        found = {os.path.basename(path): path for path in client.traces()}
        check(set(said) == set(found), f"the manifest names {sorted(said)}, there is {sorted(found)}")
        for name, path in found.items():
            events = sum(len(events) for _, events in xspace.planes(path))
            check(said[name] == events, f"{name} has {events} events, the manifest says {said[name]}")
            check(xspace.is_whole(path), f"{path} is cut off")
        check(client.code < 0 or not client.temporary_files(), f"left behind: {client.temporary_files()}")

    def nothing_is_left(self, more_kib=0):
        self.idle()
        back = workers.until(lambda: is_back(self.usage(), self.before, more_kib), HANG_S)
        check(back, f"threads, descriptors, KiB were {self.before}, are {self.usage()}")
        check(not os.listdir(self.temporary), f"left in TMPDIR: {os.listdir(self.temporary)}")

    def close(self):
        self.link.close()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.worker.__exit__()
        for directory in self.mounts:
            subprocess.run(["umount", "--lazy", directory], check=False)
        shutil.rmtree(self.root, ignore_errors=True)
