# SPDX-License-Identifier: Apache-2.0
"""Our client when workers hang, die, or were never there: each worker's outcome is its own."""

import json
import re
import signal
import time

from harness import case, clients, expectations, traces, workers


class Failures(case.InteropTest):
    def manifest(self):
        return json.loads((clients.only_run(self.logdir) / "capture.json").read_text())

    def outcomes(self):
        return {worker["address"]: worker["outcome"] for worker in self.manifest()["workers"]}

    def assert_reported_within(self, address, limit_s):
        """By which of the client's time limits the worker's capture ended: on a busy machine that is later than the limit."""
        (worker,) = [worker for worker in self.manifest()["workers"] if worker["address"] == address]
        limit = re.search(r"within ([0-9.]+) ?s", worker["reason"])
        self.assertIsNotNone(limit, worker)
        self.assertLessEqual(float(limit.group(1)), limit_s, worker)

    @case.again_if_busy
    def test_a_stopped_worker_delays_nobody(self):
        good, frozen = self.train_loop(), self.train_loop()
        frozen.process.signal(signal.SIGSTOP)
        began = time.monotonic()
        run = self.capture([frozen.address, good.address], 1000)
        self.assertLess(time.monotonic() - began, 1 + 10)
        self.assertEqual(run.exit_code, 3, run.process.output())
        self.assertEqual(self.outcomes(), {frozen.address: "timeout", good.address: "ok"})
        self.assertRegex(run.table, rf"{frozen.address}\b.*timeout")
        self.assert_reported_within(frozen.address, 10)
        path = clients.only_run(self.logdir) / f"{good.file_stem}.xplane.pb"
        expectations.check_train_loop_trace(self, path, good.file_stem)
        # And it is not harmed: once it runs again, it is captured again.
        frozen.process.signal(signal.SIGCONT)
        again = self.capture([frozen.address], 300, logdir=self.scratch / "again")
        self.assertEqual(again.exit_code, 0, again.process.output())

    @case.again_if_busy
    def test_a_worker_stopped_while_it_records(self):
        good, frozen = self.train_loop(), self.train_loop()
        duration_ms = 2000
        run = self.start_capture([good.address, frozen.address], duration_ms)
        self.wait_recording(good, frozen)
        frozen.process.signal(signal.SIGSTOP)
        # 12 s until it is taken for dead (docs/design/native.md), and as long again for one more attempt.
        run.finish(duration_ms / 1e3 + 40)
        self.assertRegex(run.process.output(), r"no sign of life for (1[2-9]|[2-9]\d)\.")
        self.assertEqual(run.exit_code, 3, run.process.output())
        outcomes = self.outcomes()
        self.assertEqual(outcomes[good.address], "ok")
        self.assertIn(outcomes[frozen.address], ("timeout", "died"))

    @case.again_if_busy
    def test_a_worker_killed_while_it_records(self):
        good, victim = self.train_loop(), self.train_loop()
        run = self.start_capture([victim.address, good.address], 2000)
        self.wait_recording(good, victim)
        victim.process.signal(signal.SIGKILL)
        run.finish(60)
        # What had been sent by then is kept; it may be nothing yet.
        outcomes = self.outcomes()
        self.assertEqual(outcomes[good.address], "ok")
        self.assertIn(outcomes[victim.address], ("died", "truncated"))
        kept = outcomes[victim.address] == "truncated"
        self.assertEqual(run.exit_code, 0 if kept else 3, run.process.output())
        self.assertRegex(run.table, rf"{victim.address}\b.*(died|truncated)")
        directory = clients.only_run(self.logdir)
        expected = [f"{worker.file_stem}.xplane.pb" for worker in ([good, victim] if kept else [good])]
        self.assertCountEqual([path.name for path in directory.glob("*.xplane.pb")], expected)
        if kept:
            self.assertEqual(traces.rule_violations(traces.Trace.load(directory / f"{victim.file_stem}.xplane.pb")), [])
        trace = expectations.check_train_loop_trace(self, directory / f"{good.file_stem}.xplane.pb", good.file_stem)
        self.assertAlmostEqual(trace.summary().duration_ns / 1e9, 2.0, delta=0.1)

    @case.again_if_busy
    def test_a_worker_that_leaves_while_it_records_delivers_what_there_is(self):
        good, leaving = self.train_loop(), self.train_loop()
        run = self.start_capture([leaving.address, good.address], 3000)
        self.wait_recording(good, leaving)
        leaving.process.signal(signal.SIGTERM)
        run.finish(60)
        self.assertEqual(run.exit_code, 0, run.process.output())
        self.assertEqual(self.outcomes(), {leaving.address: "truncated", good.address: "ok"})
        self.assertEqual(leaving.process.wait(30), 0)
        trace = traces.Trace.load(clients.only_run(self.logdir) / f"{leaving.file_stem}.xplane.pb")
        self.assertEqual(traces.rule_violations(trace), [])
        self.assertTrue(trace.summary().truncated)
        self.assertEqual(trace.summary().ended_by, "shutdown")

    @case.again_if_busy
    def test_all_workers_down(self):
        addresses = [workers.dead_address() for _ in range(3)]
        began = time.monotonic()
        run = self.capture(addresses, 1000)
        self.assertLess(time.monotonic() - began, 1 + 10)
        self.assertEqual(run.exit_code, 4, run.process.output())
        for address in addresses:
            self.assertRegex(run.table, rf"{address}\b.*unreachable")
        self.assertEqual([path for path in clients.files_below(self.logdir) if path.endswith(".xplane.pb")], [])

    @case.again_if_busy
    def test_something_else_listens_there(self):
        """A port that accepts and says nothing: the stock client hangs 20 s on it, for everybody."""
        import socket

        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        good = self.train_loop()
        began = time.monotonic()
        run = self.capture([address, good.address], 500)
        self.assertLess(time.monotonic() - began, 0.5 + 10)
        self.assertEqual(run.exit_code, 3, run.process.output())
        self.assertEqual(self.outcomes(), {address: "timeout", good.address: "ok"})
        self.assert_reported_within(address, 10)

    @case.again_if_busy
    def test_a_logdir_that_cannot_be_written_is_found_out_first(self):
        worker = self.train_loop()
        (self.scratch / "file").write_text("")
        began = time.monotonic()
        run = self.capture([worker.address], 10_000, logdir=self.scratch / "file" / "logdir")
        self.assertLess(time.monotonic() - began, 5, "it recorded first")
        self.assertEqual(run.exit_code, 2, run.process.output())

    def test_interrupt_keeps_what_there_is(self):
        worker = self.train_loop()
        run = self.start_capture([worker.address], 60_000)
        self.wait_recording(worker)
        run.process.signal(signal.SIGINT)
        run.finish(40)
        self.assertEqual(run.exit_code, 0, run.process.output())
        self.assertEqual(self.outcomes(), {worker.address: "truncated"})
        trace = traces.Trace.load(next(clients.only_run(self.logdir).glob("*.xplane.pb")))
        self.assertEqual(trace.summary().events, trace.event_count())


class Verbs(case.InteropTest):
    def test_check_tells_who_is_there(self):
        good = self.train_loop("--slow_ms=5")
        down = workers.dead_address()
        run = self.keep(clients.check([good.address, down], "--json"))
        self.assertEqual(run.exit_code, 3, run.process.output())
        entries = {worker["address"]: worker for worker in run.json["workers"]}
        self.assertEqual(entries[good.address]["outcome"], "ok")
        self.assertEqual(entries[good.address]["pid"], good.process.pid)
        self.assertIn("version", entries[good.address])
        self.assertIn("host", {collector["name"] for collector in entries[good.address]["collectors"]})
        self.assertNotIn("busy", entries[good.address])
        self.assertEqual(entries[down]["outcome"], "unreachable")
        self.assertEqual(clients.files_below(self.logdir), [])

    def test_check_tells_who_holds_a_busy_worker(self):
        worker = self.train_loop()
        run = self.start_capture([worker.address], 60_000)
        self.wait_recording(worker)
        busy = self.keep(clients.check([worker.address], "--json")).json["workers"][0]["busy"]
        self.assertEqual(busy["state"], "recording")
        self.assertGreater(busy["remaining_ms"], 1000)

        stopped = self.keep(clients.stop([worker.address]))
        self.assertEqual(stopped.exit_code, 0, stopped.process.output())
        run.finish(40)
        self.assertEqual(run.exit_code, 0, run.process.output())
        trace = traces.Trace.load(next(clients.only_run(self.logdir).glob("*.xplane.pb")))
        self.assertTrue(trace.summary().truncated)
        self.assertEqual(trace.summary().ended_by, "request")
        self.assertEqual(trace.summary().events, trace.event_count())

    @case.again_if_busy
    def test_json_is_the_manifest_and_nothing_else(self):
        good = self.train_loop("--slow_ms=5")
        down = workers.dead_address()
        run = self.capture([good.address, down], 700, "--json")
        self.assertEqual(run.exit_code, 3, run.process.output())
        manifest = run.json
        directory = clients.only_run(self.logdir)
        self.assertEqual(manifest, json.loads((directory / "capture.json").read_text()))
        self.assertEqual(manifest["schema"], 1)
        self.assertEqual(manifest["run"], directory.name)
        self.assertEqual(manifest["run_directory"], str(directory))
        self.assertEqual(manifest["duration_ms"], 700)
        self.assertEqual(manifest["exit_code"], 3)
        self.assertIsInstance(manifest["options"], dict)
        entry = next(worker for worker in manifest["workers"] if worker["address"] == good.address)
        trace = traces.Trace.load(directory / entry["files"][0]["path"])
        self.assertEqual(entry["outcome"], "ok")
        self.assertEqual(entry["phase"], "done")
        self.assertEqual(entry["name"], good.file_stem)
        self.assertEqual(entry["events"], trace.event_count())
        self.assertEqual(entry["lost"], 0)
        self.assertEqual(entry["steps"], len(trace.steps()))
        self.assertEqual(entry["pid"], good.process.pid)
        self.assertEqual(entry["start_unix_ns"], trace.summary().zero_unix_ns)
        self.assertAlmostEqual(entry["duration_ns"] / 1e6, 700, delta=50)
        self.assertEqual(manifest["events"], entry["events"])
        missing = next(worker for worker in manifest["workers"] if worker["address"] == down)
        self.assertEqual(missing["outcome"], "unreachable")
        self.assertTrue(missing["reason"])
        for unknown in ("events", "lost", "steps", "duration_ns", "pid"):
            self.assertNotIn(unknown, missing, "what is not known is absent")


if __name__ == "__main__":
    case.main("capture", "train_loop")
