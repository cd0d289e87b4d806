#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_includes.py: each forbidden edge is found, each allowed one passes."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).with_name("check_includes.py")


def check(files):
    """Runs the checker on a tree of {path: include target or full line}; returns (exit code, output)."""
    with tempfile.TemporaryDirectory() as root:
        for path, target in files.items():
            file = pathlib.Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(target if "#" in target else f'#include "{target}"\n', "utf-8")
        run = subprocess.run([sys.executable, str(CHECKER), root], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout


class CheckIncludesTest(unittest.TestCase):
    def test_forbidden_edges(self):
        for path, target in [
            ("include/jobscope/trace.h", "common/clock.h"),
            ("common/clock.cc", "server/session.h"),
            ("common/clock.cc", "collectors/collector.h"),
            ("common/clock.cc", "jobscope/v1/profiler.grpc.pb.h"),
            ("collectors/host/host_collector.cc", "server/session.h"),
            ("collectors/host/host_collector.cc", "collectors/system/system_collector.h"),
            ("collectors/host/recorder/ring.cc", "common/clock.h"),
            ("server/session.cc", "collectors/host/host_collector.h"),
            ("server/recorder_loader.h", "collectors/host/host_collector.h"),
            ("server/session.cc", "client/fan_out.h"),
            ("client/main.cc", "server/session.h"),
            ("client/main.cc", "collectors/collector.h"),
            ("client/main.cc", "jobscope/trace.h"),
            ("analysis/step_stats.cc", "jobscope/v1/profiler.grpc.pb.h"),
            ("examples/train_loop.cc", "server/session.h"),
        ]:
            with self.subTest(path=path, target=target):
                code, output = check({path: target})
                self.assertEqual(code, 1, output)
                self.assertIn(f"{path}: includes {target}", output)

    def test_grpc_stays_out(self):
        for path in ["include/jobscope/x.h", "common/x.cc", "collectors/host/x.cc", "analysis/x.cc"]:
            for target in ["grpcpp/grpcpp.h", "grpc/grpc.h", "grpc++/grpc++.h"]:
                with self.subTest(path=path, target=target):
                    code, output = check({path: f"  #  include <{target}>\n"})
                    self.assertEqual(code, 1, output)
                    self.assertIn(target, output)

    def test_short_path_is_found(self):
        code, output = check({"common/clock.cc": "clock.h"})
        self.assertEqual(code, 1)
        self.assertIn("full path", output)

    def test_allowed_edges(self):
        code, output = check({
            "include/jobscope/trace.h": "jobscope/detail/ticks.h",
            "common/clock.cc": "#include <cstdint>\n#include \"absl/status/status.h\"\n#include \"common/clock.h\"\n",
            "common/identity.cc": "jobscope/v1/item.pb.h",
            "collectors/host/host_collector.cc": "collectors/host/recorder/reader_abi.h",
            "collectors/host/recorder/ring.cc": "jobscope/detail/ticks.h",
            "server/session.cc": "#include <grpcpp/grpcpp.h>\n#include \"collectors/collector.h\"\n",
            "server/worker.cc": "collectors/host/host_collector.h",
            "client/main.cc": "jobscope/v1/profiler.grpc.pb.h",
            "tests/session/session_test.cc": "server/session.h",
        })
        self.assertEqual(code, 0, output)
        self.assertIn("9 files", output)

    def test_empty_tree_is_an_error(self):
        self.assertEqual(check({})[0], 1)


if __name__ == "__main__":
    unittest.main()
