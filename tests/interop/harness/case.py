# SPDX-License-Identifier: Apache-2.0
"""The test case that all interop tests derive from, and their main function."""

import functools
import os
import pathlib
import sys
import tempfile
import unittest

from harness import clients, messages, processes, workers, xprof_reader  # workers adds the folder of machine
import machine

EXIT_SKIPPED = 77


def again_if_busy(test):
    """Decorates a test whose workers must get to run in a window, or keep a time limit: on a busy machine it is made again."""

    @machine.again_if_busy(0.5)
    @functools.wraps(test)
    def run(self):
        self.make_scratch()
        return test(self)

    return run


class InteropTest(unittest.TestCase):
    """Ends every process it started, whatever happens, and leaves no file behind."""

    maxDiff = None

    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory(prefix="jobscope-interop-")
        self.addCleanup(self._scratch.cleanup)
        self.make_scratch()

    def make_scratch(self):
        """Empty folders."""
        self.scratch = pathlib.Path(tempfile.mkdtemp(dir=self._scratch.name))
        self.logdir = self.scratch / "logdir"
        self.logdir.mkdir()

    def keep(self, owner):
        """Ends `owner.process` when the test is over. Returns `owner`."""
        self.addCleanup(owner.process.kill)
        return owner

    def own_worker(self, program, *flags, **options):
        """A worker in an empty directory, with nothing else that it could call home."""
        cwd = pathlib.Path(tempfile.mkdtemp(prefix="worker-", dir=self.scratch))
        env = {"HOME": str(cwd), "TMPDIR": str(cwd), **options.pop("env", {})}
        return self.keep(workers.OwnWorker(program, *flags, cwd=cwd, env=env, **options))

    def train_loop(self, *flags, **options):
        return self.own_worker("train_loop", *flags, **options)

    def stock_worker(self, kind):
        cwd = pathlib.Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=self.scratch))
        return self.keep(workers.StockWorker(kind, cwd=cwd))

    # The stock clients take seconds to import, so the tests of a class share them.

    def stock_client(self, kind):
        return self._shared(kind, lambda: clients.StockClient(kind))

    def xprof(self):
        return self._shared("xprof", xprof_reader.XProf)

    @classmethod
    def _shared(cls, name, start):
        shared = cls.__dict__.get("_shared_clients")
        if shared is None:
            shared = cls._shared_clients = {}
        client = shared.get(name)
        if client is None or not client.process.alive():
            client = shared[name] = start()
            cls.addClassCleanup(client.process.kill)
        return client

    def capture(self, addresses, duration_ms, *flags, logdir=None, timeout_s=90):
        run = clients.start_capture(addresses, logdir or self.logdir, duration_ms, *flags)
        return self.keep(run).finish(timeout_s)

    def start_capture(self, addresses, duration_ms, *flags):
        return self.keep(clients.start_capture(addresses, self.logdir, duration_ms, *flags))

    def wait_recording(self, *workers_of_ours):
        """Returns once each of the workers says that it records."""
        for worker in workers_of_ours:
            peer = messages.Peer(worker.address)
            self.addCleanup(peer.close)
            processes.wait_until(
                lambda peer=peer: peer.call("Describe", messages.DescribeRequest()).busy.state == "recording",
                60, f"{worker.address} records",
            )

    def assert_wrote_nothing(self, worker):
        self.assertTrue(worker.process.alive(), worker.process.output())
        self.assertEqual(list(worker.cwd.iterdir()), [], "the worker wrote into its own directory")


def main(*programs):
    """Runs the tests of the calling script, or says that it was skipped because a program is not built."""
    missing = [program for program in programs if not os.access(workers.BIN / program, os.X_OK)]
    if missing:
        print(f"skipped: not built in {workers.BIN}: {', '.join(missing)}")
        sys.exit(EXIT_SKIPPED)
    unittest.main(module="__main__", verbosity=2)
