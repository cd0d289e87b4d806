# SPDX-License-Identifier: Apache-2.0
"""`jobscope report` and XProf read the same trace of a JAX, TensorFlow or PyTorch job, recorded by jobscope or by the framework's own
profiler. Step time, input share and the self time of operators agree within 1 %.

In three cases XProf's figure means something else. There the test compares both programs with figures computed by hand from the events:

* XProf's self time excludes only nested events that are operators to it (those with a stat `tf_op` or a name such as `MatMul:MatMul`). The
  report's self time excludes all nested events.
* The report adds up operators by type (`ReadVariableOp`), XProf by name in the graph (`MatMul/ReadVariableOp`).
* In XProf a wait for input between two steps belongs to no step. In the report it belongs to the account of the next step.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import unittest

from harness import by_hand, case, clients, messages, processes, workers

PACKAGE = workers.BIN.parent / "python"
JOBS = workers.PEERS / "framework_jobs.py"
DEBIANS_PYTHON = "/usr/bin/python3"
STEPS = 40
# Time limit of a job, which imports a framework, on a busy machine.
JOB_S = 110
INPUT = 0  # StepClass::kInput in digests
WITHIN = 0.01
TENSORFLOW_OPERATORS = ["MatMul", "Mul", "Fill", "PyFunc", "AssignSubVariableOp", "ReadVariableOp"]
TORCH_OPERATORS = ["aten::addmm", "aten::mm", "AddmmBackward0", "aten::add_", "forward", "backward", "Optimizer.step#SGD.step"]


def has_torch():
    check = "import importlib.util; raise SystemExit(importlib.util.find_spec('torch') is None)"
    return pathlib.Path(DEBIANS_PYTHON).exists() and subprocess.run([DEBIANS_PYTHON, "-c", check], check=False).returncode == 0


class Frameworks(case.InteropTest):
    def serve(self, job, python=sys.executable):
        """The trace of STEPS steps that `capture` recorded."""
        env = {**workers.quiet_environment(), "PYTHONPATH": str(PACKAGE)}
        process = processes.Process([python, "-B", JOBS, job, "serve"], env=env)
        self.addCleanup(process.kill)
        run = clients.CaptureRun(None, [workers.Worker(process, JOB_S).address], self.logdir, [f"--steps={STEPS}"])
        self.addCleanup(run.process.kill)
        run.finish()
        self.assertEqual(run.exit_code, 0, run.process.output() + process.output())
        return self.trace_of(clients.only_run(self.logdir))

    def record(self, job):
        """The trace of STEPS steps that the framework recorded."""
        process = processes.Process([sys.executable, "-B", JOBS, job, "record", self.logdir], env=workers.quiet_environment())
        self.addCleanup(process.kill)
        self.assertEqual(process.wait(JOB_S), 0, process.output())
        return self.trace_of(clients.only_run(self.logdir))

    def trace_of(self, run):
        (path,) = run.glob("*.xplane.pb")
        return path

    def read(self, path):
        """The report's JSON, and its digest, which has the steps by themselves."""
        digests = self.scratch / "digests"
        program = processes.Process([workers.BIN / "jobscope", "report", path.parent, "--json", f"--digest={digests}"])
        self.addCleanup(program.kill)
        self.assertEqual(program.wait(60), 0, program.output())
        digest = pathlib.Path(digests, path.name.replace(".xplane.pb", ".digest")).read_bytes()
        return json.loads(program.stdout()), messages.message("jobscope.v1.Digest").FromString(digest)

    def assert_close(self, ours, theirs, what):
        self.assertGreater(theirs, 0, what)
        self.assertAlmostEqual(ours / theirs, 1, delta=WITHIN, msg=f"{what}: {ours}, {theirs}")

    def check(self, path, input_in_steps, operators):
        """`input_in_steps`: XProf sees the waits. `operators`: names of the report of whose self time XProf means the same."""
        report, digest = self.read(path)
        xprof = self.xprof()
        rows = [row for row in xprof.op_rows([path]) if row["operation"] != "IDLE"]
        hand = by_hand.Host(path, {row["operation"] for row in rows})
        self.check_steps(xprof.input_pipeline([path]), digest, hand, input_in_steps)
        self.check_operators(rows, report, hand, operators)

    def check_steps(self, pipeline, digest, hand, input_in_steps):
        # XProf leaves out the first and the last step.
        lengths_ns, accounts_ns = digest.steps.length_ns[1:-1], digest.steps.account_ns[1:-1]
        self.assertGreaterEqual(len(lengths_ns), STEPS - 2)
        self.assertEqual(len(pipeline.steps), len(lengths_ns))
        step_ms = statistics.mean(float(step["stepTimeMs"]) for step in pipeline.steps)
        self.assert_close(statistics.mean(lengths_ns) / 1e6, step_ms, "step time")
        accounts = hand.accounts()
        self.assertEqual(len(accounts), len(digest.steps.account_ns))
        for ours, (begin, end) in zip(digest.steps.account_ns, accounts):
            self.assertAlmostEqual(ours, (end - begin) / 1000, delta=2)
        (input_ns,) = [column.ns for column in digest.steps.classes if getattr(column, "class") == INPUT]
        for ours, wait in zip(input_ns, by_hand.within(hand.waits(), accounts)):
            self.assertAlmostEqual(ours, wait / 1000, delta=0.01 * ours + 10)
        waited_ns = sum(input_ns[1:-1])
        if input_in_steps:
            self.assertGreater(waited_ns, 0.05 * sum(lengths_ns))
            self.assert_close(waited_ns / sum(lengths_ns), pipeline.input_share(), "input share")
        else:
            self.assertEqual(pipeline.input_share(), 0)
            self.assertGreater(waited_ns, 0)
            self.assertGreaterEqual(sum(accounts_ns) - sum(lengths_ns), 0.999 * waited_ns)

    def check_operators(self, rows, report, hand, operators):
        shown = {row["operation"]: row for row in rows}
        self.assertEqual(len(shown), len(rows), "XProf has an operator twice")
        self.assertEqual(set(shown), set(hand.rows))
        total_us = sum(row["total_self_time"] for row in rows)
        for name, row in shown.items():
            self.assertEqual(row["occurrences"], hand.rows[name].count, name)
            if row["total_self_time"] > 0.01 * total_us:
                self.assert_close(row["total_self_time"], hand.rows[name].self / 1e6, f"{name} of XProf, by hand")
        total_ms = sum(row["self_ms"] for row in report["operators"])
        ours = {row["name"]: row for row in report["operators"]}
        for name, row in ours.items():
            self.assertEqual(row["count"], hand.operators[name].count, name)
            if row["self_ms"] > 0.01 * total_ms:
                self.assert_close(row["self_ms"], hand.operators[name].self / 1e9, f"{name}, by hand")
            names = hand.names[name]
            if None not in names:
                theirs_us = sum(shown[other]["total_time"] for other in names)
                self.assertAlmostEqual(row["total_ms"] * 1000, theirs_us, delta=0.01 * theirs_us + 1, msg=name)
        for name in operators:
            names = hand.names[name]
            self.assertTrue(names and None not in names, f"{name}: {names}")
            self.assert_close(ours[name]["self_ms"] * 1000, sum(shown[other]["total_self_time"] for other in names), f"{name}: {names}")

    @case.again_if_busy
    def test_jax_captured(self):
        # XProf shows none of JAX's own events as an operator, so its self time of a scope includes them.
        self.check(self.serve("jax"), True, [])

    @case.again_if_busy
    def test_tensorflow_captured(self):
        self.check(self.serve("tensorflow"), True, TENSORFLOW_OPERATORS)

    @unittest.skipUnless(has_torch(), "no python3-torch")
    @case.again_if_busy
    def test_torch_captured(self):
        path = self.serve("torch", DEBIANS_PYTHON)
        self.check(path, True, TORCH_OPERATORS)

    @unittest.skipUnless(has_torch(), "no python3-torch")
    @case.again_if_busy
    def test_torch_captured_without_marks(self):
        path = self.serve("torch_plain", DEBIANS_PYTHON)
        self.check(path, True, TORCH_OPERATORS)

    @case.again_if_busy
    def test_jax_recorded_by_itself(self):
        # XProf shows no operator of this trace, and no input: the loop waits between its steps.
        self.check(self.record("jax"), False, [])

    @case.again_if_busy
    def test_tensorflow_recorded_by_itself(self):
        self.check(self.record("tensorflow"), True, TENSORFLOW_OPERATORS)


if __name__ == "__main__":
    case.main("capture", "jobscope")
