# SPDX-License-Identifier: Apache-2.0
"""A loop with a slow loader: what the trace says of its steps and its input is what the program itself measured."""
import gc
import os
import tempfile
import time
import unittest
import weakref

import jobscope
import machine
import workers
import xspace

BATCHES = 25


class Loader:
    """A batch every 6 ms."""

    def __init__(self, count=BATCHES, wait_s=0.006):
        self.count = count
        self.wait_s = wait_s
        self.waited_s = 0.0

    def __len__(self):
        return self.count

    def __iter__(self):
        for number in range(self.count):
            begin = time.perf_counter()
            time.sleep(self.wait_s)
            self.waited_s += time.perf_counter() - begin
            yield number


def compute(seconds=0.002, clock=time.perf_counter):
    end = clock() + seconds
    while clock() < end:
        pass


def loop_enumerate(loader):
    for i, _ in enumerate(jobscope.input_waits(loader)):
        with jobscope.step(i):
            compute()


def loop_steps(loader):
    for _ in jobscope.steps(loader):
        compute()


def loop_by_hand(loader):
    batches = iter(loader)
    for i in range(len(loader)):
        with jobscope.input_wait("next_batch"):
            next(batches)
        with jobscope.step(i):
            compute()


def loop_inside(loader):
    batches = iter(loader)
    for i in range(len(loader)):
        with jobscope.step(i):
            with jobscope.input_wait("next_batch"):
                next(batches)
            compute()


def loop_in_a_scope(loader):
    batches = iter(loader)
    for i in range(len(loader)):
        with jobscope.trace("load"):
            with jobscope.input_wait():
                next(batches)
        with jobscope.step(i):
            compute()


class StepsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.logdir = directory.name

    def record(self, body, **options):
        with jobscope.capture(self.logdir, frameworks="none", **options) as capture:
            body()
        events = xspace.host_events(capture.result.run_directory)
        return [event for event in events if event.stats.get("_r") == 1], events

    @machine.again_if_busy(0.01)
    def input_waits_of(self, loop):
        loader = Loader()
        took = []

        def run():
            begin = time.perf_counter()
            loop(loader)
            took.append(time.perf_counter() - begin)

        steps, events = self.record(run)
        self.assertEqual([step.stats["step_num"] for step in steps], list(range(BATCHES)))
        # Nothing of the loop is outside of its steps.
        total_s = sum(step.duration_ps for step in steps) / 1e12
        self.assertAlmostEqual(total_s / took[0], 1, delta=0.1)
        shown, truth = xspace.input_share(steps, events), loader.waited_s / took[0]
        self.assertGreater(truth, 0.3, "of 6 ms in 8, even where the machine stretches the other 2")
        # A mark encloses what the loader measured; a machine that is busy with other work stretches what lies between.
        self.assertGreater(shown, truth - 0.04)
        self.assertLess(shown, truth + 0.15)

    def test_input_waits_count_for_the_step_of_their_batch(self):
        for loop in (loop_enumerate, loop_steps, loop_by_hand, loop_inside, loop_in_a_scope):
            with self.subTest(loop.__name__):
                self.input_waits_of(loop)

    @machine.again_if_busy(0.01)
    def test_a_capture_of_steps_has_all_of_them(self):
        loader = Loader()
        jobscope.capture_steps(self.logdir, 5, 9, frameworks="none")
        loop_enumerate(loader)
        events = xspace.host_events(jobscope.stop().run_directory)
        steps = [event for event in events if event.stats.get("_r") == 1]
        self.assertEqual([step.stats["step_num"] for step in steps], list(range(5, 10)))
        self.assertGreater(xspace.input_share(steps, events), 0.3)
        self.assertGreater(xspace.input_share(steps[:1], events), 0.1, "the first one has its wait, too")

    def test_a_step_says_what_its_thread_got(self):
        def step(i, seconds):
            with jobscope.step(i):
                compute(seconds, time.thread_time)  # so that it has that much, also on a busy machine

        def run():
            took = []
            for i in range(5):
                begin = time.thread_time_ns()
                step(i, 0.004)
                took.append(time.thread_time_ns() - begin)
            return took

        took = []
        steps, _ = self.record(lambda: took.extend(run()))
        self.assertEqual(len(steps), 5)
        for event, cpu_ns in zip(steps, took):
            self.assertGreater(event.stats["cpu_ns"], 0)
            # Its own, and what lies between it and the step before; the first reading of all is within its step.
            self.assertAlmostEqual(event.stats["cpu_ns"] / cpu_ns, 1, delta=0.2)
            self.assertLessEqual(event.stats["cpu_ns"], event.duration_ps / 1000 + 1e6)
            self.assertGreaterEqual(event.stats["involuntary_switches"], 0)
            if os.path.exists("/proc/self/schedstat"):
                self.assertGreaterEqual(event.stats["run_delay_ns"], 0)

    def test_steps_of_a_window_have_it_from_the_first_on(self):
        jobscope.capture_steps(self.logdir, 2, 4, frameworks="none")
        for i in range(8):
            with jobscope.step(i):
                compute()
        steps = [event for event in xspace.host_events(jobscope.stop().run_directory) if event.stats.get("_r") == 1]
        self.assertEqual([step.stats["step_num"] for step in steps], [2, 3, 4])
        for event in steps:
            self.assertGreater(event.stats["cpu_ns"], 0)

    def test_steps_is_enumerate(self):
        loader = Loader(3, 0)
        loop = jobscope.steps(loader, 10, "tune")
        self.assertEqual((len(loop), loop.count), (3, 3))
        self.assertEqual(list(loop), [(10, 0), (11, 1), (12, 2)])
        self.assertEqual(next(iter(loop)), (13, 0), "numbers go on")
        for wrong in ({"first": "1"}, {"name": 5}):
            with self.assertRaises(TypeError):
                jobscope.steps(loader, **wrong)

    def test_names_and_numbers(self):
        steps, events = self.record(lambda: list(jobscope.steps([1, 2], first=7, name="evaluate")))
        self.assertEqual([(step.name, step.stats["step_num"]) for step in steps], [("evaluate", 7), ("evaluate", 8)])
        self.assertEqual(len(xspace.named(events, "IteratorGetNext input_wait")), 4)

    def test_the_source_is_the_loop(self):
        def run():
            for _ in jobscope.steps(range(2), name="loop"):
                pass
            for _ in jobscope.input_waits(range(2), "waits"):
                pass

        steps, events = self.record(run)
        waits = [event for name in ("input_wait", "waits") for event in xspace.named(events, f"IteratorGetNext {name}")]
        self.assertEqual((len(steps), len(waits)), (2, 8))
        for event in steps + waits:
            self.assertTrue(event.site["source"].startswith(__file__), (event.name, event.site))

    def test_a_loop_that_is_left_ends_its_step(self):
        def leave():
            for i, _ in jobscope.steps(range(5)):
                if i == 1:
                    break
            try:
                for _ in jobscope.steps(range(5), first=10):
                    raise KeyError
            except KeyError:
                pass
            with jobscope.trace("after"):
                pass

        steps, events = self.record(leave)
        self.assertEqual([step.stats["step_num"] for step in steps], [0, 1, 10])
        after = xspace.named(events, "after")[0]
        for step in steps:
            self.assertLessEqual(step.start_ps + step.duration_ps, after.start_ps)

    def test_a_batch_is_the_loops_alone(self):
        class Batch:
            pass

        batches = (Batch() for _ in range(3))
        for _, batch in jobscope.steps(batches):
            seen = weakref.ref(batch)
            del batch
            gc.collect()
            self.assertIsNone(seen())


if __name__ == "__main__":
    workers.main(globals())
