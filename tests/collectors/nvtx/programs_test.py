# SPDX-License-Identifier: Apache-2.0
"""Programs with NVTX ranges: by injection, by a pointer in the program, in several linked units, before there is a server."""
import glob
import os
import subprocess
import tempfile
import unittest

import attached
import captured
import xspace

PROGRAMS = os.environ["JOBSCOPE_TEST_NVTX_PROGRAMS"]
SERVER_LIBRARY = os.environ["JOBSCOPE_TEST_LIBRARY"]
# The variants that were built: with NVTX headers of our own, with NVIDIA's.
VARIANTS = [v for v in ("mini", "real") if os.path.exists(os.path.join(PROGRAMS, f"nvtx_program_{v}"))]


def program(variant, suffix=""):
    return os.path.join(PROGRAMS, f"nvtx_program_{variant}{suffix}")


def plugin(variant):
    return glob.glob(os.path.join(PROGRAMS, f"*nvtx_plugin_{variant}.so"))[0]


class ProgramsTest(captured.TestCase):
    def check(self, events):
        """What each round of program.cc leaves in a trace."""
        rounds = xspace.named(events, "round")
        self.assertGreater(len(rounds), 3)
        loads = [event for event in xspace.named(events, "load") if "truncated" not in event.stats]
        self.assertGreater(len(loads), 3)
        numbers = [event.stats["payload"] for event in loads]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        for event in loads:
            self.assertEqual(event.site, {"nvtx_domain": "loader", "category": "io", "color": "#00a0ff"})
            self.assertEqual(event.stats["tf_op"], "load:Loader")
            self.assertGreaterEqual(event.duration_ps, 200_000_000)
            self.assertTrue(
                any(r.start_ps <= event.start_ps and event.start_ps + event.duration_ps <= r.start_ps + r.duration_ps
                    and r.line == event.line for r in rounds),
                "within its round, on the same thread",
            )  # fmt: skip
        marks = xspace.named(events, "loaded")
        self.assertGreater(len(marks), 3)
        self.assertEqual(marks[0].site, {"nvtx_domain": "default"})
        requests = [event for event in xspace.named(events, "request") if "async_id" in event.stats]
        self.assertGreater(len(requests), 3)
        self.assertLess(sum("truncated" in event.stats for event in requests), 3, "their ends are found")
        elsewhere = xspace.named(events, "on another thread")
        self.assertGreater(len(elsewhere), 3)
        self.assertFalse({event.line for event in elsewhere} & {event.line for event in rounds})

    def check_account(self, manifest):
        (worker,) = manifest["workers"]
        self.assertEqual((worker["outcome"], worker["lost"]), ("ok", 0), worker)

    def capture_and_check(self, process, address, with_plugin):
        for _ in range(2):  # the second capture begins where the first one ended
            manifest, events = self.capture(address, of="on another thread")
            self.check_account(manifest)
            self.check(events)
            self.assertEqual(bool(xspace.named(events, "in the plugin")), with_plugin)
            self.assertFalse(xspace.named(events, "whole program"), "it began before anything was recorded")
        process.process.stdin.close()
        self.assertGreater(int(process.hear()), 6)
        self.assertEqual(process.finish(say=None), (0, ""))

    def each_variant(self):
        """With a port directory of its own for each."""
        for variant in VARIANTS:
            self.ports = tempfile.mkdtemp(dir=self.folder)
            yield variant

    def test_preloaded(self):
        for variant in self.each_variant():
            env = attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, JOBSCOPE_LOG_LEVEL="warning")
            with attached.Process([program(variant), plugin(variant)], env) as process:
                self.assertEqual(process.hear(), "up")
                self.capture_and_check(process, self.address(), with_plugin=True)

    def test_injected_by_nvtx_s_own_variable(self):
        for variant in self.each_variant():
            env = attached.environment(
                NVTX_INJECTION64_PATH=attached.LIBRARY, JOBSCOPE_LISTEN="127.0.0.1:0",
                JOBSCOPE_PORT_DIR=self.ports, JOBSCOPE_LOG_LEVEL="warning",
            )  # fmt: skip
            with attached.Process([program(variant), plugin(variant)], env) as process:
                self.assertEqual(process.hear(), "up")
                self.capture_and_check(process, self.address(), with_plugin=True)

    def test_linked_with_us(self):
        for variant in self.each_variant():
            env = attached.environment(JOBSCOPE_LOG_LEVEL="warning")
            with attached.Process([program(variant, "_serves"), plugin(variant)], env) as process:
                _, address = process.hear().split()
                self.capture_and_check(process, address, with_plugin=False)  # it has no pointer

    def test_another_tool_goes_first(self):
        for variant in self.each_variant():
            env = attached.environment(NVTX_INJECTION64_PATH="none", JOBSCOPE_LOG_LEVEL="warning")
            with attached.Process([program(variant, "_serves")], env) as process:
                _, address = process.hear().split()
                _, events = self.capture(address)
                self.assertFalse(xspace.named(events, "round"))
                process.process.stdin.close()
                self.assertEqual(process.finish(say=None)[0], 0)

    def test_the_server_s_library_by_the_variable(self):
        """In a process that has the recorder, it serves NVTX; in others it does nothing."""
        for suffix, attaches in (("_serves", True), ("", False)):
            for variant in VARIANTS:
                with self.subTest(variant, suffix=suffix):
                    # In a program that is linked with the library, the server brings the recorder.
                    env = attached.environment(
                        NVTX_INJECTION64_PATH=SERVER_LIBRARY, LD_PRELOAD=trace_library() if attaches else None
                    )
                    with attached.Process([program(variant, suffix), plugin(variant)], env) as process:
                        up = process.hear().split()
                        if attaches:
                            self.capture_and_check(process, up[1], with_plugin=True)
                        else:
                            self.assertFalse(attached.loaded(os.path.basename(trace_library()), process.pid))
                            process.process.stdin.close()
                            self.assertEqual(process.finish(say=None), (0, ""))

    def test_without_us(self):
        for variant in VARIANTS:
            done = subprocess.run(
                [program(variant), plugin(variant)], env=attached.environment(), stdin=subprocess.DEVNULL,
                capture_output=True, timeout=attached.DEADLINE_S, check=False,
            )  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, b""))


def trace_library():
    return glob.glob(os.path.join(os.path.dirname(SERVER_LIBRARY), "libjobscope_trace.so.0"))[0]


if __name__ == "__main__":
    unittest.main(verbosity=2)
