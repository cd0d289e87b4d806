# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader with four workers, under each start method, with captures running all the time.

Needs torch (Debian: python3-torch); exit 77 without.
"""
import importlib.util
import sys
import tempfile
import threading
import unittest

import workers
import xspace

BATCHES = 40


class Squares:
    """A map-style dataset is anything with these two methods."""

    def __len__(self):
        return BATCHES * 4

    def __getitem__(self, index):
        import jobscope

        with jobscope.trace("decode", index=index):
            return index * index


def worker_loader(method, persistent, logdir):
    import jobscope
    import torch

    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=4, num_workers=4, multiprocessing_context=method, persistent_workers=persistent == "persistent"
    )
    runs = []
    with jobscope.start_server("127.0.0.1:0"):
        going = True
        started = threading.Event()

        def capture():
            while going:
                with jobscope.capture(logdir) as it:
                    started.set()
                    workers.until(lambda: not going, 0.05)
                runs.append(it.result.run_directory)

        capturer = threading.Thread(target=capture)
        capturer.start()
        started.wait(30)
        step = total = 0
        for _ in range(2):
            for batch in jobscope.input_waits(loader):
                with jobscope.step(step), jobscope.trace("forward", rows=len(batch)):
                    total += int(batch.sum())
                    sum(range(100000))
                step += 1
        going = False
        capturer.join(60)
    workers.tell(steps=step, total=total, runs=runs)


class DataLoaderTest(unittest.TestCase):
    def _captured(self, method, persistent):
        with tempfile.TemporaryDirectory(prefix="jobscope-python-") as logdir:
            with workers.Worker(__file__, "loader", method, persistent, logdir) as worker:
                said = worker.hear()
                self.assertEqual(worker.finish(), 0, worker.errors)
                self.assertNotIn("Traceback", worker.errors)
            events = [event for run in said["runs"] for event in xspace.host_events(run)]
        self.assertEqual(said["steps"], 2 * BATCHES)
        self.assertEqual(said["total"], 2 * sum(index * index for index in range(BATCHES * 4)))
        self.assertTrue(xspace.named(events, "forward"))
        self.assertTrue([event for event in events if "input_wait" in event.name])
        self.assertEqual(xspace.named(events, "decode"), [], "a worker of the loader recorded into the parent's trace")

    def test_fork(self):
        self._captured("fork", "fresh")
        self._captured("fork", "persistent")

    def test_spawn(self):
        self._captured("spawn", "fresh")

    def test_forkserver(self):
        self._captured("forkserver", "fresh")


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("skipped: no torch for", sys.executable, "(Debian: apt-get install python3-torch)")
        sys.exit(77)
    workers.main(globals())
