# SPDX-License-Identifier: Apache-2.0
"""GPU work as XProf shows it: recorded from the fake libcupti in a worker of ours, captured over the network."""

import json
import re

from harness import case, clients, processes, traces, workers, xprof_reader


class GpuInXProf(case.InteropTest):
    @case.again_if_busy
    def test_kernels_steps_and_flows(self):
        worker = self.own_worker("fake_gpu_worker")
        run = self.capture([worker.address], 1000, "--json")
        self.assertEqual(run.exit_code, 0, run.process.output())
        manifest = run.json
        cuda = next(c for c in manifest["workers"][0]["collectors"] if c["name"] == "cuda")
        self.assertEqual(cuda["state"], "on", cuda)
        self.assertEqual(cuda["lost"], 0)
        path = clients.only_run(self.logdir) / f"{worker.file_stem}.xplane.pb"
        trace = traces.Trace.load(path)
        self.assertEqual(traces.rule_violations(trace), [])
        whole_steps = len(trace.steps())
        self.assertGreater(whole_steps, 10)

        xprof = self.xprof()
        self.assertIn("kernel_stats", xprof.tool_names([path]))
        kernels = {row["kernel_name"]: row for row in xprof_reader.rows(_table(xprof.read([path], "kernel_stats")))}
        self.assertEqual(set(kernels), {"forward<float>(float const*, float*)", "augment(float const*, float*)"})
        for name, length_us in (("forward<float>(float const*, float*)", 4000), ("augment(float const*, float*)", 6000)):
            row = kernels[name]
            self.assertGreaterEqual(row["occurrences"], whole_steps)
            self.assertAlmostEqual(row["max_duration_us"], length_us, delta=50)
            self.assertEqual(row["registers_per_thread"], 32)
            self.assertEqual(row["shmem_bytes"], 4096)
            self.assertEqual(row["block_dim"], "256,1,1")
            self.assertEqual(row["grid_dim"], "128,1,1")
            self.assertEqual(row["occupancy_pct"], 100)

        program = processes.Process([workers.BIN / "jobscope", "report", path.parent, "--json"])
        self.assertEqual(program.wait(60), 0, program.output())
        reported = {row["name"]: row for row in json.loads(program.stdout())["kernels"]}
        for name, row in kernels.items():
            self.assertEqual(reported[name]["count"], row["occurrences"], name)
            self.assertAlmostEqual(reported[name]["total_ms"] * 1000 / row["total_duration_us"], 1, delta=0.01, msg=name)

        # A step on the GPU: from the augment kernel at 1 ms to the end of the forward kernel at 14 ms. Were the augment
        # kernel, which another thread launched, not tied to it, XProf would take it for the step before: 19 ms.
        overview = xprof.overview([path])
        self.assertAlmostEqual(overview.step_ms(), 13, delta=1, msg=overview.step_properties)
        pipeline = xprof.input_pipeline([path])
        self.assertGreaterEqual(len(pipeline.steps), whole_steps - 3)

        viewer = xprof.viewer([path])
        self.assertIn("Launch forward", viewer.names)
        self.assertIn("Launch augment", viewer.names)
        self.assertIn("MemcpyHtoD", viewer.names)
        self.assertTrue(any(re.match(r"Stream #7\(Compute,MemcpyHtoD\)", name) for name in viewer.threads), viewer.threads)

        self.assertIn("cuInit 0", worker.finish())


def _table(data):
    return data[0] if isinstance(data, list) else data


if __name__ == "__main__":
    case.main("capture", "fake_gpu_worker")
