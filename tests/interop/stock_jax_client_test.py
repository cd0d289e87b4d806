# SPDX-License-Identifier: Apache-2.0
"""`python -m jax.collect_profile` against our worker."""

import gzip
import json
import sys

from harness import case, clients, expectations, processes, workers


class JaxClient(case.InteropTest):
    def collect(self, worker, *flags):
        port = worker.address.rsplit(":", 1)[1]
        argv = [sys.executable, "-m", "jax.collect_profile", port, "1000", f"--log_dir={self.logdir}", "--no_perfetto_link", *flags]
        process = processes.Process(argv, env=workers.quiet_environment())
        self.addCleanup(process.kill)
        self.assertEqual(process.wait(90), 0, process.output())
        return clients.only_run(self.logdir)

    @case.again_if_busy
    def test_trace_lands_on_the_clients_disk_with_its_json(self):
        worker = self.train_loop("--slow_ms=5")
        run = self.collect(worker)
        port = worker.address.rsplit(":", 1)[1]
        paths = list(run.glob("*.xplane.pb"))
        self.assertEqual(len(paths), 1, clients.files_below(run))
        self.assertTrue(paths[0].name.endswith(f"_{port}.xplane.pb"), paths)
        trace = expectations.check_train_loop_trace(self, paths[0])
        # JAX makes its own viewer file out of ours.
        with gzip.open(run / "remote.trace.json.gz", "rt") as file:
            shown = {event.get("name") for event in json.load(file)["traceEvents"]}
        self.assertLessEqual(expectations.SCOPES, shown)
        self.assertGreater(len(trace.steps()), 10)
        self.assert_wrote_nothing(worker)

    @case.again_if_busy
    def test_options_that_only_jax_knows_do_no_harm(self):
        worker = self.train_loop()
        run = self.collect(worker, "--host_tracer_level=3", "--python_tracer_level=1", "--device_tracer_level=0")
        path = next(run.glob("*.xplane.pb"))
        expectations.check_train_loop_trace(self, path)
        self.assert_wrote_nothing(worker)


if __name__ == "__main__":
    case.main("train_loop")
