# SPDX-License-Identifier: Apache-2.0
"""Processes that end while they capture themselves: the trace is on disk, or stderr says why it is not."""
import glob
import multiprocessing
import os
import shutil
import sys
import tempfile
import unittest

import jobscope
import workers
import xspace


def worker_end(begin, logdir):
    if begin == "start":
        jobscope.start(logdir)
    else:
        jobscope.capture_steps(logdir, 1, 2)
    shutil.rmtree(logdir)
    for number in range(5):
        with jobscope.step(number):
            pass


def _capture(logdir):
    jobscope.start(logdir)
    with jobscope.trace("in the child"):
        pass


def worker_child(method, logdir):
    child = multiprocessing.get_context(method).Process(target=_capture, args=(logdir,))
    child.start()
    child.join()
    sys.exit(child.exitcode)


class ExitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="jobscope-python-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def ended(self, *arguments, logdir):
        with workers.Worker(__file__, *arguments, logdir) as worker:
            self.assertEqual(worker.finish(), 0, worker.errors)
        return worker.errors

    def test_a_capture_that_cannot_be_written(self):
        for begin in ("start", "steps"):
            with self.subTest(begin):
                logdir = os.path.join(self.folder, begin)
                errors = self.ended("end", begin, logdir=logdir)
                self.assertRegex(errors, f"the capture of this process was not written: .*{logdir}")

    def test_children_of_multiprocessing(self):
        for method in ("fork", "forkserver", "spawn"):
            with self.subTest(method):
                logdir = os.path.join(self.folder, method)
                self.assertEqual(self.ended("child", method, logdir=logdir), "")
                (run,) = glob.glob(f"{logdir}/plugins/profile/*")
                self.assertEqual(len(xspace.named(xspace.host_events(run), "in the child")), 1)


if __name__ == "__main__":
    workers.main(globals())
