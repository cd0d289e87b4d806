# SPDX-License-Identifier: Apache-2.0
"""Garbage collections of a Python program with a server: events of the thread that collected, while a capture runs and at no other time."""
import gc
import json
import os
import tempfile
import threading
import unittest

import jobscope
import workers
import xspace

CYCLES = 50


class Node:
    pass


def make_cycles():
    for _ in range(CYCLES):
        one, two = Node(), Node()
        one.other, two.other = two, one


def collect(generation, leave):
    while not leave.wait(0.001):
        make_cycles()
        with jobscope.trace(f"collect {generation}"):
            gc.collect(generation)


def worker_collects():
    gc.disable()  # what is not asked for would stand between what is
    server = jobscope.start_server("127.0.0.1:0")
    leave = threading.Event()
    threads = [threading.Thread(target=collect, args=(generation, leave), name=f"collects {generation}") for generation in (0, 2)]
    for thread in threads:
        thread.start()
    before = len(gc.callbacks)
    workers.tell(address=server.address)
    workers.wait()
    workers.tell(before=before, after=len(gc.callbacks))
    workers.wait()
    leave.set()
    for thread in threads:
        thread.join()


class Blocks:
    """Its finalizer blocks until `go_on` is set."""

    def __init__(self):
        self.me, self.entered, self.go_on = self, threading.Event(), threading.Event()

    def __del__(self):
        self.entered.set()
        self.go_on.wait()


def worker_stops_during_a_collection(logdir):
    gc.disable()
    blocks = Blocks()
    entered, go_on, ended, leave = blocks.entered, blocks.go_on, threading.Event(), threading.Event()

    def collects():
        gc.collect()
        ended.set()
        leave.wait()

    before = len(gc.callbacks)
    jobscope.start(os.path.join(logdir, "first"))
    workers.until(lambda: len(gc.callbacks) > before)  # late on a busy machine
    del blocks
    thread = threading.Thread(target=collects)
    thread.start()
    entered.wait()
    first = jobscope.stop()
    go_on.set()
    ended.wait()
    with jobscope.capture(os.path.join(logdir, "second")) as second:
        pass
    removed = workers.until(lambda: len(gc.callbacks) == before)
    leave.set()
    thread.join()
    workers.tell(first=first.run_directory, second=second.result.run_directory, removed=removed)


class AnUnfinishedCollection(unittest.TestCase):
    def test_it_is_open_in_its_capture_and_not_in_the_next(self):
        with tempfile.TemporaryDirectory() as logdir, workers.Worker(__file__, "stops_during_a_collection", logdir) as worker:
            answer = worker.hear()
            self.assertEqual(worker.finish(), 0)
            (unfinished,) = self.collections(answer["first"])
            self.assertEqual(unfinished.stats["truncated"], 1)
            self.assertEqual(self.collections(answer["second"]), [])
            self.assertTrue(answer["removed"])

    @staticmethod
    def collections(run_directory):
        return [event for event in xspace.host_events(run_directory) if event.name in ("gc", "scope/gc")]


class GcTest(unittest.TestCase):
    def capture(self, worker, *arguments):
        with tempfile.TemporaryDirectory() as logdir:
            code, output, errors = workers.run_client(
                f"--service_addr={self.address}", "--duration_ms=400", f"--logdir={logdir}", "--json", *arguments)
            self.assertEqual(code, 0, errors)
            manifest = json.loads(output)
            events = xspace.host_events(os.path.join(logdir, manifest["run_directory"]))
        collectors = {collector["name"]: collector for collector in manifest["workers"][0]["collectors"]}
        return collectors["gc"], events

    def setUp(self):
        self.worker = self.enterContext(workers.Worker(__file__, "collects"))
        self.address = self.worker.hear()["address"]

    def leave(self):
        self.worker.go_on()
        callbacks = self.worker.hear()
        self.assertEqual(callbacks["before"], callbacks["after"])
        self.worker.go_on()
        self.assertEqual(self.worker.finish(), 0)

    def test_collections_stand_on_the_thread_that_collects(self):
        for _ in range(2):  # the function comes and goes with each capture
            for _ in range(20):
                collector, events = self.capture(self.worker)
                collections = [event for event in xspace.named(events, "gc") if "truncated" not in event.stats]
                # Otherwise the machine was too busy for its turn to come in time, or for the threads to run.
                if "could not acquire the GIL" not in collector.get("reason", "") and len(
                    {event.stats["generation"] for event in collections}) == 2:
                    break
            self.assertEqual(collector["state"], "on", collector)
            for generation in (0, 2):
                mine = [event for event in collections if event.stats["generation"] == generation]
                self.assertTrue(mine)
                self.assertEqual({event.line.split("/")[0] for event in mine}, {f"collects {generation}"})
                scopes = [event for event in events if event.name == f"collect {generation}"]
                for event in mine:
                    self.assertTrue(any(
                        scope.line == event.line and scope.start_ps <= event.start_ps
                        and event.start_ps + event.duration_ps <= scope.start_ps + scope.duration_ps for scope in scopes), event)
            self.assertGreater(max(event.stats["collected"] for event in collections), CYCLES)
        self.leave()

    def test_nothing_at_level_0_and_nothing_left_behind(self):
        collector, events = self.capture(self.worker, "--host_tracer_level=0")
        self.assertEqual((collector["state"], collector["reason"]), ("off", "host_tracer_level is 0"))
        self.assertFalse(xspace.named(events, "gc"))
        self.leave()


if __name__ == "__main__":
    workers.main(globals())
