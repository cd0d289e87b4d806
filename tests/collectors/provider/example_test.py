# SPDX-License-Identifier: Apache-2.0
"""examples/rusage_provider: a C program with a collector of its own, captured by the client.

usage: example_test.py PROGRAM CAPTURE
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import xspace  # noqa: E402

PROGRAM, CLIENT = sys.argv[1:3]


class ExampleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.logdir = folder.name
        self.process = subprocess.Popen([PROGRAM], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.process.wait, 20)
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.kill)
        self.address = self.process.stdout.readline().strip()

    def capture(self, *options):
        done = subprocess.run(
            [CLIENT, f"--service_addr={self.address}", "--duration_ms=300", f"--logdir={self.logdir}", "--json", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        return answer["run_directory"], {c["name"]: c for c in answer["workers"][0]["collectors"]}

    def test_its_counters_are_in_the_trace(self):
        for _ in range(20):  # on a busy machine the loop may not run during a capture
            run, collectors = self.capture()
            self.assertEqual(collectors["rusage"]["state"], "on")
            (file,) = glob.glob(os.path.join(run, "*.xplane.pb"))
            events = [event for name, plane in xspace.planes(file) if name == "/host:CPU" for event in plane]
            faults = xspace.named(events, "page faults / 5 ms")
            self.assertEqual(collectors["rusage"]["events"], 2 * len(faults))
            self.assertEqual(len(faults), len(xspace.named(events, "preemptions / 5 ms")))
            self.assertTrue(all(0 <= event.start_ps <= 301e9 for event in faults))
            # The loop touches a thousand pages at a time.
            if sum(event.stats["page faults / 5 ms"] for event in faults) > 1000:
                return
        self.fail("no page faults were recorded")

    def test_left_out_when_it_is_not_asked_for(self):
        for choice in ("none", "torch"):
            _, collectors = self.capture(f"--frameworks={choice}")
            self.assertEqual(collectors["rusage"]["state"], "off")
        _, collectors = self.capture("--frameworks=rusage")
        self.assertEqual(collectors["rusage"]["state"], "on")

    def test_check_names_it(self):
        done = subprocess.run(
            [CLIENT, "check", f"--service_addr={self.address}", "--json"], capture_output=True, text=True, timeout=60, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rusage", [c["name"] for c in json.loads(done.stdout)["workers"][0]["collectors"]])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
