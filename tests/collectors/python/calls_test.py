# SPDX-License-Identifier: Apache-2.0
"""Level 2 of the tracer, which records calls, in a real interpreter."""
import sys
import threading
import types
import unittest

from traced import MONITORING, Trace, TraceCase, generator, inner_function, outer_function, raises, recurse


class CallsTest(TraceCase):
    def test_each_call_is_one_event(self):
        with Trace(2, MIN_US=0) as trace:
            for _ in range(100):
                outer_function(0)
            for _ in range(50):
                try:
                    raises()
                except ValueError:
                    pass
            for _ in range(10):
                self.assertEqual(list(generator(5)), [0, 1, 2, 3, 4])
            recurse(500, lambda: None)
        self.assertEqual(trace.report["state"], "on", trace.report)
        self.check_account(trace)
        self.check_nesting(trace.events)
        self.assertEqual(len(trace.named("outer_function")), 100)
        self.assertEqual(len(trace.named("inner_function")), 100)
        self.assertEqual(len(trace.named("raises")), 50)
        self.assertEqual(len(trace.named("recurse")), 501)
        # Entered once to begin, and once after each yield.
        self.assertEqual(len(trace.named("generator")), 60)
        self.assertRegex(trace.named("raises")[0].line, r"^MainThread/\d+ \(python calls\)$")

    def test_calls_that_were_open_before_and_after_are_there(self):
        leave = threading.Event()
        thread = threading.Thread(target=lambda: inner_function(20) and leave.wait(), name="stays")

        def around():
            with Trace(2, MIN_US=0) as trace:
                thread.start()
                inner_function(50)
            return trace

        trace = around()
        leave.set()
        thread.join()
        around_events = [event for event in trace.events if event.name.endswith("around")]
        self.assertEqual(len(around_events), 1)
        self.assertEqual(around_events[0].stats.get("truncated"), 1)
        for inner in trace.named("inner_function"):
            self.assertNotIn("truncated", inner.stats)
        # It was started under the tracer, and is still inside of its functions.
        run = [event for event in trace.events if event.line.startswith("stays/") and event.name.endswith("run")]
        self.assertEqual([event.stats.get("truncated") for event in run], [1], trace.events)

    def start_deep(self, names, depth, leave):
        """Threads that are `depth` calls deep until the event."""
        there = threading.Semaphore(0)

        def stay():
            there.release()
            leave.wait()

        threads = [threading.Thread(target=recurse, args=(depth, stay), name=name) for name in names]
        for thread in threads:
            thread.start()
        for _ in threads:
            there.acquire()
        return threads

    def deep_calls(self, trace, name):
        events = [event for event in trace.named("recurse") if event.line.startswith(name + "/")]
        return len(events), sum(event.stats.get("truncated", 0) for event in events)

    def test_open_calls_of_many_threads(self):
        """Reading all their stacks takes longer than the GIL may be held at a time."""
        before, throughout, after = ([f"{name} {i}" for i in range(40)] for name in ("before", "throughout", "after"))
        leave, leave_later = threading.Event(), threading.Event()
        threads = self.start_deep(before, 25, leave)
        others = self.start_deep(throughout, 25, leave_later)
        with Trace(2, MIN_US=0) as trace:
            leave.set()
            for thread in threads:
                thread.join()
            others += self.start_deep(after, 25, leave_later)
        leave_later.set()
        for thread in others:
            thread.join()
        self.check_account(trace)
        self.check_nesting(trace.events)
        for name in before:
            self.assertEqual(self.deep_calls(trace, name), (26, 26), name)
        if trace.report["state"] == "on":
            for name in throughout + after:
                self.assertEqual(self.deep_calls(trace, name), (26, 26), name)
        else:  # the machine is very busy
            self.assertRegex(trace.report["reason"], "left out, of [0-9]+ threads: reading all stacks takes too long")

    def test_open_calls_of_deep_stacks(self):
        leave, leave_later = threading.Event(), threading.Event()
        thread, = self.start_deep(["before"], 600, leave)
        with Trace(2, MIN_US=0) as trace:
            leave.set()
            thread.join()
            thread, = self.start_deep(["after"], 600, leave_later)
        leave_later.set()
        thread.join()
        self.check_account(trace)
        self.check_nesting(trace.events)
        self.assertEqual(self.deep_calls(trace, "before"), (601, 601))
        calls, cut = self.deep_calls(trace, "after")
        self.assertEqual(calls, cut)
        self.assertTrue(400 < calls < 512, calls)
        self.assertEqual(trace.report["state"], "degraded", trace.report)
        self.assertIn("left out, of 1 threads: their stacks were deeper than 512", trace.report["reason"])

    def test_short_calls_are_left_out_and_counted(self):
        with Trace(2, MIN_US=3000) as trace:
            for _ in range(1000):
                outer_function(0)
            outer_function(20)
        self.check_account(trace)
        self.assertLess(len(trace.named("outer_function")), 50)
        self.assertGreaterEqual(len(trace.named("outer_function")), 1)
        self.assertTrue(any("shorter than 3000 us" in text for text in trace.report["warnings"]), trace.report)

    def test_threads_that_come_later_are_traced_under_their_names(self):
        with Trace(2, MIN_US=0) as trace:
            threads = [threading.Thread(target=outer_function, args=(3,), name=f"late {i}") for i in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.check_account(trace)
        names = {line.split("/")[0] for line in trace.lines("inner_function")}
        self.assertEqual(names, {f"late {i}" for i in range(5)})

    def test_it_switches_itself_off_after_the_last_call_there_is_room_for(self):
        with Trace(2, MIN_US=0, MAX_CALLS=200) as trace:
            for _ in range(1000):
                outer_function(0)
        self.check_account(trace)
        self.assertEqual(trace.report["state"], "degraded")
        self.assertIn("after 200 Python calls", trace.report["reason"])
        self.assertEqual(trace.report["attempted"], 200)
        self.assert_no_hooks()

    def assert_no_hooks(self):
        self.assertIsNone(sys.getprofile())
        if MONITORING:
            self.assertIsNone(MONITORING.get_tool(MONITORING.PROFILER_ID))

    def test_greenlets_are_reported(self):
        for imported in ("before", "meanwhile"):
            with self.subTest(imported=imported):
                if imported == "before":
                    sys.modules["greenlet"] = types.ModuleType("greenlet")
                with Trace(2, MIN_US=0) as trace:
                    sys.modules["greenlet"] = types.ModuleType("greenlet")
                    outer_function(1)
                del sys.modules["greenlet"]
                self.assertEqual(trace.report["state"], "degraded", trace.report)
                self.assertIn("greenlet", trace.report["reason"])
                self.assertTrue(trace.named("outer_function"))
        with Trace(2) as trace:
            pass
        self.assertEqual(trace.report["state"], "on", trace.report)

    def test_nothing_stays_behind(self):
        for _ in range(3):
            with Trace(2):
                outer_function(1)
            self.assert_no_hooks()

    def test_another_profiler_is_not_disturbed(self):
        if MONITORING:
            MONITORING.use_tool_id(MONITORING.PROFILER_ID, "somebody")
            with Trace(2) as trace:
                outer_function(1)
            self.assertEqual(MONITORING.get_tool(MONITORING.PROFILER_ID), "somebody")
            MONITORING.free_tool_id(MONITORING.PROFILER_ID)
            self.assertIn('another profiler is active ("somebody"', trace.report["reason"])
        else:
            seen = []

            def profiler(*_):
                seen.append(1)

            sys.setprofile(profiler)
            with Trace(2) as trace:
                outer_function(1)
            self.assertIs(sys.getprofile(), profiler)
            sys.setprofile(None)
            self.assertIn("a thread has a profile function, a function", trace.report["reason"])
            self.assertTrue(seen)
            threading.setprofile(profiler)
            with Trace(2) as trace:
                outer_function(1)
            threading.setprofile(None)
            self.assertIn("threading.setprofile() was given a function", trace.report["reason"])
        self.assertEqual((trace.report["state"], trace.events), ("failed", []))


if __name__ == "__main__":
    unittest.main(verbosity=2)
