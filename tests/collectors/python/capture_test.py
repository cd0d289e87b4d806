# SPDX-License-Identifier: Apache-2.0
"""`capture --python_tracer_level` of a Python program with a server: Python's functions are in the trace, beside its scopes."""
import json
import os
import tempfile
import threading
import unittest

import jobscope
import workers
import xspace


def forward(size):
    with jobscope.trace("forward"):
        return sum(i * i for i in range(size))


def train_step(index):
    with jobscope.step(index):
        forward(20_000)


def worker_trains():
    server = jobscope.start_server("127.0.0.1:0", max_levels="3/1/2")
    leave = threading.Event()
    threading.Thread(target=lambda: (workers.wait(), leave.set()), name="control").start()
    workers.tell(address=server.address)
    index = 0
    while not leave.is_set():
        train_step(index)
        index += 1
    workers.tell(steps=index)


class CaptureTest(unittest.TestCase):
    def capture(self, level):
        with workers.Worker(__file__, "trains") as worker:
            address = worker.hear()["address"]
            for _ in range(20):
                with tempfile.TemporaryDirectory() as logdir:
                    code, output, errors = workers.run_client(
                        f"--service_addr={address}", "--duration_ms=500", f"--logdir={logdir}", f"--python_tracer_level={level}", "--json")
                    self.assertEqual(code, 0, errors)
                    manifest = json.loads(output)
                    events = xspace.host_events(os.path.join(logdir, manifest["run_directory"]))
                collectors = {collector["name"]: collector for collector in manifest["workers"][0]["collectors"]}
                # Otherwise the machine was too busy for its turn to come in time, or for the worker to run.
                if "could not acquire the GIL" not in collectors["python"].get("reason", "") and len(
                    xspace.named(events, "forward")) > 10:
                    break
            worker.go_on()
            self.assertGreater(worker.hear()["steps"], 0)
            self.assertEqual(worker.finish(), 0)
        return collectors["python"], events

    def check(self, events, kind):
        lines = {event.line for event in events if event.name.endswith(" train_step")}
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines.pop(), rf"^MainThread/\d+ \({kind}\)$")
        # The scopes stay where they are.
        self.assertTrue(all("(" not in event.line for event in xspace.named(events, "forward")))
        self.assertTrue(xspace.named(events, "forward"))

    def test_nothing_unless_asked_for(self):
        collector, events = self.capture(0)
        self.assertEqual((collector["state"], collector["reason"]), ("off", "python_tracer_level is 0"))
        self.assertFalse([event for event in events if event.name.startswith("$")])

    def test_samples(self):
        collector, events = self.capture(1)
        self.assertEqual(collector["state"], "on", collector)
        self.check(events, "python samples")

    def test_calls(self):
        collector, events = self.capture(2)
        self.assertEqual(collector["state"], "on", collector)
        self.check(events, "python calls")
        # Each call is a scope, from when the hooks were in: whole ones of both, as the ends of the window cut some.
        calls = [event for event in events
                 if event.name.endswith(" forward") and event.name.startswith("$") and "truncated" not in event.stats]
        self.assertTrue(calls)
        begin = min(event.start_ps for event in calls)
        end = max(event.start_ps + event.duration_ps for event in calls)
        scopes = [event for event in xspace.named(events, "forward")
                  if begin <= event.start_ps and event.start_ps + event.duration_ps <= end]
        self.assertEqual(len(calls), len(scopes))
        self.assertEqual(collector["events"], len([event for event in events if event.name.startswith("$")]))


if __name__ == "__main__":
    workers.main(globals())
