# SPDX-License-Identifier: Apache-2.0
"""Checks which libcupti is loaded, and records what it writes, for the tests that have no GPU."""
import os
import shutil
import struct
import subprocess

from gpu_tests import expectations as expect
from gpu_tests.outcome import Skipped, check, require

COUNTED = "CountedKernel"


def _real(fixture):
    if fixture.fake:
        raise Skipped("needs the CUDA runtime")


def _finds_by_itself(fixture):
    _real(fixture)
    if fixture.cuda_major < 13:
        raise Skipped("this machine's driver, or --cuda=12, wants one libcupti for all workers")


def _loaded(worker):
    return [os.path.realpath(path) for path in worker.mapped("libcupti.so")]


def _captured_with(worker, fixture, expected):
    require(not _loaded(worker) or _loaded(worker) == [os.path.realpath(expected)],
            f"libcupti is mapped before the first capture: {_loaded(worker)}")
    trace = fixture.captured(worker, "launch", kernels=200)
    measured = expect.kernel_count(trace, COUNTED, 200)
    require(_loaded(worker) == [os.path.realpath(expected)], f"{_loaded(worker)} is mapped, not {expected}")
    return measured


@check(90, "libcupti beside the shared CUDA runtime is found without any help, and not before the first capture")
def beside_the_runtime(fixture):
    _finds_by_itself(fixture)
    with fixture.worker() as worker:
        return _captured_with(worker, fixture, fixture.libcupti)


@check(90, "with the static runtime: found by the linker's path")
def static_runtime(fixture):
    _finds_by_itself(fixture)
    with fixture.worker(program="gpu_worker_static") as worker:
        return _captured_with(worker, fixture, fixture.libcupti)


@check(90, "JOBSCOPE_CUPTI_LIBRARY comes first")
def named_library(fixture):
    _finds_by_itself(fixture)
    copy = shutil.copy(fixture.libcupti, os.path.join(fixture.work, "libcupti.so.13"))
    with fixture.worker(program="gpu_worker_static", JOBSCOPE_CUPTI_LIBRARY=copy) as worker:
        return _captured_with(worker, fixture, copy)


@check(90, "a libcupti that the application has loaded already is used, not a second one")
def loaded_already(fixture):
    _finds_by_itself(fixture)
    copy = shutil.copy(fixture.libcupti, os.path.join(fixture.work, "libcupti.so.13"))
    with fixture.worker(f"--preload={copy}") as worker:
        return _captured_with(worker, fixture, copy)


@check(120, "libcupti of the major before the driver's: counts, copies and order hold with it, too")
def earlier_major(fixture):
    _real(fixture)
    found = [path for version, path in fixture.cuptis() if version[0] == 12]
    if not found:
        raise Skipped("the bundle holds no libcupti.so.12 (make gpu-bundle takes it from build/wheels)")
    if fixture.cuda_major < 13:
        raise Skipped("every other check is this one")
    with fixture.worker(program="gpu_worker_static", JOBSCOPE_CUPTI_LIBRARY=found[-1]) as worker:
        measured = _captured_with(worker, fixture, found[-1])
        trace = fixture.captured(worker, "launch", kernels=5000, threads=2, streams=2)
        measured["order"] = expect.launch_order(trace, COUNTED)
        trace = fixture.captured(worker, "copy", count=20, bytes=1 << 20)
        measured["copies"] = expect.copies(trace, 20, 1 << 20)
    return measured


@check(120, "CUPTI's raw buffers of a small job, written down for the tests that have no GPU")
def record_buffers(fixture):
    if not fixture.fake and fixture.cuda_major < 13:
        raise Skipped("the recorder is linked to libcupti 13")
    recorder = fixture.options.get("recorder") or os.path.join(fixture.root, "recorder", "libcupti_recorder.so")
    target = os.path.join(fixture.work, "h.cuptirec")
    origin = "fake libcupti" if fixture.fake else _gpu_names()
    variables = {
        "JOBSCOPE_CUPTI_LIBRARY": recorder,
        "CUPTI_RECORDING": target,
        "CUPTI_RECORDING_ORIGIN": origin,
        "CUPTI_RECORDED_LIBRARY": fixture.libcupti,
    }
    with fixture.worker(**variables) as worker:
        worker.do("make_graph", kernels=4)
        capture = fixture.begin(worker)
        worker.do("launch", kernels=40, threads=2, streams=2)
        worker.do("copy", count=3, bytes=1 << 16)
        worker.do("allocate", count=3, bytes=1 << 20)
        worker.do("replay_graph", times=5)
        trace = capture.stop().finish().trace
        measured = expect.kernel_count(trace, COUNTED, 40)
    blocks = _blocks(target)
    names = [payload[8:].decode(errors="replace") for tag, payload in blocks if tag == STRING]
    buffers = [payload for tag, payload in blocks if tag == BUFFER]
    require(any(COUNTED in name for name in names), f"no {COUNTED} among the recording's names: {names[:5]}")
    require(sum(map(len, buffers)) > 5000, f"the recording's {len(buffers)} buffers are too short")
    kept = fixture.options.get("recordings")
    if kept:
        os.makedirs(kept, exist_ok=True)
        shutil.copy(target, os.path.join(kept, "recorded.cuptirec"))
    return {**measured, "recording_bytes": os.path.getsize(target), "buffers": len(buffers), "names": len(names), "origin": origin}


STRING, BUFFER = 2, 3  # of tests/collectors/cuda/recordings/recording.h


def _blocks(path):
    """(tag, payload) of a recording."""
    with open(path, "rb") as file:
        data = file.read()
    require(data[:8] == b"JSCUPTI1", f"{path} is no recording")
    at, blocks = 16, []
    while at + 16 <= len(data):
        tag, size = struct.unpack_from("<I4xQ", data, at)
        require(at + 16 + size <= len(data), f"{path} is cut")
        blocks.append((tag, data[at + 16:at + 16 + size]))
        at += 16 + (size + 7) // 8 * 8
    return blocks


def _gpu_names():
    try:
        run = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=False)
        return run.stdout.decode().splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown GPU"


@check(120, "examples/train_loop.cu: steps, kernels, copies on a second stream, graph replay and input waits in one capture")
def train_loop_example(fixture):
    _real(fixture)
    program = fixture.binary("train_loop_cuda")
    process = subprocess.Popen([program, "--listen=127.0.0.1:0", "--seconds=60"], stdout=subprocess.PIPE,
                               env=fixture.environment())
    try:
        address = process.stdout.readline().decode().split()[-1]
        trace = fixture.capture_of(address, duration_ms=1000).trace
        process.terminate()
        require(process.wait(20) == 0, f"train_loop_cuda ended with {process.returncode}")
    finally:
        if process.poll() is None:
            process.kill()
    expect.nothing_lost(trace)
    names = {event.name.split("(")[0] for event in trace.device_events()}
    for part in ("Gemm", "MemcpyHtoD"):
        require(any(part in name for name in names), f"no {part} on the GPU: {sorted(names)}")
    waits = [e for e in trace.host_events() if e.name.endswith("next_batch")]
    require(waits, "no input wait in the host's trace")
    graph = expect.kernels(trace, "UpdateWeights")  # is launched by the graph only
    require(graph, "no node of a graph on the GPU")
    steps = sum(1 for e in trace.host_events() if "step_num" in e.stats)
    require(steps > 5, f"{steps} steps")
    return {"steps": steps, "graph_nodes": len(graph), "input_waits": len(waits), "kernels": sorted(names)[:20]}
