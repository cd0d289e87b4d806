#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_includes.py: each forbidden edge is found, each allowed one passes."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import check_includes

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
            ("include/jobscope/trace.h", "common/clock/clock.h"),
            ("common/clock/clock.cc", "server/session/session_manager.h"),
            ("common/clock/clock.cc", "collectors/collector.h"),
            ("common/clock/clock.cc", "jobscope/v1/profiler.grpc.pb.h"),
            ("collectors/host/host_collector.cc", "server/session/session_manager.h"),
            ("collectors/host/host_collector.cc", "collectors/system/system_collector.h"),
            ("collectors/host/recorder/ring.cc", "common/clock/clock.h"),
            ("server/session/session_manager.cc", "collectors/host/host_collector.h"),
            ("server/session/session_manager.cc", "server/rpc/unary_call.h"),
            ("server/rpc/unary_call.cc", "server/native/native_service.h"),
            ("client/native/native_worker.cc", "client/fan_out/fan_out.h"),
            ("client/cli/run/run_verb.cc", "client/cli/flags.h"),
            ("client/cli/survey/survey.cc", "client/cli/flags.h"),
            ("client/cli/base/targets.cc", "client/cli/survey/survey.h"),
            ("common/text/foreign_text.cc", "common/log/log.h"),
            ("common/files/file_sink.h", "common/xspace/assemble/assembler.h"),
            ("common/xspace/assemble/assembler.cc", "common/files/file_sink.h"),
            ("server/process/recorder_loader.h", "collectors/host/host_collector.h"),
            ("server/session/session_manager.cc", "client/fan_out/fan_out.h"),
            ("client/main.cc", "server/session/session_manager.h"),
            ("client/main.cc", "collectors/collector.h"),
            ("client/main.cc", "jobscope/trace.h"),
            ("analysis/output/report.cc", "jobscope/v1/profiler.grpc.pb.h"),
            ("examples/train_loop.cc", "server/session/session_manager.h"),
        ]:
            with self.subTest(path=path, target=target):
                code, output = check({path: target})
                self.assertEqual(code, 1, output)
                self.assertIn(f"{path}: includes {target}", output)

    def test_locks_are_annotated(self):
        for path, passes in [("common/clock/clock.h", False), ("collectors/host/x.cc", False), ("examples/queue.h", True)]:
            with self.subTest(path=path):
                code, output = check({path: "#include <mutex>\nstd::mutex mutex_;\n"})
                self.assertEqual(code, 0 if passes else 1, output)
                self.assertEqual("std::mutex: nobody checks" in output, not passes)

    def test_locks_are_visible_to_thread_sanitizer(self):
        for path, passes in [("collectors/host/x.cc", False), ("server/session/x.cc", False), ("server/rpc/x.cc", True)]:
            with self.subTest(path=path):
                code, output = check({path: "absl/synchronization/mutex.h"})
                self.assertEqual(code, 0 if passes else 1, output)
                self.assertEqual("ThreadSanitizer cannot see" in output, not passes)

    def test_threads_are_started_in_one_place(self):
        for path, line, passes in [
            ("client/terminal/x.cc", "std::thread([] {}).detach();", False),
            ("collectors/host/x.cc", "pthread_create(&thread, nullptr, &Run, nullptr);", False),
            ("common/threads/x.cc", "std::thread thread_;", True),
            ("server/session/x.cc", "std::thread::id caller_;", True),
        ]:
            with self.subTest(path=path, line=line):
                code, output = check({path: "#include <thread>\n" + line + "\n"})
                self.assertEqual(code, 0 if passes else 1, output)
                self.assertEqual("starts a thread itself" in output, not passes)

    def test_monotonic_is_read_in_one_place(self):
        for path, passes in [("common/process/x.cc", False), ("collectors/host/x.cc", False), ("common/clock/clock.cc", True)]:
            with self.subTest(path=path):
                code, output = check({path: "#include <time.h>\nclock_gettime(CLOCK_MONOTONIC, &now);\n"})
                self.assertEqual(code, 0 if passes else 1, output)
                self.assertEqual("reads CLOCK_MONOTONIC itself" in output, not passes)

    def test_steady_clock_has_one_name(self):
        for path, passes in [("common/files/x.cc", False), ("collectors/host/x.cc", False), ("common/sync/mutex.h", True)]:
            with self.subTest(path=path):
                code, output = check({path: "#include <chrono>\nusing Clock = std::chrono::steady_clock;\n"})
                self.assertEqual(code, 0 if passes else 1, output)
                self.assertEqual("reads std::chrono::steady_clock" in output, not passes)

    def test_no_deadline_stands_on_the_date(self):
        for line, passes in [
            ("end = absl::Now() + limit;", False),
            ("left = end - absl::Now();", False),
            ("late = absl::Now() >= end;", False),
            ("late = end <= absl::Now();", False),
            ("unix_ns = absl::ToUnixNanos(absl::Now());", True),
            ("end = SteadyNow() + limit;", True),
        ]:
            with self.subTest(line=line):
                code, output = check({"server/process/x.cc": "#include <chrono>\n" + line + "\n"})
                self.assertEqual(code, 0 if passes else 1, output)
                self.assertEqual("computes with absl::Now()" in output, not passes)
                self.assertEqual(check({"common/run/x.cc": "#include <chrono>\n" + line + "\n"})[0], 0)

    def test_symbols_are_looked_up_without_the_gil(self):
        for path, passes in [("collectors/python/stacks/x.cc", False), ("collectors/framework/x.cc", False),
                             ("collectors/python/bridge/api.cc", True), ("collectors/cuda/libraries/x.cc", True)]:
            for line in ("x = api.Symbol(\"PyCode_Type\");", "x = dlsym(library, name);"):
                with self.subTest(path=path, line=line):
                    code, output = check({path: "#include <cstdint>\n" + line + "\n"})
                    self.assertEqual(code, 0 if passes else 1, output)
                    self.assertEqual("with the GIL held" in output, not passes)

    def test_grpc_stays_out(self):
        for path in ["include/jobscope/x.h", "common/text/x.cc", "collectors/host/x.cc", "analysis/output/x.cc", "server/session/x.cc"]:
            for target in ["grpcpp/grpcpp.h", "grpc/grpc.h", "grpc++/grpc++.h"]:
                with self.subTest(path=path, target=target):
                    code, output = check({path: f"  #  include <{target}>\n"})
                    self.assertEqual(code, 1, output)
                    self.assertIn(target, output)

    def test_short_path_is_found(self):
        code, output = check({"common/clock/clock.cc": "clock.h"})
        self.assertEqual(code, 1)
        self.assertIn("full path", output)

    def test_allowed_edges(self):
        code, output = check({
            "include/jobscope/trace.h": "jobscope/detail/ticks.h",
            "common/clock/clock.cc": "#include <cstdint>\n#include \"absl/status/status.h\"\n#include \"common/clock/clock.h\"\n",
            "common/process/identity.cc": "jobscope/v1/item.pb.h",
            "common/xspace/assemble/assembler.h": "common/files/byte_sink.h",
            "collectors/host/host_collector.cc": "collectors/host/recorder/reader_abi.h",
            "collectors/host/recorder/ring.cc": "jobscope/detail/ticks.h",
            "server/session/session_manager.cc": "collectors/collector.h",
            "server/rpc/unary_call.cc": "#include <grpcpp/grpcpp.h>\n#include \"server/security/audit.h\"\n",
            "server/process/worker_runtime.cc": "collectors/host/host_collector.h",
            "server/native/native_service.h": "jobscope/v1/profiler.grpc.pb.h",
            "tests/server/session/session_manager_test.cc": "server/session/session_manager.h",
        })
        self.assertEqual(code, 0, output)
        self.assertIn("11 files", output)

    def test_an_edge_that_no_file_uses_is_found(self):
        sources = {f"{folder}/x.cc": "".join(f'#include "{edge if "." in edge else edge + "/x.h"}"\n' for edge in edges)
                   for folder, edges in check_includes.MAY_INCLUDE.items()}
        edge = {"include": "jobscope/trace.h", "proto": "jobscope/v1/item.pb.h", "proto_grpc": "jobscope/v1/profiler.grpc.pb.h"}
        sources = {path: re.sub(r'"(include|proto|proto_grpc)/x.h"', lambda m: f'"{edge[m[1]]}"', text) for path, text in sources.items()}
        self.assertEqual(list(check_includes.unused(sources)), [])
        sources["client/terminal/x.cc"] = '#include "client/terminal/table.h"\n'
        self.assertEqual(list(check_includes.unused(sources)),
                         ["client/terminal/ includes nothing of common: take that edge out of MAY_INCLUDE"])

    def test_new_folder_says_what_it_may_include(self):
        code, output = check({"server/new/x.cc": "server/limits.h"})
        self.assertEqual(code, 1)
        self.assertIn("no edges yet", output)

    def test_empty_tree_is_an_error(self):
        self.assertEqual(check({})[0], 1)


if __name__ == "__main__":
    unittest.main()
