# SPDX-License-Identifier: Apache-2.0
"""The real PyTorch in programs that know nothing of us: operators, user scopes, backward functions and steps, by capture.

Needs torch (Debian: python3-torch); exit 77 without.
"""
import importlib.util
import os
import sys

import torch_case  # first: it finds the modules of other folders
import attached
import torch_programs
import xspace


class TorchTest(torch_case.Case):
    def test_operators_scopes_and_steps(self):
        process = self.training()
        worker, collector, events = self.capture("--duration_ms=400", steps=15)
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

        steps = [event for event in xspace.named(events, torch_case.STEP) if "step_num" in event.stats]
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
        self.capture("--duration_ms=100", steps=1)
        worker, _, events = self.capture("--steps=5")
        self.assertEqual(worker["steps"], 5)
        self.assertEqual(len([event for event in events if "step_num" in event.stats]), 5)
        self.assertGreaterEqual(len(xspace.named(events, "AddmmBackward0")), 5)
        self.assertEqual(process.finish("end"), (0, ""))

    def test_an_optimizer_that_calls_another_one(self):
        process = self.training(torch_programs.NESTED_OPTIMIZERS)
        worker, _, _ = self.capture("--duration_ms=500", steps=1)  # before PyTorch 2 steps are seen from here on
        self.assertGreater(worker["steps"], 0)
        worker, _, events = self.capture("--steps=3")
        self.assertEqual(worker["steps"], 3)
        self.assertEqual(self.forwards_per_step(events), {1})
        self.assertLess(len(xspace.named(events, "forward")), 6)
        self.assertEqual(process.finish("end"), (0, ""))

    def test_waits_for_a_data_loader_are_input(self):
        """6 of 8 ms on a calm machine: in the trace as by the program's own clock, and in XProf as in the trace."""
        process = self.training(torch_programs.LOADER)

        def waited_so_far():
            process.say("times")
            return process.hear_json()

        self.capture("--duration_ms=100", steps=1)  # before PyTorch 2 steps are seen from here on
        before = waited_so_far()
        _, _, events = self.capture("--duration_ms=1500", steps=25)
        waited = waited_so_far() - before
        steps = self.steps(events)
        self.assertGreater(len(steps), 20)
        waits = [event for event in events if event.name.startswith("IteratorGetNext enumerate(DataLoader)#")]
        whole = [
            wait for wait in waits
            if steps[0].start_ps <= wait.start_ps and wait.start_ps + wait.duration_ps <= steps[-1].start_ps + steps[-1].duration_ps
        ]  # fmt: skip
        self.assert_inside(whole, steps)
        # A busy machine makes both parts of a step longer: no share is sure, but a wait sleeps 6 ms, and not longer than by the clock.
        self.assertGreater(min(wait.duration_ps for wait in whole), 5.9e9)
        self.assertLess(sum(wait.duration_ps for wait in whole) / 1e12, waited)
        self.assertGreater(len(whole), len(steps) - 3)
        share = sum(wait.duration_ps for wait in whole) / sum(step.duration_ps for step in steps)
        self.assertAlmostEqual(self.xprof_input_share(), share, delta=0.03)
        self.assertEqual(process.finish("end"), (0, ""))

    def zero_training(self, micro_batches):
        for name, text in torch_programs.FAKE_DEEPSPEED.items():
            os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
            self.script(text, name)
        return self.training(torch_programs.ZERO_TRAINING, [str(micro_batches)], PYTHONPATH=self.folder)

    def forwards_per_step(self, events):
        forwards = xspace.named(events, "forward")
        return {
            sum(step.start_ps <= forward.start_ps < step.start_ps + step.duration_ps for forward in forwards)
            for step in self.steps(events)
        }

    def test_an_optimizer_that_is_called_for_one_group_after_the_other(self):
        process = self.zero_training(0)
        self.capture("--duration_ms=100", steps=1)
        for level in (1, 2):
            worker, _, events = self.capture("--duration_ms=300", f"--host_tracer_level={level}", steps=4)
            self.assertEqual(worker["steps_source"], torch_case.STEP)
            self.assertGreater(worker["steps"], 2)
            # With all operators a busy machine may lose the oldest.
            self.assertLessEqual(self.forwards_per_step(events), {1} if level == 1 else {0, 1})
        self.assertEqual(process.finish("end"), (0, ""))

    def test_the_step_of_deepspeeds_engine(self):
        process = self.zero_training(3)
        worker, _, events = self.capture("--duration_ms=300", "--host_tracer_level=1", steps=4)
        self.assertEqual(worker["steps_source"], "DeepSpeed step")
        self.assertGreater(worker["steps"], 2)
        self.assertEqual(self.forwards_per_step(events), {3})
        self.assertEqual(process.finish("end"), (0, ""))

    def test_shapes(self):
        process = self.training()
        worker, collector, events = self.capture("--duration_ms=200", "--record_shapes", steps=4)
        self.assertEqual(collector["state"], "on", collector)
        self.assertEqual(worker["lost"], 0, worker)
        linear = {event.stats.get("shape") for event in xspace.named(events, "aten::linear")}
        # Bias, input, weight, as the operator has them; some begin before the window.
        self.assertLessEqual(
            {"[[32, 64], [128, 64], [128]]", "[[32, 128], [10, 128], [10]]", "[[32, 64], [10, 64], [10]]"}, linear
        )
        backward = {event.stats.get("shape") for event in xspace.named(events, "AddmmBackward0")}
        self.assertIn("[[32, 10]]", backward)
        self.assertEqual({event.stats.get("shape") for event in xspace.named(events, "forward")}, {None})
        _, _, events = self.capture("--duration_ms=100", steps=1)
        self.assertEqual({event.stats.get("shape") for event in xspace.named(events, "aten::linear")}, {None})
        self.assertEqual(process.finish("end"), (0, ""))

    def test_levels_and_choice(self):
        process = self.training()
        _, collector, events = self.capture("--duration_ms=100", "--host_tracer_level=1", steps=2)
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
        self.stop()
        _, _, events = self.end(client, logs)
        self.assertEqual(len(xspace.named(events, "aten::exp")), 2)
        code, errors = process.finish("end")  # the profiler of newer versions writes there
        self.assertEqual(code, 0, errors)
        self.assertNotIn("jobscope", errors)

    def test_a_loader_that_forks_in_a_capture(self):
        """By spawn and forkserver: tests/python/torch_test.py."""
        process = self.training()
        for _ in range(3):
            client, logs = self.begin("--duration_ms=60000")
            self.wait_for(self.records, "the capture does not begin")
            process.say("load by fork")
            self.assertEqual(process.hear(), f"loaded {sum(range(64))}")
            self.stop()
            _, collector, events = self.end(client, logs)
            self.assertEqual(collector["state"], "on")
            self.assertTrue([event for event in events if "DataLoader" in event.name])
        self.assertEqual(process.finish("end"), (0, ""))

    def test_threads_that_fork_in_captures(self):
        process = self.training(torch_programs.FORKS, ["60"])
        recorded = []
        for _ in range(10):
            _, collector, events = self.end(*self.begin("--duration_ms=50"))
            self.assertEqual(collector["state"], "on")
            recorded += xspace.named(events, "aten::add")
        self.assertTrue(recorded)
        process.say("end")
        ends = process.hear_json()
        self.assertEqual(list(ends), ["0"], "-14: a child hung until its alarm")
        self.assertGreater(ends["0"], 10)
        self.assertEqual(process.finish(None), (0, ""))

    def test_an_end_in_the_middle(self):
        process = self.training()
        client, logs = self.begin("--duration_ms=60000")
        self.wait_for(self.records, "the capture does not begin")
        code, errors = process.finish("end")
        self.assertEqual(code, 0, errors)
        worker, _, events = self.end(client, logs)
        self.assertEqual(worker["outcome"], "truncated")
        self.assertTrue(xspace.named(events, "aten::addmm"))


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("skipped: no torch for", sys.executable, "(Debian: apt-get install python3-torch)")
        sys.exit(77)
    attached.main()
