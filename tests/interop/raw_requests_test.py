# SPDX-License-Identifier: Apache-2.0
"""Absurd requests, sent as bytes: a clear status, no crash, no file, and the next capture is fine."""

import os

import grpc

from harness import case, clients, messages, processes, traces
from harness.messages import ProfileRequest, profile_request

INVALID = grpc.StatusCode.INVALID_ARGUMENT
OK = grpc.StatusCode.OK
MIB = "x" * (1 << 20)
LONG = "x" * 100_000  # more than any field may hold, and less than a request


class RawRequests(case.InteropTest):
    def setUp(self):
        super().setUp()
        self.worker = self.train_loop()
        self.peer = messages.Peer(self.worker.address)
        self.addCleanup(self.peer.close)

    def tearDown(self):
        """After whatever was sent: alive, idle, wrote nothing, and an ordinary capture is whole."""
        response = self.peer.call("Profile", profile_request(200))
        self.assertFalse(response.empty_trace)
        self.assertEqual([tool.name for tool in response.tool_data], ["xplane.pb"])
        trace = traces.Trace(response.tool_data[0].data)
        self.assertEqual(traces.rule_violations(trace), [])
        self.assertGreater(len(trace.steps()), 0)
        self.assertEqual(trace.summary().lost, 0)
        # The slot is free a moment after the answer has left.
        processes.wait_until(
            lambda: not self.peer.call("Describe", messages.DescribeRequest()).HasField("busy"), 5, "the worker is idle"
        )
        self.assert_wrote_nothing(self.worker)
        self.assertEqual(clients.files_below(self.logdir), [])
        self.worker.finish()

    def expect_invalid(self, request, *words, method="Profile"):
        code, text = self.peer.status(method, request)
        self.assertEqual(code, INVALID, text)
        for word in words:
            self.assertIn(word, text)
        self.assertLess(len(text), 2100)

    def test_durations(self):
        for field, value in (("duration_ms", 2**64 - 5), ("duration_ms", 2**63), ("duration_ms", 3_600_001)):
            request = profile_request(0)
            setattr(request.opts, field, value)
            self.expect_invalid(request, "duration_ms", str(value), "3600000")
        self.expect_invalid(profile_request(0), "duration_ms", "0")
        self.expect_invalid(ProfileRequest(), "duration_ms")
        # Longer than the call's own deadline: everything would be lost.
        future = self.peer.start("Profile", profile_request(60_000), timeout_s=5)
        self.assertEqual(future.code(), INVALID, future.details())
        self.assertIn("deadline", future.details())

    def test_version_0_means_the_defaults(self):
        request = ProfileRequest(duration_ms=300)
        response = self.peer.call("Profile", request)
        trace = traces.Trace(response.tool_data[0].data)
        self.assertIn("forward", trace.names())
        self.assertAlmostEqual(trace.summary().duration_ns / 1e6, 300, delta=60)
        # Levels of version 0 are no levels at all.
        request.opts.host_tracer_level = 99
        self.assertEqual(self.peer.status("Profile", request)[0], OK)

    def test_levels(self):
        for field, value in (("host_tracer_level", 4), ("device_tracer_level", 2), ("python_tracer_level", 2**32 - 1)):
            request = profile_request(100)
            setattr(request.opts, field, value)
            self.expect_invalid(request, field, str(value))

    def test_start_in_the_far_future_or_past(self):
        request = profile_request(100)
        request.opts.start_timestamp_ns = 2**64 - 1
        self.expect_invalid(request, "start_timestamp_ns")
        request.opts.start_timestamp_ns = 1
        self.assertEqual(self.peer.status("Profile", request)[0], OK)

    def test_long_strings(self):
        for field in ("session_id", "host_name", "repository_root"):
            self.expect_invalid(profile_request(100, **{field: LONG}), field, "bytes")
        for field in ("session_id", "override_hostname", "repository_path"):
            request = profile_request(100)
            setattr(request.opts, field, LONG)
            self.expect_invalid(request, field, "bytes")
        request = profile_request(100)
        request.tools.append(LONG)
        self.expect_invalid(request, "tools")
        request = profile_request(100)
        request.opts.advanced_configuration[LONG].bool_value = True
        self.expect_invalid(request, "advanced_configuration")
        request = profile_request(100)
        request.tool_options[LONG].save_to_repo = True
        self.expect_invalid(request, "tool_options")
        self.expect_invalid(messages.TerminateRequest(session_id=LONG), "session_id", method="Terminate")
        self.expect_invalid(messages.StopRequest(session_id=LONG), "session_id", method="Stop")
        self.expect_invalid(messages.GetSnapshotRequest(snapshot_session_id=LONG), "snapshot_session_id", method="GetSnapshot")

    def test_strings_of_one_mebibyte(self):
        """Refused before anything is parsed."""
        for request, method in (
            (profile_request(100, session_id=MIB), "Profile"),
            (profile_request(100, repository_root="../" * (len(MIB) // 3)), "Profile"),
            (messages.TerminateRequest(session_id=MIB), "Terminate"),
            (messages.StopRequest(session_id=MIB), "Stop"),
            (messages.GetSnapshotRequest(snapshot_session_id=MIB), "GetSnapshot"),
        ):
            code, text = self.peer.status(method, request)
            self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
            self.assertIn("larger than max", text)

    def test_many_entries(self):
        request = profile_request(100)
        request.tools.extend(["tool"] * 10_000)
        self.expect_invalid(request, "tools")
        request = profile_request(100)
        for number in range(2_000):
            request.opts.advanced_configuration[f"key {number}"].int64_value = -1
        self.expect_invalid(request, "advanced_configuration")

    def test_paths_out_of_the_logdir_are_only_words(self):
        target = self.logdir / "hit"
        up = "../" * 12
        for root in (str(target), up + str(target)[1:], "/proc/self/fd", "\0/tmp", "~/x"):
            request = profile_request(
                100, repository_root=root, session_id=f"{up}{target}", host_name=f"{up}{str(target)[1:]}/host:1"
            )
            request.opts.repository_path = root
            request.opts.override_hostname = f"..{target}"
            request.tool_options["trace_viewer"].save_to_repo = True
            response = self.peer.call("Profile", request)
            trace = traces.Trace(response.tool_data[0].data)
            self.assertEqual([tool.name for tool in response.tool_data], ["xplane.pb"])
            for hostname in trace.space.hostnames:
                self.assertRegex(hostname, r"^[A-Za-z0-9._-]+$")
        self.assertFalse(target.exists())

    def test_unknown_options_are_named_in_the_answer(self):
        request = profile_request(100, max_events=7)
        request.opts.advanced_configuration["tpu_trace_mode"].string_value = "yes\x1b[31m"
        request.opts.advanced_configuration["no_such\nkey"].int64_value = -(2**63)
        request.opts.trace_options.host_traceme_filter_mask = 2**64 - 1
        request.opts.device_type = 77
        trace = traces.Trace(self.peer.call("Profile", request).tool_data[0].data)
        ignored = " ".join(trace.summary().options.ignored)
        for name in ("max_events", "tpu_trace_mode", "no_such?key", "host_traceme_filter_mask"):
            self.assertIn(name, ignored)

    def test_unknown_fields_are_no_error(self):
        # Field 2000, length-delimited, and field 2001, varint; then what a newer client may add.
        extra = b"\x82\x7d\x03abc" + b"\x88\x7d\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        self.assertEqual(self.peer.status("Profile", profile_request(100).SerializeToString() + extra)[0], OK)

    def test_garbage_bytes(self):
        valid = profile_request(100).SerializeToString()
        cases = [b"\xff" * 64, b"\x00", b"\x0a\xff\xff\xff\xff\x0f", os.urandom(4096), valid[:-1] + b"\xff\xff", b"\x22\x7f" + valid]
        for method in ("Profile", "Monitor", "Terminate", "GetSnapshot", "StartContinuousProfiling", "Describe", "Stop"):
            for data in cases:
                code, text = self.peer.status(method, data)
                # Random bytes may by chance be a message; they are never an internal error of ours without a text.
                self.assertIn(code, (INVALID, OK, grpc.StatusCode.INTERNAL, grpc.StatusCode.NOT_FOUND), (method, text))
                if method == "Profile" and data is not cases[3]:
                    self.assertEqual(code, INVALID, (data[:20], text))
                    self.assertTrue(text)
        self.peer.status("StopContinuousProfiling", messages.StopContinuousProfilingRequest())

    def test_a_message_over_the_limit(self):
        code, text = self.peer.status("Profile", b"\x2a" + b"\x80\x80\x80\x04" + b"x" * (8 << 20))
        self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED, text)

    def test_unknown_methods(self):
        for path in ("/tensorflow.ProfilerService/Nothing", "/tensorflow.ProfileAnalysis/NewSession", "/jobscope.v1.Profiler/Nothing", "/a/b"):
            future = self.peer.start_raw(path, b"", timeout_s=10)
            self.assertEqual(future.code(), grpc.StatusCode.UNIMPLEMENTED, path)

    def test_terminate_of_an_unknown_session_leaves_nothing_behind(self):
        for session in ("2026_01_01_00_00_00", "../..", "", "nobody"):
            self.peer.call("Terminate", messages.TerminateRequest(session_id=session))
        # A stock server would end the next capture of that name at once.
        trace = traces.Trace(self.peer.call("Profile", profile_request(300)).tool_data[0].data)
        self.assertFalse(trace.summary().truncated)
        self.assertAlmostEqual(trace.summary().duration_ns / 1e6, 300, delta=60)

    def test_monitor_bounds(self):
        for field, value in (("duration_ms", 2**64 - 1), ("duration_ms", 60_001), ("monitoring_level", -1), ("monitoring_level", 3)):
            self.expect_invalid(messages.MonitorRequest(**{field: value}), field, method="Monitor")

    def test_continuous_calls_out_of_order(self):
        code, text = self.peer.status("GetSnapshot", messages.GetSnapshotRequest())
        self.assertEqual(code, grpc.StatusCode.NOT_FOUND, text)
        self.assertIn("continuous profiling", text)
        stop = messages.StopContinuousProfilingRequest()
        self.assertEqual(self.peer.status("StopContinuousProfiling", stop)[0], grpc.StatusCode.NOT_FOUND)
        self.peer.call("StartContinuousProfiling", profile_request(0))
        self.expect_invalid(messages.GetSnapshotRequest(snapshot_session_id="../x"), "snapshot_session_id", method="GetSnapshot")
        self.assertEqual(self.peer.status("GetSnapshot", messages.GetSnapshotRequest())[0], OK)
        self.peer.call("StopContinuousProfiling", stop)

    def test_emit_xspace_has_no_second_copy(self):
        response = self.peer.call("Profile", profile_request(200, emit_xspace=True))
        self.assertTrue(response.HasField("xspace"))
        self.assertEqual(len(response.tool_data), 0)
        self.assertFalse(response.empty_trace)

    def test_many_calls_that_are_cancelled(self):
        for _ in range(200):
            self.peer.start("Profile", profile_request(10_000), timeout_s=20).cancel()
        # Nobody holds the line: the capture of tearDown gets its turn at once.
        code, text = self.peer.status("Profile", profile_request(100), timeout_s=9)
        self.assertEqual(code, OK, text)

    def test_a_flood_of_callers_is_bounded(self):
        futures = [self.peer.start("Profile", profile_request(50), timeout_s=4) for _ in range(600)]
        codes = {future.code() for future in futures}
        self.assertIn(OK, codes)
        allowed = {OK, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED, INVALID}
        self.assertLessEqual(codes, allowed)


if __name__ == "__main__":
    case.main("train_loop")
