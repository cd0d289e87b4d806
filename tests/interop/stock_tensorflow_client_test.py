# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own client against two of our workers."""

import time

from harness import case, clients, expectations

SLOW_MS = 5  # of each step, waiting for input


class TensorFlowClient(case.InteropTest):
    @case.again_if_busy
    def test_trace_lands_on_the_clients_disk_and_xprof_shows_it(self):
        workers = [self.train_loop(f"--slow_ms={SLOW_MS}") for _ in range(2)]
        client = self.stock_client("tensorflow")
        xprof = self.xprof()

        client.call("trace", addresses=[worker.address for worker in workers], logdir=str(self.logdir), duration_ms=1000)

        run = clients.only_run(self.logdir)
        self.assertEqual(clients.files_below(run), sorted(f"{worker.file_stem}.xplane.pb" for worker in workers))
        for worker in workers:
            path = run / f"{worker.file_stem}.xplane.pb"
            trace = expectations.check_train_loop_trace(self, path, worker.file_stem)
            # TensorFlow's own messages see the same, and nothing that they do not know.
            count = client.call("count", path=str(path))
            self.assertEqual(sum(count["planes"].values()), trace.event_count())
            self.assertEqual(count["unknown_bytes"], 0)

            self.assertIn("overview_page", xprof.tool_names([path]))
            step_ms = [step.duration_ps / 1e9 for step in trace.steps()]
            input_floor = 0.8 * SLOW_MS * len(step_ms) / sum(step_ms)
            expectations.check_xprof_shows(self, xprof, path, trace, input_floor)

            self.assert_wrote_nothing(worker)
            # XProf's average against what the program itself measured.
            _, median_ms, longest_ms = worker.step_report()
            average_ms = xprof.overview([path]).step_ms()
            self.assertGreater(average_ms, 0.5 * median_ms)
            self.assertLess(average_ms, longest_ms)

        tools = xprof.call("tools", logdir=str(self.logdir), run=run.name)["tools"]
        self.assertIn("overview_page", tools)
        self.assertIn("input_pipeline_analyzer", tools)
        self.assertIn("framework_op_stats", tools)

    @case.again_if_busy
    def test_two_clients_at_once_wait_in_line(self):
        worker = self.train_loop()
        stock = [self.stock_client("tensorflow"), self.xprof()]
        logdirs = [self.scratch / "first", self.scratch / "second"]
        duration_ms = 1500
        began = time.monotonic()
        for client, logdir in zip(stock, logdirs):
            logdir.mkdir()
            client.begin("trace", addresses=[worker.address], logdir=str(logdir), duration_ms=duration_ms)
        answers = [client.answer(60) for client in stock]
        elapsed_s = time.monotonic() - began
        for client, answer in zip(stock, answers):
            self.assertTrue(answer["ok"], f"{answer}\n{client.process.stderr()}")
        # One after the other, and each asked only once: a repeated capture would take a third duration.
        self.assertGreaterEqual(elapsed_s, 2 * duration_ms / 1e3)
        self.assertLess(elapsed_s, 2 * duration_ms / 1e3 + 1.2)
        for logdir in logdirs:
            path = clients.only_run(logdir) / f"{worker.file_stem}.xplane.pb"
            trace = expectations.check_train_loop_trace(self, path, worker.file_stem)
            # The zero is the instant that the client asked for; the one in line began later, and says by how much.
            summary = trace.summary()
            self.assertAlmostEqual((summary.duration_ns - summary.late_ns) / 1e6, duration_ms, delta=100)
        self.assert_wrote_nothing(worker)

    def test_monitor_tells_the_step_rate(self):
        worker = self.train_loop("--slow_ms=5")
        client = self.stock_client("tensorflow")
        text = client.call("monitor", address=worker.address, duration_ms=500, level=2)["text"]
        self.assertRegex(text, r"(?i)step")
        self.assertRegex(text, r"(?i)cpu")
        self.assertRegex(text, r"(?i)rss|memory")
        self.assertRegex(text, r"\d")

    @case.again_if_busy
    def test_a_client_killed_in_the_middle_frees_the_worker(self):
        worker = self.train_loop()
        self.xprof()
        client = self.keep(clients.StockClient("tensorflow"))
        client.begin("trace", addresses=[worker.address], logdir=str(self.logdir), duration_ms=20_000)
        self.wait_recording(worker)
        client.process.kill()
        answer = self.xprof().call("trace", addresses=[worker.address], logdir=str(self.logdir), duration_ms=300, timeout_s=15)
        self.assertLess(answer["seconds"], 2.0)


if __name__ == "__main__":
    case.main("train_loop")
