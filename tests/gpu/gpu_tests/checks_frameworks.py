# SPDX-License-Identifier: Apache-2.0
"""Training jobs of PyTorch and JAX that know nothing of jobscope, on the GPU."""
import importlib.util
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from gpu_tests import expectations as expect
from gpu_tests.outcome import Skipped, check, require
from gpu_tests.worker import Worker

JOBS = os.path.join(os.path.dirname(os.path.realpath(__file__)), "jobs")
SLOW_LOADER_MS = 20
SLOW_HOST_MS = 10


def _job(fixture, framework, **environment):
    """A worker that `jobscope run` starts."""
    if fixture.fake:
        raise Skipped("needs a GPU")
    if importlib.util.find_spec(framework) is None:
        raise Skipped(f"{sys.executable} has no {framework}")
    ports = fixture.path("ports")
    os.makedirs(ports)
    env = {key: value for key, value in os.environ.items() if not key.startswith("JOBSCOPE_")}
    env.update(JOBSCOPE_PORT_DIR=ports, **environment)
    argv = [fixture.binary("capture"), "run", "--quiet", f"--attach_library={fixture.library('libjobscope_attach.so')}", "--",
            sys.executable, os.path.join(JOBS, f"{framework}_job.py")]
    return Worker(argv, fixture.path(f"{framework}.log"), env)


def _captured(fixture, worker, steps, flags=()):
    capture = fixture.begin(worker, flags=flags)
    answer = worker.do("train", steps=steps)
    return answer, capture.stop().finish().trace


def _kept(fixture, trace, name):
    """Keeps the trace beside the report, for XProf and the tests that have no GPU."""
    folder = fixture.options.get("recordings")
    if folder and trace.files:
        shutil.copy(trace.files[0], os.path.join(folder, f"{name}.xplane.pb"))


def _verdict(fixture, run, name):
    """What the report says; its text is kept beside the results."""
    command = [fixture.capture_client, "report", run.manifest["run_directory"]]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    folder = fixture.options.get("recordings")
    if folder:
        with open(os.path.join(folder, f"{name}.txt"), "wb") as file:
            file.write(text.stdout)
    report = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, check=False)
    return json.loads(report.stdout)["verdict"]


def _kernels_and_copies(trace):
    events = trace.device_events()
    copies = sum(1 for event in events if event.name.startswith(("Memcpy", "Memset")))
    return {"kernels": len(events) - copies, "copies": copies}


@check(180, "PyTorch without code: as many kernels and copies per step as its own profiler sees, with their launches; steps inferred")
def torch_without_code(fixture):
    steps = 100
    with _job(fixture, "torch") as worker:
        require(worker.first["device"] == "cuda", f"PyTorch finds no GPU: {worker.first}")
        _, trace = _captured(fixture, worker, steps)
        _kept(fixture, trace, "torch")
        expect.nothing_lost(trace)
        ours = _kernels_and_copies(trace)
        inferred, source = trace.entry.get("steps", 0), trace.entry.get("steps_source")
        order = expect.launch_order_inside(trace, "")
        theirs = worker.do("profile", steps=steps)
        # Kineto has been used, and may hold CUPTI's subscription from now on.
        _, trace = _captured(fixture, worker, steps)
        expect.nothing_lost(trace)
        _kept(fixture, trace, "torch_after_kineto")
        after = _kernels_and_copies(trace)
        order_after = expect.launch_order_inside(trace, "")
        require(worker.end() == 0, f"the job did not end well: {worker.errors()}")
    measured = {"torch": worker.first["torch"], "ours": ours, "kineto": {key: theirs.get(key) for key in ours}, "after_kineto": after,
                "inferred_steps": [inferred, source], "order": order, "order_after_kineto": order_after, "warnings": trace.entry.get("warnings", [])}
    require(ours == after, f"after PyTorch's profiler the trace holds something else: {measured}")
    require(ours == measured["kineto"], f"PyTorch's profiler sees something else: {measured}")
    require(not any("clock" in text for text in measured["warnings"]), f"PyTorch's clock in CUPTI is not understood: {measured}")
    require(abs(inferred - steps) <= 1, f"{inferred} inferred steps of {steps}: {measured}")
    return measured


@check(180, "PyTorch replays a CUDA graph made before the first capture: as many kernels per step as its own profiler sees")
def torch_cuda_graph(fixture):
    steps = 100
    with _job(fixture, "torch", CUDA_GRAPH="1") as worker:
        _, trace = _captured(fixture, worker, steps)
        expect.nothing_lost(trace)
        ours = _kernels_and_copies(trace)
        theirs = worker.do("profile", steps=steps)
        _, trace = _captured(fixture, worker, steps)
        expect.nothing_lost(trace)
        after = _kernels_and_copies(trace)
        require(worker.end() == 0, f"the job did not end well: {worker.errors()}")
    measured = {"ours": ours, "kineto": {key: theirs.get(key) for key in ours}, "after_kineto": after}
    require(ours == measured["kineto"] == after, f"not the same: {measured}")
    return measured


@check(240, "torch.compile with CUDA graphs, and loader processes: as many kernels per step as its own profiler sees; steps inferred")
def torch_compiled(fixture):
    steps = 100
    with _job(fixture, "torch", COMPILE="reduce-overhead", LOADER_PROCESSES="2") as worker:
        capture = fixture.begin(worker)
        worker.do("train", steps=steps)
        run = capture.stop().finish()
        expect.nothing_lost(run.trace)
        _kept(fixture, run.trace, "torch_compiled")
        ours = _kernels_and_copies(run.trace)
        inferred, source = run.trace.entry.get("steps", 0), run.trace.entry.get("steps_source")
        verdict = _verdict(fixture, run, "torch_compiled")["text"]
        theirs = worker.do("profile", steps=steps)
        require(worker.end() == 0, f"the job did not end well: {worker.errors()}")
    measured = {"ours": ours, "kineto": {key: theirs.get(key) for key in ours}, "inferred_steps": [inferred, source], "verdict": verdict,
                "warnings": run.trace.entry.get("warnings", [])}
    require(ours == measured["kineto"], f"PyTorch's profiler sees something else: {measured}")
    require(abs(inferred - steps) <= 1, f"{inferred} inferred steps of {steps}: {measured}")
    return measured


@check(180, "two ranks of PyTorch, one with a slow loader: the report names that rank, and input")
def torch_verdict(fixture):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    # Both wait for each other before they say their address: started by hand, not one after the other.
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(_job, fixture, "torch", RANK="0", **ranks)
        two = pool.submit(_job, fixture, "torch", RANK="1", LOADER_MS=str(SLOW_LOADER_MS), **ranks)
        workers = (one.result(), two.result())
    with workers[0] as fast, workers[1] as slow:
        capture = fixture.begin(fast, slow)
        for worker in workers:
            worker.post("train", steps=60)
        answers = [worker.answer() for worker in workers]
        run = capture.stop().finish()
    verdict = _verdict(fixture, run, "torch_verdict")
    measured = {"step_ms": [answer["median_ms"] for answer in answers],
                "verdict": {key: verdict.get(key) for key in ("finding", "workers", "class", "step_ms", "mended_step_ms", "text")}}
    for trace in run.traces:
        expect.nothing_lost(trace)
    require(verdict.get("class") == "input" and len(verdict.get("workers", [])) == 1, f"the verdict is another: {measured}")
    return measured


@check(180, "one rank of PyTorch: the report says what bounds it, and how long its GPU is idle")
def torch_bound(fixture):
    cases = {"as_it_is": {}, "host": {"HOST_MS": str(SLOW_HOST_MS)}, "input": {"LOADER_MS": str(SLOW_LOADER_MS)}}
    measured = {}
    for name, environment in cases.items():
        with _job(fixture, "torch", **environment) as worker:
            capture = fixture.begin(worker)
            answer = worker.do("train", steps=100)
            run = capture.stop().finish()
            require(worker.end() == 0, f"the job did not end well: {worker.errors()}")
        expect.nothing_lost(run.trace)
        _kept(fixture, run.trace, f"torch_bound_{name}")
        verdict = _verdict(fixture, run, f"torch_bound_{name}")
        measured[name] = {"job_step_ms": answer["median_ms"],
                          **{key: verdict.get(key) for key in ("finding", "class", "class_ms", "device_idle_ms", "step_ms", "mended_step_ms", "text")}}
    for name in ("host", "input"):
        require((measured[name]["finding"], measured[name]["class"]) == ("bound", name), f"the verdict for {name} is another: {measured}")
    idle_ms = measured["host"]["device_idle_ms"] or 0
    require(SLOW_HOST_MS <= idle_ms <= measured["host"]["step_ms"], f"the GPU waits {SLOW_HOST_MS} ms for each step's Python: {measured}")
    return measured


@check(180, "torch.profiler starts in the middle of a capture, and a capture in the middle of torch.profiler's: the job goes on, the next is whole")
def torch_profiler_at_once(fixture):
    with _job(fixture, "torch") as worker:
        capture = fixture.begin(worker)
        worker.do("train", steps=50)
        theirs = worker.do("profile", steps=50)
        trace = capture.stop().finish().trace
        measured = {"theirs_within_ours": {**expect.host_trace_complete(trace, "Optimizer.step#Adam.step"), **_kernels_and_copies(trace),
                                           **_gpu_part(trace), "theirs": theirs.get("kernels")}}
        worker.post("profile", steps=400)
        time.sleep(0.5)
        trace = fixture.run_capture(worker, duration_ms=500).trace
        theirs = worker.answer()
        measured["ours_within_theirs"] = {**expect.host_trace_complete(trace, "Optimizer.step#Adam.step"), **_gpu_part(trace),
                                          "theirs": theirs.get("kernels")}
        _, trace = _captured(fixture, worker, 50)
        expect.nothing_lost(trace)
        measured["next"] = _kernels_and_copies(trace)
        require(worker.end() == 0, f"the job did not end well: {worker.errors()}")
    require(measured["next"]["kernels"] > 0, f"no kernels in the next capture: {measured}")
    return measured


def _gpu_part(trace):
    return {"gpu": trace.cuda.get("state"), "reason": trace.cuda.get("reason", ""), "lost": trace.cuda.get("lost"),
            "warnings": trace.entry.get("warnings", [])}


def _step_times(fixture, worker, steps, flags=()):
    rounds = 5
    alone, ours, theirs = [], [], []
    for _ in range(rounds):
        alone.append(worker.do("train", steps=steps)["median_ms"])
        answer, trace = _captured(fixture, worker, steps, flags)
        expect.delivered(trace)
        ours.append(answer["median_ms"])
        alone.append(worker.do("train", steps=steps)["median_ms"])
        theirs.append(worker.do("profile", steps=steps)["median_ms"])
    base = statistics.median(alone)
    return {"step_ms": base, "alone": alone, "ours": statistics.median(ours) / base, "theirs": statistics.median(theirs) / base}


@check(120, "how long captures of 500 ms of a PyTorch job take: from the command to its end, at most a second more")
def torch_capture_seconds(fixture):
    with _job(fixture, "torch") as worker:
        worker.post("train", steps=1500)
        seconds = [fixture.run_capture(worker, duration_ms=500).seconds for _ in range(6)]
        answer = worker.answer(60)
    measured = {"first": seconds[0], "median_of_the_next": statistics.median(seconds[1:]), "all": seconds, "longest_step_ms": answer["longest_ms"]}
    require(max(seconds) <= 1.5, f"a capture took longer: {measured}")
    return measured


@check(300, "what a capture costs a step of PyTorch, beside torch.profiler of the same steps: no more than that")
def torch_step_time(fixture):
    with _job(fixture, "torch") as worker:
        measured = _step_times(fixture, worker, 100)
    require(measured["ours"] <= expect.MAX_OF_KINETO * max(1.0, measured["theirs"]), f"a capture costs more than torch.profiler: {measured}")
    return measured


@check(240, "JAX without code: kernels of its own tracer, and of ours on request; steps are found")
def jax_without_code(fixture):
    measured = {}
    with _job(fixture, "jax", XLA_PYTHON_CLIENT_PREALLOCATE="false") as worker:
        require(worker.first["device"] == "gpu", f"JAX finds no GPU: {worker.first}")
        for tracer in ("auto", "jobscope"):
            capture = fixture.begin(worker, flags=[f"--device_tracer={tracer}"])
            worker.do("train", steps=100)
            run = capture.stop().finish()
            trace = run.trace
            _kept(fixture, trace, f"jax_{tracer}")
            expect.delivered(trace)
            measured[tracer] = {
                "with_hlo_op": sum(1 for event in trace.device_events() if "hlo_op" in event.stats),
                "planes": {name: len(events) for name, events in trace.planes.items()},
                "kernels": len(trace.device_events()),
                "steps": trace.entry.get("steps"), "source": trace.entry.get("steps_source"),
                "collectors": {c["name"]: [c["state"], c.get("reason", "")] for c in trace.entry.get("collectors", [])},
                "lost": trace.entry.get("lost_by_cause"), "warnings": trace.entry.get("warnings", []),
                "verdict": _verdict(fixture, run, f"jax_{tracer}")["text"],
            }
            require(measured[tracer]["kernels"] >= 100, f"few kernels with {tracer}: {measured}")
            require(measured[tracer]["steps"] >= 98, f"few steps with {tracer}: {measured}")
        require(worker.end() == 0, f"the job did not end well: {worker.errors()}")
    return {"jax": worker.first["jax"], **measured}


@check(300, "what a capture costs a step of JAX, beside jax.profiler of the same steps: no more than that")
def jax_step_time(fixture):
    measured = {}
    for tracer in ("auto", "jobscope"):
        with _job(fixture, "jax", XLA_PYTHON_CLIENT_PREALLOCATE="false") as worker:
            measured[tracer] = _step_times(fixture, worker, 100, [f"--device_tracer={tracer}"])
    for tracer, one in measured.items():
        require(one["ours"] <= expect.MAX_OF_KINETO * max(1.0, one["theirs"]), f"a capture with {tracer} costs more than jax.profiler: {measured}")
    return measured
