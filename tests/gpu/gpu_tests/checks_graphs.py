# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs, which CUPTI sees least of when it comes late."""
from gpu_tests import expectations as expect
from gpu_tests.outcome import check

GRAPH = "GraphKernel"
NODES = 8


@check(180, "a graph made before the first capture, replayed in three captures: every node kernel in each")
def graph_of_before(fixture):
    times = fixture.amount(200, 50)
    measured = {}
    with fixture.worker() as worker:
        worker.do("make_graph", kernels=NODES)
        for number in (1, 2, 3):
            trace = fixture.captured(worker, "replay_graph", times=times)
            measured[f"capture_{number}"] = expect.kernel_count(trace, GRAPH, NODES * times)
            measured[f"capture_{number}"]["other_nodes"] = len(trace.device_events()) - NODES * times
    return measured


@check(180, "a graph made between captures: the same")
def graph_of_between(fixture):
    times = fixture.amount(200, 50)
    measured = {}
    with fixture.worker() as worker:
        fixture.captured(worker, "launch", kernels=1)
        worker.do("make_graph", kernels=NODES)
        for number in (1, 2):
            trace = fixture.captured(worker, "replay_graph", times=times)
            measured[f"capture_{number}"] = expect.kernel_count(trace, GRAPH, NODES * times)
    return measured


@check(120, "launches that only build a graph while a capture runs are no losses: they never were to run")
def graph_made_in_capture(fixture):
    with fixture.worker() as worker:
        capture = fixture.begin(worker)
        worker.do("make_graph", kernels=NODES)
        worker.do("launch", kernels=100)
        trace = capture.stop().finish().trace
    return expect.kernel_count(trace, "CountedKernel", 100)
