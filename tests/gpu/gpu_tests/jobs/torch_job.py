# SPDX-License-Identifier: Apache-2.0
"""A training job of PyTorch that knows nothing of jobscope: layers in bfloat16, Adam, a DataLoader.

  LOADER_MS   how long the DataLoader takes for a batch (0)
  HOST_MS     how long Python computes in each step, while the GPU has nothing to do (0)
  LOADER_PROCESSES   of the DataLoader, which then pins its batches (0)
  COMPILE     mode of torch.compile; if not set, nothing is compiled
  CUDA_GRAPH  if set: a step replays a CUDA graph of the model, and trains nothing
  RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT   if set: gradients are averaged over gloo, which two processes on one GPU can do
"""
import contextlib
import os
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import commands  # noqa: E402

RANKS = "WORLD_SIZE" in os.environ
WIDTH, BATCH = (64, 32) if not torch.cuda.is_available() else (512, 256) if RANKS else (2048, 1024)
LAYERS = 8
LOADER_S = float(os.environ.get("LOADER_MS", "0")) / 1e3
LOADER_PROCESSES = int(os.environ.get("LOADER_PROCESSES", "0"))
HOST_S = float(os.environ.get("HOST_MS", "0")) / 1e3


class Batches(torch.utils.data.IterableDataset):
    def __iter__(self):
        batch = torch.rand(BATCH, WIDTH)
        while True:
            if LOADER_S:
                time.sleep(LOADER_S)
            yield batch


def replayed(model, device):
    """A step that replays what the model does, as inference servers do."""
    batch = torch.rand(BATCH, WIDTH, device=device)
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        model(batch)  # memory allocated at first use is not part of a graph
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        result = model(batch)

    def step():
        batch.uniform_()
        graph.replay()
        return result.sum().item()  # waits for the GPU

    return step


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Sequential(*[layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())])
    model = model.to(device)
    if RANKS:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    loader = iter(torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=LOADER_PROCESSES, pin_memory=LOADER_PROCESSES > 0))
    if "COMPILE" in os.environ:
        model = torch.compile(model, mode=os.environ["COMPILE"])

    def train():
        batch = next(loader).to(device)
        if HOST_S:
            with torch.profiler.record_function("augment"):
                end = time.perf_counter() + HOST_S
                while time.perf_counter() < end:
                    pass
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(batch).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()  # waits for the GPU

    step = replayed(model, device) if "CUDA_GRAPH" in os.environ else train

    @contextlib.contextmanager
    def profiled():
        seen = {}
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profiler:
            yield seen
        names = [event.name() for event in profiler.profiler.kineto_results.events()
                 if event.device_type() == torch.autograd.DeviceType.CUDA]
        seen["copies"] = sum(1 for name in names if name.startswith(("Memcpy", "Memset")))
        # The scopes that it shows on the GPU are no work.
        scopes = sum(1 for name in names if name.startswith(("Optimizer.", "enumerate(")))
        seen["kernels"] = len(names) - seen["copies"] - scopes

    commands.serve(step, profiled, {"torch": torch.__version__, "device": device.type})


if __name__ == "__main__":
    main()
