# SPDX-License-Identifier: Apache-2.0
"""Measures how often a PyTorch process that used gloo aborts at its end: alone, and with jobscope in it.

  tools/venv.sh --run bench/gloo_exit_bench.py --python=.venv/torch/bin/python --out=DIR --runs=200 --program=pending
  tools/venv.sh --run bench/gloo_exit_bench.py --out=DIR --runs=0      prints the tables of what DIR holds already

A run is two ranks over loopback that reduce a few tensors and end without `destroy_process_group()`, as many programs do. Each round
has one run per arm, in random order, so that all arms see the same load:

  bare       PyTorch alone
  attached   under `jobscope run`: a server listens, the steps of optimizers are watched for
  captured   the same; both ranks are captured while they reduce, and end when the capture is written
  visitor    gil_visitor.c is preloaded: a thread acquires the GIL once and registers a function with atexit, no more

The unit is the run, because its ranks are not independent of each other. Compares arms by Fisher's exact test (two-sided, without a
correction for the number of pairs), and the time from the program's last line to the end of the functions of atexit, behind which Python
ends other threads that ask for the GIL, by the Mann-Whitney test. DIR/runs.jsonl has one line per run; the runs of several
invocations add up there. Keeps the core files of the first ends of a kind in each arm, with a backtrace where gdb is installed.
"""
import argparse
import collections
import concurrent.futures
import datetime
import glob
import itertools
import json
import os
import platform
import random
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading

import gloo_exit_ranks
from scipy import stats

RANKS = 2
ARMS = ("bare", "attached", "captured", "visitor")
EXCHANGES = 20  # of a line each way, before a rank ends: about 0.3 s

# glibc checks the heap in each call and overwrites freed memory.
HEAP_CHECKS = {"LD_PRELOAD": "libc_malloc_debug.so.0", "GLIBC_TUNABLES": "glibc.malloc.check=3:glibc.malloc.perturb=165"}


def free_port(ports):
    """Returns the next of `ports` that nobody listens on. They are outside of the range from which the kernel assigns
    ports, because the rank that will listen there takes seconds to start."""
    for port in ports:
        with socket.socket() as holder:
            try:
                holder.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise RuntimeError("no free port")


class Bench:
    """Runs of one program. `run` may be called by several threads at a time."""

    def __init__(self, options):
        self._options = options
        self._build = os.path.abspath(options.build)
        self._series = options.program + (", heap checked" if options.heap_checks else "")
        self._script = f"{options.out}/{options.program}.py"
        with open(self._script, "w", encoding="utf-8") as file:
            file.write(gloo_exit_ranks.PROGRAMS[options.program])
        self._mutex = threading.Lock()
        self._ports = itertools.islice(itertools.cycle(range(20000, 30000)), random.randrange(10000), None)
        self._kept = collections.Counter()
        self._begun = datetime.datetime.now().isoformat(timespec="seconds")

    def _start(self, arm, folder):
        with self._mutex:
            port = free_port(self._ports)
        environment = {name: value for name, value in os.environ.items() if not re.match("JOBSCOPE_|LD_PRELOAD$", name)}
        environment.update(WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        environment.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        if self._options.heap_checks:
            environment.update(HEAP_CHECKS)
        command = [self._options.python, "-B", self._script]
        if arm == "visitor":
            environment["LD_PRELOAD"] = f"{environment.get('LD_PRELOAD', '')} {self._build}/bench/gil_visitor.so".strip()
        elif arm != "bare":
            command = [f"{self._build}/bin/jobscope", "run", "--quiet", f"--port_dir={folder}/ports", "--", *command]
        return [
            gloo_exit_ranks.Rank(command, {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}, f"{folder}/{rank}")
            for rank in range(RANKS)
        ]

    def _reduce(self, ranks, client):
        """Makes the ranks reduce as long as the client captures, and at least as often as in the other arms."""
        for exchange in itertools.count():
            if exchange >= EXCHANGES and (client is None or client.poll() is not None):
                return
            for rank in ranks:
                rank.say("20")
            if not all([rank.hear("reduced") for rank in ranks]):
                raise RuntimeError("a rank ended while it reduced")

    def _prepare(self, arm, ranks, folder):
        """Returns when the ranks may end, in the state that the arm requires."""
        up = [rank.hear("up") for rank in ranks]
        if not all(up):
            raise RuntimeError("not all ranks came up")
        loaded = {"bare": [], "visitor": ["gil_visitor.so"]}.get(arm, ["libjobscope.so"])
        if [line[1:] for line in up] != [loaded] * RANKS:
            raise RuntimeError(f"ranks have loaded {up}")
        if arm != "captured":
            self._reduce(ranks, None)
            return
        with subprocess.Popen(
            [f"{self._build}/bin/capture", f"--service_addr=@{folder}/ports", "--duration_ms=200", f"--logdir={folder}/logs",
             "--quiet"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        ) as client:  # fmt: skip
            self._reduce(ranks, client)
            errors = client.stderr.read()
        if client.returncode != 0:
            raise RuntimeError(f"the capture ended with {client.returncode}: {errors}")

    def run(self, arm):
        folder = tempfile.mkdtemp(prefix=f"{arm}-", dir=self._options.out)
        os.mkdir(f"{folder}/ports")
        ranks = self._start(arm, folder)
        fault = None
        try:
            self._prepare(arm, ranks, folder)
        except RuntimeError as error:
            fault = str(error)
        for rank in ranks:
            rank.say("end")
        ends = [rank.finish() for rank in ranks]
        for rank, (name, errors, _) in zip(ranks, ends):
            self._keep(arm, rank.folder, name, errors)
        shutil.rmtree(folder)
        return {
            "series": self._series, "arm": arm, "ends": [end[0] for end in ends], "fault": fault,
            "ending_ns": [end[2] for end in ends], "load": round(os.getloadavg()[0], 1), "begun": self._begun,
        }  # fmt: skip

    def _keep(self, arm, folder, name, errors):
        """Keeps a rank's core file if there are not enough of its kind."""
        cores = glob.glob(f"{folder}/core*")
        if name == "ok" or not cores:
            return
        with self._mutex:
            self._kept[arm, name] += 1
            number = self._kept[arm, name]
        if number > self._options.cores:
            return
        base = os.path.join(self._options.out, re.sub("[^A-Za-z0-9]+", "_", f"{self._begun}_{arm}_{name[:60]}_{number}"))
        shutil.move(cores[0], f"{base}.core")
        with open(f"{base}.stderr", "w", encoding="utf-8") as file:
            file.write(errors)


def make_backtraces(python, folder):
    """Adds missing backtraces to core files. After the runs: gdb uses as much processor time for one as some runs do."""
    for core in glob.glob(f"{folder}/*.core"):
        path = re.sub("core$", "backtrace", core)
        if os.path.exists(path):
            continue
        trace = subprocess.run(
            ["gdb", "-batch", "-nx", "-ex", "bt 60", "-ex", "info threads", python, core],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            file.write(trace.stdout)


def table_of_arms(arms):
    """Prints {arm: its runs} as a table. Returns its figures."""
    result = {}
    print("| arm | runs | in which a rank did not end well | 95 % interval | such ranks | to the end of atexit, median |")
    print("|---|---|---|---|---|---|")
    for arm, runs in arms.items():
        bad = sum(any(end != "ok" for end in run["ends"]) for run in runs)
        bad_ranks = sum(end != "ok" for run in runs for end in run["ends"])
        interval = stats.binomtest(bad, len(runs)).proportion_ci(method="wilson")
        ending_ms = [ns / 1e6 for run in runs for ns in run["ending_ns"] if ns is not None]
        result[arm] = {
            "runs": len(runs), "bad_runs": bad, "interval": [interval.low, interval.high], "ranks": len(runs) * RANKS,
            "bad_ranks": bad_ranks, "ending_ms": ending_ms,
            "ends": collections.Counter(end for run in runs for end in run["ends"]),
        }  # fmt: skip
        median = f"{statistics.median(ending_ms):.0f} ms" if ending_ms else ""
        print(
            f"| {arm} | {len(runs)} | {bad} ({bad / len(runs):.1%}) | {interval.low:.1%} to {interval.high:.1%} "
            f"| {bad_ranks} of {len(runs) * RANKS} | {median} |"
        )
    return result


def table_of_pairs(figures):
    result = {}
    print("\n| pair | odds ratio | p, bad ends | p, time to the end of atexit |\n|---|---|---|---|")
    for one, other in itertools.combinations(figures, 2):
        counts = [[figures[arm]["bad_runs"], figures[arm]["runs"] - figures[arm]["bad_runs"]] for arm in (other, one)]
        odds, p = stats.fisher_exact(counts)
        p_ending = stats.mannwhitneyu(figures[other]["ending_ms"], figures[one]["ending_ms"]).pvalue
        result[f"{other} against {one}"] = {"odds_ratio": odds, "p": p, "p_ending": p_ending}
        print(f"| {other} against {one} | {odds:.2f} | {p:.2f} | {p_ending:.2f} |")
    return result


def report(path):
    with open(path, encoding="utf-8") as file:
        runs = [json.loads(line) for line in file]
    result = {}
    for series in sorted({run["series"] for run in runs}):
        mine = [run for run in runs if run["series"] == series]
        arms = {arm: [run for run in mine if run["arm"] == arm and not run["fault"]] for arm in ARMS}
        loads = sorted(run["load"] for run in mine)
        print(f"\n{series}, load {loads[0]} to {loads[-1]}:")
        figures = table_of_arms({arm: chosen for arm, chosen in arms.items() if chosen})
        pairs = table_of_pairs(figures)
        print("\nends of ranks:")
        for arm, figure in figures.items():
            for end, count in figure["ends"].most_common():
                print(f"  {arm:10} {count:5} {end}")
        left_out = collections.Counter((run["arm"], run["fault"]) for run in mine if run["fault"])
        for (arm, fault), count in left_out.items():
            print(f"  {arm:10} {count:5} runs left out: {fault}")
        result[series] = {"arms": figures, "pairs": pairs, "left_out": left_out.total()}
    return result


def has_torch(python):
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return os.path.exists(python) and subprocess.run([python, "-c", find], check=False).returncode == 0


def arms_of_round(order, arms, number):
    here = []
    for arm in arms.split(","):
        name, _, period = arm.partition("/")
        if number % int(period or 1) == 0:
            here.append(name)
    return order.sample(here, len(here))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="rounds: runs per arm")
    parser.add_argument("--arms", default=",".join(ARMS), help="NAME/4: in every fourth round only")
    parser.add_argument("--program", choices=gloo_exit_ranks.PROGRAMS, default="waited", help="how the program ends")
    parser.add_argument("--heap_checks", action="store_true", help="glibc verifies the heap, and overwrites what is freed")
    parser.add_argument("--python", default=sys.executable, help="the one with PyTorch")
    parser.add_argument("--build", default="build", help="build folder")
    parser.add_argument("--out", required=True, help="folder for runs.jsonl, summary.json, core files and backtraces")
    parser.add_argument("--cores", type=int, default=2, help="core files kept per arm and kind of end")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    options = parser.parse_args()
    options.out, options.python = os.path.abspath(options.out), os.path.abspath(options.python)
    if options.runs and not has_torch(options.python):
        print(f"skipped: {options.python} has no PyTorch (make torch-suite)")
        return 77
    os.makedirs(options.out, exist_ok=True)
    path = f"{options.out}/runs.jsonl"
    limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        pattern = file.read().strip()
    if limit == 0 or pattern.startswith(("|", "/")):
        print(f"cannot keep core files: their limit is {limit}, core_pattern is {pattern}", file=sys.stderr)

    if options.runs:
        bench = Bench(options)
        order = random.Random()
        rounds = [arms_of_round(order, options.arms, number) for number in range(options.runs)]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, open(path, "a", encoding="utf-8") as log:
            runs = [pool.submit(bench.run, arm) for arm in itertools.chain.from_iterable(rounds)]
            for done in concurrent.futures.as_completed(runs):
                log.write(json.dumps(done.result()) + "\n")
                log.flush()
        if shutil.which("gdb"):
            make_backtraces(options.python, options.out)
    print(f"{platform.platform()}, {os.cpu_count()} processors, {datetime.date.today()}")
    summary = report(path)
    with open(f"{options.out}/summary.json", "w", encoding="utf-8") as file:
        json.dump(summary, file, indent=1)
    return 1 if any(series["left_out"] for series in summary.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
