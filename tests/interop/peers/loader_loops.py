# SPDX-License-Identifier: Apache-2.0
"""One training loop over a loader that takes 6 ms per batch, with 2 ms of computing: loader_loops.py LOOP LOGDIR."""

import contextlib
import json
import pathlib
import sys
import time

import jobscope

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
import documents  # noqa: E402

BATCHES = 60


class Loader:
    def __init__(self, batch=0):
        self.batch = batch
        self.waited_s = 0.0

    def __len__(self):
        return BATCHES

    def __iter__(self):
        for _ in range(BATCHES):
            begin = time.perf_counter()
            time.sleep(0.006)
            self.waited_s += time.perf_counter() - begin
            yield self.batch


def compute():
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass


def loop_steps(loader):
    for _ in jobscope.steps(loader):
        compute()


def loop_enumerate(loader):
    for i, _ in enumerate(jobscope.input_waits(loader)):
        with jobscope.step(i):
            compute()


def keras_model():
    import keras

    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(256), keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
    return model


def loop_keras(loader, model):
    with contextlib.redirect_stdout(sys.stderr):  # Keras' progress
        exec(documents.block("docs/python.md", "python", "KerasCallback").text, {"jobscope": jobscope, "loader": loader, "model": model})


def main():
    loop, logdir = sys.argv[1:]
    loader, arguments = Loader(), ()
    if loop == "keras":
        import numpy

        loader.batch = (numpy.ones((64, 32), "float32"), numpy.ones((64, 1), "float32"))
        arguments = (keras_model(),)
        loop_keras(loader, *arguments)  # compiles
        loader.waited_s = 0.0
    with jobscope.capture(logdir, frameworks="none") as capture:
        begin = time.perf_counter()
        globals()["loop_" + loop](loader, *arguments)
        took_s = time.perf_counter() - begin
    print(json.dumps({"run_directory": capture.result.run_directory, "took_s": took_s, "waited_s": loader.waited_s, "steps": BATCHES}))


if __name__ == "__main__":
    main()
