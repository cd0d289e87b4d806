# SPDX-License-Identifier: Apache-2.0
"""Training programs of users, which do not mention jobscope. They print a line at each stage, for which tests wait."""

# Trains until the test asks it to end.
TRAIN = """
import os, sys, threading, time, torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
going = True


# A fair lock: the thread that had it last does not get it before those that wait.
class Turn:
    def __init__(self):
        self.door, self.lock = threading.Lock(), threading.Lock()

    def __enter__(self):
        with self.door:
            self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()


# No thread is inside an operator while a loader forks: the child would wait forever for the lock of the random number generator.
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
    # Joined is not gone: what PyTorch keeps per thread is destroyed behind it, with the GIL. If Python is ending by then,
    # it ends the thread in the middle of a destructor, and that ends the process (seen with 2.12.1).
    while any(os.path.exists(f"/proc/self/task/{thread.native_id}") for thread in threads):
        time.sleep(0.001)
    print("ended", flush=True)
"""

# A fake package with the parts of PyTorch 2 from which steps are inferred: the hook of all optimizers, modules that are imported
# after it, and the handler of compilations.
FAKE_TORCH_2 = {
    "torch/__init__.py": "from torch import optim\n",
    "torch/optim/__init__.py": "from torch.optim.optimizer import Optimizer\nfrom torch.optim.sgd import SGD\n",
    "torch/optim/optimizer.py": """
_hooks = []


def register_optimizer_step_post_hook(hook):
    _hooks.append(hook)


class Optimizer:
    def __init__(self, *groups):
        self.param_groups = [{"params": list(group)} for group in groups]

    def step(self):
        for hook in _hooks:
            hook(self, (), {})
""",
    "torch/optim/sgd.py": """
from torch.optim.optimizer import Optimizer


class SGD(Optimizer):
    pass
""",
    "torch/_dynamo/__init__.py": "from torch._dynamo import callback\nfrom torch._dynamo import backends\n",
    "torch/_dynamo/backends.py": "",
    "torch/_dynamo/callback.py": """
import enum, types


class CallbackTrigger(enum.Enum):
    DYNAMO = 1


class CompilationCallbackHandler:
    def __init__(self):
        self.start_callbacks, self.end_callbacks = [], []

    def register_start_callback(self, callback):
        self.start_callbacks.append(callback)

    def register_end_callback(self, callback):
        self.end_callbacks.append(callback)

    def compile(self, compile_id):
        event = types.SimpleNamespace(callback_trigger=CallbackTrigger.DYNAMO, compile_id=compile_id)
        for callback in self.start_callbacks:
            callback(event)
        for callback in self.end_callbacks:
            callback(event)


callback_handler = CompilationCallbackHandler()
""",
}

# The parts of DeepSpeed that jobscope uses: its engine, and an optimizer of it that calls PyTorch's for one group of parameters after the other.
FAKE_DEEPSPEED = {
    "deepspeed/__init__.py": "from deepspeed.runtime import engine\n",
    "deepspeed/runtime/__init__.py": "",
    "deepspeed/runtime/engine.py": """
class DeepSpeedEngine:
    def __init__(self, optimizer, accumulation=1):
        self.optimizer, self.accumulation, self.micro_steps = optimizer, accumulation, 0

    def step(self):
        self.micro_steps += 1
        if self.micro_steps % self.accumulation == 0:
            self._take_model_step(None)

    def _take_model_step(self, lr_kwargs):
        self.optimizer.step()


from deepspeed import checkpoint  # as others are imported after it
""",
    "deepspeed/checkpoint.py": "",
    "deepspeed/zero.py": """
class ZeroOptimizer:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        groups = self.optimizer.param_groups
        for group in groups:
            self.optimizer.param_groups = [group]
            self.optimizer.step()
        self.optimizer.param_groups = groups
""",
}

# Iterations at each line, of a ZeRO-like optimizer. First argument: whether the engine drives it, with how many micro batches.
ZERO = """
import sys, time
from deepspeed import zero
import torch

while not torch.optim.optimizer._hooks:  # until jobscope watches imports
    time.sleep(0.01)
    __import__("wave") if "wave" not in sys.modules else sys.modules.pop("wave")
inner = torch.optim.SGD([object()], [object()], [object(), object()])
optimizer = zero.ZeroOptimizer(inner)
micro_batches = int(sys.argv[1])
if micro_batches:
    from deepspeed.runtime.engine import DeepSpeedEngine
    optimizer = DeepSpeedEngine(optimizer, micro_batches)

print("up", flush=True)
for line in sys.stdin:
    if line.strip() == "end":
        break
    for _ in range(int(line)):
        optimizer.step()
    print("stepped", flush=True)
"""

# Calls its optimizer twice per iteration, for the same parameters.
TWICE = """
import sys, time, torch

while not torch.optim.optimizer._hooks:  # until jobscope watches imports
    time.sleep(0.01)
    __import__("wave") if "wave" not in sys.modules else sys.modules.pop("wave")
optimizer = torch.optim.SGD([object()])
print("up", flush=True)
for line in sys.stdin:
    if line.strip() == "end":
        break
    for _ in range(int(line)):
        time.sleep(0.01)
        optimizer.step()
        optimizer.step()
    print("stepped", flush=True)
"""

# Threads that look for modules at once, as the first ones after PyTorch's import: how many hooks there are then.
IMPORTS = """
import sys, threading, time

def watcher():
    return next((finder for finder in sys.meta_path if getattr(finder, "__module__", "") == "jobscope_torch_steps"), None)

while watcher() is None:
    time.sleep(0.01)
finder = watcher()
# PyTorch is imported unnoticed, and other threads run whenever its hook is looked up.
sys.meta_path.remove(finder)
import torch
module = torch.optim.optimizer
register = vars(module).pop("register_optimizer_step_post_hook")
class Slow(type(sys)):
    @property
    def register_optimizer_step_post_hook(self):
        time.sleep(0.05)
        return register
module.__class__ = Slow
sys.meta_path.insert(0, finder)

together = threading.Barrier(8)
def import_one(i):
    together.wait()
    # Without the import system's own lock, as programs do that walk sys.meta_path.
    finder.find_spec(f"no_such_module_{i}")
threads = [threading.Thread(target=import_one, args=(i,)) for i in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(module._hooks), flush=True)
sys.stdin.readline()
"""

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

# An optimizer that calls another one's step, as ZeroRedundancyOptimizer does: both have PyTorch's hooks.
NESTED_OPTIMIZERS = TRAIN.replace("going = True\n", """going = True


class Outer(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self):
        return self.inner.step()
""", 1).replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.01)", "optimizer = Outer(torch.optim.SGD(model.parameters(), lr=0.01))", 1)
# Fewer steps in a capture than make another optimizer the source of steps.
NESTED_OPTIMIZERS = NESTED_OPTIMIZERS.replace("            loss.backward()\n", "            loss.backward()\n            time.sleep(0.1)\n", 1)

# Real PyTorch, a loader that takes 6 ms per batch, and 2 ms of work with it. Prints at each line how long it has waited so far, in
# seconds.
LOADER = """
import json, sys, threading, time, torch

torch.set_num_threads(1)
going = True
waited = 0.0


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        time.sleep(0.003)
        return torch.ones(4)


def follow():
    global going
    for line in sys.stdin:
        if line.strip() == "end":
            break
        print(json.dumps(waited), flush=True)
    going = False


threading.Thread(target=follow, daemon=True).start()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = iter(torch.utils.data.DataLoader(Slow(), batch_size=2))
print("up", flush=True)
while going:
    begin = time.perf_counter()
    batch = next(batches)
    got = time.perf_counter()
    optimizer.zero_grad()
    loss = model(batch).sum()
    while time.perf_counter() < got + 0.002:
        pass
    loss.backward()
    optimizer.step()
    waited += got - begin
"""

# Real PyTorch beneath a ZeRO-like optimizer. First argument: whether DeepSpeed's engine drives it, with how many micro batches.
ZERO_TRAINING = """
import sys, threading, torch
from deepspeed.zero import ZeroOptimizer

torch.set_num_threads(1)
going = True


def follow():
    global going
    for line in sys.stdin:
        if line.strip() == "end":
            break
    going = False


threading.Thread(target=follow, daemon=True).start()
layers = [torch.nn.Linear(16, 16) for _ in range(20)]
model = torch.nn.Sequential(*layers)
inner = torch.optim.SGD([{"params": layer.parameters()} for layer in layers], lr=0.01)
optimizer = ZeroOptimizer(inner)
micro_batches = int(sys.argv[1])
if micro_batches:
    from deepspeed.runtime.engine import DeepSpeedEngine
    optimizer = DeepSpeedEngine(optimizer, micro_batches)
print("up", flush=True)
while going:
    inner.zero_grad()
    with torch.autograd.profiler.record_function("forward"):
        loss = model(torch.ones(8, 16)).sum()
    loss.backward()
    optimizer.step()
"""

# Threads that fork; each child runs one operator. On "end" it prints how many children ended in which way.
FORKS = """
import collections, json, os, signal, sys, threading, torch

torch.set_num_threads(1)
ones = torch.ones(8)
going = True
ends = collections.Counter()


def fork():
    while going:
        torch.add(ones, 1)
        child = os.fork()
        if child == 0:
            signal.alarm(int(sys.argv[1]))
            torch.add(ones, 1)
            os._exit(0)
        ends[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])] += 1


threads = [threading.Thread(target=fork) for _ in range(3)]
for thread in threads:
    thread.start()
print("up", flush=True)
sys.stdin.readline()
going = False
for thread in threads:
    thread.join()
print(json.dumps(ends), flush=True)
"""
