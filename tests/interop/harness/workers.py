# SPDX-License-Identifier: Apache-2.0
"""Workers: ours, and the stock ones."""

import os
import pathlib
import re
import signal
import socket
import sys

from harness.processes import Process

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import ports  # noqa: E402

BIN = pathlib.Path(os.environ["JOBSCOPE_BIN"])
PEERS = pathlib.Path(__file__).resolve().parent.parent / "peers"

# TensorFlow needs up to a minute to import on a busy machine of two cores.
STOCK_START_S = 90
OWN_START_S = 60


# Bound for as long as the test lives: nobody else, and no second call, gets their ports.
_held = []


def dead_address():
    """An address at which every connection is refused."""
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return f"127.0.0.1:{holder.getsockname()[1]}"


class Worker:
    """A process with a profiler server in it."""

    def __init__(self, process, start_timeout_s):
        self.process = process
        self.address = process.expect(r"listening on (\S+)", start_timeout_s).group(1)

    @property
    def file_stem(self):
        """The name that stock clients give to this worker's file."""
        return self.address.replace(":", "_")


class OwnWorker(Worker):
    """One of our programs. It may not write a single byte into a regular file: the kernel would kill it."""

    def __init__(self, program, *flags, cwd=None, env=None, listen="127.0.0.1:0", may_write_files=False):
        self.cwd = cwd
        process = Process(
            [BIN / program, f"--listen={listen}", *flags], cwd=cwd, env=env, may_write_files=may_write_files
        )
        super().__init__(process, OWN_START_S)

    def finish(self):
        """Asks the program to end and returns what it says about its run."""
        code = self.process.terminate()
        if code != 0:
            raise AssertionError(f"worker failed\n{self.process.output()}")
        return self.process.stdout()

    def mark(self):
        """(median ms, longest ms) of train_loop's steps since the last mark."""
        self.process.signal(signal.SIGUSR1)
        match = self.process.expect(r"^steps \d+, median ([\d.]+) ms, longest ([\d.]+) ms", 30)
        return float(match[1]), float(match[2])

    def step_report(self):
        """(steps, median ms, longest ms) that train_loop prints at its end."""
        match = re.search(r"steps (\d+), median ([\d.]+) ms, longest ([\d.]+) ms", self.finish())
        if match is None:
            raise AssertionError(f"train_loop does not tell its steps\n{self.process.output()}")
        return int(match[1]), float(match[2]), float(match[3])


class StockWorker(Worker):
    """TensorFlow's or JAX's own profiler server beside a step loop."""

    def __init__(self, kind, *flags, cwd=None):
        process = Process(
            [sys.executable, PEERS / "stock_server.py", kind, ports.free_port(), *flags], cwd=cwd, env=quiet_environment()
        )
        super().__init__(process, STOCK_START_S)

    def mark(self):
        """(median ms, longest ms) of the steps since the last mark."""
        self.process.send("mark")
        match = self.process.expect(r"^mark steps \d+, median ([\d.]+) ms, longest ([\d.]+) ms", 30)
        return float(match[1]), float(match[2])


def quiet_environment():
    """Keeps TensorFlow and JAX from looking for accelerators and from logging about the CPU."""
    return {"TF_CPP_MIN_LOG_LEVEL": "1", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "TF_ENABLE_ONEDNN_OPTS": "0"}
