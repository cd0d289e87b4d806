# SPDX-License-Identifier: Apache-2.0
"""The messages of proto/, and raw calls with them."""

import os
import subprocess
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FILES = [
    "tensorflow/profiler_service.proto",
    "tensorflow/xplane.proto",
    "jobscope/v1/profiler.proto",
    "jobscope/v1/item.proto",
    "jobscope/v1/digest.proto",
]


def _load_pool():
    """A pool of our own, so that the same names in TensorFlow's or XProf's generated code do not clash."""
    root = os.environ["JOBSCOPE_PROTO_DIR"]
    with tempfile.NamedTemporaryFile(suffix=".binpb") as out:
        subprocess.run(
            ["protoc", f"--proto_path={root}", "--include_imports", f"--descriptor_set_out={out.name}", *_FILES],
            check=True,
            timeout=30,
        )
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return pool


_pool = _load_pool()


def message(name):
    """The class of a message by its full name, such as `tensorflow.ProfileRequest`."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(name))


ProfileRequest = message("tensorflow.ProfileRequest")
ProfileResponse = message("tensorflow.ProfileResponse")
MonitorRequest = message("tensorflow.MonitorRequest")
MonitorResponse = message("tensorflow.MonitorResponse")
TerminateRequest = message("tensorflow.TerminateRequest")
TerminateResponse = message("tensorflow.TerminateResponse")
GetSnapshotRequest = message("tensorflow.GetSnapshotRequest")
ContinuousProfilingResponse = message("tensorflow.ContinuousProfilingResponse")
StopContinuousProfilingRequest = message("tensorflow.StopContinuousProfilingRequest")
StopContinuousProfilingResponse = message("tensorflow.StopContinuousProfilingResponse")
XSpace = message("tensorflow.profiler.XSpace")
DescribeRequest = message("jobscope.v1.DescribeRequest")
DescribeResponse = message("jobscope.v1.DescribeResponse")
StopRequest = message("jobscope.v1.StopRequest")
StopResponse = message("jobscope.v1.StopResponse")
Summary = message("jobscope.v1.Summary")

_METHODS = {
    "Profile": ("tensorflow.ProfilerService", ProfileResponse),
    "Monitor": ("tensorflow.ProfilerService", MonitorResponse),
    "Terminate": ("tensorflow.ProfilerService", TerminateResponse),
    "GetSnapshot": ("tensorflow.ProfilerService", ProfileResponse),
    "StartContinuousProfiling": ("tensorflow.ProfilerService", ContinuousProfilingResponse),
    "StopContinuousProfiling": ("tensorflow.ProfilerService", StopContinuousProfilingResponse),
    "Describe": ("jobscope.v1.Profiler", DescribeResponse),
    "Stop": ("jobscope.v1.Profiler", StopResponse),
}


def profile_request(duration_ms, **fields):
    """What a stock client sends, with `fields` of ProfileRequest set on top."""
    request = ProfileRequest(
        duration_ms=duration_ms,
        max_events=1_000_000,
        tools=["trace_viewer", "overview_page", "xplane.pb"],
        session_id="2026_01_01_00_00_00",
        host_name="127.0.0.1:1",
    )
    opts = request.opts
    opts.version = 1
    opts.host_tracer_level = 2
    opts.device_tracer_level = 1
    opts.duration_ms = duration_ms
    for name, value in fields.items():
        setattr(request, name, value)
    return request


class Peer:
    """A raw gRPC caller. Requests may be messages or bytes."""

    def __init__(self, address):
        self._channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.max_receive_message_length", -1),
                ("grpc.max_send_message_length", -1),
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )

    def close(self):
        self._channel.close()

    def start(self, method, request, timeout_s):
        """Returns the call's future."""
        service, response = _METHODS[method]
        return self.start_raw(f"/{service}/{method}", request, timeout_s, response.FromString)

    def start_raw(self, path, request, timeout_s, parse=None):
        serialize = (lambda value: value) if isinstance(request, bytes) else (lambda value: value.SerializeToString())
        call = self._channel.unary_unary(path, request_serializer=serialize, response_deserializer=parse)
        return call.future(request, timeout=timeout_s)

    def call(self, method, request, timeout_s=20):
        return self.start(method, request, timeout_s).result()

    def status(self, method, request, timeout_s=20):
        """(code, details) of a call, also of one that succeeds."""
        return outcome(self.start(method, request, timeout_s))


def outcome(future):
    return future.code(), future.details()
