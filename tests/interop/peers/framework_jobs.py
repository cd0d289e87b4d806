# SPDX-License-Identifier: Apache-2.0
"""Jobs of frameworks, in which each step waits for its input and computes.

    framework_jobs.py JOB serve
    framework_jobs.py JOB record LOGDIR

JOB: jax, tensorflow, torch, or torch_plain, which marks no step. `serve` starts jobscope's server, prints `listening on ADDRESS` when
everything is compiled, and steps until it is killed. `record` (jax, tensorflow) records STEPS steps with the framework's own profiler,
without jobscope.
"""

import contextlib
import itertools
import os
import sys
import time

STEPS = 40
LOADER_S = 0.006
SIZE = 512


class Jax:
    def __init__(self):
        import jax

        self._jax = jax
        self._weights = jax.numpy.ones((SIZE, SIZE))
        self._update = jax.jit(lambda weights, batch: weights - 1e-6 * (weights @ batch))
        self.batches = self._load(jax.numpy.ones((SIZE, SIZE)))

    @staticmethod
    def _load(batch):
        while True:
            time.sleep(LOADER_S)
            yield batch

    def train(self, batch, scope):
        with scope("forward"):
            self._weights = self._update(self._weights, batch)
        with scope("result"):
            self._weights.block_until_ready()

    def serve(self, jobscope):
        for number in itertools.count():
            with jobscope.step(number, "train"):
                with jobscope.input_wait():
                    batch = next(self.batches)
                self.train(batch, jobscope.trace)

    def record(self, logdir):
        """Waits between the steps, as most loops do."""
        profiler = self._jax.profiler
        with profiler.trace(logdir):
            for number in range(STEPS):
                with profiler.TraceAnnotation("IteratorGetNext batch"):
                    batch = next(self.batches)
                with profiler.StepTraceAnnotation("train", step_num=number):
                    self.train(batch, profiler.TraceAnnotation)


class Tensorflow:
    """tf.data loads: TensorFlow's own events tell the wait."""

    def __init__(self):
        import tensorflow as tf

        self._tf = tf
        self._weights = tf.Variable(tf.ones((SIZE, SIZE)))

        def load(number):
            time.sleep(LOADER_S)
            return number

        numbers = tf.data.Dataset.range(1 << 40).map(lambda i: tf.numpy_function(load, [i], tf.int64))
        batches = numbers.map(lambda i: tf.fill((SIZE, SIZE), tf.cast(i, tf.float32) * 1e-12))
        options = tf.data.Options()
        options.autotune.enabled = False
        options.experimental_optimization.map_parallelization = False  # which would load ahead
        self.batches = iter(batches.with_options(options))
        self._update = tf.function(lambda batch: self._weights.assign_sub(1e-6 * tf.matmul(self._weights, batch)))

    def train(self, batch, scope):
        with scope("forward"):
            self._update(batch)
        with scope("result"):
            self._weights.numpy()

    def serve(self, jobscope):
        for number in itertools.count():
            with jobscope.step(number, "train"):
                self.train(next(self.batches), jobscope.trace)

    def record(self, logdir):
        profiler = self._tf.profiler.experimental
        with profiler.Profile(logdir):
            for number in range(STEPS):
                with profiler.Trace("train", step_num=number, _r=1):
                    self.train(next(self.batches), profiler.Trace)


class Torch:
    """A DataLoader in the process itself."""

    def __init__(self):
        import torch

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 1 << 30

            def __getitem__(self, index):
                time.sleep(LOADER_S / 4)
                return torch.ones(SIZE)

        self.batches = iter(torch.utils.data.DataLoader(Data(), batch_size=4))
        self._model = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE), torch.nn.ReLU(), torch.nn.Linear(SIZE, 1))
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-6)

    def train(self, batch, scope):
        with scope("forward"):
            loss = self._model(batch).sum()
        self._optimizer.zero_grad()
        with scope("backward"):
            loss.backward()
        self._optimizer.step()

    def serve(self, jobscope):
        for _, batch in jobscope.steps(self.batches):
            self.train(batch, jobscope.trace)


class TorchPlain(Torch):
    def serve(self, jobscope):
        import torch

        for batch in self.batches:
            self.train(batch, torch.autograd.profiler.record_function)


def main():
    name, how = sys.argv[1:3]
    job = {"jax": Jax, "tensorflow": Tensorflow, "torch": Torch, "torch_plain": TorchPlain}[name]()
    for _ in range(3):  # compiles
        job.train(next(job.batches), lambda _: contextlib.nullcontext())
    if how == "record":
        job.record(sys.argv[3])
        # TensorFlow's pipeline calls Python, for which Python's shutdown sometimes waits for ever.
        os._exit(0)
    import jobscope

    server = jobscope.start_server("127.0.0.1:0", strict=True)
    print(f"listening on {server.address}", flush=True)
    job.serve(jobscope)


main()
