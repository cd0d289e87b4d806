# SPDX-License-Identifier: Apache-2.0
"""One rank of the job of causes.py: PyTorch's DistributedDataParallel over gloo. Trains until it is killed, and slows itself on
command. Knows nothing of jobscope; keeps accounts of its own, from the kernel's clocks, by which the test judges the report.

    rank.py RANK RANKS STORE

Reads commands as JSON lines, and answers each with one line that begins with `@`:
    {"do": "slow", "cause": ..., "ms": ...}   from the next step on; answers after three steps of it. Cause null: not any more
    {"do": "steps", "count": N}                 answers after N more steps
    {"do": "account", "since": S, "until": T}   means per step of what lies between two times of time.time()
"""
import ctypes
import gc
import json
import os
import queue
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

# Steps until a change of cause shows in all of them.
SETTLE_STEPS = 3
# Objects that a full collection looks at: some 10 ms.
LIVE_OBJECTS = 150_000
BATCH, INPUTS = 32, 128


class Account:
    """Per step: when it ended, its time, CPU time and run-queue delay of this thread, and what the cause took of it."""

    def __init__(self):
        self._schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self.caused = [0.0, 0.0]  # wall and CPU seconds, of the step that runs
        self.steps = []
        self._last = self._now(0)

    def _now(self, link_s):
        delay_ns = int(os.pread(self._schedstat, 100, 0).split()[1])
        return time.perf_counter(), time.thread_time(), delay_ns / 1e9, link_s

    def end_step(self, link_s):
        now = self._now(link_s)
        self.steps.append((time.time(), *(new - old for new, old in zip(now, self._last)), *self.caused))
        self._last = now

    def means_ms(self, since, until):
        rows = [row[1:] for row in self.steps if since <= row[0] <= until]
        means = {"steps": len(rows)}
        for name, column in zip(("wall", "cpu", "delay", "link", "cause", "cause_cpu"), zip(*rows)):
            means[name + "_ms"] = 1000 * sum(column) / len(rows)
        return means


def until_cpu_s(seconds, work):
    """Repeats `work` until this thread has computed for so long, whatever else runs on the machine."""
    begin = time.thread_time()
    while time.thread_time() - begin < seconds:
        work()


class Causes:
    """What a rank can suffer from by itself. `cpu` comes from outside, and `link` from slow_link.c."""

    def __init__(self):
        self.cause, self.seconds = None, 0.0
        self._live = None
        self._compiled = 0
        self._mutex, self._wanted, self._taken = threading.Lock(), queue.Queue(), threading.Event()
        threading.Thread(target=self._hold, daemon=True).start()

    def set(self, cause, ms):
        self.cause, self.seconds = cause, ms / 1000
        if cause == "gc":
            self._live = [[i] for i in range(LIVE_OBJECTS)]
        elif self._live is not None:
            self._live = None
            gc.collect()

    def in_loader(self):
        if self.cause == "loader":
            time.sleep(self.seconds)

    def in_step(self):
        if self.cause in ("host", "gc", "sleep", "lock", "compile"):
            getattr(self, "_" + self.cause)()

    def _host(self):
        values = torch.rand(20_000)
        with torch.autograd.profiler.record_function("augment"):
            until_cpu_s(self.seconds, lambda: torch.sort(values))

    def _gc(self):
        until_cpu_s(self.seconds, gc.collect)

    def _sleep(self):
        time.sleep(self.seconds)

    def _lock(self):
        self._wanted.put(self.seconds)
        self._taken.wait()
        self._taken.clear()
        with self._mutex:
            pass

    def _hold(self):
        """Another thread of the program, which holds a lock that the training thread needs."""
        while True:
            seconds = self._wanted.get()
            with self._mutex:
                self._taken.set()
                time.sleep(seconds)

    def _compile(self):
        if hasattr(torch, "compile"):
            until_cpu_s(self.seconds, self._compile_function)
        else:
            # PyTorch 1 has no torch.compile: a compilation of TorchScript, under the name that PyTorch 2 gives to its own.
            with torch.autograd.profiler.record_function("_compile.compile_inner"):
                until_cpu_s(self.seconds, self._compile_script)

    def _source(self):
        """Of a function that nobody has compiled yet: as one that is defined in the loop."""
        self._compiled += 1
        return f"def scale(x):\n    return x.tanh() * {self._compiled}\n"

    def _compile_function(self):
        names = {}
        exec(self._source(), names)  # pylint: disable=exec-used
        torch.compile(names["scale"], backend="eager")(torch.ones(8))

    def _compile_script(self):
        torch.jit.CompilationUnit(self._source())


class Batches(torch.utils.data.Dataset):
    def __init__(self, causes):
        self._causes = causes

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        if index % BATCH == 0:
            self._causes.in_loader()
        return torch.rand(INPUTS)


class Commands:
    """Carried out between two steps."""

    def __init__(self, causes, account, link):
        self._causes, self._account, self._link = causes, account, link
        self._asked = queue.Queue()
        self._answer_at = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in sys.stdin:
            self._asked.put(json.loads(line))
        os._exit(0)  # the program that asked has ended

    def obey(self):
        if self._answer_at is not None and len(self._account.steps) >= self._answer_at:
            self._answer_at = None
            self._answer({})
        while not self._asked.empty():
            command = self._asked.get()
            if command["do"] == "slow":
                self._causes.set(command["cause"], command["ms"])
                delay_ns = command["ms"] * 1e6 / self._messages_per_step() if command["cause"] == "link" else 0
                self._link.slow_link_set(ctypes.c_uint64(int(delay_ns)))
                self._answer_at = len(self._account.steps) + SETTLE_STEPS
            elif command["do"] == "steps":
                self._answer_at = len(self._account.steps) + command["count"]
            else:
                self._answer(self._account.means_ms(command["since"], command["until"]))

    def _messages_per_step(self):
        return max(1, round(self._link.slow_link_sent() / len(self._account.steps)))

    @staticmethod
    def _answer(answer):
        print("@" + json.dumps(answer), flush=True)


def main():
    rank, ranks, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    layers = nn.Sequential(nn.Linear(INPUTS, 256), nn.ReLU(), nn.Linear(256, 10))
    model = nn.parallel.DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    link = ctypes.CDLL(None)
    link.slow_link_slept_ns.restype = link.slow_link_sent.restype = ctypes.c_uint64
    causes, account = Causes(), Account()
    commands = Commands(causes, account, link)
    for batch in torch.utils.data.DataLoader(Batches(causes), batch_size=BATCH):
        wall, cpu = time.perf_counter(), time.thread_time()
        causes.in_step()
        account.caused = [time.perf_counter() - wall, time.thread_time() - cpu]
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        account.end_step(link.slow_link_slept_ns() / 1e9)
        commands.obey()
        if len(account.steps) == SETTLE_STEPS:
            print("@up", flush=True)


if __name__ == "__main__":
    main()
