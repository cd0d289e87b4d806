# SPDX-License-Identifier: Apache-2.0
"""A training program of PyTorch, and captures of it."""
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "attach"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import attached  # noqa: E402
import torch_programs  # noqa: E402
import xspace  # noqa: E402

# PyPI's takes half a minute to import where nothing of it is in memory and others are at work.
attached.DEADLINE_S = 180
STEP = "optimizer step"


class Case(attached.TestCase):
    def setUp(self):
        super().setUp()
        self.captures = 0

    def training(self, **env):
        command = [sys.executable, "-B", self.script(torch_programs.TRAIN)]
        env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", **env)
        process = attached.Process(command, env)
        self.addCleanup(process.__exit__)
        self.assertEqual(process.hear(), "up")
        (self.address,) = self.wait_for_addresses(1).values()
        return process

    def begin(self, *arguments):
        """A client that captures, and its log directory."""
        self.captures += 1
        logs = os.path.join(self.folder, f"logs{self.captures}")
        client = subprocess.Popen(
            [attached.CAPTURE, *arguments, f"--service_addr={self.address}", f"--logdir={logs}", "--json", "--quiet"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=attached.environment(),
        )  # fmt: skip
        return client, logs

    def end(self, client, logs):
        """(what the manifest says of the worker, its collector, events of the host)"""
        out, errors = client.communicate(timeout=attached.DEADLINE_S)
        self.assertEqual(client.returncode, 0, errors)
        (worker,) = json.loads(out)["workers"]
        (run,) = glob.glob(f"{logs}/plugins/profile/*")
        (collector,) = [one for one in worker["collectors"] if one["name"] == "torch"]
        return worker, collector, xspace.host_events(run)

    def capture(self, *arguments):
        return self.end(*self.begin(*arguments))

    def assert_inside(self, inner, outer):
        for event in inner:
            holders = [
                scope for scope in outer
                if scope.line == event.line and scope.start_ps <= event.start_ps
                and event.start_ps + event.duration_ps <= scope.start_ps + scope.duration_ps
            ]  # fmt: skip
            self.assertTrue(holders, event)

    def records(self):
        command = [attached.CAPTURE, "check", f"--service_addr={self.address}", "--json"]
        return "recording" in attached.run(command, attached.environment())[1]

    def stop(self):
        attached.run([attached.CAPTURE, "stop", f"--service_addr={self.address}"], attached.environment())
