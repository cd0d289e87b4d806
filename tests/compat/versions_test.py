#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients and workers of two revisions: each client captures (by time, by steps, over a link that is cut, as a stock client), checks
and stops each worker.

versions_test.py NEW_BUILD OLD_BUILD
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "faults"), os.path.join(HERE, "..", "python")]
import link as links  # noqa: E402  pylint: disable=wrong-import-position

NEW = OLD = ""


class Worker:
    def __init__(self, build, *arguments):
        self.process = subprocess.Popen([f"{build}/tests/clock_worker", *arguments], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def client(build, *arguments):
    return [f"{build}/bin/capture", *arguments]


class VersionsTest(unittest.TestCase):
    def pairs(self, *arguments):
        # A ring holds 1.6 s of it, for which a busy machine may not run the collector.
        arguments = arguments or ["--scopes_per_second=20000"]
        for name, of_client, of_worker in (("old client, new worker", OLD, NEW), ("new client, old worker", NEW, OLD)):
            with self.subTest(name), Worker(of_worker, *arguments) as worker, tempfile.TemporaryDirectory() as logdir:
                yield of_client, worker, logdir

    def account(self, build, address, logdir, *arguments):
        """Captures a worker; what the manifest says of it."""
        done = subprocess.run(client(build, f"--service_addr={address}", f"--logdir={logdir}", "--json", *arguments),
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        account = json.loads(done.stdout)["workers"][0]
        self.assertEqual(account["outcome"], "ok", account)
        self.assertEqual(account["lost"], 0)
        return account

    def test_capture(self):
        for build, worker, logdir in self.pairs():
            account = self.account(build, worker.address, logdir, "--duration_ms=1000")
            self.assertEqual(account["protocol"], "native")
            self.assertGreater(account["events"], 5_000)
            warnings = " ".join(account.get("warnings", []))
            self.assertNotIn("connection was lost", warnings)
            self.assertNotIn("left out", warnings)

    def test_steps(self):
        for build, worker, logdir in self.pairs("--step_ms=20"):
            account = self.account(build, worker.address, logdir, "--steps=5")
            self.assertGreaterEqual(account["steps"], 5)

    def test_cut_and_fetch(self):
        for build, worker, logdir in self.pairs():
            link = links.Link(worker.address)

            def cut_and_back(link=link):
                link.cut()
                link.restore()

            try:
                link.stop_at("ack of events", cut_and_back, hold=False)
                account = self.account(build, link.address, logdir, "--duration_ms=3000", "--resume_timeout_ms=20000")
                self.assertIn("the connection was lost once", " ".join(account.get("warnings", [])))
            finally:
                link.close()

    def test_as_a_stock_client(self):
        for build, worker, logdir in self.pairs():
            account = self.account(build, worker.address, logdir, "--duration_ms=1000", "--protocol=tensorflow")
            self.assertEqual(account["protocol"], "tensorflow")
            self.assertGreater(account["events"], 5_000)

    def test_check(self):
        for build, worker, _ in self.pairs():
            done = subprocess.run(client(build, "check", f"--service_addr={worker.address}", "--json"), capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["workers"][0]["protocol"], "native")

    def test_stop(self):
        for build, worker, logdir in self.pairs():
            capture = subprocess.Popen(client(build, f"--service_addr={worker.address}", f"--logdir={logdir}",
                                              "--duration_ms=60000", "--json"), stdout=subprocess.PIPE, text=True)
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                check = subprocess.run(client(build, "check", f"--service_addr={worker.address}", "--json"),
                                       capture_output=True, text=True, timeout=60)
                if '"state": "recording"' in json.dumps(json.loads(check.stdout)):
                    break
            stop = subprocess.run(client(build, "stop", f"--service_addr={worker.address}"), capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(stop.returncode, 0, stop.stderr)
            out, _ = capture.communicate(timeout=60)
            account = json.loads(out)["workers"][0]
            self.assertEqual(account["outcome"], "truncated", account)
            self.assertEqual(account["ended_by"], "request")


if __name__ == "__main__":
    NEW, OLD = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
