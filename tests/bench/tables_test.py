# SPDX-License-Identifier: Apache-2.0
"""bench/tables.py: writes the tables of docs/benchmarks.md from result files."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "bench"))
import collector_cost_bench  # noqa: E402
import figures  # noqa: E402
import framework_step_bench  # noqa: E402
import report_page_bench  # noqa: E402
import tables  # noqa: E402


class TablesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        self.document = self.out / "benchmarks.md"
        self.document.write_text((REPO / "docs" / "benchmarks.md").read_text(encoding="utf-8"), encoding="utf-8")

    def write(self):
        command = [sys.executable, "-B", REPO / "bench" / "tables.py", self.out, f"--document={self.document}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return self.document.read_text(encoding="utf-8"), done.stdout

    def test_without_figures_the_page_stays_as_it_is(self):
        before = self.document.read_text(encoding="utf-8")
        after, printed = self.write()
        self.assertEqual(after, before)
        self.assertEqual(printed.count("stays as it is"), len(tables.TABLES))

    def test_tables_of_a_run(self):
        figures.save(self.out / "capture_bench.json", "9 cores, Abacus", [
            figures.figure("overhead, step loop", "ms", [10, 12, 11], [20, 24, 22]),
            figures.figure("events kept, one thread at full speed, ring of 16 MiB", "M/s", [14.0, 13.0], better="higher"),
        ], "no such package")  # fmt: skip
        figures.save(self.out / "scale_bench.json", "somewhere", [
            figures.figure("1000 workers: overhead_s", "s", [0.5, 0.7]), figures.figure("1000 workers: client_cpu_s", "s", [1.0]),
            figures.figure("1000 workers: workers_cpu_s", "s", [2.0]),
            figures.figure("1000 workers: peak_bytes", "bytes", [70 << 20]),
        ])  # fmt: skip
        drain = {"run_name": "BM_DrainAndEncode/0/manual_time", "real_time": 1, "time_unit": "ms", "items_per_second": 26e6}
        (self.out / "drain_bench.json").write_text(json.dumps({"benchmarks": [drain]}), encoding="utf-8")
        scopes = [{"run_name": name, "cpu_time": ns, "real_time": ns, "time_unit": "ns"} for name, ns in (
            ("TwoTickReads", 20), ("Scope", 22), ("Step", 40), ("StepWithUsage", 740),
            ("StepUsageAfterLongSleep/iterations:5/manual_time", 6500),
        )]  # fmt: skip
        context = {"num_cpus": 5, "load_avg": [0.5], "date": "2026-01-02T03:04:05+00:00"}
        (self.out / "scope_bench.json").write_text(json.dumps({"context": context, "benchmarks": scopes}), encoding="utf-8")
        reports = [
            {"run_name": "BM_ReadHost/1000000", "cpu_time": 55, "real_time": 60, "items_per_second": 18e6, "bytes_per_second": 4e8},
            {"run_name": "BM_ReadDevice/1000000", "cpu_time": 250, "real_time": 260, "items_per_second": 8e6},
            {"run_name": "BM_Reduce/1024", "cpu_time": 1500, "real_time": 2500},
            {"run_name": "BM_Reduce/1024", "cpu_time": 1500, "real_time": 9000, "run_type": "aggregate"},
        ]  # fmt: skip
        for one in reports:
            one["time_unit"] = "ms"
        (self.out / "report_bench.json").write_text(json.dumps({"benchmarks": reports}), encoding="utf-8")
        figures.save(self.out / "report_page_bench.json", "elsewhere", [
            figures.figure("report, 8 workers of 20,000 events in 2 s", "s", [0.04]),
            figures.figure("report, 1,024 workers of 20,000 events each", "s", [11, 12]),
            figures.figure("memory of the report, one large part", "MiB", [140]), figures.figure("page opened, 1024 workers", "s", [1.3]),
        ])  # fmt: skip
        figures.save(self.out / "torch_collector_cost_bench.json", "over there", [
            figures.figure("all_reduce of one rank over gloo, more during a capture of level 1", "ns", [7000, 7500, 6000]),
        ])  # fmt: skip
        thousandths = range(1, 21)  # the 95 % interval of their median: the 6th to the 15th
        figures.save(self.out / "framework_step_bench.json", "nearby", [
            figures.figure("step during a capture / without, jax", "x", [1 + 0.001 * i for i in thousandths]),
            figures.figure("step during its own profiler / without, jax", "x", [1.25 + 0.001 * i for i in thousandths]),
            figures.figure("step during a capture / without, tensorflow", "x", [0.994 + 0.001 * i for i in thousandths]),
        ])  # fmt: skip
        figures.save(self.out / "torch_step_bench.json", "faraway", [
            figures.figure("step during a capture / without, torch", "x", [1.005 + 0.001 * i for i in thousandths]),
            figures.figure("step during its own profiler / without, torch", "x", [1.5]),
        ])  # fmt: skip
        text, printed = self.write()
        self.assertEqual(printed, "")
        for row in (
            "9 cores, Abacus, Python 3.",
            "| overhead, step loop | ms | 3 | 11.000 [10.000, 12.000] | 22.000 [20.000, 24.000] | 2.00 |",
            "| 1000 workers | 0.60 [0.50, 0.70] | 1.00 | 2.00 | 70 | - | somewhere, Python 3.",
            "| ordinary capture, wall minus duration | ≤ 15 ms | 11.00 [10.00, 12.00] ms | 3 | kept |",
            "| events kept, one thread at full speed, ring of 16 MiB | ≥ 15 M/s | 13.50 [13.00, 14.00] M/s | 2 | **missed** |",
            "| active scope, above two tick reads | 2.00 ns | 1 |",
            "5 cores, load 0.50 at the start, 2026-01-02.",
            "| drain and encode, plain | ≥ 25 M/s | 26.00 M/s | 1 | kept |",
            "| 1,000 addresses, 100 dead | ≤ 1 s | 0.60 [0.50, 0.70] s | 2 | kept |",
            "| assemble, events of 8 runs interleaved | ≥ 1.2 GB/s | - | - |  |",
            "| step of 10 ms during a capture, JAX | ≤ 1.01 x | 1.0105 [1.0060, 1.0150] x | 20 | open |",
            "| … during JAX's own profiler | - | 1.2605 [1.2560, 1.2650] x | 20 |  |",
            "| step of 10 ms during a capture, TensorFlow | ≤ 1.01 x | 1.0045 [1.0000, 1.0090] x | 20 | kept |",
            "| step of 10 ms during a capture, PyTorch | ≤ 1.01 x | 1.0155 [1.0110, 1.0200] x | 20 | **missed** |",
            "| … during PyTorch's own profiler | - | 1.5000 x | 1 |  |",
            "| report: host events read, per core | ≥ 10 M/s | 18.00 M/s | 1 | kept |",
            "| report: kernels and launches read, per core | ≥ 10 M/s | 8.00 M/s | 1 | **missed** |",
            "| report: 1,024 digests reduced | ≤ 2 s | 2.50 s | 1 | **missed** |",
            "| report: 8 workers of 20,000 events in 2 s | ≤ 1 s | 0.04 s | 1 | kept |",
            "| report: 1,024 workers of 20,000 events each | ≤ 10 s | 11.50 [11.00, 12.00] s | 2 | **missed** |",
            "| report: memory, one large part | ≤ 200 MiB | 140.00 MiB | 1 | kept |",
            "| report: page of 8 workers opened | ≤ 1 s | - | - |  |",
            "| report: page of 1,024 workers opened | ≤ 5 s | 1.30 s | 1 | kept |",
            "| end of a step: its resource usage, thread not switched (budget: 10 µs) | 0.70 µs | 1 |",
            "| … after a sleep of 2 ms (budget: 10 µs) | 6.50 µs | 1 |",
            "| … more during a capture of level 1 | 7.00 [6.00, 7.50] µs | 3 |",
            "| system collector: samples | - | - |",
        ):
            self.assertIn(row, text)
        self.assertEqual(self.write()[0], text)  # again: the same

    # A figure that a bench calls otherwise would be a dash for ever.
    def test_budgets_name_figures_of_the_benches(self):
        sources = "".join(path.read_text(encoding="utf-8") for path in (REPO / "bench").glob("*_*.*") if path.is_file())
        for _, file, name, *_ in tables.BUDGETS:
            if file in ("capture_bench", "embed_cost"):
                for word in name.rsplit(" [", 1)[0].split(", ", 1):
                    self.assertIn(word, sources, name)

    def test_budgets_name_figures_of_the_steps_of_frameworks(self):
        for file, frameworks in (("framework_step_bench", ("jax", "tensorflow")), ("torch_step_bench", ("torch",))):
            wanted = [f"{name} [x]" for framework in frameworks for name in framework_step_bench.ratio_names(framework)]
            self.assertEqual([row[2] for row in tables.BUDGETS if row[1] == file and row[5] == "x"], wanted)

    def test_collectors_name_figures_of_the_benches(self):
        wanted = {
            "collector_cost_bench": [*collector_cost_bench.figure_names("python"), *collector_cost_bench.figure_names("jax")],
            "torch_collector_cost_bench": collector_cost_bench.figure_names("torch"),
        }
        for file, names in wanted.items():
            self.assertCountEqual([row[2] for row in tables.COLLECTORS if row[1] == file], names)
        script = (REPO / "bench" / "run.sh").read_text(encoding="utf-8")
        for groups, file in (("python,jax", "collector_cost_bench"), ("torch", "torch_collector_cost_bench")):
            self.assertIn(f'collector_cost_bench.py" --only {groups} --json "$out/{file}.json"', script)
        scopes = (REPO / "bench" / "scope_bench.cc").read_text(encoding="utf-8")
        of_scopes = [row[2] for row in tables.COLLECTORS if row[1] == "scope_bench"]
        self.assertEqual(of_scopes, ["StepWithUsage, above Step", "StepUsageAfterLongSleep/iterations:5/manual_time"])
        self.assertEqual(figures.ABOVE["StepWithUsage"], "Step")
        for benchmark in ("Step)", "StepWithUsage)", "StepUsageAfterLongSleep)->Iterations(5)->UseManualTime()"):
            self.assertIn(f"BENCHMARK({benchmark}->", scopes)

    def test_budgets_of_the_report_are_those_of_its_benches(self):
        wanted = {}
        for _, what, seconds, mib in report_page_bench.WHOLE_RUNS:
            wanted.update({f"report, {what} [s]": seconds, f"memory of the report, {what} [MiB]": mib})
        wanted.update({f"page opened, {workers} workers [s]": seconds for workers, seconds in report_page_bench.RUNS.values()})
        wanted = {name: f"≤ {budget:g}" for name, budget in wanted.items() if budget}
        self.assertEqual({row[2]: row[4] for row in tables.BUDGETS if row[1] == "report_page_bench"}, wanted)
        bench = (REPO / "bench" / "report_bench.cc").read_text(encoding="utf-8").replace("'", "")
        for name in [row[2] for row in tables.BUDGETS if row[1] == "report_bench"]:
            benchmark, argument = name.partition(",")[0].split("/")
            self.assertRegex(bench, rf"BENCHMARK\({benchmark}\).*->Arg\({argument}\)")


class RunTest(unittest.TestCase):
    """bench/run.sh with benches that find no peers."""

    def test_figures_of_an_earlier_run_are_not_those_of_this_one(self):
        with tempfile.TemporaryDirectory() as folder:
            tree, out = pathlib.Path(folder), pathlib.Path(folder, "out")
            for path in ("bench", "tools", "build/bin", "out"):
                (tree / path).mkdir(parents=True)
            for script in (REPO / "bench").glob("*.py"):
                code = {"tables.py": "", "figures.py": "machine = str", "scale_bench.py": ""}.get(script.name, "raise SystemExit(77)")
                (tree / "bench" / script.name).write_text(code + "\n", encoding="utf-8")
            shutil.copy(REPO / "bench/run.sh", tree / "bench")
            for program, code in (("tools/venv.sh", 77), ("build/bin/scope_bench", 0)):
                (tree / program).write_text(f"#!/bin/sh\nexit {code}\n", encoding="utf-8")
                (tree / program).chmod(0o755)
            names = {row[1] for row in (*tables.BUDGETS, *tables.OPERATIONS, *tables.COLLECTORS)}
            for name in names:
                (out / f"{name}.json").write_text("{}", encoding="utf-8")
            done = subprocess.run(
                [tree / "bench/run.sh", tree / "build/bin", out, "--write"], check=False, capture_output=True, text=True
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            # Benches that are not run: those of --scale, and programs that are not built.
            kept = {"scale_10000", "scale_processes", "drain_bench", "report_bench", "segment_bench"}
            self.assertEqual({path.stem for path in out.iterdir()}, kept)


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    unittest.main(verbosity=2)
