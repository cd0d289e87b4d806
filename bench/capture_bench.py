# SPDX-License-Identifier: Apache-2.0
"""Compares captures: our workers and client, and TensorFlow's and JAX's, in one run on one machine.

    tools/venv.sh --run bench/capture_bench.py BIN_DIRECTORY [OUT.json] [--runs=5] [--only=NAME,...] [--write]

Every figure of the table comes from this run. "overhead" is the wall time of a capture minus the requested duration: of
the whole program `capture` on our side, from exec to exit, and of the call alone on the stock side, whose client is a Python
process that has imported TensorFlow already. "end to exit" is the part of it behind the end of the recording, which is taken from
the trace: up to the exit of our program, or the return of the stock call. The trace lies under its final name by then.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import re
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

REPO = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "tests" / "interop"))

MIB = 1 << 20
# Seconds to wait before measuring a worker that was idle or has just started: gRPC's callback threads sleep 100 ms
# after a second without work, and a session in the first 100 ms of a server waits for the clocks.
SETTLE_S = 0.5


class Bench:
    def __init__(self, runs, scratch):
        self.runs = runs
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

    def own_capture(self, addresses, duration_ms, sample_memory=True):
        """Returns (overhead s, client peak bytes or None, end of the program in Unix ns, manifest, run directory).
        Samples of the client's memory take turns on its locks each 2 ms: a capture that is timed takes none."""
        logdir = self.logdir()
        begin = time.perf_counter()
        run = clients.start_capture(addresses, logdir, duration_ms)
        sampler = processes.MemorySampler(run.process) if sample_memory else None
        code = run.process.wait(duration_ms / 1e3 + 120)
        overhead, ended_unix_ns = time.perf_counter() - begin - duration_ms / 1e3, time.time_ns()
        if code != 0:
            raise AssertionError(run.process.output())
        directory = clients.only_run(logdir)
        manifest = json.loads((directory / "capture.json").read_text())
        return overhead, sampler and sampler.peak_bytes(), ended_unix_ns, manifest, directory

    def stock_capture(self, client, addresses, duration_ms):
        """Returns (overhead s, client peak bytes, end of the call in Unix ns, run directory)."""
        logdir = self.logdir()
        answer = client.call("trace", addresses=addresses, logdir=str(logdir), duration_ms=duration_ms, timeout_s=180)
        peak = client.process.status_kib("VmHWM") * 1024
        return answer["seconds"] - duration_ms / 1e3, peak, answer["ended_unix_ns"], clients.only_run(logdir)

    # ---- figures ----

    def add(self, name, unit, own, stock, better="lower"):
        """Two lists of the same quantity, in the same unit."""
        self.results.append({"name": name, "unit": unit, "own": own, "stock": stock, "better": better})
        print(format_row(self.results[-1]), flush=True)


def format_row(result):
    def side(values):
        if not values:
            return "-"
        middle, digits = statistics.median(values), 3 if result["unit"] in ("s", "ms", "x") else 0
        spread = f" [{min(values):.{digits}f}, {max(values):.{digits}f}]" if len(values) > 1 else ""
        return f"{middle:.{digits}f}{spread}"

    ratio = "-"
    if result["own"] and result["stock"] and statistics.median(result["own"]):
        ratio = f"{statistics.median(result['stock']) / statistics.median(result['own']):.2f}"
    n = max(len(result["own"]), len(result["stock"]))
    return f"| {result['name']} | {result['unit']} | {n} | {side(result['own'])} | {side(result['stock'])} | {ratio} |"


HEADER = "| what | unit | n | jobscope: median [min, max] | stock: median [min, max] | stock / jobscope |\n|---|---|---|---|---|---|"


def own_end_to_exit(manifest, ended_unix_ns):
    entry = manifest["workers"][0]
    return (ended_unix_ns - entry["start_unix_ns"] - entry["duration_ns"]) / 1e9


def stock_end_to_exit(reader, directory, ended_unix_ns):
    """Returns (s, events in the file)."""
    count = reader.call("count", path=str(next(directory.glob("*.xplane.pb"))))
    return (ended_unix_ns - count["stop_unix_ns"]) / 1e9, sum(count["planes"].values())


def ordinary(bench):
    """Measures a step loop of 5 ms for 1 s. The other side's worker is stopped meanwhile: it would use cores that one
    side has alone in a job."""
    own, stock = bench.own("train_loop", "--slow_ms=5"), bench.stock("tensorflow")
    client, reader = bench.stock_client(), bench.stock_client()
    ours, theirs, our_memory, their_memory, our_exit, their_exit, their_program = [], [], [], [], [], [], []
    for _ in range(bench.runs):
        stock.process.signal(signal.SIGSTOP)
        overhead, _, ended, manifest, _ = bench.own_capture([own.address], 1000, sample_memory=False)
        stock.process.signal(signal.SIGCONT)
        time.sleep(SETTLE_S)
        ours.append(overhead)
        our_exit.append(own_end_to_exit(manifest, ended))
        own.process.signal(signal.SIGSTOP)
        overhead, peak, ended, directory = bench.stock_capture(client, [stock.address], 1000)
        own.process.signal(signal.SIGCONT)
        time.sleep(SETTLE_S)
        theirs.append(overhead)
        their_memory.append(peak / MIB)
        their_exit.append(stock_end_to_exit(reader, directory, ended)[0])
    for _ in range(2):
        our_memory.append(bench.own_capture([own.address], 1000)[1] / MIB)
    for _ in range(3):
        begin = time.perf_counter()
        program = bench.stock_client()
        bench.stock_capture(program, [stock.address], 1000)
        their_program.append(time.perf_counter() - begin - 1)
        program.process.kill()
    bench.add("overhead, step loop, 1 s", "s", ours, theirs)
    bench.add("the same, stock client from exec on", "s", ours, their_program)
    bench.add("end to exit, step loop", "s", our_exit, their_exit)
    bench.add("peak memory of the client, step loop", "MiB", our_memory, their_memory)
    bench.add(
        "peak memory of the worker, step loop", "MiB",
        [own.process.status_kib("VmHWM") / 1024], [stock.process.status_kib("VmHWM") / 1024],
    )


def requests(bench):
    """Measures whole programs `capture check` of a worker that has been idle for a second or two."""
    own = bench.own("train_loop", "--slow_ms=20")
    seconds = []
    for _ in range(8 * bench.runs):
        time.sleep(random.uniform(1, 2.2))
        begin = time.perf_counter()
        run = clients.check([own.address])
        seconds.append(time.perf_counter() - begin)
        if run.exit_code != 0:
            raise AssertionError(run.process.output())
    bench.add("check of an idle worker", "s", seconds, [])


def flood(bench, name, rate, runs, duration_ms=1000):
    """Records one C++ thread on both sides. One worker per run: the stock one never returns its memory."""
    library = build_stock_flood(bench.scratch)
    client, reader = bench.stock_client(), bench.stock_client()
    columns = {key: ([], []) for key in ("overhead", "exit", "peak", "after", "client", "events", "lost", "bytes")}
    for _ in range(runs):
        own = bench.own("flood_worker", "--threads=1", f"--scopes_per_second={rate}")
        before = own.process.status_kib("VmRSS") / 1024
        overhead, peak, ended, manifest, directory = bench.own_capture([own.address], duration_ms)
        entry = manifest["workers"][0]
        add = lambda key, side, value: columns[key][side].append(value)  # noqa: E731
        add("overhead", 0, overhead)
        add("exit", 0, own_end_to_exit(manifest, ended))
        add("peak", 0, own.process.status_kib("VmHWM") / 1024 - before)
        add("after", 0, own.process.status_kib("VmRSS") / 1024 - before)
        add("client", 0, peak / MIB)
        add("events", 0, entry["events"])
        add("lost", 0, entry["lost"])
        add("bytes", 0, sum(file.stat().st_size for file in directory.glob("*.xplane.pb")) / MIB)
        own.process.kill()

        stock = bench.stock("tensorflow", f"--flood={library},1,{rate}")
        before = stock.process.status_kib("VmRSS") / 1024
        overhead, peak, ended, directory = bench.stock_capture(client, [stock.address], duration_ms)
        add("overhead", 1, overhead)
        add("peak", 1, stock.process.status_kib("VmHWM") / 1024 - before)
        add("after", 1, stock.process.status_kib("VmRSS") / 1024 - before)
        add("client", 1, peak / MIB)
        path = next(directory.glob("*.xplane.pb"))
        end_to_exit, events = stock_end_to_exit(reader, directory, ended)
        add("exit", 1, end_to_exit)
        add("events", 1, events)
        add("bytes", 1, path.stat().st_size / MIB)
        stock.process.kill()
    bench.add(f"overhead, {name}", "s", *columns["overhead"])
    bench.add(f"end to exit, {name}", "s", *columns["exit"])
    bench.add(f"worker's memory added at the peak, {name}", "MiB", *columns["peak"])
    bench.add(f"worker's memory added after the answer, {name}", "MiB", *columns["after"])
    bench.add(f"peak memory of the client, {name}", "MiB", *columns["client"])
    bench.add(f"events in the trace, {name}", "events", *columns["events"], better="higher")
    bench.add(f"events lost and counted, {name}", "events", columns["lost"][0], [])
    bench.add(f"trace, {name}", "MiB", *columns["bytes"])


def flood_1m(bench):
    flood(bench, "1 M events/s, 1 s", 1_000_000, bench.runs)


def flood_full(bench):
    flood(bench, "one thread at full speed, 1 s", 0, min(bench.runs, 3))


def start_spread(bench):
    """Captures 8 workers with one client, on one clock."""
    count = 8
    own = [bench.own("flood_worker", "--threads=1", "--scopes_per_second=1000") for _ in range(count)]
    ours, late, our_overhead = [], [], []
    for _ in range(bench.runs):
        overhead, _, _, manifest, _ = bench.own_capture([worker.address for worker in own], 500)
        our_overhead.append(overhead)
        ours.append(manifest["start_spread_ns"] / 1e6)
        late.append(max(worker.get("late_ns", 0) for worker in manifest["workers"]) / 1e6)
    bench.end_all()
    stock = [bench.stock("jax") for _ in range(count)]
    client = bench.stock_client()
    theirs, their_overhead = [], []
    for _ in range(bench.runs):
        overhead, _, _, directory = bench.stock_capture(client, [worker.address for worker in stock], 500)
        their_overhead.append(overhead)
        starts = [traces.Trace.load(path).task_environment()["profile_start_time"] for path in directory.glob("*.xplane.pb")]
        theirs.append((max(starts) - min(starts)) / 1e6)
    bench.add("start spread, 8 workers", "ms", ours, theirs)
    bench.add("latest start after the commanded instant, 8 workers", "ms", late, [])
    bench.add("overhead, 8 workers, 0.5 s", "s", our_overhead, their_overhead)


def step_time(bench):
    """Measures steps that compute without a pause, with and without a capture. Ours: train_loop's own clock, one
    process per figure, in turn. Stock: marks in one process."""
    seconds = 5
    medians, longests = {False: [], True: []}, {False: [], True: []}
    for _ in range(bench.runs):
        for captured in (False, True):
            own = bench.own("train_loop", f"--seconds={seconds}")
            if captured:
                bench.own_capture([own.address], seconds * 1000 - 1000)
            code = own.process.wait(seconds + 20)
            match = re.search(r"median ([\d.]+) ms, longest ([\d.]+) ms", own.process.stdout())
            if code != 0 or match is None:
                raise AssertionError(own.process.output())
            medians[captured].append(float(match[1]))
            longests[captured].append(float(match[2]))
    ratios = [during / before for before, during in zip(medians[False], medians[True])]
    longest_ratios = [during / before for before, during in zip(longests[False], longests[True])]
    bench.end_all()

    stock, client = bench.stock("tensorflow", "--step_ms=0", "--size=256"), bench.stock_client()
    stock_ratios, stock_longest, stock_median = [], [], []
    stock.mark()
    for _ in range(bench.runs):
        time.sleep(seconds - 1)  # measured duration, not a wait for an event
        before = stock.mark()
        bench.stock_capture(client, [stock.address], seconds * 1000 - 1000)
        during = stock.mark()
        stock_median.append(before[0])
        stock_ratios.append(during[0] / before[0])
        stock_longest.append(during[1] / before[1])
    bench.add("median step without a capture (the two programs differ)", "ms", medians[False], stock_median)
    bench.add("median step during a capture / without", "x", ratios, stock_ratios)
    bench.add("longest step, with a capture / without", "x", longest_ratios, stock_longest)


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


DOCUMENT = REPO / "docs" / "benchmarks.md"
BEGIN, END = "<!-- capture_bench begin -->", "<!-- capture_bench end -->"

BENCHES = {
    "ordinary": ordinary, "requests": requests, "flood_1m": flood_1m, "flood_full": flood_full, "start_spread": start_spread,
    "step_time": step_time,
}


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "?")
    return f"{os.cpu_count()} cores, {model}, Linux {platform.release()}, load {os.getloadavg()[0]:.2f} at the start"


def write_document(where, options, results):
    """Writes the machine, the command and the table between the marks."""
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    command = f"`tools/venv.sh --run bench/capture_bench.py build/bin --runs={options.runs} --only={options.only} --write`"
    table = "\n".join(format_row(result) for result in results)
    text = f"{BEGIN}\n{where[0].upper()}{where[1:]}; {datetime.date.today()}; {command}.\n\n{HEADER}\n{table}\n{END}"
    DOCUMENT.write_text(before + text + after, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default=",".join(BENCHES))
    parser.add_argument("--write", action="store_true", help="puts machine and table into docs/benchmarks.md")
    options = parser.parse_args()

    os.environ["JOBSCOPE_BIN"] = str(options.bin.resolve())
    os.environ["JOBSCOPE_PROTO_DIR"] = str(REPO / "proto")
    global clients, processes, traces, workers
    from harness import clients, processes, traces, workers

    with tempfile.TemporaryDirectory(prefix="jobscope-bench-") as scratch:
        bench = Bench(options.runs, pathlib.Path(scratch))
        where = machine()
        print(where + "\n\n" + HEADER, flush=True)
        for name in options.only.split(","):
            try:
                BENCHES[name](bench)
            finally:
                bench.end_all()
    if options.write:
        write_document(where, options, bench.results)
    if options.out:
        options.out.write_text(json.dumps({"machine": where, "results": bench.results}, indent=1) + "\n")


main()
