# SPDX-License-Identifier: Apache-2.0
"""Clients: ours, and the stock ones."""

import json
import pathlib
import sys

from harness.processes import Process
from harness.workers import BIN, PEERS, STOCK_START_S, quiet_environment


class StockClient:
    """A stock client in a process of its own, imported and ready."""

    def __init__(self, kind):
        self.process = Process([sys.executable, PEERS / "stock_client.py", kind], env=quiet_environment())
        self.process.expect("^ready$", STOCK_START_S)

    def begin(self, call, **arguments):
        self.process.send(json.dumps({"call": call, **arguments}))

    def answer(self, timeout_s):
        return json.loads(self.process.expect(r"^answer (\{.*\})$", timeout_s).group(1))

    def call(self, call, timeout_s=90, **arguments):
        """The answer; one that is not ok fails the test with what the client said."""
        self.begin(call, **arguments)
        answer = self.answer(timeout_s)
        if not answer["ok"]:
            raise AssertionError(f"{call}: {answer['error']}\n{self.process.stderr()}")
        return answer


class CaptureRun:
    """One finished or running call of our client."""

    def __init__(self, verb, addresses, logdir, flags):
        argv = [BIN / "capture"]
        if verb:
            argv.append(verb)
        argv.append("--service_addr=" + ",".join(addresses))
        if logdir is not None:
            argv.append(f"--logdir={logdir}")
        self.process = Process([*argv, *flags])
        self.exit_code = None

    def finish(self, timeout_s=90):
        self.exit_code = self.process.wait(timeout_s)
        return self

    @property
    def table(self):
        return self.process.stdout() + "\n" + self.process.stderr()

    @property
    def json(self):
        """What --json printed: the manifest and nothing else."""
        return json.loads(self.process.stdout())


def start_capture(addresses, logdir, duration_ms, *flags):
    return CaptureRun(None, addresses, logdir, [f"--duration_ms={duration_ms}", *flags])


def capture(addresses, logdir, duration_ms, *flags, timeout_s=90):
    return start_capture(addresses, logdir, duration_ms, *flags).finish(timeout_s)


def check(addresses, *flags, timeout_s=30):
    return CaptureRun("check", addresses, None, flags).finish(timeout_s)


def stop(addresses, *flags, timeout_s=30):
    return CaptureRun("stop", addresses, None, flags).finish(timeout_s)


def run_directories(logdir):
    """The runs under a logdir, oldest name first."""
    profile = pathlib.Path(logdir) / "plugins" / "profile"
    return sorted(path for path in profile.iterdir() if path.is_dir()) if profile.is_dir() else []


def only_run(logdir):
    runs = run_directories(logdir)
    if len(runs) != 1:
        raise AssertionError(f"{len(runs)} runs in {logdir}: {runs}")
    return runs[0]


def files_below(directory):
    return sorted(str(path.relative_to(directory)) for path in pathlib.Path(directory).rglob("*") if path.is_file())
