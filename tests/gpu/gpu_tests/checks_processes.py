# SPDX-License-Identifier: Apache-2.0
"""The job comes first: processes that fork, leave, share the GPU, or are not alone with CUPTI."""
import os
import shutil
import signal
import time

from gpu_tests import expectations as expect
from gpu_tests.outcome import Failed, Skipped, check, require

COUNTED = "CountedKernel"
SUBSCRIBER = "gpu_tests_other_tool"
NOBODY = 65534


@check(180, "three processes on one GPU in one capture: each trace holds that process's kernels, and no other's")
def several_processes(fixture):
    counts = (700, 800, 900)
    with fixture.worker() as one, fixture.worker() as two, fixture.worker() as three:
        workers = (one, two, three)
        capture = fixture.begin(*workers)
        for worker, count in zip(workers, counts):
            worker.post("launch", kernels=count, threads=2, streams=2)
        for worker in workers:
            worker.answer()
        run = capture.stop().finish()
    require(run.exit_code == 0, f"exit code {run.exit_code}: {run.manifest}")
    by_address = {trace.entry["address"]: trace for trace in run.traces}
    return {
        worker.address: expect.kernel_count(by_address[worker.address], COUNTED, count)
        for worker, count in zip(workers, counts)
    }


@check(120, "a capture before the first CUDA call is a host trace with a reason; the next one has the kernels")
def before_the_first_call(fixture):
    with fixture.worker("--lazy") as worker:
        trace = fixture.captured(worker, "host", scopes=10)
        measured = expect.host_trace_complete(trace, "host work")
        # The fake's libcuda is no installed driver.
        why = "no NVIDIA driver" if fixture.fake else "this process has not used CUDA"
        measured.update(expect.gpu_part_missing(trace, ("off",), why))
        worker.do("launch", kernels=10)
        trace = fixture.captured(worker, "launch", kernels=500)
        measured.update(expect.kernel_count(trace, COUNTED, 500))
    return measured


@check(120, "a child forked in a capture leaves at once, and the parent's capture is complete")
def forked_child(fixture):
    with fixture.worker() as worker:
        capture = fixture.begin(worker)
        worker.do("launch", kernels=250)
        child = worker.do("fork", deadline_s=fixture.time_limit(20))
        require(child["child_exit"] == 7, f"the child ended with {child['child_exit']}, not 7")
        require(child["ms"] < 1000 * fixture.time_limit(2), f"the child took {child['ms']:.0f} ms to leave")
        worker.do("launch", kernels=250)
        measured = expect.kernel_count(capture.stop().finish().trace, COUNTED, 500)
        require(worker.end() == 0, "the worker did not end well after the fork")
    return {**measured, "child_ms": child["ms"]}


@check(240, "a process that returns from main in a capture, work in flight, ends at once and well; the trace is kept")
def exit_in_capture(fixture):
    measured = _exit_in_capture(fixture)
    # Then CUDA and CUPTI end before what the server registered at its start.
    measured["cuda_opened_after_the_server"] = _exit_in_capture(fixture, "--lazy")
    return measured


def _exit_in_capture(fixture, *flags):
    with fixture.worker(*flags) as worker:
        worker.do("launch", kernels=10)
        capture = fixture.begin(worker)
        worker.do("launch", kernels=200)
        worker.do("train_start", cycle=50)
        # For longer than a capture that stops waits for work.
        worker.do("spin", ms=fixture.amount(1000, 3000))
        begun = time.monotonic()
        worker.do("exit", code=0)
        code = worker.wait(fixture.time_limit(20))
        seconds = time.monotonic() - begun
        run = capture.finish(60)
    require(code == 0, f"the worker ended with {code}: {worker.errors()}")
    require(seconds < fixture.time_limit(5), f"the worker took {seconds:.1f} s to leave")
    require(run.trace.outcome in ("ok", "truncated"), f"outcome {run.trace.outcome}: {run.trace.reason}")
    found = len(expect.kernels(run.trace, COUNTED))
    return {"exit_seconds": seconds, "outcome": run.trace.outcome, "kernels_kept_of_200": found}


@check(120, "a process that is killed in a capture: the client says so within seconds, and the GPU goes on for others")
def kill_in_capture(fixture):
    length_ms = fixture.amount(3000, 10_000)
    with fixture.worker() as worker, fixture.worker() as other:
        # It is tried again until the planned end, in case that only the connection broke, and for a second after it.
        capture = fixture.begin(worker, other, duration_ms=length_ms, flags=["--resume_timeout_ms=1000"])
        begun = time.monotonic()
        worker.do("launch", kernels=200)
        other.do("launch", kernels=100)
        os.kill(worker.pid, signal.SIGKILL)
        other.do("launch", kernels=100)
        run = capture.finish(30)
        seconds = time.monotonic() - begun
        by_address = {trace.entry["address"]: trace for trace in run.traces}
        dead = by_address[worker.address]
        require(dead.outcome in ("died", "truncated"), f"outcome of the killed: {dead.outcome}, {dead.reason}")
        require(seconds < length_ms / 1000 + fixture.time_limit(5), f"the capture of {length_ms} ms took {seconds:.1f} s")
        measured = expect.kernel_count(by_address[other.address], COUNTED, 200)
    return {**measured, "outcome_of_the_killed": dead.outcome, "seconds": seconds}


@check(120, "a capture that ends while a kernel of seconds runs: no wait for it, kernel cut or counted, the next one whole")
def stop_with_work_in_flight(fixture):
    length_ms = fixture.amount(5000, 6000)
    with fixture.worker() as worker:
        capture = fixture.begin(worker)
        worker.do("spin", ms=length_ms)
        begun = time.monotonic()
        run = capture.stop().finish()
        seconds = time.monotonic() - begun
        trace = run.trace
        cut = [e for e in expect.kernels(trace, "SpinKernel") if "truncated" in e.stats]
        lost = trace.entry.get("lost_by_cause", {}).get("gpu_unfinished", 0)
        state = trace.cuda["state"]
        require(seconds < length_ms / 1000 * 0.75 + 0.5, f"the end of the capture took {seconds:.1f} s: it waited for the kernel")
        require(state == "on", f"the CUDA collector is {state}: {trace.cuda.get('reason')}")
        require(len(cut) + lost >= 1, "the kernel in flight is neither in the trace nor counted as lost")
        worker.do("finish", deadline_s=30)
        trace = fixture.captured(worker, "launch", kernels=300)
        measured = expect.kernel_count(trace, COUNTED, 300)
    return {**measured, "seconds_to_end": seconds, "cut": len(cut), "gpu_unfinished": lost}


@check(120, "a queue of hundreds of kernels that the end cuts: each launch is whole, cut, after the end or unfinished; the next one whole")
def queue_cut_in_the_middle(fixture):
    # CUDA takes some 1,000 launches before it makes the program wait.
    count, each_us = fixture.amount(900, 300), fixture.amount(2000, 20_000)
    with fixture.worker() as worker:
        capture = fixture.begin(worker)
        worker.do("queue", kernels=count, us=each_us)
        begun = time.monotonic()
        trace = capture.stop().finish().trace
        seconds = time.monotonic() - begun
        require(seconds < count * each_us / 1e6 * 0.75 + 0.5, f"the end of the capture took {seconds:.1f} s: it waited for the queue")
        measured = expect.queue_accounted_for(trace, "QueuedKernel", count)
        worker.do("finish", deadline_s=30)
        trace = fixture.captured(worker, "launch", kernels=300)
        measured["next"] = expect.kernel_count(trace, COUNTED, 300)
    return {**measured, "seconds_to_end": seconds}


@check(120, "JOBSCOPE_CUPTI_FINALIZE=always with a kernel of seconds in flight: CUPTI is left alone, nobody waits")
def finalize_with_work_in_flight(fixture):
    length_ms = fixture.amount(5000, 6000)
    with fixture.worker(JOBSCOPE_CUPTI_FINALIZE="always") as worker:
        capture = fixture.begin(worker)
        worker.do("spin", ms=length_ms)
        begun = time.monotonic()
        trace = capture.stop().finish().trace
        answered = worker.do("host", scopes=1)["ms"]
        seconds = time.monotonic() - begun
        expect.collector_on(trace)
        require(seconds < length_ms / 1000 * 0.75 + 0.5, f"the end of the capture took {seconds:.1f} s: it waited for the kernel")
        said = [text for text in trace.entry.get("warnings", []) if "work that is in flight" in text]
        require(said, f"no word that CUPTI stays: {trace.entry.get('warnings')}")
        worker.do("finish", deadline_s=30)
        trace = fixture.captured(worker, "launch", kernels=300)
        measured = expect.kernel_count(trace, COUNTED, 300)
        require(worker.end() == 0, "the worker did not end well")
    return {**measured, "seconds_to_end": seconds, "answered_ms": answered}


@check(180, "streams are captured into graphs while captures arm and stop, in the strictest mode: no capture of a stream breaks")
def stream_capture_in_arm_and_stop(fixture):
    with fixture.worker() as worker:
        worker.do("graphs_start")
        for _ in range(fixture.amount(20, 4)):
            capture = fixture.begin(worker)
            worker.do("host", scopes=1)  # a capture without any event would have no trace
            expect.collector_on(capture.stop().finish().trace)
        built = worker.do("graphs_stop")["graphs"]
        require(built > 0, "no graph was built")
        trace = fixture.captured(worker, "launch", kernels=300)
        return {**expect.kernel_count(trace, COUNTED, 300), "graphs": built}


@check(180, "another profiler traces by the activity API, before our capture and within it: the job and its host trace go on, the next is whole")
def conflicts_both_ways(fixture):
    measured = {}
    with fixture.worker() as worker:
        # It was there first.
        worker.do("client_start", library=fixture.libcupti)
        worker.do("launch", kernels=100)
        trace = fixture.captured(worker, "launch", kernels=100)
        measured["ours_within_theirs"] = {**expect.host_trace_complete(trace), "gpu": trace.cuda.get("state")}
        measured["theirs"] = worker.do("client_stop")["kernels"]
        # It comes in the middle.
        capture = fixture.begin(worker)
        worker.do("launch", kernels=100)
        worker.do("client_start", library=fixture.libcupti)
        worker.do("launch", kernels=100)
        worker.do("client_stop")
        trace = capture.stop().finish().trace
        measured["theirs_within_ours"] = {**expect.host_trace_complete(trace), "gpu": trace.cuda.get("state"),
                                          "kernels": len(expect.kernels(trace, COUNTED)), "lost": trace.cuda.get("lost")}
        trace = fixture.captured(worker, "launch", kernels=400)
        measured.update(expect.kernel_count(trace, COUNTED, 400))
        require(worker.end() == 0, "the worker did not end well")
    return measured


@check(120, "a PyTorch profiler that is idle and keeps CUPTI's subscription: every kernel with its launch, and a word of it")
def idle_kineto(fixture):
    with fixture.worker(f"--preload={fixture.pytorch}") as worker:
        worker.do("subscribe", library=fixture.libcupti)
        measured = {}
        for number in (1, 2):
            trace = fixture.captured(worker, "launch", kernels=400)
            measured = expect.kernel_count(trace, COUNTED, 400)
            measured["order"] = expect.launch_order(trace, COUNTED)
            said = [text for text in trace.entry.get("warnings", []) if "traced without one" in text]
            require(said, f"capture {number}: no word of the subscription: {trace.entry.get('warnings')}")
        worker.do("unsubscribe")
        trace = fixture.captured(worker, "launch", kernels=400)
        expect.kernel_count(trace, COUNTED, 400)
        require(worker.end() == 0, "the worker did not end well")
    return measured


@check(120, "another CUPTI client is the reason, from CUDA 13 on by name, the host trace is whole; after it has left, all is")
def second_subscriber(fixture):
    with fixture.worker() as worker:
        worker.do("subscribe", library=fixture.libcupti, name=SUBSCRIBER)
        trace = fixture.captured(worker, "launch", kernels=10)
        measured = expect.host_trace_complete(trace)
        # CUPTI knows names from 13.0 on.
        names = [SUBSCRIBER] if fixture.cuda_major >= 13 else []
        measured.update(expect.gpu_part_missing(trace, ("failed", "off"), "already being profiled", *names))
        worker.do("unsubscribe")
        trace = fixture.captured(worker, "launch", kernels=400)
        measured.update(expect.kernel_count(trace, COUNTED, 400))
    return measured


@check(120, "an unprivileged user: the kernels, or the reason with its remedy beside a whole host trace")
def unprivileged_user(fixture):
    if fixture.fake:
        raise Skipped("needs a GPU: whether the driver allows it")
    if os.geteuid() != 0:
        raise Skipped("not root, so every other check is this one")
    # The bundle may lie where only root may look.
    home = f"/tmp/gpu_tests_unprivileged_{os.getpid()}"
    try:
        programs = os.path.basename(os.path.dirname(fixture.binary("gpu_worker")))
        libraries = [folder for folder in ("lib", "lib12") if os.path.isdir(os.path.join(fixture.root, folder))]
        for folder, files in [(programs, ["gpu_worker"]), *((f, os.listdir(os.path.join(fixture.root, f))) for f in libraries)]:
            os.makedirs(os.path.join(home, folder))
            for name in files:
                path = os.path.join(fixture.root, folder, name)
                if os.path.isfile(path):
                    shutil.copy(path, os.path.join(home, folder, name))
        os.chmod(home, 0o755)
        chosen = {}
        if fixture.cuda_major < 13:
            chosen["JOBSCOPE_CUPTI_LIBRARY"] = shutil.copy(fixture.libcupti, os.path.join(home, "lib"))
        restricted = _restricted()
        with fixture.worker(argv=[os.path.join(home, programs, "gpu_worker")], user=NOBODY, **chosen) as worker:
            trace = fixture.captured(worker, "launch", kernels=500)
        measured = {"RmProfilingAdminOnly": restricted, **expect.host_trace_complete(trace)}
        if trace.cuda["state"] == "on":
            measured.update(expect.kernel_count(trace, COUNTED, 500))
        else:
            measured.update(expect.gpu_part_missing(trace, ("failed",), "NVreg_RestrictProfilingToAdminUsers"))
        return measured
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _restricted():
    try:
        with open("/proc/driver/nvidia/params", encoding="utf-8") as file:
            return next((line.split()[1] for line in file if line.startswith("RmProfilingAdminOnly")), "not known")
    except OSError as error:
        return f"not known: {error}"


@check(60, "a worker without a GPU to see says so, and ends with its own code")
def no_device_is_reported(fixture):
    if fixture.fake:
        raise Skipped("needs the CUDA runtime")
    from gpu_tests.worker import NoDevice
    try:
        with fixture.worker(CUDA_VISIBLE_DEVICES=""):
            pass
    except NoDevice as said:
        require("CUDA" in str(said), f"the message is {said}")
        return {"message": str(said)[:200]}
    raise Failed("a worker with CUDA_VISIBLE_DEVICES= found a device")
