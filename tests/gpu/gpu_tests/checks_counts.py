# SPDX-License-Identifier: Apache-2.0
"""Checks that each piece of work on the GPU is in the trace exactly once."""
from gpu_tests import expectations as expect
from gpu_tests.outcome import Skipped, check, require

COUNTED = "CountedKernel"
MAX_LOST_OF_CUPTI = 10


@check(180, "N launches are N kernels in the trace, none lost, for 1, 1,000 and 20,000")
def known_counts(fixture):
    measured = {}
    with fixture.worker() as worker:
        for count in (1, 1000, fixture.amount(20000, 3000)):
            trace = fixture.captured(worker, "launch", kernels=count)
            measured[str(count)] = expect.kernel_count(trace, COUNTED, count)
            expect.host_trace_complete(trace)
    return measured


@check(180, "8 threads with 4 streams each: every kernel, on its stream, launched on its thread")
def streams_and_threads(fixture):
    threads, streams, count = 8, 4, fixture.amount(8000, 1600)
    with fixture.worker() as worker:
        trace = fixture.captured(worker, "launch", kernels=count, threads=threads, streams=streams)
    return {
        **expect.kernel_count(trace, COUNTED, count),
        **expect.stream_count(trace, COUNTED, threads * streams),
        **expect.thread_count(trace, COUNTED, threads),
    }


@check(240, "buffers of 1 MiB for 100,000 launches of 4 threads: much is lost, and the account says so: in trace + lost covers all")
def loss_is_counted(fixture):
    count = fixture.amount(100000, 20000)
    # NVML off: its thread queries CUDA, and would hold the only buffer, as CUPTI gives each thread its own.
    with fixture.worker(JOBSCOPE_CUDA_BUFFER_MB="1", JOBSCOPE_NVML_MS="0") as worker:
        for _ in range(5):  # on a busy machine the threads may be too slow to fill the buffers
            trace = fixture.captured(worker, "launch", kernels=count, threads=4, streams=2)
            measured = expect.kernel_count(trace, COUNTED, count, may_lose=True)
            if measured["in_trace"] < count:
                break
        measured["lost_by_cause"] = trace.entry.get("lost_by_cause", {})
        require(measured["in_trace"] < count, "nothing was lost: the buffers were large enough, and nothing is tested")
        # And it recovers: all kernels are there again. CUPTI's threads, which have no buffer, lose some records of their own.
        trace = fixture.captured(worker, "launch", kernels=200)
        measured["next"] = expect.kernel_count(trace, COUNTED, 200, may_lose=True)
        require(measured["next"]["in_trace"] == 200 and measured["next"]["lost"] <= MAX_LOST_OF_CUPTI,
                f"the next capture is not whole: {measured['next']}, {trace.entry.get('lost_by_cause')}")
    return measured


@check(240, "600,000 launches of 4 threads at their highest rate: in trace + lost covers all, within the buffers that are the default")
def highest_rate(fixture):
    count = fixture.amount(600000, 20000)
    with fixture.worker() as worker:
        before = worker.usage()["rss_bytes"]
        capture = fixture.begin(worker)
        answer = worker.do("launch", kernels=count, threads=4, streams=2)
        trace = capture.stop().finish().trace
        after = worker.usage()["rss_bytes"]
    measured = expect.kernel_count(trace, COUNTED, count, may_lose=True)
    return {**measured, "lost_by_cause": trace.entry.get("lost_by_cause"), "launches_per_s": count / answer["ms"] * 1e3,
            "rss_mib": [round(bytes_ / 2**20) for bytes_ in (before, after)], "warnings": trace.entry.get("warnings", [])}


@check(240, "of 30,000 kernels at least 99.99 % start after the call that launched them, and each has one")
def launch_order(fixture):
    count = fixture.amount(30000, 2000)
    work = {"kernels": count, "threads": 2, "streams": 2}
    with fixture.worker() as worker:
        worker.do("launch", **work)
        before = worker.do("launch", **work)
        capture = fixture.begin(worker)
        during = worker.do("launch", **work)
        trace = capture.stop().finish().trace
        after = worker.do("launch", **work)
    measured = expect.launch_order(trace, COUNTED)
    # For information: what a launch costs, two threads at it, without anything else to do.
    for name, answer in (("before", before), ("during", during), ("after", after)):
        measured[f"us_per_launch_{name}"] = answer["ms"] * 1000 / count
    measured["ready_seconds"] = capture.ready_seconds
    return measured


@check(90, "how long kernels take and how far apart they begin, against what CUDA's events measured")
def durations_and_gaps(fixture):
    with fixture.worker() as worker:
        worker.do("timed", kernels=20, us=500, gap_us=200)  # the first launch of a kernel takes longer
        capture = fixture.begin(worker)
        times = worker.do("timed", kernels=fixture.amount(100, 20), us=500, gap_us=200)
        trace = capture.stop().finish().trace
    return expect.times_agree(trace, "TimedKernel", times["length_us"], times["period_us"])


@check(90, "copies to, within and from the GPU and memsets: number, bytes and kinds of memory")
def copy_kinds_and_bytes(fixture):
    count, size = 50, (1 << 20) + 4096
    with fixture.worker() as worker:
        trace = fixture.captured(worker, "copy", count=count, bytes=size)
    return expect.copies(trace, count, size)


@check(90, "allocations and releases: number, bytes, running total and peak; cudaMalloc")
def allocation_totals(fixture):
    count, size = 40, 3 << 20
    with fixture.worker() as worker:
        trace = fixture.captured(worker, "allocate", count=count, bytes=size)
    return expect.allocations(trace, count, size)


@check(90, "the same for cudaMallocAsync")
def pool_allocation_totals(fixture):
    count, size = 40, 3 << 20
    with fixture.worker() as worker:
        trace = fixture.captured(worker, "allocate", count=count, bytes=size, pool=1)
    return expect.allocations(trace, count, size)


@check(90, "kernels on managed memory: number, right results while pages migrate, and the migrations or why they are not reported")
def unified_memory(fixture):
    times, size = 20, 16 << 20
    with fixture.worker(JOBSCOPE_CUDA_UNIFIED_MEMORY="1") as worker:
        trace = fixture.captured(worker, "managed", times=times, bytes=size)
    measured = expect.kernel_count(trace, "ManagedKernel", times)
    custom = trace.planes.get("/device:CUSTOM:CUDA", [])
    measured["migrations_in_trace"] = sum(1 for event in custom if event.name.startswith("migration"))
    said = [text for text in trace.entry.get("warnings", []) if "unified memory" in text]
    measured["warnings"] = said
    if not fixture.fake:
        require(measured["migrations_in_trace"] > 0 or said, "no migration in the trace, and no word why")
    return measured


@check(120, "the second GPU's kernels are in its own plane; copies between the two are marked as such")
def two_gpus(fixture):
    with fixture.worker("--device=1", "--lazy") as worker:
        if not fixture.fake and _devices(fixture) < 2:
            raise Skipped("one GPU only")
        worker.do("launch", kernels=1)
        trace = fixture.captured(worker, "launch", kernels=500)
        measured = expect.kernel_count(trace, COUNTED, 500, ordinal=1)
    with fixture.worker() as worker:
        trace = fixture.captured(worker, "peer", count=10, bytes=4 << 20)
        measured["peer"] = expect.peer_copies(trace, 10, 4 << 20)
    return measured


def _devices(fixture):
    with fixture.worker() as worker:
        return worker.do("describe")["devices"]
