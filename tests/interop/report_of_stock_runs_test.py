# SPDX-License-Identifier: Apache-2.0
"""Tests `jobscope report` on captures of stock servers by stock clients: it gives an answer, and states what is unknown."""

import json
import sys

from harness import case, clients, processes, workers

DURATION_MS = 2000
# The client imports JAX, which takes a minute on a busy machine.
CLIENT_S = 300
REPORT_S = 120


class StockRuns(case.InteropTest):
    def report(self, run, *flags):
        program = processes.Process([workers.BIN / "jobscope", "report", run, *flags])
        self.addCleanup(program.kill)
        self.assertEqual(program.wait(REPORT_S), 0, program.output())
        return program.stdout()

    def check(self, run):
        """What holds for each of them; the report."""
        report = json.loads(self.report(run, "--json"))
        self.assertFalse((run / "capture.json").exists())
        (worker,) = report["workers"]
        self.assertGreater(worker["steps"], 20, report)
        # The loop sleeps after each step, which nothing records: the gap is part of the account, and not explained by it.
        self.assertAlmostEqual(sum(worker["classes_ms"].values()), worker["mean_ms"], delta=0.01 * worker["mean_ms"])
        self.assertGreater(worker["gap_ms"], 1)
        # Nobody recorded these: absent, not 0.
        for unknown in ("lost", "clock_uncertainty_ms", "rank", "outcome", "asleep_ms"):
            self.assertNotIn(unknown, worker)
        self.assertNotIn("not_running", worker["classes_ms"])
        self.assertIn("losses not known", report["sure"])
        self.assertIn("no capture.json", " ".join(report["warnings"]))
        text = self.report(run)
        self.assertTrue(text.startswith("VERDICT"), text)
        self.assertIn("losses not known", text)
        return report

    @case.again_if_busy
    def test_tensorflow(self):
        worker = self.stock_worker("tensorflow")
        self.stock_client("tensorflow").call(
            "trace", addresses=[worker.address], logdir=str(self.logdir), duration_ms=DURATION_MS
        )
        report = self.check(clients.only_run(self.logdir))
        verdict = report["verdict"]
        self.assertEqual((verdict["finding"], verdict["class"]), ("bound", "unexplained"), verdict)
        self.assertIn("python_tracer_level", verdict["advice"])

    @case.again_if_busy
    def test_jax(self):
        worker = self.stock_worker("jax")
        port = worker.address.rsplit(":", 1)[1]
        argv = [sys.executable, "-m", "jax.collect_profile", port, str(DURATION_MS), f"--log_dir={self.logdir}", "--no_perfetto_link"]
        process = processes.Process(argv, env=workers.quiet_environment())
        self.addCleanup(process.kill)
        self.assertEqual(process.wait(CLIENT_S), 0, process.output())
        report = self.check(clients.only_run(self.logdir))
        # This client asks for Python's functions, too: the wait has a name.
        verdict = report["verdict"]
        self.assertEqual((verdict["finding"], verdict["class"]), ("bound", "host"), verdict)
        self.assertIn("sleep", " ".join(verdict["names"]))


if __name__ == "__main__":
    case.main("jobscope")
