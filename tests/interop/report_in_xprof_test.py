# SPDX-License-Identifier: Apache-2.0
"""`jobscope report` and XProf read the same file: step time, input share, and the operators with more than 1 % of the self time agree
within 1 %."""

import json
import pathlib

from harness import case, messages, processes, workers

INPUT = 0  # StepClass::kInput in digests
SCOPES = {"forward", "backward", "update"}  # of a training step


class Report(case.InteropTest):
    @case.again_if_busy
    def test_agrees_with_xprof(self):
        worker = self.train_loop("--slow_ms=8")
        result = self.capture([worker.address], 2500, "--session_id=r")
        self.assertEqual(result.exit_code, 0, result.process.output())
        run = pathlib.Path(self.logdir) / "plugins" / "profile" / "r"
        program = processes.Process([workers.BIN / "jobscope", "report", run, "--json", f"--digest={run}/digests"])
        self.assertEqual(program.wait(60), 0, program.output())
        report = json.loads(program.stdout())
        (path,) = run.glob("*.xplane.pb")
        xprof = self.xprof()

        pipeline = xprof.input_pipeline([path])
        # XProf leaves out the first and the last step. The digest has the steps by themselves, in nanoseconds.
        digest = messages.message("jobscope.v1.Digest").FromString((run / "digests" / f"{path.name.removesuffix('.xplane.pb')}.digest").read_bytes())
        account_ns = digest.steps.account_ns[1:-1]
        self.assertEqual(len(account_ns), len(pipeline.steps))
        self.assertGreater(len(pipeline.steps), 50)
        mean_ms = sum(float(step["stepTimeMs"]) for step in pipeline.steps) / len(pipeline.steps)
        self.assertAlmostEqual(sum(account_ns) / 1e6 / len(account_ns) / mean_ms, 1, delta=0.01)
        (input_ns,) = [column.ns[1:-1] for column in digest.steps.classes if getattr(column, "class") == INPUT]
        self.assertEqual(len(input_ns), len(account_ns))
        self.assertAlmostEqual(sum(input_ns) / sum(account_ns) / pipeline.input_share(), 1, delta=0.01)

        operators = {row["name"]: row for row in report["operators"]}
        rows = [row for row in xprof.op_rows([path]) if row["operation"] != "IDLE"]
        total_us = sum(row["total_self_time"] for row in rows)
        compared = [row for row in rows if row["total_self_time"] > 0.01 * total_us or row["operation"] in SCOPES]
        self.assertEqual(len({row["operation"] for row in compared}), len(compared), "XProf has an operator twice")
        self.assertLessEqual(SCOPES, {row["operation"] for row in compared})
        for row in compared:
            name = row["operation"]
            self.assertIn(name, operators)
            self.assertEqual(operators[name]["count"], row["occurrences"], name)
            self.assertAlmostEqual(operators[name]["self_ms"] * 1000 / row["total_self_time"], 1, delta=0.01, msg=name)


if __name__ == "__main__":
    case.main("capture", "train_loop")
