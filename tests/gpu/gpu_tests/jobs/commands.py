# SPDX-License-Identifier: Apache-2.0
"""What the training jobs of the frameworks have in common: they read commands line by line, as gpu_worker does."""
import glob
import json
import os
import statistics
import sys
import time


def _address():
    """Where the server listens that `jobscope run` started in this process."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in glob.glob(os.path.join(os.environ["JOBSCOPE_PORT_DIR"], "*.addr")):
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        time.sleep(0.05)
    raise RuntimeError("no server in this process")


def serve(step, profiled, about):
    """step() is one step, at whose end the GPU has finished; profiled() yields, within the framework's own profiler, a
    dict, and puts into it what that profiler has seen when it ends."""

    def train(steps):
        times_ms = []
        for _ in range(steps):
            begin = time.perf_counter()
            step()
            times_ms.append((time.perf_counter() - begin) * 1e3)
        return {"steps": steps, "median_ms": statistics.median(times_ms), "longest_ms": max(times_ms)}

    def profile(steps):
        with profiled() as seen:
            measured = train(steps)
        return {**measured, **seen}

    train(10)  # compiles, and allocates
    print(json.dumps({"listening": _address(), "pid": os.getpid(), **about}), flush=True)
    commands = {"train": train, "profile": profile}
    for line in sys.stdin:
        name, *words = line.split()
        arguments = {key: int(value) for key, value in (word.split("=") for word in words)}
        try:
            answer = {"ok": True, **commands[name](**arguments)}
        except Exception as error:  # pylint: disable=broad-exception-caught  # the check tells it
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
