# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed itself, captured without a change to its program: one step per update of its engine, whatever the stage of ZeRO.

`make torch-suite` makes the environment and runs this.
"""
import importlib.util
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "server", "attach"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import attached  # noqa: E402
import torch_case  # noqa: E402
import xspace  # noqa: E402

TRAIN = """
import os, sys
out, sys.stdout = sys.stdout, open(os.devnull, "w")  # DeepSpeed says much
import threading, torch, deepspeed

stage, micro_batches = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
deepspeed.init_distributed(dist_backend="gloo", verbose=False)
layers = [torch.nn.Linear(16, 16), torch.nn.Linear(16, 1)]
groups = [{"params": list(layer.parameters()), "lr": 0.001 * (1 + i)} for i, layer in enumerate(layers)]
engine, *_ = deepspeed.initialize(model=torch.nn.Sequential(*layers), optimizer=torch.optim.AdamW(groups), config={
    "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": micro_batches,
    "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
})
going = True


def follow():
    global going
    sys.stdin.readline()
    going = False


def train():
    with torch.autograd.profiler.record_function("forward"):
        loss = engine(torch.ones(4, 16)).sum()
    engine.backward(loss)
    engine.step()


threading.Thread(target=follow, daemon=True).start()
for _ in range(4 * micro_batches):
    train()
out.write("up\\n")
out.flush()
while going:
    train()
"""


class DeepSpeedTest(torch_case.Case):
    def check(self, stage, micro_batches):
        process = self.training(
            TRAIN, [str(stage), str(micro_batches)], DS_ACCELERATOR="cpu", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0",
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(attached.free_port()),
        )  # fmt: skip
        worker, _, events = self.capture("--duration_ms=1000", "--host_tracer_level=1")
        self.assertEqual(worker["steps_source"], "DeepSpeed step")
        self.assertGreater(worker["steps"], 2)
        forwards = xspace.named(events, "forward")
        per_step = {
            sum(step.start_ps <= forward.start_ps < step.start_ps + step.duration_ps for forward in forwards)
            for step in self.steps(events)
        }
        self.assertEqual(per_step, {micro_batches})
        code, errors = process.finish("end")
        self.assertEqual(code, 0, errors)

    def test_without_zero(self):
        self.check(0, 1)

    def test_gradients_of_several_batches(self):
        self.check(0, 3)

    def test_stage_1(self):
        self.check(1, 1)

    def test_stage_2(self):
        self.check(2, 2)


if __name__ == "__main__":
    if importlib.util.find_spec("deepspeed") is None:
        print("skipped: no deepspeed for", sys.executable, "(make torch-suite)")
        sys.exit(77)
    attached.main()
