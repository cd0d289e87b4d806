#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures over a network that loses packets, and over one that goes silent: nobody resets or acknowledges anything.

packet_loss_test.py CAPTURE FLOOD_WORKER
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python")]

import machine  # noqa: E402
import packet_network  # noqa: E402

CAPTURE, FLOOD_WORKER = sys.argv[1:3]
NOT_SUPPORTED = 77
HANG_S = 150
# TCP carries some 200 kB/s over this link.
DELAY_S, LOSS, SCOPES_PER_SECOND = 0.02, 0.05, 20_000
DURATION_S = 2  # of a capture with silence


class PacketLossTest(unittest.TestCase):
    network = None

    def setUp(self):
        self.network.loss, self.network.delay_s = 0.0, DELAY_S
        self.logdir = tempfile.TemporaryDirectory(prefix="jobscope-packets-")
        self.addCleanup(self.logdir.cleanup)
        command = [FLOOD_WORKER, f"--listen={packet_network.FAR}:0", f"--scopes_per_second={SCOPES_PER_SECOND}"]
        environment = {**os.environ, "JOBSCOPE_INSECURE": "1"}
        self.worker = self.network.start_far(command, env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.worker.stdout.close)
        self.addCleanup(self.worker.wait)
        self.addCleanup(self.worker.kill)
        self.address = self.worker.stdout.readline().split()[-1]

    def start(self, duration_ms, *arguments):
        return subprocess.Popen(
            [CAPTURE, f"--service_addr={self.address}", f"--logdir={self.logdir.name}", f"--duration_ms={duration_ms}", "--json", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def entry(self, client):
        """What the client says of the worker at its end."""
        out, errors = client.communicate(timeout=HANG_S)
        (worker,) = json.loads(out)["workers"]
        return worker, errors

    def captured(self, *arguments):
        lost = self.network.lost
        worker, errors = self.entry(self.start(1000, *arguments))
        self.assertEqual(worker["outcome"], "ok", (worker, errors))
        self.assertEqual(worker.get("lost", 0), 0, worker)
        self.assertGreater(worker["events"], SCOPES_PER_SECOND / 2)
        self.assertGreater(self.network.lost, lost)

    def test_a_native_capture_arrives_whole(self):
        self.network.loss = LOSS
        self.captured("--protocol=native")

    def test_a_stock_capture_arrives_whole(self):
        self.network.loss = LOSS
        self.captured("--protocol=tensorflow")

    def silence_while_recording(self, *arguments):
        client = self.start(1000 * DURATION_S, *arguments)
        self.addCleanup(client.kill)
        for line in client.stderr:
            if "recording" in line:
                break
        self.network.loss = 1.0
        return client

    @machine.again_if_busy(0.5)
    def test_silence_is_noticed(self):
        client = self.silence_while_recording()
        began = time.monotonic()
        worker, _ = self.entry(client)
        took_s = time.monotonic() - began
        self.assertIn(worker["outcome"], ("truncated", "timeout", "died"))
        self.assertRegex(worker["reason"], "no sign of life")
        # 12 s until it is taken for dead, and one more attempt to connect.
        self.assertLess(took_s, 12 + 2 * 5 + 5)
        self.network.loss = 0.0
        self.captured_again()

    @machine.again_if_busy(0.5)
    def test_silence_that_ends_costs_nothing(self):
        client = self.silence_while_recording()
        time.sleep(4)
        self.network.loss = 0.0
        worker, errors = self.entry(client)
        self.assertEqual(worker["outcome"], "ok", (worker, errors))
        self.assertEqual(worker["lost"], 0, worker)
        self.assertGreater(worker["events"], 0.9 * DURATION_S * SCOPES_PER_SECOND)

    @machine.again_if_busy(0.5)
    def captured_again(self):
        worker, errors = self.entry(self.start(200))
        self.assertEqual(worker["outcome"], "ok", (worker, errors))


if __name__ == "__main__":
    try:
        PacketLossTest.network = packet_network.Network()
    except packet_network.Unsupported as error:
        print(f"skipped: {error}")
        sys.exit(NOT_SUPPORTED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
