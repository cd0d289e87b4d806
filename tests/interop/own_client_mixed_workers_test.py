# SPDX-License-Identifier: Apache-2.0
"""Our client against TensorFlow's and JAX's own servers, mixed with ours."""

import json

from harness import case, clients, expectations, traces, workers


class MixedWorkers(case.InteropTest):
    @case.again_if_busy
    def test_one_worker_down_costs_the_others_nothing(self):
        duration_ms = 1000
        tensorflow, jax = self.stock_worker("tensorflow"), self.stock_worker("jax")
        own = self.train_loop("--slow_ms=5")
        down = workers.dead_address()
        addresses = [tensorflow.address, down, jax.address, own.address]

        run = self.capture(addresses, duration_ms, timeout_s=duration_ms / 1e3 + 10)

        self.assertEqual(run.exit_code, 3, run.process.output())
        # The table names the one, and why.
        line = next((line for line in run.table.splitlines() if down in line and "unreachable" in line), None)
        self.assertIsNotNone(line, run.table)
        self.assertIn("refused", line.lower(), run.table)

        directory = clients.only_run(self.logdir)
        files = {path.name for path in directory.glob("*.xplane.pb")}
        self.assertEqual(files, {f"{worker.file_stem}.xplane.pb" for worker in (tensorflow, jax, own)})
        expectations.check_train_loop_trace(self, directory / f"{own.file_stem}.xplane.pb", own.file_stem)
        for stock in (tensorflow, jax):
            trace = traces.Trace.load(directory / f"{stock.file_stem}.xplane.pb")
            steps = trace.steps()
            numbers = [step.stats["step_num"] for step in steps]
            # The step loop of stock_server.py takes 5 ms and more.
            self.assertGreater(len(steps), 0.4 * duration_ms / 5)
            self.assertEqual(sorted(numbers), list(range(min(numbers), min(numbers) + len(numbers))))
            self.assertTrue(stock.process.alive())

        manifest = json.loads((directory / "capture.json").read_text())
        self.assertEqual(manifest["exit_code"], 3)
        by_address = {worker["address"]: worker for worker in manifest["workers"]}
        self.assertEqual(list(by_address), addresses)
        self.assertEqual(by_address[down]["outcome"], "unreachable")
        self.assertEqual(by_address[down]["files"], [])
        for stock in (tensorflow, jax):
            entry = by_address[stock.address]
            path = directory / entry["files"][0]["path"]
            self.assertEqual(entry["outcome"], "ok")
            self.assertEqual(entry["protocol"], "tensorflow")
            self.assertEqual(entry["files"][0]["bytes"], path.stat().st_size)
            self.assertFalse(entry["aligned"], "a stock worker's times are its own")
        self.assertEqual(by_address[own.address]["outcome"], "ok")

        # XProf opens the mixture, host by host.
        xprof = self.xprof()
        hosts = xprof.call("hosts", logdir=str(self.logdir), run=directory.name, tool="trace_viewer@")["hosts"]
        self.assertEqual(sorted(hosts), sorted(name.removesuffix(".xplane.pb") for name in files))
        for name in files:
            self.assertGreater(len(xprof.overview([directory / name]).step_rows), 3, name)

    def test_a_stock_worker_that_is_busy_is_reported_as_busy(self):
        tensorflow = self.stock_worker("tensorflow")
        own = self.train_loop()
        holder = self.stock_client("tensorflow")
        holder.begin("trace", addresses=[tensorflow.address], logdir=str(self.scratch / "other"), duration_ms=6000)
        # A stock worker answers INTERNAL "Another profiling session active." as soon as it records.
        self._wait_busy(tensorflow)
        run = self.capture([tensorflow.address, own.address], 500, "--num_tracing_attempts=1")
        self.assertEqual(run.exit_code, 3, run.process.output())
        manifest = json.loads((clients.only_run(self.logdir) / "capture.json").read_text())
        outcomes = {worker["address"]: worker["outcome"] for worker in manifest["workers"]}
        self.assertEqual(outcomes, {tensorflow.address: "busy", own.address: "ok"})
        self.assertTrue(holder.answer(30)["ok"], "the first client was disturbed")

    def _wait_busy(self, worker):
        import grpc

        from harness import messages, processes

        peer = messages.Peer(worker.address)
        self.addCleanup(peer.close)

        def busy():
            code, text = peer.status("Profile", messages.profile_request(1, emit_xspace=True))
            return code == grpc.StatusCode.INTERNAL and "Another profiling session" in text

        processes.wait_until(busy, 30, "the stock worker records")

    def test_stop_ends_a_stock_capture_early(self):
        tensorflow = self.stock_worker("tensorflow")
        run = self.start_capture([tensorflow.address], 60_000, "--session_id=early", "--protocol=tensorflow")
        self._wait_busy(tensorflow)
        stopped = clients.stop([tensorflow.address], "--session_id=early")
        self.keep(stopped)
        self.assertEqual(stopped.exit_code, 0, stopped.process.output())
        run.finish(40)
        self.assertEqual(run.exit_code, 0, run.process.output())
        trace = traces.Trace.load(next(clients.only_run(self.logdir).glob("*.xplane.pb")))
        self.assertGreater(len(trace.steps()), 0)


if __name__ == "__main__":
    case.main("capture", "train_loop")
