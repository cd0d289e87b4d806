# SPDX-License-Identifier: Apache-2.0
"""XProf as a client: its "Capture profile" button, its monitor, and its continuous mode."""

import time

from harness import case, clients, expectations, traces


class XProfClient(case.InteropTest):
    @case.again_if_busy
    def test_the_capture_button(self):
        workers = [self.train_loop("--slow_ms=5") for _ in range(2)]
        xprof = self.xprof()
        answer = xprof.call("trace", addresses=[worker.address for worker in workers], logdir=str(self.logdir), duration_ms=1000)
        self.assertIn("Capture profile successfully", answer["text"])
        run = clients.only_run(self.logdir)
        self.assertEqual(xprof.call("runs", logdir=str(self.logdir))["runs"], [run.name])
        tools = xprof.call("tools", logdir=str(self.logdir), run=run.name)["tools"]
        for tool in ("overview_page", "input_pipeline_analyzer", "framework_op_stats", "trace_viewer@"):
            self.assertIn(tool, tools)
        hosts = xprof.call("hosts", logdir=str(self.logdir), run=run.name, tool="trace_viewer@")["hosts"]
        self.assertEqual(sorted(hosts), sorted(worker.file_stem for worker in workers))
        loaded = {}
        for worker in workers:
            path = run / f"{worker.file_stem}.xplane.pb"
            loaded[path] = expectations.check_train_loop_trace(self, path, worker.file_stem)
            expectations.check_xprof_shows(self, xprof, path, loaded[path], input_floor=0.1)
            self.assert_wrote_nothing(worker)
        # Both received the same start, so their zeros agree.
        zeros = [trace.summary().zero_unix_ns for trace in loaded.values()]
        self.assertEqual(zeros[0], zeros[1])
        self.assertEqual(xprof.overview(list(loaded)).environment["host_count"], "2")

    def test_monitor(self):
        worker = self.train_loop("--slow_ms=5")
        text = self.xprof().call("monitor", address=worker.address, duration_ms=300, level=1)["text"]
        self.assertRegex(text, r"(?i)step")

    def test_continuous_mode_is_lookback_without_a_gap(self):
        worker = self.train_loop("--slow_ms=5")
        xprof = self.xprof()
        xprof.call("start_continuous", address=worker.address, logdir=str(self.logdir), duration_ms=2000)
        snapshots = []
        for number in range(2):
            logdir = self.scratch / f"snapshot-{number}"
            logdir.mkdir()
            snapshots.append(self._snapshot_with_steps(xprof, worker, logdir))
        first, second = snapshots
        # The second one looks back over the first: recording never stopped.
        first_numbers = {step.stats["step_num"] for step in first.steps()}
        second_numbers = [step.stats["step_num"] for step in second.steps()]
        self.assertEqual(second_numbers, list(range(second_numbers[0], second_numbers[-1] + 1)))
        self.assertTrue(first_numbers & set(second_numbers), "a gap between two snapshots")
        self.assertIn("forward", second.names())

        xprof.call("stop_continuous", address=worker.address)
        # The slot is free, and an ordinary capture works.
        xprof.call("trace", addresses=[worker.address], logdir=str(self.logdir), duration_ms=300)
        path = clients.only_run(self.logdir) / f"{worker.file_stem}.xplane.pb"
        expectations.check_train_loop_trace(self, path, worker.file_stem)
        self.assert_wrote_nothing(worker)

    def _snapshot_with_steps(self, xprof, worker, logdir):
        """A snapshot that holds at least 20 steps. XProf names its run by the second, so each one goes to a place of its own."""
        deadline = time.monotonic() + 20
        number = 0
        while True:
            place = logdir / str(number)
            number += 1
            xprof.call("snapshot", address=worker.address, logdir=str(place))
            paths = list(place.rglob("*.xplane.pb"))
            self.assertEqual(len(paths), 1, clients.files_below(place))
            trace = traces.Trace.load(paths[0])
            self.assertEqual(traces.rule_violations(trace), [])
            if len(trace.steps()) >= 20:
                return trace
            self.assertLess(time.monotonic(), deadline, "no 20 steps in a snapshot")


if __name__ == "__main__":
    case.main("train_loop")
