# SPDX-License-Identifier: Apache-2.0
"""`jobscope report` and XProf read the same file: step time, input share and operators agree within 1 %."""

import json
import pathlib

from harness import case, messages, processes, workers


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

        (mine,) = report["workers"]
        steps = xprof.input_pipeline([path]).steps
        # XProf leaves out the first and the last step. The digest has the steps by themselves, in nanoseconds.
        digest = messages.message("jobscope.v1.Digest").FromString((run / "digests" / f"{path.name.removesuffix('.xplane.pb')}.digest").read_bytes())
        own_ms = [ns / 1e6 for ns in digest.steps.account_ns[1:-1]]
        self.assertEqual(len(own_ms), len(steps))
        self.assertGreater(len(steps), 50)
        mean_ms = sum(float(step["stepTimeMs"]) for step in steps) / len(steps)
        self.assertAlmostEqual(sum(own_ms) / len(own_ms) / mean_ms, 1, delta=0.01)
        share = xprof.input_pipeline([path]).input_share()
        self.assertAlmostEqual(mine["classes_ms"]["input"] / mine["mean_ms"], share, delta=0.01)

        operators = {row["name"]: row for row in report["operators"]}
        for name in ("forward", "backward", "update"):
            (row,) = [row for row in xprof.op_rows([path]) if row["operation"] == name]
            self.assertEqual(operators[name]["count"], row["occurrences"], name)
            self.assertAlmostEqual(operators[name]["self_ms"] * 1000 / row["total_self_time"], 1, delta=0.01, msg=name)


if __name__ == "__main__":
    case.main("capture", "train_loop")
