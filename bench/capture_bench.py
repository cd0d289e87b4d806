# SPDX-License-Identifier: Apache-2.0
"""Compares captures: our workers and client, and TensorFlow's and JAX's, in one run on one machine.

    tools/venv.sh --run bench/capture_bench.py BIN_DIRECTORY [OUT.json] [--runs=9] [--only=NAME,...]

Every figure of the table comes from this run. "overhead" is the wall time of a capture minus the requested duration: of
the whole program `capture` on our side, from exec to exit, and of the call alone on the stock side, whose client is a Python
process that has imported TensorFlow already. "end to file" and "end to exit" are the parts of it behind the end of the
recording, which is taken from the trace: up to the instant at which the trace has its final name, and up to the exit of our program,
or the return of the stock call. What is timed is not watched: the client's memory is sampled in runs of their own.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import random
import select
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import typing

import figures
import tables

REPO = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "tests" / "interop"))

MIB = 1 << 20
# Seconds to wait before measuring a worker that was idle or has just started: gRPC's callback threads sleep 100 ms
# after a second without work, and a session in the first 100 ms of a server waits for the clocks.
SETTLE_S = 0.5
# Memory varies little, and is sampled in runs of its own.
MEMORY_RUNS = 3
RING_RECORDS_16_MIB = 524_288
QUIET_MS = 2000
# No capture is quicker than this.
DISK = "the trace's bytes written and synced by one write"

IN_MOVED_TO, IN_CREATE = 0x80, 0x100


class TraceWatch:
    """Tells when a trace gets its final name below a directory, by inotify."""

    def __init__(self, directory):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._libc.inotify_init1(os.O_CLOEXEC)
        self._folders = {}
        self._add(directory)

    def close(self):
        os.close(self.descriptor)

    def _add(self, folder):
        handle = self._libc.inotify_add_watch(self.descriptor, os.fsencode(folder), IN_MOVED_TO | IN_CREATE)
        if handle < 0:
            raise OSError(ctypes.get_errno(), f"inotify_add_watch {folder}")
        self._folders[handle] = folder
        for entry in os.scandir(folder):  # made before it was watched
            if entry.is_dir():
                self._add(entry.path)

    def read(self):
        """Reads what has happened; blocks until something has. Returns whether a trace was renamed."""
        data, at, renamed = os.read(self.descriptor, 1 << 16), 0, False
        while at < len(data):
            handle, mask, _, length = struct.unpack_from("iIII", data, at)
            name = os.fsdecode(data[at + 16 : at + 16 + length].rstrip(b"\0"))
            at += 16 + length
            path = os.path.join(self._folders[handle], name)
            if os.path.isdir(path):
                self._add(path)
            renamed = renamed or bool(mask & IN_MOVED_TO) and name.endswith(".xplane.pb")
        return renamed


class Timed(typing.NamedTuple):
    overhead_s: float
    end_to_file_s: float
    end_to_exit_s: float
    manifest: dict
    directory: pathlib.Path


class Bench:
    def __init__(self, runs, duration_ms, scratch):
        self.runs = runs
        self.duration_ms = duration_ms
        self.scratch = scratch
        self.results = []
        self._children = []
        self._logdirs = 0

    # ---- processes ----

    def keep(self, owner):
        self._children.append(owner)
        return owner

    def end_all(self):
        for child in self._children:
            child.process.kill()
        self._children = []

    def own(self, program, *flags, env=None):
        # The installed library, with its own gRPC, instead of the one that uses Debian's.
        shipped = pathlib.Path(os.environ["JOBSCOPE_BIN"]).parent / "shipped"
        if not (shipped / "libjobscope.so").exists():
            sys.exit(f"capture_bench: {shipped} has no libjobscope.so: run make shipped")
        env = {"LD_LIBRARY_PATH": str(shipped), **(env or {})}
        worker = self.keep(workers.OwnWorker(program, *flags, env=env))
        time.sleep(SETTLE_S)
        return worker

    def stock(self, kind, *flags):
        worker = self.keep(workers.StockWorker(kind, *flags))
        time.sleep(SETTLE_S)
        return worker

    def stock_client(self):
        return self.keep(clients.StockClient("tensorflow"))

    def logdir(self):
        self._logdirs += 1
        path = self.scratch / f"logdir-{self._logdirs}"
        path.mkdir()
        return path

    # ---- one capture each ----

    def own_capture(self, addresses, duration_ms):
        """Starts `capture` as a shell does, without pipes or programs in between, and returns what it took."""
        logdir = self.logdir()
        watch, file_unix_ns = TraceWatch(logdir), None
        argv = [os.environ["JOBSCOPE_BIN"] + "/capture", "--service_addr=" + ",".join(addresses), f"--logdir={logdir}",
                f"--duration_ms={duration_ms}"]
        with open(self.scratch / "stderr", "w+b") as errors:
            begin = time.perf_counter()
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, close_fds=False)
            ended = os.pidfd_open(process.pid)
            try:
                while True:
                    ready = select.select([ended, watch.descriptor], [], [], duration_ms / 1e3 + 120)[0]
                    now, now_unix_ns = time.perf_counter(), time.time_ns()
                    if watch.descriptor in ready and watch.read():
                        file_unix_ns = now_unix_ns
                    if ended in ready or not ready:
                        break
            finally:
                os.close(ended)
                watch.close()
                process.kill()
            if process.wait() != 0:
                errors.seek(0)
                raise AssertionError(f"capture: exit code {process.returncode}: {errors.read().decode()}")
        directory, *parts = clients.run_directories(logdir)
        if any(not part.name.startswith(directory.name + ".part") for part in parts):
            raise AssertionError(f"several runs in {logdir}")
        manifest = json.loads((directory / "capture.json").read_text())
        entry = manifest["workers"][0]
        end_unix_ns = entry["start_unix_ns"] + entry["duration_ns"]
        return Timed(now - begin - duration_ms / 1e3, (file_unix_ns - end_unix_ns) / 1e9, (now_unix_ns - end_unix_ns) / 1e9,
                     manifest, directory)  # fmt: skip

    def client_memory(self, addresses, duration_ms):
        """Returns the peak memory of the client in MiB, of a capture that is not timed: samples take turns on its locks."""
        run = clients.start_capture(addresses, self.logdir(), duration_ms)
        sampler = processes.MemorySampler(run.process)
        if run.process.wait(duration_ms / 1e3 + 120) != 0:
            raise AssertionError(run.process.output())
        return sampler.peak_bytes() / MIB

    def stock_capture(self, client, addresses, duration_ms):
        """Returns (overhead s, client peak bytes, end of the call in Unix ns, run directory)."""
        logdir = self.logdir()
        answer = client.call("trace", addresses=addresses, logdir=str(logdir), duration_ms=duration_ms, timeout_s=180)
        peak = client.process.status_kib("VmHWM") * 1024
        return answer["seconds"] - duration_ms / 1e3, peak, answer["ended_unix_ns"], clients.only_run(logdir)

    def disk_ms(self, size):
        """What the disk takes for so many bytes, which lie in memory: a file, a write, an fsync."""
        content = (os.urandom(1 << 20) * (size // (1 << 20) + 1))[:size]
        path = self.scratch / "synced"
        begin = time.perf_counter()
        with open(path, "wb", buffering=0) as file:
            file.write(content)
            os.fsync(file.fileno())
        took_ms = (time.perf_counter() - begin) * 1e3
        path.unlink()
        return took_ms

    # ---- figures ----

    def add(self, name, unit, own, stock, better="lower"):
        """Two lists of the same quantity, in the same unit."""
        self.results.append(figures.figure(name, unit, own, stock, better))
        print(tables.format_row(self.results[-1]), flush=True)


def stock_end_to_exit(reader, directory, ended_unix_ns):
    """Returns (s, events in the file)."""
    count = reader.call("count", path=str(next(directory.glob("*.xplane.pb"))))
    return (ended_unix_ns - count["stop_unix_ns"]) / 1e9, sum(count["planes"].values())


def ordinary(bench):
    """Measures a step loop of 5 ms. The other side's worker is stopped meanwhile: it would use cores that one side has
    alone in a job."""
    own, stock = bench.own("train_loop", "--slow_ms=5"), bench.stock("tensorflow")
    client, reader = bench.stock_client(), bench.stock_client()
    ours, theirs, their_memory, our_file, our_exit, disk, their_exit, their_program = [], [], [], [], [], [], [], []
    for _ in range(bench.runs):
        stock.process.signal(signal.SIGSTOP)
        timed = bench.own_capture([own.address], bench.duration_ms)
        stock.process.signal(signal.SIGCONT)
        time.sleep(SETTLE_S)
        ours.append(timed.overhead_s * 1e3)
        our_file.append(timed.end_to_file_s * 1e3)
        our_exit.append(timed.end_to_exit_s * 1e3)
        disk.append(bench.disk_ms(next(timed.directory.glob("*.xplane.pb")).stat().st_size))
        own.process.signal(signal.SIGSTOP)
        overhead, peak, ended, directory = bench.stock_capture(client, [stock.address], bench.duration_ms)
        own.process.signal(signal.SIGCONT)
        time.sleep(SETTLE_S)
        theirs.append(overhead * 1e3)
        their_memory.append(peak / MIB)
        their_exit.append(stock_end_to_exit(reader, directory, ended)[0] * 1e3)
    our_memory = [bench.client_memory([own.address], bench.duration_ms) for _ in range(min(bench.runs, MEMORY_RUNS))]
    for _ in range(min(bench.runs, MEMORY_RUNS)):
        begin = time.perf_counter()
        program = bench.stock_client()
        bench.stock_capture(program, [stock.address], bench.duration_ms)
        their_program.append((time.perf_counter() - begin) * 1e3 - bench.duration_ms)
        program.process.kill()
    bench.add("overhead, step loop", "ms", ours, theirs)
    bench.add("the same, stock client from exec on", "ms", ours, their_program)
    bench.add("end to file, step loop", "ms", our_file, [])
    bench.add("end to exit, step loop", "ms", our_exit, their_exit)
    bench.add(f"{DISK}, step loop", "ms", disk, [])
    bench.add("peak memory of the client, step loop", "MiB", our_memory, their_memory)
    bench.add(
        "peak memory of the worker, step loop", "MiB",
        [own.process.status_kib("VmHWM") / 1024], [stock.process.status_kib("VmHWM") / 1024],
    )


def requests(bench):
    """Measures whole programs `capture check` of a worker that has been idle for a second or two."""
    own = bench.own("train_loop", "--slow_ms=20")
    seconds = []
    for _ in range(5 * bench.runs):
        time.sleep(random.uniform(1, 2.2))
        begin = time.perf_counter()
        run = clients.check([own.address])
        seconds.append((time.perf_counter() - begin) * 1e3)
        if run.exit_code != 0:
            raise AssertionError(run.process.output())
    bench.add("check of an idle worker", "ms", seconds, [])


def flood(bench, name, rate):
    """Records one C++ thread on both sides. One worker per run: the stock one never returns its memory."""
    library = build_stock_flood(bench.scratch)
    client, reader = bench.stock_client(), bench.stock_client()
    columns = {key: ([], []) for key in ("overhead", "file", "exit", "disk", "peak", "after", "client", "events", "lost", "bytes")}
    add = lambda key, side, value: columns[key][side].append(value)  # noqa: E731
    for run in range(bench.runs):
        own = bench.own("flood_worker", "--threads=1", f"--scopes_per_second={rate}")
        before = own.process.status_kib("VmRSS") / 1024
        timed = bench.own_capture([own.address], bench.duration_ms)
        entry = timed.manifest["workers"][0]
        add("overhead", 0, timed.overhead_s * 1e3)
        add("file", 0, timed.end_to_file_s * 1e3)
        add("exit", 0, timed.end_to_exit_s * 1e3)
        add("peak", 0, own.process.status_kib("VmHWM") / 1024 - before)
        add("after", 0, own.process.status_kib("VmRSS") / 1024 - before)
        add("events", 0, entry["events"])
        add("lost", 0, entry["lost"])
        size = sum(file.stat().st_size for file in timed.directory.parent.rglob("*.xplane.pb"))  # of all parts
        add("bytes", 0, size / MIB)
        add("disk", 0, bench.disk_ms(size))
        if run < MEMORY_RUNS:
            add("client", 0, bench.client_memory([own.address], bench.duration_ms))
        own.process.kill()

        stock = bench.stock("tensorflow", f"--flood={library},1,{rate}")
        before = stock.process.status_kib("VmRSS") / 1024
        overhead, peak, ended, directory = bench.stock_capture(client, [stock.address], bench.duration_ms)
        add("overhead", 1, overhead * 1e3)
        add("peak", 1, stock.process.status_kib("VmHWM") / 1024 - before)
        add("after", 1, stock.process.status_kib("VmRSS") / 1024 - before)
        add("client", 1, peak / MIB)
        path = next(directory.glob("*.xplane.pb"))
        end_to_exit, events = stock_end_to_exit(reader, directory, ended)
        add("exit", 1, end_to_exit * 1e3)
        add("events", 1, events)
        add("bytes", 1, path.stat().st_size / MIB)
        stock.process.kill()
    bench.add(f"overhead, {name}", "ms", *columns["overhead"])
    bench.add(f"end to file, {name}", "ms", *columns["file"])
    bench.add(f"end to exit, {name}", "ms", *columns["exit"])
    bench.add(f"{DISK}, {name}", "ms", columns["disk"][0], [])
    bench.add(f"worker's memory added at the peak, {name}", "MiB", *columns["peak"])
    bench.add(f"worker's memory added after the answer, {name}", "MiB", *columns["after"])
    bench.add(f"peak memory of the client, {name}", "MiB", *columns["client"])
    bench.add(f"events in the trace, {name}", "events", *columns["events"], better="higher")
    bench.add(f"events lost and counted, {name}", "events", columns["lost"][0], [])
    bench.add(f"trace, {name}", "MiB", *columns["bytes"])


def flood_1m(bench):
    flood(bench, "1 M events/s", 1_000_000)


def flood_full(bench):
    flood(bench, "one thread at full speed", 0)


def loss(bench):
    """Counts what one thread loses, with a ring of 16 MiB and in bursts."""
    ring = f"--ring_records={RING_RECORDS_16_MIB}"
    for name, flags in (
        ("5 M events/s, ring of 16 MiB", [ring, "--scopes_per_second=5000000"]),
        ("one thread at full speed, ring of 16 MiB", [ring]),
        ("1 M events/s in bursts of 80 ms each 280 ms", ["--scopes_per_second=1000000", "--burst_ms=80", "--idle_ms=200"]),
    ):
        kept, lost = [], []
        for _ in range(bench.runs):
            own = bench.own("flood_worker", "--threads=1", *flags)
            entry = bench.own_capture([own.address], bench.duration_ms).manifest["workers"][0]
            kept.append(entry["events"] * 1e3 / bench.duration_ms / 1e6)
            lost.append(entry["lost"])
            own.process.kill()
        bench.add(f"events kept, {name}", "M/s", kept, [], better="higher")
        bench.add(f"events lost and counted, {name}", "events", lost, [])


def cpu_ms(process):
    """The CPU time of all threads that a process has and had."""
    return time.clock_gettime(~process.pid << 3 | 2) * 1e3  # clock_getcpuclockid(3)


def thread_cpu_ms(process):
    """{thread id: CPU time} of the threads that a process has."""
    found = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e6
    return found


def worker_cpu(bench):
    """Measures the CPU time that captures of 2 s cost a worker that records 10 events/s: beyond what it uses without one, and with
    what it does after the client has its answer."""
    def used(worker, action):
        """(CPU ms, of it by threads that have ended since, wall s) of an action and its aftermath."""
        begin, before, threads = time.monotonic(), cpu_ms(worker.process), thread_cpu_ms(worker.process)
        action(worker)
        time.sleep(SETTLE_S)
        used_ms = cpu_ms(worker.process) - before
        stayed_ms = sum(ms - threads.get(tid, 0) for tid, ms in thread_cpu_ms(worker.process).items())
        return used_ms, used_ms - stayed_ms, time.monotonic() - begin

    def measure(start, capture):
        first, later, ended = [], [], []
        for _ in range(bench.runs):
            worker = start()
            idle_ms, _, idle_s = used(worker, lambda _: time.sleep(QUIET_MS / 1e3))
            for figures_of in (first, later):
                busy_ms, ended_ms, busy_s = used(worker, capture)
                figures_of.append(busy_ms - idle_ms * busy_s / idle_s)
            ended.append(ended_ms)
            worker.process.kill()
        return first, later, ended

    client = bench.stock_client()
    ours = measure(lambda: bench.own("flood_worker", "--threads=1", "--scopes_per_second=10"),
                   lambda worker: bench.own_capture([worker.address], QUIET_MS))  # fmt: skip
    theirs = measure(lambda: bench.stock("tensorflow", "--step_ms=100"),
                     lambda worker: bench.stock_capture(client, [worker.address], QUIET_MS))  # fmt: skip
    bench.add("CPU time of a quiet worker, first capture of 2 s", "ms", ours[0], theirs[0])
    bench.add("CPU time of a quiet worker, later capture of 2 s", "ms", ours[1], theirs[1])
    bench.add("of it, the threads of the session and its collectors", "ms", ours[2], [])


def start_spread(bench):
    """Captures 8 workers with one client, on one clock."""
    count = 8
    own = [bench.own("flood_worker", "--threads=1", "--scopes_per_second=1000") for _ in range(count)]
    ours, late, our_overhead = [], [], []
    for _ in range(bench.runs):
        timed = bench.own_capture([worker.address for worker in own], 500)
        our_overhead.append(timed.overhead_s * 1e3)
        ours.append(timed.manifest["start_spread_ns"] / 1e6)
        late.append(max(worker.get("late_ns", 0) for worker in timed.manifest["workers"]) / 1e6)
    bench.end_all()
    stock = [bench.stock("jax") for _ in range(count)]
    client = bench.stock_client()
    theirs, their_overhead = [], []
    for _ in range(bench.runs):
        overhead, _, _, directory = bench.stock_capture(client, [worker.address for worker in stock], 500)
        their_overhead.append(overhead * 1e3)
        starts = [traces.Trace.load(path).task_environment()["profile_start_time"] for path in directory.glob("*.xplane.pb")]
        theirs.append((max(starts) - min(starts)) / 1e6)
    bench.add("start spread, 8 workers", "ms", ours, theirs)
    bench.add("latest start after the commanded instant, 8 workers", "ms", late, [])
    bench.add("overhead, 8 workers, 0.5 s", "ms", our_overhead, their_overhead)


def step_time(bench):
    """Measures steps that compute without a pause, as the worker counts them: in one process, with and without a capture in turn."""
    seconds = 4

    def measure(worker, capture):
        medians, ratios, longest_ratios = [], [], []
        worker.mark()
        for _ in range(bench.runs):
            time.sleep(seconds)  # measured duration, not a wait for an event
            before = worker.mark()
            capture([worker.address], seconds * 1000)
            during = worker.mark()
            medians.append(before[0])
            ratios.append(during[0] / before[0])
            longest_ratios.append(during[1] / before[1])
        bench.end_all()
        return medians, ratios, longest_ratios

    ours = measure(bench.own("train_loop"), bench.own_capture)
    client = bench.stock_client()
    theirs = measure(bench.stock("tensorflow", "--step_ms=0", "--size=256"), lambda *of: bench.stock_capture(client, *of))
    bench.add("median step without a capture (the two programs differ)", "ms", ours[0], theirs[0])
    bench.add("median step during a capture / without", "x", ours[1], theirs[1])
    bench.add("longest step, with a capture / without", "x", ours[2], theirs[2])


def build_stock_flood(scratch):
    """Compiles the load for the stock worker against the headers in TensorFlow's wheel."""
    library = scratch / "stock_flood.so"
    if not library.exists():
        package = pathlib.Path(sysconfig.get_paths()["purelib"]) / "tensorflow"
        subprocess.run(
            ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", "-w", f"-I{package}/include",
             str(REPO / "bench" / "peers" / "stock_flood.cc"), "-o", str(library), f"-L{package}", "-l:libtensorflow_framework.so.2"],
            check=True, timeout=300,
        )
    return library


BENCHES = {
    "ordinary": ordinary, "requests": requests, "flood_1m": flood_1m, "flood_full": flood_full, "loss": loss,
    "worker_cpu": worker_cpu, "start_spread": start_spread, "step_time": step_time,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--duration_ms", type=int, default=1000, help="of the captures of a step loop and of floods")
    parser.add_argument("--only", default=",".join(BENCHES))
    options = parser.parse_args()

    os.environ["JOBSCOPE_BIN"] = str(options.bin.resolve())
    os.environ["JOBSCOPE_PROTO_DIR"] = str(REPO / "proto")
    global clients, processes, traces, workers
    from harness import clients, processes, traces, workers

    with tempfile.TemporaryDirectory(prefix="jobscope-bench-") as scratch:
        bench = Bench(options.runs, options.duration_ms, pathlib.Path(scratch))
        where = figures.machine()
        print(where + "\n\n" + tables.HEADER, flush=True)
        for name in options.only.split(","):
            try:
                BENCHES[name](bench)
            finally:
                bench.end_all()
    if options.out:
        figures.save(options.out, where, bench.results, "tensorflow-cpu", "jax")


main()
