# SPDX-License-Identifier: Apache-2.0
"""The real PyTorch's own profiler in the place of callbacks: operators, shapes, pieces, its being taken, exit and fork.

Exit 77 without torch 2.
"""
import sys

import torch_case  # first: it finds the modules of other folders
import attached
import torch_suite
import xspace

BECAUSE = "recorded by PyTorch's own profiler, because JOBSCOPE_TORCH_ROUTE=profiler"


class ProfilerTest(torch_case.Case):
    def training(self, **env):
        return super().training(JOBSCOPE_TORCH_ROUTE="profiler", **env)

    def test_operators_of_all_threads(self):
        process = self.training()
        worker, collector, events = self.capture("--duration_ms=150")
        self.assertEqual((collector["state"], collector["reason"]), ("degraded", BECAUSE))
        self.assertEqual(worker["lost"], 0, worker)
        forward = xspace.named(events, "forward")
        trainer = {event.line for event in forward}
        self.assertEqual(len(trainer), 1)
        evaluation = xspace.named(events, "evaluation")
        self.assertGreater(min(len(forward), len(evaluation)), 10)
        self.assertNotEqual({event.line for event in evaluation}, trainer)
        linear = [event for event in xspace.named(events, "aten::addmm") if event.line in trainer]
        whole = [event for event in linear if forward[0].start_ps < event.start_ps < forward[-1].start_ps]
        self.assertGreater(len(whole), 10)
        self.assert_inside(whole, forward)
        # The line is the thread's own: steps, which are not the profiler's, stand there too.
        steps = [event for event in xspace.named(events, torch_case.STEP) if "step_num" in event.stats]
        self.assertGreater(len(steps), 10)
        self.assertEqual({event.line for event in steps}, trainer)
        self.assertEqual({event.stats.get("shape") for event in events}, {None})
        _, _, events = self.capture("--duration_ms=100", "--host_tracer_level=1")
        self.assertTrue(xspace.named(events, "forward"))
        self.assertEqual([event for event in events if event.name.startswith("aten::")], [])
        self.finish(process)

    def capture_recorded(self, *arguments):
        """Events of the first capture in which PyTorch's profiler took part: on a busy machine it may be too slow for a short one."""
        found = []

        def recorded():
            _, collector, found[:] = self.capture(*arguments)
            return collector["state"] == "degraded" and xspace.named(found, "aten::linear")

        self.wait_for(recorded, "PyTorch's profiler takes part in no capture")
        return found

    def test_shapes(self):
        process = self.training()
        events = self.capture_recorded("--duration_ms=100", "--record_shapes")
        linear = {event.stats.get("shape") for event in xspace.named(events, "aten::linear")}
        self.assertLessEqual({"[[32, 64], [128, 64], [128]]", "[[32, 128], [10, 128], [10]]"}, linear)
        self.finish(process)

    def test_a_long_recording_comes_in_pieces(self):
        process = self.training(JOBSCOPE_FRAMEWORK_PIECE_MS="150")
        worker, collector, events = self.capture("--duration_ms=3000")
        self.assertEqual(collector["state"], "degraded")
        self.assertIn("PyTorch recorded nothing for", str(worker))
        starts = sorted(event.start_ps for event in xspace.named(events, "forward"))
        self.assertGreater(starts[-1] - starts[0], 500e9)
        self.finish(process)

    def test_taken_by_the_program(self):
        process = self.training()
        process.say("profile")
        self.assertEqual(process.hear(), "profiles")
        _, collector, events = self.capture("--duration_ms=100")
        self.assertEqual(collector["state"], "off")
        self.assertIn("is being profiled already", collector["reason"])
        self.assertEqual(xspace.named(events, "aten::addmm"), [])
        process.say("profile no more")
        self.assertEqual(process.hear(), "profiled 2")
        self.capture_recorded("--duration_ms=100")
        self.finish(process)

    def test_the_program_takes_it(self):
        process = self.training()
        client, logs = self.begin("--duration_ms=60000")
        self.wait_for(self.records, "the capture does not begin")
        process.say("profile")
        self.assertEqual(process.hear(), "profiles")
        process.say("profile no more")
        self.assertEqual(process.hear(), "profiled 2")
        self.stop()
        _, collector, _ = self.end(client, logs)
        self.assertEqual(collector["state"], "failed")
        self.assertIn("the program has started torch.profiler", collector["reason"])
        _, collector, events = self.capture("--duration_ms=100")
        self.assertEqual(collector["state"], "degraded")
        self.assertTrue(xspace.named(events, "aten::addmm"))
        self.finish(process)

    def test_a_loader_that_forks_and_an_end_in_the_middle(self):
        process = self.training()
        client, logs = self.begin("--duration_ms=60000")
        self.wait_for(self.records, "the capture does not begin")
        process.say("load by fork")
        self.assertEqual(process.hear(), f"loaded {sum(range(64))}")
        self.finish(process)
        worker, _, events = self.end(client, logs)
        self.assertEqual(worker["outcome"], "truncated")
        self.assertTrue(xspace.named(events, "aten::addmm"))

    def finish(self, process):
        code, errors = process.finish("end")  # the profiler writes there
        self.assertEqual(code, 0, errors)
        self.assertNotIn("jobscope", errors)


class WithoutTest(torch_case.Case):
    """Versions whose profiler records the thread alone that starts it."""

    def test_the_reason(self):
        process = self.training(JOBSCOPE_TORCH_ROUTE="profiler")
        _, collector, events = self.capture("--duration_ms=100")
        self.assertEqual(collector["state"], "off")
        self.assertIn("JOBSCOPE_TORCH_ROUTE=profiler; nor can its own profiler be used", collector["reason"])
        self.assertIn("no profiler of all threads", collector["reason"])
        self.assertEqual(xspace.named(events, "aten::addmm"), [])
        self.assertEqual(process.finish("end")[0], 0)


def has_all_threads():
    import torch

    try:
        torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return False
    return True


if __name__ == "__main__":
    if torch_suite.version() < (2,):
        print("skipped: no torch 2 for", sys.executable, "(make torch-suite)")
        sys.exit(77)
    if has_all_threads():
        del WithoutTest
    else:
        del ProfilerTest
    attached.main()
