# SPDX-License-Identifier: Apache-2.0
"""A job of ranks (rank.py) with jobscope's server in each, one of them slowed, and what `jobscope report` says of a capture."""
import glob
import json
import os
import subprocess
import sys
import threading
import time

import attached  # of tests/server/attach
import preference

HERE = os.path.dirname(os.path.abspath(__file__))
# Time limit of one command to all ranks, on a busy machine.
ANSWER_S = 300
STEPS = 40
# Processes that compute on the CPU of the rank from which CPU is taken. More than ranks that share the other CPUs of a small machine.
BURNERS_PER_RANK = 2
BURNER = """
import os, sys, threading
os.sched_setaffinity(0, {int(sys.argv[1])})
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""


class Rank(attached.Process):
    """Answers are read by a thread: ranks answer all at once or never."""

    def __init__(self, number, ranks, folder, python, slow_link):
        env = attached.preloaded(
            JOBSCOPE_PORT_DIR=os.path.join(folder, "ports"), RANK=str(number), OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
            GLOO_SOCKET_IFNAME="lo",
        )
        env["LD_PRELOAD"] += ":" + slow_link
        command = [python, "-B", os.path.join(HERE, "rank.py"), str(number), str(ranks), os.path.join(folder, "store")]
        super().__init__(command, env, preexec_fn=preference.prefer)
        self._timer.cancel()  # a suite takes longer than one test

    def answer(self):
        timer = threading.Timer(ANSWER_S, self.process.kill)
        timer.start()
        try:
            while not (line := self.hear()).startswith("@"):
                pass  # some versions of gloo write lines of their own
            return line[1:]
        finally:
            timer.cancel()


class Job:
    """Ranks that train until the end of the `with`."""

    def __init__(self, ranks, folder, slow_link, python=sys.executable):
        self.folder, self.ports = folder, os.path.join(folder, "ports")
        self._captures = 0
        self._burners = []
        self._cpus = os.sched_getaffinity(0)
        os.mkdir(self.ports)
        self.ranks = []
        try:
            for number in range(ranks):
                self.ranks.append(Rank(number, ranks, folder, python, slow_link))
            for rank in self.ranks:
                if rank.answer() != "up":
                    raise AssertionError("a rank does not come up")
            deadline = time.monotonic() + ANSWER_S
            while len(glob.glob(f"{self.ports}/*.addr")) < ranks:
                if time.monotonic() > deadline:
                    raise AssertionError(f"not all of {ranks} ranks became workers")
                time.sleep(0.05)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop_burners()
        for rank in self.ranks:
            rank.process.kill()
        for rank in self.ranks:
            rank.__exit__()

    def _ask(self, commands):
        for rank, command in zip(self.ranks, commands):
            rank.say(json.dumps(command))
        return [json.loads(rank.answer()) for rank in self.ranks]

    def slow(self, cause, victim, ms):
        """From now on `victim` suffers from `cause`, and nobody else from anything."""
        self._stop_burners()
        self._ask([{"do": "slow", "cause": cause if rank == victim else None, "ms": ms} for rank in range(len(self.ranks))])
        if cause == "cpu":
            self._take_cpu(victim)

    def await_steps(self, count):
        """Until each rank has made so many more steps."""
        self._ask([{"do": "steps", "count": count}] * len(self.ranks))

    def account(self, since, until):
        """Means per step, by the ranks' own clocks."""
        return self._ask([{"do": "account", "since": since, "until": until}] * len(self.ranks))

    def _take_cpu(self, victim):
        cpu = max(self._cpus)
        for number, rank in enumerate(self.ranks):
            os.sched_setaffinity(rank.pid, {cpu} if number == victim else self._cpus - {cpu})  # the thread that trains
        for _ in range(BURNERS_PER_RANK * len(self.ranks)):
            self._burners.append(
                subprocess.Popen([sys.executable, "-c", BURNER, str(cpu)], stdin=subprocess.PIPE, preexec_fn=preference.prefer)
            )

    def _stop_burners(self):
        if not self._burners:
            return
        for burner in self._burners:
            burner.kill()
            burner.wait()
            burner.stdin.close()
        self._burners = []
        for rank in self.ranks:
            os.sched_setaffinity(rank.pid, self._cpus)

    def capture(self):
        """(directory of the run, what the ranks' own accounts say of that time)"""
        self._captures += 1
        logs = os.path.join(self.folder, f"logs{self._captures}")
        since = time.time()
        code, _, errors = attached.run(
            [attached.CAPTURE, f"--service_addr=@{self.ports}", f"--steps={STEPS}", f"--logdir={logs}", "--quiet"],
            attached.environment(),
        )
        if code != 0:
            raise AssertionError(f"capture ended with {code}: {errors}")
        truth = self.account(since, time.time())
        (run,) = glob.glob(f"{logs}/plugins/profile/*")
        return run, truth


def report(run, *flags):
    """`jobscope report`: the JSON, or the text if `flags` do not ask for JSON."""
    code, out, errors = attached.run([attached.PROGRAM, "report", run, *flags], attached.environment())
    if code != 0:
        raise AssertionError(f"report ended with {code}: {errors}")
    return json.loads(out) if "--json" in flags else out
