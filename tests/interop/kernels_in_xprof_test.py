# SPDX-License-Identifier: Apache-2.0
"""Counts and times of kernels, by name, of `jobscope report` and of XProf's kernel_stats: of jobs recorded on an H100, and of made-up
traces whose times are known.

XProf does not show copies and sets of memory as kernels, and in a trace with a GPU plane its input is the copies to the device. These
figures of the report are compared with figures computed by hand."""

import gzip
import json
import os
import pathlib
import statistics
import unittest

from harness import by_hand, case, messages, processes, workers, xprof_reader

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "analysis" / "recorded"
MADE_RUNS = workers.BIN.parent / "tests" / "made_runs"
WITHIN = 0.01
MAX_NAME_BYTES = 512  # of the report
DETAILS = "regs:32 static_shared:0 dynamic_shared:4096 grid:128,1,1 block:256,1,1 occ_pct:75.0"


def report_name(name):
    """The name in the report. A longer one is cut, and ends in the 32-bit FNV-1a hash of the whole name."""
    if len(name) <= MAX_NAME_BYTES:
        return name
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 % (1 << 32)
    suffix = f"... #{value:08x}"
    return name[: MAX_NAME_BYTES - len(suffix)] + suffix


def is_memory_operation(name):
    return name.startswith(("Memcpy", "Memset"))


class Gpu:
    """A trace with steps of 10 ms, whose kernels the caller adds."""

    def __init__(self, steps):
        self.space = messages.XSpace(hostnames=["w0"])
        host = self._plane("/host:CPU")
        line = host.lines.add(id=1, name="python/1")
        for i in range(steps):
            step = self._event(host, line, "train", 10 * i, 10)
            self._stat(host, step, "_r", 1)
            self._stat(host, step, "step_num", i)

    def kernel(self, name, begin_ms, length_ms, device=0, stream=7, details=DETAILS):
        plane = self._plane(f"/device:GPU:{device}")
        line = next((line for line in plane.lines if line.id == stream), None) or plane.lines.add(id=stream, name=f"Stream #{stream}")
        event = self._event(plane, line, name, begin_ms, length_ms)
        if details:
            self._stat(plane, event, "kernel_details", details)

    def write(self, path):
        for plane in self.space.planes:
            for line in plane.lines:
                line.events.sort(key=lambda event: (event.offset_ps, -event.duration_ps))
        path.parent.mkdir(parents=True)
        path.write_bytes(self.space.SerializeToString())
        return path

    def _plane(self, name):
        found = next((plane for plane in self.space.planes if plane.name == name), None)
        return found if found is not None else self.space.planes.add(name=name)

    @staticmethod
    def _id(names, name):
        for key, value in names.items():
            if value.name == name:
                return key
        key = len(names) + 1
        names[key].id, names[key].name = key, name
        return key

    def _event(self, plane, line, name, begin_ms, length_ms):
        key = self._id(plane.event_metadata, name)
        return line.events.add(metadata_id=key, offset_ps=round(begin_ms * 1e9), duration_ps=round(length_ms * 1e9))

    def _stat(self, plane, event, name, value):
        stat = event.stats.add(metadata_id=self._id(plane.stat_metadata, name))
        if isinstance(value, str):
            stat.str_value = value
        else:
            stat.int64_value = value


def add_details(path):
    """Made-up runs lack the stat by which XProf knows a kernel."""
    space = messages.XSpace.FromString(path.read_bytes())
    for plane in space.planes:
        if not plane.name.startswith("/device:GPU:"):
            continue
        key = max(plane.stat_metadata, default=0) + 1
        plane.stat_metadata[key].id, plane.stat_metadata[key].name = key, "kernel_details"
        for line in plane.lines:
            for event in line.events:
                if not is_memory_operation(plane.event_metadata[event.metadata_id].name):
                    event.stats.add(metadata_id=key, str_value=DETAILS)
    path.write_bytes(space.SerializeToString())


class Kernels(case.InteropTest):
    def report(self, path):
        program = processes.Process([workers.BIN / "jobscope", "report", path.parent, "--json"])
        self.addCleanup(program.kill)
        self.assertEqual(program.wait(60), 0, program.output())
        return json.loads(program.stdout())

    def check(self, path):
        """Compares the kernels of a trace; returns the report, and its rows by name."""
        report = self.report(path)
        ours = {row["name"]: row for row in report["kernels"]}
        theirs = {}
        table = self.xprof().read([path], "kernel_stats")
        for row in xprof_reader.rows(table[0] if isinstance(table, list) else table):
            # A row per shape of launch.
            count, total_us = theirs.get(row["kernel_name"], (0, 0))
            theirs[row["kernel_name"]] = (count + row["occurrences"], total_us + row["total_duration_us"])
        self.assertTrue(theirs)
        names = {report_name(name): name for name in theirs}
        self.assertEqual(len(names), len(theirs))
        self.assertEqual({name for name in ours if not is_memory_operation(name)}, set(names))
        for name, name_there in names.items():
            count, total_us = theirs[name_there]
            self.assertEqual(ours[name]["count"], count, name)
            self.assertAlmostEqual(ours[name]["total_ms"] * 1000, total_us, delta=WITHIN * total_us, msg=name)
        return report, ours

    def check_classes(self, path, report):
        """Account, device compute and input of the mean step, by hand."""
        hand = by_hand.Host(path)
        accounts, kernels, waits = hand.accounts(), hand.kernels(), hand.waits()
        (worker,) = report["workers"]
        self.assertEqual(worker["steps"], len(accounts))
        mean_ms = statistics.mean(end - begin for begin, end in accounts) / 1e9
        self.assertAlmostEqual(worker["mean_ms"], mean_ms, delta=WITHIN * mean_ms)
        compute_ms = statistics.mean(by_hand.within(kernels, accounts)) / 1e9
        self.assertAlmostEqual(worker["classes_ms"]["device_compute"], compute_ms, delta=WITHIN * compute_ms)
        if waits:
            both_ms = statistics.mean(by_hand.within(by_hand.union([*map(tuple, kernels), *map(tuple, waits)]), accounts)) / 1e9
            self.assertAlmostEqual(worker["classes_ms"]["input"], both_ms - compute_ms, delta=WITHIN * (both_ms - compute_ms))
        else:
            self.assertNotIn("input", worker["classes_ms"])

    def check_recorded(self, name):
        path = self.scratch / name / "rank0.xplane.pb"
        path.parent.mkdir()
        path.write_bytes(gzip.decompress((RECORDED / f"{name}.xplane.pb.gz").read_bytes()))
        report, ours = self.check(path)
        self.check_classes(path, report)
        return ours

    def test_torch_on_an_h100(self):
        ours = self.check_recorded("torch_h100_loader")
        self.assertTrue(any(" #" in name for name in ours), "no name is long")
        self.assertLessEqual({"MemcpyHtoD", "MemcpyDtoH", "MemcpyDtoD", "Memset"}, set(ours))

    def test_jax_on_an_h100(self):
        self.check_recorded("jax_h100_jobscope")

    def test_jax_on_an_h100_by_its_own_tracer(self):
        self.check_recorded("jax_h100_its_tracer")

    @unittest.skipUnless(os.access(MADE_RUNS, os.X_OK), "made_runs is not built")
    def test_made_up_runs(self):
        made = self.scratch / "made"
        made.mkdir()
        program = processes.Process([MADE_RUNS, made])
        self.addCleanup(program.kill)
        self.assertEqual(program.wait(60), 0, program.output())
        # By name: how often, and ms in all.
        expected = {
            "device_bound": {"gemm_f16_128x128": (40, 320)},
            "copy_bound": {"gemm_f16_128x128": (40, 200), "MemcpyHtoD": (40, 160)},
            "launch_bound": {"gemm_f16_128x128": (40, 80)},
        }
        for run, kernels in expected.items():
            with self.subTest(run):
                (trace,) = (made / run).glob("*.xplane.pb")
                add_details(trace)
                report, ours = self.check(trace)
                self.check_classes(trace, report)
                self.assertEqual({name: (row["count"], round(row["total_ms"], 6)) for name, row in ours.items()}, kernels)

    def test_streams_devices_and_names(self):
        gpu = Gpu(10)
        long_name = "kernel<" + "x" * 600
        for i in range(10):
            begin = 10 * i
            gpu.kernel("gemm", begin + 1, 4)
            # At the same time, on another stream and another device, in other shapes.
            gpu.kernel("gemm", begin + 2, 4, stream=8, details=DETAILS.replace("grid:128", "grid:64"))
            gpu.kernel("gemm", begin + 2.5, 2, device=1)
            # So short that rounding to nanoseconds matters: 40.4 ns each.
            for k in range(20):
                gpu.kernel("tiny", begin + 7 + k * 1e-3, 40.4e-6)
            gpu.kernel(long_name + "float>", begin + 8, 0.5)
            gpu.kernel(long_name + "half>", begin + 8.5, 0.25)
            gpu.kernel("MemcpyHtoD", begin + 9, 0.5, details=None)
        path = gpu.write(self.scratch / "run" / "w0.xplane.pb")
        report, ours = self.check(path)
        self.check_classes(path, report)
        found = {name: (row["count"], round(row["total_ms"], 4)) for name, row in ours.items()}
        self.assertEqual(found, {
            "gemm": (30, 100),
            "tiny": (200, found["tiny"][1]),
            report_name(long_name + "float>"): (10, 5),
            report_name(long_name + "half>"): (10, 2.5),
            "MemcpyHtoD": (10, 5),
        })
        self.assertAlmostEqual(found["tiny"][1], 200 * 40.4e-6, delta=WITHIN * 200 * 40.4e-6)
        # Of each step 1 to 6, and 8 to 8.75 ms, and twenty of 40.4 ns: kernels at the same time count once.
        self.assertAlmostEqual(report["workers"][0]["classes_ms"]["device_compute"], 5.75 + 20 * 40.4e-6, delta=1e-4)


if __name__ == "__main__":
    case.main("jobscope")
