# SPDX-License-Identifier: Apache-2.0
"""Whether `jobscope report` names the right rank and the right cause, of a job of PyTorch's DistributedDataParallel into one rank of
which causes are injected.

    causes.py [--ranks=8] [--seeds=5] [--clean=20] [--out=DIR]    all causes, and clean runs
    causes.py --cause=gc --seed=3                                  one case, with the report's text

With --build=DIR, the build tree (make shipped). Exit 0: right in 95 % of the cases, and at most one false alarm in 20 clean runs.
1: not. 77: no PyTorch, or a machine so busy that too few runs prove anything.
"""
import argparse
import datetime
import importlib.metadata
import json
import os
import random
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "server", "attach"), os.path.join(HERE, "..", "..", "python")]

# Minimum of the time injected per step, which is otherwise as long as a step. The kernel assigns a CPU for some ms at a time.
MIN_MS = 25
# Number of steps from which the time of a step is measured.
MEASURED_STEPS = 10
# Attempts per case, until one is not disturbed.
ATTEMPTS = 4
# Share of the cases in which an attempt must not be disturbed, and share of those whose verdict must be right.
MIN_JUDGED = 0.8
MIN_RIGHT = 0.95
CLEAN_RUNS_PER_FALSE_ALARM = 20
# From so many cases on a rate means something; below, a wrong answer is asked again with further seeds.
ENOUGH_FOR_A_RATE = 20
FURTHER_SEEDS = 2
CLEAN = "clean"


def use_build(build):
    """What ctest sets for these tests."""
    build = os.path.abspath(build)
    os.environ.update(
        JOBSCOPE_TEST_ATTACH=f"{build}/shipped/libjobscope_attach.so", JOBSCOPE_TEST_LIBRARY=f"{build}/shipped/libjobscope.so",
        JOBSCOPE_TEST_PROBE=f"{build}/tests/rpc_probe", JOBSCOPE_TEST_TARGET=f"{build}/tests/attach_target",
        JOBSCOPE_TEST_CAPTURE=f"{build}/bin/capture", JOBSCOPE_TEST_PROGRAM=f"{build}/bin/jobscope",
        JOBSCOPE_TEST_SLOW_LINK=f"{build}/tests/libslow_link.so",
    )  # fmt: skip


def step_ms(job_):
    """Mean over the next steps of all ranks."""
    since = time.time()
    job_.await_steps(MEASURED_STEPS)
    accounts = job_.account(since, time.time())
    return sum(account["wall_ms"] for account in accounts) / len(accounts)


class Suite:
    def __init__(self, job_, report, judge):
        self.job, self.report, self.judge = job_, report, judge
        self.rows = []

    def run(self, cause, seed):
        """One case, until an attempt of it proves something or there are no more; the last row, and its run."""
        for _ in range(ATTEMPTS):
            row, run = self._run_once(cause, seed)
            self.rows.append(row)
            print(line_of(row), flush=True)
            if row["outcome"] in (self.judge.RIGHT, self.judge.WRONG):
                break
        return row, run

    def _run_once(self, cause, seed):
        ranks = len(self.job.ranks)
        victim = random.Random(f"{cause} {seed}").randrange(ranks)
        self.job.slow(None, victim, 0)
        usual_ms = step_ms(self.job)
        ms = max(MIN_MS, usual_ms)
        if cause == CLEAN:
            run, accounts = self.job.capture()
            found = self.report(run, "--json")
            judgement = self.judge.clean(accounts, found)
        else:
            self.job.slow(cause, victim, ms)
            run, accounts = self.job.capture()
            found = self.report(run, "--json")
            judgement = self.judge.injected(cause, victim, ms, accounts, found)
        verdict = found["verdict"]
        rank_of = {worker["name"]: worker["rank"] for worker in found["workers"]}
        row = {
            "cause": cause, "seed": seed, "rank": None if cause == CLEAN else victim, "injected_ms": None if cause == CLEAN else ms,
            "usual_step_ms": usual_ms, "finding": verdict["finding"], "found_ranks": [rank_of[name] for name in verdict["workers"]],
            "class": verdict.get("class"), "class_ms": verdict.get("class_ms"), "step_ms": verdict.get("step_ms"),
            "gain": verdict.get("gain"), "text": verdict["text"], "outcome": judgement.outcome, "note": judgement.note,
            "accounts": accounts,
        }  # fmt: skip
        return row, run

    def run_all(self, causes, seeds, clean):
        cases = [(cause, seed) for seed in range(1, seeds + 1) for cause in causes]
        cases += [(CLEAN, seed) for seed in range(1, clean + 1)]
        for cause, seed in cases:
            self._run_asking_again(cause, seed, len(cases))
        return len(cases)

    def _run_asking_again(self, cause, seed, cases):
        row, _ = self.run(cause, seed)
        if row["outcome"] == self.judge.WRONG and cases < ENOUGH_FOR_A_RATE:
            for further in range(FURTHER_SEEDS):
                self.run(cause, 1000 * (further + 1) + seed)


def counts(rows, outcome, wanted):
    return sum(1 for row in rows if row["outcome"] == outcome and wanted(row["cause"]))


def failures(rows, planned, judge):
    """What is not as it must be. Wrong answers of any cause are wrong, however many of the others are right."""
    found = []
    for cause in sorted({row["cause"] for row in rows}):
        right, wrong = (counts(rows, outcome, lambda one: one == cause) for outcome in (judge.RIGHT, judge.WRONG))
        if wrong and wrong >= right:
            found.append(f"{cause}: {wrong} of {right + wrong} answers are wrong")
    right, wrong = (counts(rows, outcome, lambda cause: cause != CLEAN) for outcome in (judge.RIGHT, judge.WRONG))
    if planned >= ENOUGH_FOR_A_RATE and right < MIN_RIGHT * (right + wrong):
        found.append(f"{right} of {right + wrong} injected causes are found, less than {100 * MIN_RIGHT:.0f} %")
    right, wrong = (counts(rows, outcome, lambda cause: cause == CLEAN) for outcome in (judge.RIGHT, judge.WRONG))
    if planned >= ENOUGH_FOR_A_RATE and wrong > -(-(right + wrong) // CLEAN_RUNS_PER_FALSE_ALARM):
        found.append(f"{wrong} false alarms in {right + wrong} clean runs")
    return found


def line_of(row):
    injected = "" if row["rank"] is None else f"rank {row['rank']}, {row['injected_ms']:.0f} ms"
    ranks = ", ".join(map(str, row["found_ranks"])) or "all"
    gain = "" if row["gain"] is None else f"{100 * row['gain']:.0f} %"
    return (
        f"{row['cause']:8} {row['seed']:5} {injected:15} {row['finding']:11} {ranks:8} {row['class'] or '-':18} {gain:>5}  "
        f"{row['outcome']}{': ' if row['note'] else ''}{row['note']}"
    )


def summary(rows, causes, judge):
    """A table in Markdown, with a line per cause."""
    lines = ["| cause | runs | right | half | wrong | disturbed | median gain |", "|---|---|---|---|---|---|---|"]
    for cause in [*causes, CLEAN]:
        mine = [row for row in rows if row["cause"] == cause]
        gains = sorted(row["gain"] for row in mine if row["gain"] is not None and row["outcome"] == judge.RIGHT)
        gain = f"{100 * gains[len(gains) // 2]:.0f} %" if gains and cause != CLEAN else ""
        of = [counts(mine, outcome, lambda _: True) for outcome in (judge.RIGHT, judge.HALF, judge.WRONG, judge.DISTURBED)]
        lines.append(f"| {cause} | {len(mine)} | {' | '.join(map(str, of))} | {gain} |")
    return "\n".join(lines)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "?")
    return f"{os.cpu_count()} cores, {model}, Linux {os.uname().release}, load {os.getloadavg()[0]:.2f} at the start"


def write(out, head, rows, table):
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "causes.json"), "w", encoding="utf-8") as file:
        json.dump({"about": head, "rows": rows}, file, indent=1)
    with open(os.path.join(out, "causes.md"), "w", encoding="utf-8") as file:
        file.write(f"{head}\n\n{table}\n")
    with open(os.path.join(out, "causes.txt"), "w", encoding="utf-8") as file:
        file.writelines(line_of(row) + "\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--clean", type=int, default=20)
    parser.add_argument("--cause", help="one case of this cause, or 'clean'")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("--build")
    options = parser.parse_args()
    if options.build:
        use_build(options.build)
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        print("skipped: no torch for", sys.executable, "(Debian: apt-get install python3-torch)")
        return 77

    import job  # after the environment is set
    import judge

    causes = list(judge.CLASSES)
    if len(os.sched_getaffinity(0)) < 2:
        causes.remove("cpu")  # there is none to leave to the others
    head = (
        f"{machine()}; {datetime.date.today()}; PyTorch {torch}, {options.ranks} ranks; "
        f"`tests/analysis/causes/causes.py --ranks={options.ranks} --seeds={options.seeds} --clean={options.clean}`"
    )
    print(head, flush=True)
    with tempfile.TemporaryDirectory(prefix="causes") as folder:
        with job.Job(options.ranks, folder, os.environ["JOBSCOPE_TEST_SLOW_LINK"]) as running:
            suite = Suite(running, job.report, judge)
            if options.cause:
                row, run = suite.run(options.cause, options.seed)
                print(job.report(run))
                return {judge.RIGHT: 0, judge.HALF: 0, judge.WRONG: 1, judge.DISTURBED: 77}[row["outcome"]]
            planned = suite.run_all(causes, options.seeds, options.clean)
    table = summary(suite.rows, causes, judge)
    print(f"\n{table}\n")
    if options.out:
        write(options.out, head, suite.rows, table)
    faults = failures(suite.rows, planned, judge)
    for fault in faults:
        print("FAILED:", fault)
    if faults:
        return 1
    judged = sum(row["outcome"] in (judge.RIGHT, judge.WRONG) for row in suite.rows)
    if judged < MIN_JUDGED * planned:
        print(f"skipped: the machine was busy with something else; {judged} of {planned} cases prove something")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
