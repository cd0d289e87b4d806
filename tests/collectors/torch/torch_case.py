# SPDX-License-Identifier: Apache-2.0
"""A training program of PyTorch, and captures of it."""
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "server", "attach"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import attached  # noqa: E402
import machine  # noqa: E402
import torch_programs  # noqa: E402
import xspace  # noqa: E402

STEP = "optimizer step"

# (time of input, time) of each step, as XProf's input pipeline analyzer has them.
XPROF_INPUT = """
import json, sys
from xprof.convert import raw_to_tool_data
page, _ = raw_to_tool_data.xspace_to_tool_data(sys.argv[1:], "input_pipeline_analyzer", {"use_saved_result": False})
table = json.loads(page)[1]
ids = [column["id"] for column in table["cols"]]
rows = [dict(zip(ids, (cell["v"] for cell in row["c"]))) for row in table["rows"]]
print(json.dumps([[float(row["infeedTimeMs"]), float(row["stepTimeMs"])] for row in rows]))
"""


class Case(attached.TestCase):
    def setUp(self):
        super().setUp()
        self.captures = 0

    def training(self, program=torch_programs.TRAIN, arguments=(), **env):
        command = [sys.executable, "-B", self.script(program), *arguments]
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

    @machine.again_if_busy(0.1)
    def whole_capture(self, *arguments):
        worker, collector, events = self.end(*self.begin(*arguments))
        self.assertEqual(worker["lost"], 0, worker)
        return worker, collector, events

    def capture(self, *arguments, steps=0):
        """One without a loss, and with at least so many steps, of which a busy machine makes fewer in that time."""
        for _ in range(20):
            worker, collector, events = self.whole_capture(*arguments)
            if worker.get("steps", 0) >= steps:
                return worker, collector, events
        return self.fail(f"not {steps} steps: {worker}")

    def traces(self):
        """Files of the last capture."""
        return glob.glob(f"{self.folder}/logs{self.captures}/plugins/profile/*/*.xplane.pb")

    def steps(self, events):
        return [event for event in events if "_r" in event.stats and "step_num" in event.stats]

    def xprof_input_share(self):
        """The part of the steps' time that XProf takes for waiting for input, in the last capture."""
        python = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", ".venv", "interop", "bin", "python")
        if not os.path.exists(python):
            self.skipTest("no XProf: tools/venv.sh makes its environment")
        done = subprocess.run(
            [python, "-B", "-c", XPROF_INPUT, *self.traces()],
            capture_output=True, check=False, timeout=attached.DEADLINE_S, env=attached.environment(), cwd=self.folder,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        steps = json.loads(done.stdout.decode().splitlines()[-1])
        return sum(infeed for infeed, _ in steps) / sum(length for _, length in steps)

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
