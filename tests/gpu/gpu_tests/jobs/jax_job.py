# SPDX-License-Identifier: Apache-2.0
"""A training job of JAX that knows nothing of jobscope: one jitted step of layers in bfloat16."""
import contextlib
import glob
import os
import sys
import tempfile

import jax
import jax.numpy as jnp

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import commands  # noqa: E402

ON_GPU = jax.default_backend() == "gpu"
WIDTH, LAYERS, BATCH = (2048, 8, 1024) if ON_GPU else (64, 8, 32)


def main():
    weights = [jax.random.normal(jax.random.key(i), (WIDTH, WIDTH), jnp.bfloat16) / WIDTH**0.5 for i in range(LAYERS)]
    batch = jax.random.normal(jax.random.key(99), (BATCH, WIDTH), jnp.bfloat16)

    def loss(weights, batch):
        for weight in weights:
            batch = jax.nn.relu(batch @ weight)
        return jnp.mean(jnp.square(batch.astype(jnp.float32)))

    @jax.jit
    def train_step(weights, batch):
        gradients = jax.grad(loss)(weights, batch)
        return [weight - (1e-3 * gradient).astype(weight.dtype) for weight, gradient in zip(weights, gradients)]

    def step():
        nonlocal weights
        weights = train_step(weights, batch)
        jax.block_until_ready(weights)

    @contextlib.contextmanager
    def profiled():
        seen = {}
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                yield seen
            seen["bytes"] = sum(os.path.getsize(path) for path in glob.glob(f"{folder}/**/*.xplane.pb", recursive=True))

    commands.serve(step, profiled, {"jax": jax.__version__, "device": jax.default_backend()})


if __name__ == "__main__":
    main()
