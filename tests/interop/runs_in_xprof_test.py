# SPDX-License-Identifier: Apache-2.0
"""Run directories as XProf and TensorBoard meet them: our own client's, several in a second, and traces in parts."""

import gzip
import json
import pathlib
import re
import sys

from harness import case, clients, expectations, processes, traces, workers


def library_directory():
    """Where libjobscope.so lies: as it is shipped, else as it is built for development."""
    for name in ("shipped", "lib"):
        directory = workers.BIN.parent / name
        if (directory / "libjobscope.so").exists():
            return directory
    return None


class Runs(case.InteropTest):
    def test_our_capture_of_two_workers(self):
        own = [self.train_loop("--slow_ms=5") for _ in range(2)]
        run = self.capture([worker.address for worker in own], 1000)
        self.assertEqual(run.exit_code, 0, run.process.output())
        directory = clients.only_run(self.logdir)
        xprof = self.xprof()
        loaded = {}
        for worker in own:
            path = directory / f"{worker.file_stem}.xplane.pb"
            loaded[path] = expectations.check_train_loop_trace(self, path, worker.file_stem)
            step_ms = [step.duration_ps / 1e9 for step in loaded[path].steps()]
            expectations.check_xprof_shows(self, xprof, path, loaded[path], 0.8 * 5 * len(step_ms) / sum(step_ms))
            self.assert_wrote_nothing(worker)
        # One zero for all workers of a run, so their timelines lie side by side.
        zeros = {trace.task_environment()["profile_start_time"] for trace in loaded.values()}
        self.assertEqual(len(zeros), 1)
        self.assertEqual(xprof.overview(list(loaded)).environment["host_count"], "2")
        self.assertIn(run.table.count("ok"), range(2, 100), run.table)
        self.assertIn(str(directory), run.table, "the table does not say where the run is")

    def test_a_run_for_perfetto(self):
        worker = self.train_loop(env={"RANK": "5", "WORLD_SIZE": "8"})
        self.assertEqual(self.capture([worker.address], 300).exit_code, 0)
        directory = clients.only_run(self.logdir)
        converter = pathlib.Path(__file__).parents[2] / "examples" / "to_perfetto.py"
        conversion = processes.Process([sys.executable, converter, directory, self.scratch], env=workers.quiet_environment())
        self.addCleanup(conversion.kill)
        self.assertEqual(conversion.wait(60), 0, conversion.output())
        with gzip.open(self.scratch / f"{worker.file_stem}.json.gz") as file:
            events = json.load(file)["traceEvents"]
        named = [event["args"]["name"] for event in events if event.get("name") == "process_name"]
        self.assertTrue(named)
        for name in named:
            self.assertTrue(name.startswith("rank 5 "), named)
        self.assertTrue(any(event.get("name") == "train" for event in events), "no step")

    def test_threads_are_named_with_their_rank(self):
        worker = self.train_loop(env={"RANK": "5", "WORLD_SIZE": "8"})
        self.assertEqual(self.capture([worker.address], 300).exit_code, 0)
        threads = self.xprof().viewer([clients.only_run(self.logdir) / f"{worker.file_stem}.xplane.pb"]).threads
        for thread in ("trainer", "loader"):
            self.assertTrue(any(re.match(rf"{thread}\b.* \[rank 5\]", name) for name in threads), threads)

    def test_several_runs_in_one_second(self):
        worker = self.train_loop()
        for _ in range(4):
            run = self.capture([worker.address], 100)
            self.assertEqual(run.exit_code, 0, run.process.output())
        runs = clients.run_directories(self.logdir)
        self.assertEqual(len(runs), 4)
        self.assertLess(len({run.name[:19] for run in runs}), 4, "no two of them fell into one second")
        xprof = self.xprof()
        self.assertEqual(sorted(xprof.call("runs", logdir=str(self.logdir))["runs"]), [run.name for run in runs])
        for run in runs:
            tools = xprof.call("tools", logdir=str(self.logdir), run=run.name)["tools"]
            self.assertIn("overview_page", tools)
            self.assertEqual(
                xprof.call("hosts", logdir=str(self.logdir), run=run.name, tool="trace_viewer@")["hosts"], [worker.file_stem]
            )

    def test_tensorboard_finds_the_logdir(self):
        worker = self.train_loop()
        for _ in range(2):
            self.assertEqual(self.capture([worker.address], 100).exit_code, 0)
        markers = list(self.logdir.glob("events.out.tfevents.*.profile-empty"))
        self.assertEqual(len(markers), 1, clients.files_below(self.logdir))
        # TensorBoard's reader accepts it.
        check = (
            "import sys, tensorflow as tf\n"
            "for event in tf.compat.v1.train.summary_iterator(sys.argv[1]): print('version', event.file_version)\n"
        )
        reader = processes.Process([sys.executable, "-c", check, markers[0]], env=workers.quiet_environment())
        self.addCleanup(reader.kill)
        reader.expect(r"version brain\.Event:2", 60)
        self.assertEqual(reader.wait(30), 0, reader.output())

    def test_parts_are_runs_of_their_own_and_each_opens(self):
        directory = library_directory()
        if directory is None:
            self.skipTest("libjobscope.so is not built")
        # No more than a ring holds, 32,768 records: none is lost, however late a busy machine reads it.
        steps, scopes, part_limit = 40, 780, 64 << 10
        recorder = processes.Process(
            [sys.executable, workers.PEERS / "own_recorder.py", directory, self.logdir, steps, scopes, part_limit]
        )
        self.addCleanup(recorder.kill)
        self.assertEqual(recorder.wait(60), 0, recorder.output())
        result = json.loads(recorder.stdout())
        self.assertEqual(result["lost"], 0)

        runs = clients.run_directories(self.logdir)
        self.assertGreaterEqual(len(runs), 3, "it was not cut")
        first = pathlib.Path(result["run_directory"])
        self.assertEqual({run.name for run in runs}, {first.name} | {f"{first.name}.part{k}" for k in range(2, len(runs) + 1)})
        xprof = self.xprof()
        self.assertEqual(set(xprof.call("runs", logdir=str(self.logdir))["runs"]), {run.name for run in runs})
        events, seen_steps = 0, []
        for k, run in enumerate([first] + [first.with_name(f"{first.name}.part{k}") for k in range(2, len(runs) + 1)]):
            paths = list(run.glob("*.xplane.pb"))
            self.assertEqual(len(paths), 1)
            self.assertLessEqual(paths[0].stat().st_size, part_limit)
            trace = traces.Trace.load(paths[0])
            self.assertEqual(traces.rule_violations(trace), [], run)
            events += trace.event_count()
            seen_steps += [step.stats["step_num"] for step in trace.steps()]
            self.assertIn("overview_page", xprof.tool_names(paths))
            self.assertIn("work", xprof.viewer(paths).names, f"part {k + 1}")
        self.assertEqual(events, result["events"])
        self.assertEqual(sorted(seen_steps), list(range(steps)))


if __name__ == "__main__":
    case.main("capture", "train_loop")
