# SPDX-License-Identifier: Apache-2.0
"""Runs one `capture` of many addresses, some of which have no listener.

    python3 bench/scale_bench.py BIN OUT.json                                        # 1,000 addresses, 100 of them dead
    python3 bench/scale_bench.py BIN OUT.json --workers=9960 --processes=8           # 10,000 but for what 20,000 open files allow
    python3 bench/scale_bench.py BIN OUT.json --workers=1000 --dead=750 --real --events_per_second=1    # 250 processes, 750 dead
    python3 bench/scale_bench.py BIN OUT.json --real                                 # as many processes as fit, 24 at most
    python3 bench/scale_bench.py BIN OUT.json --other=BIN2                           # also the `capture` of another build, in turns

The workers are real servers on loopback, many to a process (worker_crowd), or, with --real, one process each
(flood_worker). Refuses what exceeds the machine's limits before anything starts. Standard library only.
"""

import argparse
import json
import os
import pathlib
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import figures
import window_pairs

# Limit of real workers: they map rings and stores, record on their own threads, and share this machine with the client;
# a thousand can exhaust it.
MAX_REAL = 250
DEFAULT_REAL = 24
# Threads of a worker that records: waits for connections, serves them, runs the session, collects.
THREADS_PER_WORKER = 4
# Descriptors of the client: a connection and a spool per worker, and some others.
DESCRIPTORS_PER_WORKER, OTHER_DESCRIPTORS = 2, 64
REFUSED = 77  # exit code: the machine's limits do not allow this run


class Load:
    """Processes that print addresses."""

    def __init__(self):
        self.processes = []
        self.addresses = []

    def start(self, arguments, count):
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.processes.append(process)
        for _ in range(count):
            line = process.stdout.readline().strip()
            if not line:
                raise SystemExit(f"scale_bench: {arguments[0]} ended early")
            self.addresses.append(line.split()[-1])
        # Reads later output, which must not fill the pipe.
        threading.Thread(target=process.stdout.read, daemon=True).start()

    def end(self):
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _stats(self):
        """Reads /proc/PID/stat from the state on, for all processes of the load."""
        groups = {process.pid for process in self.processes}
        for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[2]) in groups:
                yield fields

    def resident_bytes(self):
        return sum(int(fields[21]) * resource.getpagesize() for fields in self._stats())

    def cpu_seconds(self):
        return sum(int(fields[11]) + int(fields[12]) for fields in self._stats()) / os.sysconf("SC_CLK_TCK")


def meminfo_bytes(name):
    for line in open("/proc/meminfo", encoding="ascii"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def refuse(why):
    print(f"scale_bench: {why}", file=sys.stderr)
    sys.exit(REFUSED)


def file_system(directory):
    return subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True).stdout.strip()


def check_limits(workers, there):
    """Checks for enough threads, because failures without them are hard to understand."""
    threads = there * THREADS_PER_WORKER
    most = int(pathlib.Path("/proc/sys/kernel/pid_max").read_text())
    if threads > most * 3 // 4:
        refuse(f"{there} workers take {threads} threads, and this machine has {most}: raise kernel.pid_max, or lower --workers")
    descriptors = workers * DESCRIPTORS_PER_WORKER + OTHER_DESCRIPTORS
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors > most:
        refuse(f"the client takes {descriptors} open files, and may have {most}: raise the limit (ulimit -Hn), or lower --workers")


def real_count(binary, arguments):
    """Returns how many real workers fit into a quarter of the free memory, by what one takes while it is captured."""
    one = Load()
    try:
        one.start([binary / "flood_worker", "--servers=1", *arguments], 1)
        with tempfile.TemporaryDirectory(prefix="jobscope-scale-") as scratch:
            capture(binary, one.addresses, 200, pathlib.Path(scratch))
        return max(1, min(DEFAULT_REAL, meminfo_bytes("MemAvailable") // 4 // max(one.resident_bytes(), 1)))
    finally:
        one.end()


def dead_addresses(count):
    """Returns ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return addresses


def peak_bytes(process):
    """Watches VmHWM until the process ends."""
    peak, ended = 0, os.pidfd_open(process.pid)
    while not select.select([ended], [], [], 0.02)[0]:  # sampling period
        try:
            for line in open(f"/proc/{process.pid}/status", encoding="ascii"):
                if line.startswith("VmHWM"):
                    peak = max(peak, int(line.split()[1]) * 1024)
        except OSError:
            pass
    os.close(ended)
    return peak


def capture(binary, addresses, duration_ms, scratch, more=()):
    listing = scratch / "addresses"
    listing.write_text("\n".join(addresses) + "\n")
    logdir = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    out = scratch / "out.json"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    with open(out, "w", encoding="utf-8") as stdout:
        process = subprocess.Popen(
            [binary / "capture", f"--service_addr=@{listing}", f"--duration_ms={duration_ms}", f"--logdir={logdir}", "--json",
             "--quiet", *more],
            stdout=stdout, stderr=subprocess.DEVNULL,
        )
        peak = peak_bytes(process)
        wall = time.perf_counter() - begin
        process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    manifest = json.loads(out.read_text())
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall - duration_ms / 1e3, peak, process.returncode, manifest, logdir, cpu


def run_once(binary, load, options, scratch):
    """Captures the load and dead addresses once with the `capture` in `binary`. Prints and returns the result."""
    addresses = load.addresses + dead_addresses(options.dead)
    workers_before = load.cpu_seconds()
    overhead, peak, code, manifest, logdir, cpu = capture(
        binary, addresses, options.duration_ms, scratch, [f"--max_parallel={options.max_parallel}"])
    outcomes = {}
    for worker in manifest["workers"]:
        outcomes[worker["outcome"]] = outcomes.get(worker["outcome"], 0) + 1
    files = len(list(logdir.glob("plugins/profile/*/*.xplane.pb")))
    if files != outcomes.get("ok", 0) + outcomes.get("truncated", 0) + outcomes.get("empty", 0):
        raise SystemExit(f"scale_bench: {files} files, but outcomes {outcomes}")
    workers_cpu = load.cpu_seconds() - workers_before
    spread = manifest.get("start_spread_ns")
    result = {"overhead_s": overhead, "client_cpu_s": cpu, "workers_cpu_s": workers_cpu, "peak_bytes": peak, "exit_code": code,
              "start_spread_ns": spread, "events": manifest.get("events"), "lost": manifest.get("lost")}
    print(f"| {overhead:.2f} | {cpu:.2f} | {workers_cpu:.2f} | {peak / 2**20:.0f} | {code} | {outcomes} | "
          f"{'-' if spread is None else f'{spread / 1e6:.3f}'} | {result['events']} | {result['lost']} | {binary} |", flush=True)
    return result


def print_ratios(results, others):
    """Prints the ratio of each other client's run to that of its round."""
    for key in ("overhead_s", "client_cpu_s", "workers_cpu_s", "peak_bytes"):
        ratios = window_pairs.ratios([other[key] for other in others], [own[key] for own in results])
        print(f"{key}: the other client's / that of BIN: {window_pairs.summary(ratios, 3)}")


def figures_of(results, options):
    """Returns the figures of all runs."""
    title = f"{options.workers} workers" + (", one process each" if options.real else "")
    if options.dead != options.workers // 10:
        title += f", {options.dead} of them dead"
    found = []
    for key, unit, better in (("overhead_s", "s", "lower"), ("client_cpu_s", "s", "lower"), ("workers_cpu_s", "s", "lower"),
                              ("peak_bytes", "bytes", "lower"), ("start_spread_ns", "ns", "lower"), ("events", "events", "higher"),
                              ("lost", "events", "lower")):
        own = [result[key] for result in results if result[key] is not None]
        found.append(figures.figure(f"{title}: {key}", unit, own, better=better))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--workers", type=int, help="addresses; 1000; with --real as many as fit")
    parser.add_argument("--dead", type=int, help="of them, where nobody listens; a tenth")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--real", action="store_true", help="one process per worker")
    parser.add_argument("--duration_ms", type=int, default=1000)
    parser.add_argument("--events_per_second", type=int, default=1000)
    parser.add_argument("--max_parallel", type=int, default=256)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--other", type=pathlib.Path, help="bin/ of another build: its `capture` takes turns with that of BIN")
    options = parser.parse_args()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    flood = ["--listen=127.0.0.1:0", "--threads=1", f"--scopes_per_second={options.events_per_second}"]
    if options.workers is None:
        options.workers = real_count(options.bin, flood) if options.real else 1000
    if options.dead is None:
        options.dead = options.workers // 10
    there = options.workers - options.dead
    if options.real and there > MAX_REAL:
        raise SystemExit(f"scale_bench: --real is for {MAX_REAL} workers at most: each is a process with rings and a store")
    check_limits(options.workers, there)
    load = Load()
    try:
        if options.real:
            load.start([options.bin / "flood_worker", f"--servers={there}", *flood], there)
        else:
            for i in range(options.processes):
                count = there // options.processes + (1 if i < there % options.processes else 0)
                load.start([options.bin / "worker_crowd", f"--count={count}",
                            f"--events_per_second={options.events_per_second}"], count)
        where = (f"{figures.machine()}; {there} workers in {there if options.real else options.processes} processes, "
                 f"{load.resident_bytes() >> 20} MiB resident; {options.dead} addresses nobody listens on; "
                 f"logdir on {file_system(tempfile.gettempdir())}")
        print(where)
        print("| wall - duration s | client's CPU s | all workers' CPU s | client's peak MiB | exit | outcomes | start spread ms |"
              " events | lost | capture of |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        with tempfile.TemporaryDirectory(prefix="jobscope-scale-") as scratch:
            binaries = [options.bin] + ([options.other] if options.other else [])
            ways = {binary: lambda binary=binary: run_once(binary, load, options, pathlib.Path(scratch)) for binary in binaries}
            rows = window_pairs.take_turns(ways, options.runs)
        results = rows[options.bin]
        if options.other:
            print_ratios(results, rows[options.other])
        if options.out:
            figures.save(options.out, where, figures_of(results, options))
        expected = 3 if options.dead else 0
        if any(result["exit_code"] != expected for runs in rows.values() for result in runs):
            raise SystemExit(f"scale_bench: exit code {expected} was due")
    finally:
        load.end()


if __name__ == "__main__":
    sys.exit(main())
