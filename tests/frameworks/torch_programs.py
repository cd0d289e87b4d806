# SPDX-License-Identifier: Apache-2.0
"""Training programs as their users write them: nothing of ours in them. They talk in lines, so that a test knows where they are."""

# Trains until it is told to end. First argument: what it does beside.
TRAIN = """
import os, sys, threading, time, torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
going = True


# A lock that whoever had it last does not get before those who wait.
class Turn:
    def __init__(self):
        self.door, self.lock = threading.Lock(), threading.Lock()

    def __enter__(self):
        with self.door:
            self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()


# Nobody is in the middle of an operator while a loader forks: a child would wait for ever for the lock of the random numbers.
turn = Turn()


def batch():
    return torch.rand(32, 64), torch.randint(10, (32,))


def train(on_step=lambda: None):
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    while going:
        with turn:
            inputs, labels = batch()
            optimizer.zero_grad()
            with torch.autograd.profiler.record_function("forward"):
                loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        steps += 1
        on_step()
    return steps


def evaluate():
    model = nn.Linear(64, 10)
    while going:
        with turn, torch.no_grad(), torch.autograd.profiler.record_function("evaluation"):
            torch.tanh(model(batch()[0])).sum().item()


def follow():
    global going
    for line in sys.stdin:
        word = line.strip()
        if word == "end":
            break
        commands[word]()
    going = False


def load(method):
    loader = torch.utils.data.DataLoader(
        torch.arange(64.0), batch_size=4, num_workers=2, multiprocessing_context=method
    )
    with turn:
        total = int(sum(batch.sum() for batch in loader))
    print("loaded", total, flush=True)


profile = None


def start_profile():
    global profile
    profile = torch.autograd.profiler.profile()
    profile.__enter__()
    torch.exp(torch.ones(8)).sum()
    print("profiles", flush=True)


def stop_profile():
    torch.exp(torch.ones(8)).sum()
    profile.__exit__(None, None, None)
    print("profiled", sum(event.name == "aten::exp" for event in profile.function_events), flush=True)


commands = {"profile": start_profile, "profile no more": stop_profile}
commands["load by fork"] = lambda: load("fork")


if __name__ == "__main__":
    said = []

    def tell():
        if not said:
            said.append(print("up", flush=True))

    # Both are joined: a thread that Python ends in the middle of an operator takes the process with it.
    threads = [threading.Thread(target=evaluate, name="eval"), threading.Thread(target=train, args=(tell,), name="trainer")]
    for thread in threads:
        thread.start()
    follow()
    for thread in threads:
        thread.join()
    # Joined is not gone: what PyTorch keeps per thread is destroyed behind it, with Python's lock. If Python is ending by then,
    # it ends the thread in the middle of a destructor, and that ends the process (seen with 2.12.1).
    while any(os.path.exists(f"/proc/self/task/{thread.native_id}") for thread in threads):
        time.sleep(0.001)
    print("ended", flush=True)
"""

# A package of the name, with as much of PyTorch 2 as steps are seen by: the hook of all optimizers, modules that are imported
# after it, and the wrapper that calls it.
FAKE_TORCH_2 = {
    "torch/__init__.py": "from torch import optim\n",
    "torch/optim/__init__.py": "from torch.optim.optimizer import Optimizer\nfrom torch.optim.sgd import SGD\n",
    "torch/optim/optimizer.py": """
_hooks = []


def register_optimizer_step_post_hook(hook):
    _hooks.append(hook)


class Optimizer:
    def step(self):
        for hook in _hooks:
            hook(self, (), {})
""",
    "torch/optim/sgd.py": """
from torch.optim.optimizer import Optimizer


class SGD(Optimizer):
    pass
""",
}

# Steps at each line; the second optimizer several times per step of the first. First argument: "late" waits with the import
# until somebody watches imports.
STEPS = """
import sys, time

if sys.argv[1] == "late":
    watched = lambda: any(getattr(finder, "__name__", "") == "_Finder" for finder in sys.meta_path)
    while not watched():
        time.sleep(0.01)
import torch

print("up", flush=True)
first, second = torch.optim.SGD(), torch.optim.SGD()
for line in sys.stdin:
    if line.strip() == "end":
        break
    for _ in range(int(line)):
        first.step()
        for _ in range(3):
            second.step()
    print("stepped", flush=True)
"""
