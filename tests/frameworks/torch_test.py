# SPDX-License-Identifier: Apache-2.0
"""The real PyTorch in programs that know nothing of us: operators, user scopes, backward functions and steps, by capture.

Needs torch (Debian: python3-torch); exit 77 without.
"""
import glob
import importlib.util
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "attach"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import attached  # noqa: E402
import torch_programs  # noqa: E402
import xspace  # noqa: E402

STEP = "optimizer step"


class TorchTest(attached.TestCase):
    def setUp(self):
        super().setUp()
        self.captures = 0

    def training(self):
        command = [sys.executable, "-B", self.script(torch_programs.TRAIN)]
        env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
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

    def test_operators_scopes_and_steps(self):
        process = self.training()
        worker, collector, events = self.capture("--duration_ms=400")
        self.assertEqual(collector["state"], "on", collector)
        self.assertEqual(worker["lost"], 0, worker)

        forward = xspace.named(events, "forward")
        trainer = {event.line for event in forward}
        self.assertEqual(len(trainer), 1)
        linear = [event for event in xspace.named(events, "aten::addmm") if event.line in trainer]
        backward = xspace.named(events, "AddmmBackward0")
        self.assertGreater(min(map(len, (forward, linear, backward))), 10)
        self.assertEqual({event.line for event in backward}, trainer)
        # Some may lie at the edges of the window.
        whole = [event for event in linear if forward[0].start_ps < event.start_ps < forward[-1].start_ps]
        self.assert_inside(whole, forward)
        evaluation = xspace.named(events, "evaluation")
        self.assertGreater(len(evaluation), 10)
        self.assertNotEqual({event.line for event in evaluation}, trainer)

        steps = [event for event in xspace.named(events, STEP) if "step_num" in event.stats]
        self.assertGreater(len(steps), 10)
        self.assertEqual(worker["steps"], len(steps))
        numbers = sorted(event.stats["step_num"] for event in steps)
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        ends = {event.start_ps + event.duration_ps for event in steps}
        self.assertEqual(len([event for event in steps if event.start_ps in ends]), len(steps) - 1)
        within = [event for event in forward if steps[0].start_ps < event.start_ps < steps[-1].start_ps]
        self.assert_inside(within, steps)
        self.assertEqual(process.finish("end"), (0, ""))

    def test_a_number_of_steps(self):
        process = self.training()
        # Before PyTorch 2 steps are seen while a capture is armed: a worker has none until then.
        self.capture("--duration_ms=100")
        worker, _, events = self.capture("--steps=5")
        self.assertEqual(worker["steps"], 5)
        self.assertEqual(len([event for event in events if "step_num" in event.stats]), 5)
        self.assertGreaterEqual(len(xspace.named(events, "AddmmBackward0")), 5)
        self.assertEqual(process.finish("end"), (0, ""))

    def test_levels_and_choice(self):
        process = self.training()
        _, collector, events = self.capture("--duration_ms=100", "--host_tracer_level=1")
        self.assertEqual(collector["state"], "on")
        self.assertTrue(xspace.named(events, "forward"))
        self.assertEqual([event for event in events if event.name.startswith("aten::")], [])
        _, collector, events = self.capture("--duration_ms=100", "--frameworks=none")
        self.assertEqual(collector["state"], "off")
        self.assertEqual(xspace.named(events, "forward"), [])
        self.assertEqual(process.finish("end"), (0, ""))

    def test_beside_its_own_profiler(self):
        process = self.training()
        client, logs = self.begin("--duration_ms=20000")
        self.wait_for(self.records, "the capture does not begin")
        process.say("profile")
        self.assertEqual(process.hear(), "profiles")
        process.say("profile no more")
        self.assertEqual(process.hear(), "profiled 2")
        attached.run([attached.CAPTURE, "stop", f"--service_addr={self.address}"], attached.environment())
        _, _, events = self.end(client, logs)
        self.assertEqual(len(xspace.named(events, "aten::exp")), 2)
        code, errors = process.finish("end")  # the profiler of newer versions writes there
        self.assertEqual(code, 0, errors)
        self.assertNotIn("jobscope", errors)

    def records(self):
        command = [attached.CAPTURE, "check", f"--service_addr={self.address}", "--json"]
        return "recording" in attached.run(command, attached.environment())[1]

    def test_a_loader_that_forks_in_a_capture(self):
        """By spawn and forkserver: tests/python/torch_test.py."""
        process = self.training()
        for _ in range(3):
            client, logs = self.begin("--duration_ms=60000")
            self.wait_for(self.records, "the capture does not begin")
            process.say("load by fork")
            self.assertEqual(process.hear(), f"loaded {sum(range(64))}")
            attached.run([attached.CAPTURE, "stop", f"--service_addr={self.address}"], attached.environment())
            _, collector, events = self.end(client, logs)
            self.assertEqual(collector["state"], "on")
            self.assertTrue([event for event in events if "DataLoader" in event.name])
        self.assertEqual(process.finish("end"), (0, ""))

    def test_an_end_in_the_middle(self):
        process = self.training()
        client, logs = self.begin("--duration_ms=60000")
        self.wait_for(self.records, "the capture does not begin")
        self.assertEqual(process.finish("end")[0], 0)
        worker, _, events = self.end(client, logs)
        self.assertEqual(worker["outcome"], "truncated")
        self.assertTrue(xspace.named(events, "aten::addmm"))


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("skipped: no torch for", sys.executable, "(Debian: apt-get install python3-torch)")
        sys.exit(77)
    attached.main()
