# SPDX-License-Identifier: Apache-2.0
"""A process that records through the C ABI and captures itself, without a server.

    own_recorder.py LIBRARY_DIRECTORY LOGDIR STEPS SCOPES_PER_STEP PART_LIMIT_BYTES

Prints the run directory, the events and the losses as JSON.
"""

import ctypes
import json
import sys

BIT_STEP, BIT_LEVEL1 = 1 << 0, 1 << 3
ROLE_SCOPE, ROLE_STEP = 0, 1


class Token(ctypes.Structure):
    _fields_ = [("begin_ticks", ctypes.c_uint64), ("place", ctypes.c_uint64)]


class CaptureOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("host_tracer_level", ctypes.c_int),
        ("device_tracer_level", ctypes.c_int),
        ("python_tracer_level", ctypes.c_int),
        ("max_trace_bytes", ctypes.c_uint64),
        ("lookback_ms", ctypes.c_uint64),
        ("part_limit_bytes", ctypes.c_uint64),
    ]


class CaptureResult(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("run_directory", ctypes.c_char * 4096),
        ("events", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
    ]


class Recorder:
    def __init__(self, directory):
        self.trace = ctypes.CDLL(f"{directory}/libjobscope_trace.so.0", mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(f"{directory}/libjobscope.so")
        self.trace.jobscope_trace_begin.restype = Token
        self.trace.jobscope_trace_step_begin.restype = Token
        self.trace.jobscope_trace_step_begin.argtypes = [ctypes.c_uint32, ctypes.c_int64]
        self.trace.jobscope_trace_end.argtypes = [ctypes.c_uint32, Token, ctypes.c_void_p, ctypes.c_uint32]
        self.trace.jobscope_trace_step_end.argtypes = [ctypes.c_uint32, Token, ctypes.c_int64]

    def site(self, name, bit, role):
        return self.trace.jobscope_trace_site(name, b"", b"own_recorder.py", 1, bit, role, None, 0)

    def checked(self, function, *arguments):
        error = ctypes.create_string_buffer(1024)
        if function(*arguments, error, ctypes.c_size_t(len(error))) != 0:
            sys.exit("own_recorder: " + error.value.decode())


def main():
    directory, logdir, steps, scopes, part_limit = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    recorder = Recorder(directory)
    step_site = recorder.site(b"train", BIT_STEP, ROLE_STEP)
    scope_site = recorder.site(b"work", BIT_LEVEL1, ROLE_SCOPE)
    options = CaptureOptions(ctypes.sizeof(CaptureOptions), -1, -1, -1, 0, 0, part_limit)
    recorder.checked(recorder.library.jobscope_capture_start, logdir.encode(), ctypes.byref(options))
    begin, end = recorder.trace.jobscope_trace_begin, recorder.trace.jobscope_trace_end
    for number in range(steps):
        step = recorder.trace.jobscope_trace_step_begin(step_site, number)
        for _ in range(scopes):
            end(scope_site, begin(scope_site), None, 0)
        recorder.trace.jobscope_trace_step_end(step_site, step, number)
    result = CaptureResult(ctypes.sizeof(CaptureResult))
    recorder.checked(recorder.library.jobscope_capture_stop, ctypes.byref(result))
    print(json.dumps({"run_directory": result.run_directory.decode(), "events": result.events, "lost": result.lost}))


main()
