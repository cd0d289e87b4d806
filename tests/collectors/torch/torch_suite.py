# SPDX-License-Identifier: Apache-2.0
"""PyTorch as it is used: four ranks of DistributedDataParallel under torchrun, captured without a change to their code.

`make torch-suite` makes the environment (PyPI's torch: 5.4 GB) and runs this. Exit 77 without torch 2 or later.
"""
import glob
import importlib.metadata
import importlib.util
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "server", "attach"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import attached  # noqa: E402
import torch_compilations  # noqa: E402
import torch_programs  # noqa: E402
import xspace  # noqa: E402

RANKS = 4
STRAGGLER = 2
SLOW_MS = 40

TRAIN = """
import gc, os, sys, time, torch, torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer = torch.optim.Adam(model.parameters())
over = torch.zeros(1)
steps = 0
while over.item() == 0:
    optimizer.zero_grad()
    inputs = torch.rand(32, 128)
    if rank == int(sys.argv[2]):
        time.sleep(float(sys.argv[3]))  # a slow disk, say
    model(inputs).square().mean().backward()
    optimizer.step()
    steps += 1
    if steps == 3:
        sys.stdout.write("up\\n")
        sys.stdout.flush()
    if rank == 0:
        over.fill_(os.path.exists(sys.argv[1]))
    dist.broadcast(over, 0)
# The group's threads end with the last one who holds it. One that lives on while Python ends, and releases a tensor then, ends the
# process by an abort (seen with 2.15).
del model, optimizer
gc.collect()
dist.destroy_process_group()
"""


class DistributedTest(attached.TestCase):
    def test_four_ranks_with_a_straggler(self):
        port = attached.free_port(RANKS)
        flag = os.path.join(self.folder, "end")
        env = attached.preloaded(
            f"127.0.0.1:{port}+rank", JOBSCOPE_PORT_DIR=self.ports, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES=""
        )
        command = [
            sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={RANKS}",
            f"--master-port={attached.free_port()}", self.script(TRAIN), flag, str(STRAGGLER), str(SLOW_MS / 1000),
        ]  # fmt: skip
        with attached.Process(command, env) as process:
            up = 0
            while up < RANKS:  # some versions of gloo write lines of their own
                up += process.hear() == "up"
            self.wait_for(lambda: len(self.addresses()) == RANKS, f"{RANKS} addresses; {self.addresses()}")
            logs = os.path.join(self.folder, "logs")
            code, out, errors = attached.run(
                [attached.CAPTURE, f"--service_addr=@{self.ports}", "--steps=12", f"--logdir={logs}", "--json", "--quiet"],
                attached.environment(),
            )
            self.assertEqual(code, 0, errors)
            with open(flag, "w", encoding="utf-8"):
                pass
            code, errors = process.finish(say=None)
            self.assertEqual(code, 0, errors)
            self.assertNotIn("jobscope", errors)

        workers = sorted(json.loads(out)["workers"], key=lambda worker: worker["rank"])
        self.assertEqual([worker["rank"] for worker in workers], list(range(RANKS)))
        self.assertEqual([worker["outcome"] for worker in workers], ["ok"] * RANKS)
        self.assertEqual([worker.get("steps") for worker in workers], [12] * RANKS, workers)
        self.assertEqual([worker["lost"] for worker in workers], [0] * RANKS)
        waits, gaps = [], []
        (run,) = glob.glob(f"{logs}/plugins/profile/*")
        for worker in workers:
            (file,) = worker["files"]
            events = [
                event for name, found in xspace.planes(os.path.join(run, os.path.basename(file["path"]))) for event in found
            ]
            steps = [event for event in events if event.name == "optimizer step" and "step_num" in event.stats]
            self.assertEqual(len(steps), 12)
            for name in ("aten::addmm", "AddmmBackward0", "DistributedDataParallel.forward"):
                self.assertGreaterEqual(len(xspace.named(events, name)), 12, name)
            length = statistics.median(step.duration_ps for step in steps) / 1e9
            reduce = [event for event in events if event.name == "gloo:all_reduce"]
            self.assertGreaterEqual(len(reduce), 12)
            waits.append(statistics.median(event.duration_ps for event in reduce) / 1e9)
            gaps.append(length)
        print("ms per step, by rank:", [round(gap, 1) for gap in gaps])
        print("ms in gloo:all_reduce, by rank:", [round(wait, 1) for wait in waits])
        # All are as slow as the slowest: its steps alone do not tell who it is. The others wait for it in the reduction.
        for rank in range(RANKS):
            self.assertGreater(gaps[rank], SLOW_MS * 0.9)
            if rank != STRAGGLER:
                self.assertGreater(waits[rank], SLOW_MS / 2, f"rank {rank} does not wait for rank {STRAGGLER}")
        self.assertLess(waits[STRAGGLER], SLOW_MS / 2, "the straggler itself does not wait")


class HookTest(attached.TestCase):
    """The hook of the real optimizers, while no capture runs."""

    def train(self, program):
        process = attached.Process(
            [sys.executable, "-B", self.script(program)],
            attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES=""),
        )
        self.addCleanup(process.__exit__)
        self.assertEqual(process.hear(), "up")
        (self.address,) = self.wait_for_addresses(1).values()
        return process

    def worker(self, *arguments):
        out = attached.run([attached.CAPTURE, *arguments, f"--service_addr={self.address}", "--json"], attached.environment())
        return json.loads(out[1])["workers"][0]

    def test_steps_are_known_before_any_capture(self):
        process = self.train(torch_programs.TRAIN)
        self.wait_for(lambda: self.worker("check").get("current_step", 0) > 20, "no steps")
        self.assertGreater(self.worker("check")["step_time_ms"], 0)
        self.assertEqual(process.finish("end")[0], 0)

    def test_an_optimizer_that_calls_another_one(self):
        """A capture takes its steps from the one of the two that the process took them from before."""
        process = self.train(torch_programs.NESTED_OPTIMIZERS)
        self.wait_for(lambda: self.worker("check").get("current_step", 0) > 3, "no steps")
        # Each step takes at least 0.1 s.
        self.assertGreater(self.worker("--duration_ms=1200", f"--logdir={self.folder}/logs")["steps"], 0)
        self.assertEqual(process.finish("end")[0], 0)


class CompileTest(attached.TestCase):
    def test_compilations_of_torch_compile(self):
        command = [sys.executable, "-B", self.script(torch_compilations.COMPILES), "torch"]
        env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        with attached.Process(command, env) as process:
            self.assertEqual(process.hear(), "up")
            compiled = torch_compilations.of(self, process, ["0/0", "0/1"])
            # What was compiled before the capture was the first of this function.
            self.assertEqual([one.stats["compile_id"] for one in compiled], ["0/1", "0/2"])
            self.assertEqual(process.finish("end")[0], 0)


GRAPH_BREAK = """
import jobscope, torch


def function(x):
    x = torch.sin(x)
    with jobscope.trace("inside"):
        x = torch.tanh(x)
    return x + 1


expected = function(torch.ones(3))
assert torch.equal(torch.compile(function, backend="eager")(torch.ones(3)), expected)
explained = torch._dynamo.explain(function)(torch.ones(3))
try:
    torch.compile(function, backend="eager", fullgraph=True)(torch.ones(3))
    whole = "compiled"
except torch._dynamo.exc.Unsupported:
    whole = "refused"
around = torch.compile(lambda x: torch.tanh(torch.sin(x)) + 1, backend="eager", fullgraph=True)
with jobscope.trace("around"):
    assert torch.equal(around(torch.ones(3)), expected)
print(explained.graph_count, len(explained.break_reasons), whole)
"""


class GraphBreakTest(attached.TestCase):
    """What docs/python.md says of scopes within compiled functions."""

    def test_scopes_within_a_compiled_function(self):
        package = os.path.join(os.path.dirname(attached.CAPTURE), "..", "python")
        env = attached.environment(PYTHONPATH=package, OMP_NUM_THREADS="1")
        code, out, errors = attached.run([sys.executable, "-B", self.script(GRAPH_BREAK)], env)
        self.assertEqual(code, 0, errors)
        # What precedes the scope is compiled, and the rest of the function is not.
        self.assertEqual(out.split(), ["1", "1", "refused"], errors)


NVTX = """
import sys, threading, torch

over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), over.set()), daemon=True).start()
torch.cuda.nvtx.range_push("setup")
torch.cuda.nvtx.range_pop()
print("up", flush=True)
while not over.wait(0.001):
    torch.cuda.nvtx.range_push("forward pass")
    with torch.cuda.nvtx.range("layer {}", 1):
        torch.cuda.nvtx.mark("cache miss")
    torch.cuda.nvtx.range_pop()
"""


class NvtxTest(attached.TestCase):
    """`torch.cuda.nvtx`, which needs a build for CUDA, and neither a driver nor a GPU."""

    def test_ranges_of_torch(self):
        env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, OMP_NUM_THREADS="1")
        with attached.Process([sys.executable, "-B", self.script(NVTX)], env) as process:
            self.assertEqual(process.hear(), "up")
            (address,) = self.wait_for_addresses(1).values()
            logs = os.path.join(self.folder, "logs")
            code, _, errors = attached.run(
                [attached.CAPTURE, f"--service_addr={address}", "--duration_ms=300", f"--logdir={logs}", "--quiet"],
                attached.environment(),
            )
            self.assertEqual(code, 0, errors)
            self.assertEqual(process.finish("end")[0], 0)
        (file,) = glob.glob(f"{logs}/plugins/profile/*/*.xplane.pb")
        events = [event for _, found in xspace.planes(file) for event in found]
        outer, inner = xspace.named(events, "forward pass"), xspace.named(events, "layer 1")
        self.assertGreater(min(len(outer), len(inner), len(xspace.named(events, "cache miss"))), 10)
        self.assertEqual(xspace.named(events, "setup"), [])


def version():
    if importlib.util.find_spec("torch") is None:
        return (0,)
    return tuple(int(part) for part in importlib.metadata.version("torch").split(".")[:2])


if __name__ == "__main__":
    if version() < (2,):
        print("skipped: no torch 2 for", sys.executable, "(make torch-suite)")
        sys.exit(77)
    attached.main()
