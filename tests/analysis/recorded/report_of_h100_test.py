# SPDX-License-Identifier: Apache-2.0
"""The report of recorded jobs on an H100: PyTorch 2.11 (gpu_tests/jobs/torch_job.py, LOADER_MS=20), captured for a second, and JAX
0.11 (jax_job.py), whose kernels its own tracer and jobscope's recorded, in 100 steps each.

  report_of_h100_test.py JOBSCOPE DIRECTORY_OF_RECORDINGS
"""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

LOADER_MS = 20
# What torch.profiler saw of each step of this job (torch_without_code of the GPU tests).
KERNELS, COPIES = 102, 12


def report_of(name):
    with tempfile.TemporaryDirectory() as folder:
        packed = RECORDINGS / f"{name}.xplane.pb.gz"
        (pathlib.Path(folder) / "rank0.xplane.pb").write_bytes(gzip.decompress(packed.read_bytes()))
        run = subprocess.run([JOBSCOPE, "report", folder, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)


class TwoTracersOfJax(unittest.TestCase):
    """The report of one job does not depend on who recorded its GPU."""

    @classmethod
    def setUpClass(cls):
        cls.reports = [report_of("jax_h100_its_tracer"), report_of("jax_h100_jobscope")]

    def test_kernels(self):
        theirs, ours = ({row["name"]: row for row in report["kernels"]} for report in self.reports)
        self.assertEqual(len(theirs), 8)
        self.assertEqual({name: row["count"] for name, row in theirs.items()}, {name: row["count"] for name, row in ours.items()})
        for name, row in theirs.items():
            self.assertAlmostEqual(row["total_ms"], ours[name]["total_ms"], delta=0.01 * row["total_ms"], msg=name)

    def test_classes_and_verdict(self):
        for report in self.reports:
            worker, verdict = report["workers"][0], report["verdict"]
            self.assertEqual((worker["steps"], worker["steps_source"]), (99, "PjitFunction(train_step)"))
            self.assertAlmostEqual(worker["classes_ms"]["device_compute"], 0.426, delta=0.002)
            self.assertAlmostEqual(sum(worker["classes_ms"].values()), worker["mean_ms"], delta=0.001)
            # The job waits for each step's result.
            self.assertEqual((verdict["finding"], verdict["class"]), ("bound", "host"))
            self.assertAlmostEqual(verdict["device_idle_ms"], verdict["step_ms"] - 0.426, delta=0.002)


class ReportOfH100(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.report = report_of("torch_h100_loader")

    def test_the_loader_is_the_bound(self):
        verdict = self.report["verdict"]
        self.assertEqual((verdict["finding"], verdict["class"]), ("bound", "input"))
        self.assertIn("enumerate(DataLoader)", verdict["names"][0])
        self.assertAlmostEqual(verdict["class_ms"], LOADER_MS, delta=0.5)
        self.assertAlmostEqual(verdict["mended_step_ms"], verdict["step_ms"] - verdict["class_ms"], delta=0.01)

    def test_the_classes_are_the_step(self):
        worker = self.report["workers"][0]
        self.assertEqual(worker["steps_source"], "optimizer step")
        self.assertEqual(worker["gpu_model"], "NVIDIA H100 80GB HBM3")
        self.assertAlmostEqual(sum(worker["classes_ms"].values()), worker["mean_ms"], delta=0.01)
        for name in ("device_compute", "device_copy", "launch", "host"):
            self.assertGreater(worker["classes_ms"][name], 0.5, name)
        # The backward pass runs on a thread of its own.
        self.assertLess(worker["classes_ms"]["unexplained"], 0.06 * worker["mean_ms"])

    def test_kernels_and_copies_of_each_step(self):
        rows = self.report["kernels"]
        compute = sum(row["count"] for row in rows if row["class"] == "device_compute")
        copies = sum(row["count"] for row in rows if row["class"] == "device_copy")
        # The window cuts the first and the last step.
        steps = self.report["workers"][0]["steps"]
        self.assertGreaterEqual(compute + copies, steps * (KERNELS + COPIES))
        self.assertLess(compute + copies, (steps + 2) * (KERNELS + COPIES))


if __name__ == "__main__":
    JOBSCOPE, RECORDINGS = sys.argv[1], pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
