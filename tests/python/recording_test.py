# SPDX-License-Identifier: Apache-2.0
"""Tests what the recording functions of the package `jobscope` put into a trace, and their cost while no capture runs."""
import contextlib
import copy
import enum
import gc
import os
import sys
import threading
import tracemalloc
import unittest

import jobscope
import recording_case
import xspace
from jobscope import _native


class Colour(enum.IntEnum):
    RED = 3


class Tensor:
    """Converting one would wait for a device."""

    def __index__(self):
        raise AssertionError("a tensor was converted")

    __float__ = __str__ = __repr__ = __len__ = __index__


class RecordingTest(recording_case.RecordingCase):
    # ---- arguments ----

    def test_arguments_of_all_types(self):
        with self.recorded() as events:
            with jobscope.trace(
                "typed", small=1, negative=-(2**63), huge=2**64 - 1, ratio=0.5, text="grün", flag=True, none=None
            ):
                pass
        stats = self.only(events, "typed").stats
        wanted = {
            "small": 1, "negative": -(2**63), "huge": 2**64 - 1, "ratio": 0.5, "text": "grün", "flag": 1, "none": "None",
        }  # fmt: skip
        self.assertEqual({key: stats.get(key) for key in wanted}, wanted)

    def test_values_beyond_the_types(self):
        with self.recorded() as events:
            with jobscope.trace("odd", beyond=2**70, far=-(10**400), colour=Colour.RED, surrogate="a\ud800b", empty=""):
                pass
        stats = self.only(events, "odd").stats
        self.assertEqual(stats["beyond"], 2.0**70)
        self.assertEqual(float(stats["far"]), float("-inf"))
        self.assertEqual(stats["colour"], 3)
        self.assertEqual(stats["surrogate"], "a?b")
        self.assertEqual(stats["empty"], "")

    def test_objects_are_never_converted(self):
        with self.recorded() as events:
            with jobscope.trace("tensors", loss=Tensor(), shape=[1, 2]):
                pass
            jobscope.instant("mark", loss=Tensor())
        self.assertEqual(self.only(events, "tensors").stats["loss"], "<Tensor>")
        self.assertEqual(self.only(events, "tensors").stats["shape"], "<list>")
        self.assertEqual(self.only(events, "mark").stats["loss"], "<Tensor>")

    def test_numpy_scalars(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed here; tests/python/frameworks_test.py has it")
        with self.recorded() as events:
            with jobscope.trace(
                "numpy", f32=numpy.float32(0.5), f64=numpy.float64(0.25), i64=numpy.int64(-3), b=numpy.bool_(True), a=numpy.zeros(2)
            ):
                pass
            jobscope.counter("numpy counter", numpy.float32(0.5))
        stats = self.only(events, "numpy").stats
        self.assertEqual([stats[key] for key in ("f32", "f64", "i64", "a")], [0.5, 0.25, -3, "<ndarray>"])
        self.assertEqual(stats["b"], 1)

    def test_eight_arguments_are_kept(self):
        with self.recorded() as events:
            with jobscope.trace("many", **{f"k{i}": i for i in range(12)}):
                pass
        stats = self.only(events, "many").stats
        self.assertEqual({key: stats[key] for key in stats if key.startswith("k")}, {f"k{i}": i for i in range(8)})

    def test_texts_live_until_the_end(self):
        with self.recorded() as events:
            scope = jobscope.trace("held", text="x" * 20 + str(os.getpid()))
            gc.collect()
            with scope:
                [bytearray(60) for _ in range(1000)]
        self.assertEqual(self.only(events, "held").stats["text"], "x" * 20 + str(os.getpid()))

    # ---- names and sites ----

    def test_same_name_with_other_keys_keeps_its_own(self):
        with self.recorded() as events:
            for keys in ({"a": 1}, {"b": 2}, {"a": 3, "b": 4}, {}):
                with jobscope.trace("keys", **keys):
                    pass
        found = [
            {key: event.stats[key] for key in ("a", "b") if key in event.stats} for event in xspace.named(events, "keys")
        ]
        self.assertEqual(found, [{"a": 1}, {"b": 2}, {"a": 3, "b": 4}, {}])

    def test_equal_names_of_other_identity_are_one_site(self):
        before = _native.cache_info()["known_sites"]
        with self.recorded() as events:
            for _ in range(50):
                with jobscope.trace("".join(["made", " ", "up"])):
                    pass
        self.assertEqual(len(xspace.named(events, "made up")), 50)
        self.assertEqual(_native.cache_info()["known_sites"], before + 1)

    def test_names_that_are_not_utf8(self):
        with self.recorded() as events:
            with jobscope.trace("sur\udc80rogate"):
                pass
        self.only(events, "sur?rogate")

    # ---- scopes ----

    def test_exception_ends_the_scope_and_goes_on(self):
        with self.recorded() as events:
            with self.assertRaises(KeyError):
                with jobscope.trace("raises"):
                    raise KeyError
        self.only(events, "raises")

    def test_exit_stack_and_direct_calls(self):
        with self.recorded() as events:
            with contextlib.ExitStack() as stack:
                stack.enter_context(jobscope.trace("first"))
                stack.enter_context(jobscope.trace("second"))
            scope = jobscope.trace("by hand")
            scope.__enter__()
            scope.__exit__(None, None, None)
        first, second = self.only(events, "first"), self.only(events, "second")
        self.assertLessEqual(first.start_ps, second.start_ps)
        self.assertGreaterEqual(first.start_ps + first.duration_ps, second.start_ps + second.duration_ps)
        self.only(events, "by hand")

    def test_scope_within_itself_is_recorded_once(self):
        with self.recorded() as events:
            scope = jobscope.trace("again")
            with scope:
                with scope:
                    pass
            with scope:
                pass
        self.assertEqual(len(xspace.named(events, "again")), 2)

    def test_scope_that_is_dropped_open(self):
        with self.recorded() as events:
            scope = jobscope.trace("dropped")
            scope.__enter__()
            del scope
        self.only(events, "dropped")

    def test_scopes_of_generators_end_in_any_order(self):
        def generator(name):
            with jobscope.trace(name):
                yield

        with self.recorded() as events:
            one, other = generator("one"), generator("other")
            next(one)
            next(other)
            one.close()
            other.close()
        self.only(events, "one")
        self.only(events, "other")

    def test_many_scopes_at_a_time(self):
        with self.recorded() as events:
            scopes = [jobscope.trace("many at a time", index=i) for i in range(500)]
            for scope in scopes:
                scope.__enter__()
            for scope in reversed(scopes):
                scope.__exit__(None, None, None)
            del scopes, scope
        found = sorted(event.stats["index"] for event in xspace.named(events, "many at a time"))
        self.assertEqual(found, list(range(500)))

    def test_levels(self):
        for level, wanted in ((1, ["one"]), (2, ["one", "two"]), (3, ["one", "three", "two"])):
            with self.recorded(host_tracer_level=level) as events:
                self.assertEqual([jobscope.enabled(n) for n in (1, 2, 3)], [n <= level for n in (1, 2, 3)])
                for number, name in enumerate(("one", "two", "three"), 1):
                    with jobscope.trace_at(number, name):
                        pass
            self.assertEqual(sorted(e.name for e in events if e.name in ("one", "two", "three")), wanted)
        self.assertFalse(jobscope.enabled())
        for level in (0, 4, -1):
            with self.assertRaises(ValueError):
                jobscope.enabled(level)

    # ---- steps, waits, points ----

    def test_steps_and_input_waits(self):
        with self.recorded() as events:
            for number, item in enumerate(jobscope.input_waits([10, 20, 30])):
                with jobscope.step(number):
                    self.assertEqual(item, 10 * (number + 1))
            with jobscope.step(7, "evaluate"):
                pass
            with jobscope.step(8, name="evaluate"):
                pass
        self.assertEqual([event.stats["step_num"] for event in xspace.named(events, "train")], [0, 1, 2])
        self.assertEqual(len(xspace.named(events, "evaluate")), 2)
        # One for iter(), three for the items, one that finds the end.
        self.assertEqual(len([event for event in events if "input_wait" in event.name]), 5)

    def test_input_waits_passes_everything_on(self):
        class Loader:
            batch_size = 4

            def __iter__(self):
                return iter((1, 2))

            def __len__(self):
                return 2

        waits = jobscope.input_waits(Loader())
        self.assertEqual((len(waits), waits.batch_size, list(waits), list(waits)), (2, 4, [1, 2], [1, 2]))
        with self.assertRaises(AttributeError):
            waits.nothing  # pylint: disable=pointless-statement
        with self.assertRaises(TypeError):
            len(jobscope.input_waits(iter(())))
        copy.copy(waits)
        self.assertEqual(list(copy.copy(iter(waits))), [1, 2])

        def failing():
            yield 1
            raise OSError("disk")

        with self.assertRaisesRegex(OSError, "disk"):
            list(jobscope.input_waits(failing()))

    def test_points_and_counters(self):
        with self.recorded() as events:
            jobscope.instant("checkpoint", file="model.bin")
            for value in (1, 0.5, 2**63, True):
                jobscope.counter("loss", value)
        self.assertEqual(self.only(events, "checkpoint").stats["file"], "model.bin")
        self.assertEqual([event.stats["loss"] for event in xspace.named(events, "loss")], [1, 0.5, 2**63, 1])

    def test_a_capture_of_steps(self):
        jobscope.capture_steps(self._folder.name, 3, 5)
        for number in range(10):
            with jobscope.step(number):
                with jobscope.trace("inside", number=number):
                    pass
        events = xspace.host_events(jobscope.stop().run_directory)
        self.assertEqual([event.stats["number"] for event in xspace.named(events, "inside")], [3, 4, 5])

    # ---- threads ----

    def test_threads_have_the_names_of_python(self):
        def work(index):
            with jobscope.trace("work", index=index):
                pass

        def named():
            jobscope.set_thread_name("chosen")
            work(9)

        with self.recorded() as events:
            threads = [threading.Thread(target=work, args=(i,), name=f"loader {i}") for i in range(3)]
            threads.append(threading.Thread(target=named, name="not this"))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        lines = {event.stats["index"]: event.line.rsplit("/", 1)[0] for event in xspace.named(events, "work")}
        self.assertEqual(lines, {0: "loader 0", 1: "loader 1", 2: "loader 2", 9: "chosen"})

    # ---- wrong use is wrong whether or not somebody records ----

    def test_wrong_arguments(self):
        wrong = [
            lambda: jobscope.trace(),
            lambda: jobscope.trace(3),
            lambda: jobscope.trace("a", "b"),
            lambda: jobscope.trace_coarse(None),
            lambda: jobscope.trace_at("a", 1),
            lambda: jobscope.input_wait(3),
            lambda: jobscope.step(),
            lambda: jobscope.step("1"),
            lambda: jobscope.step(1.5),
            lambda: jobscope.step(1, 2),
            lambda: jobscope.step(1, number=2),
            lambda: jobscope.step(1, "a", name="b"),
            lambda: jobscope.instant(),
            lambda: jobscope.counter("a"),
            lambda: jobscope.counter("a", "b"),
            lambda: jobscope.counter(1, 1),
            lambda: jobscope.set_thread_name(3),
            lambda: jobscope.trace("decorator")(len),
            lambda: type(jobscope.trace("type"))(1),
        ]
        for phase in ("idle", "active"):
            with self.recorded() if phase == "active" else contextlib.nullcontext():
                for number, call in enumerate(wrong):
                    with self.assertRaises(TypeError, msg=(phase, number)):
                        call()
                with self.assertRaises(ValueError):
                    jobscope.trace_at(4, "a")

    # ---- the cost of nothing ----

    def test_idle_scopes_allocate_nothing(self):
        def scopes():
            for _ in range(100):
                with jobscope.trace("idle", step=1, text="a"):
                    pass
                with jobscope.input_wait():
                    pass
                jobscope.instant("idle")
                jobscope.counter("idle", 1)

        self.assertIs(jobscope.trace("one"), jobscope.trace("other", key=1))
        scopes()
        blocks = sys.getallocatedblocks()
        scopes()
        self.assertLessEqual(sys.getallocatedblocks() - blocks, 1)
        tracemalloc.start()
        try:
            scopes()
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            scopes()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # The frame of the call itself, nothing per scope.
        self.assertLess(peak - before, 1000)

    def test_active_scopes_keep_nothing(self):
        def scopes():
            for index in range(1000):
                with jobscope.trace("active", step=index, text="abc"):
                    pass

        with self.recorded():
            scopes()
            blocks = sys.getallocatedblocks()
            references = sys.getrefcount(type(jobscope.trace("active")))
            scopes()
            self.assertLess(sys.getallocatedblocks() - blocks, 50)
            self.assertEqual(sys.getrefcount(type(jobscope.trace("active"))), references)


if __name__ == "__main__":
    unittest.main(verbosity=2)
