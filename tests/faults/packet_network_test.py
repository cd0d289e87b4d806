#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures over networks that lose packets, are slow or far, or are cut one way or both: nothing is reset or acknowledged.

packet_network_test.py CAPTURE FLOOD_WORKER [CASE ...]
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
import scene  # noqa: E402
import workers  # noqa: E402
from packet_network import FAR, NEAR, Network, Unsupported  # noqa: E402

CAPTURE, FLOOD_WORKER = sys.argv[1:3]
NOT_SUPPORTED = 77
HANG_S = 150
DELAY_S, SCOPES_PER_SECOND = 0.02, 20_000  # of the link and the worker, unless a case changes them
# So much has crossed the link only if the capture sends events.
STREAMED_BYTES = 100_000
BROKE_OFF = (r"\Abroke off while the trace was sent: no sign of life for [\d.]+ s, "
             r"and no answer on a second connection; then could not be reached again.*; [\d.]+ s of 6.0 s arrived")  # fmt: skip


class PacketCase(unittest.TestCase):
    network = None

    def setUp(self):
        self.restore()
        self.logdir = tempfile.TemporaryDirectory(prefix="jobscope-packets-")
        self.addCleanup(self.logdir.cleanup)
        command = [FLOOD_WORKER, f"--listen={FAR}:0", f"--scopes_per_second={SCOPES_PER_SECOND}"]
        environment = {**os.environ, "JOBSCOPE_INSECURE": "1"}
        self.worker = self.network.start_far(command, env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.worker.stdout.close)
        self.addCleanup(self.worker.wait)
        self.addCleanup(self.worker.kill)
        line = self.worker.stdout.readline()
        self.assertTrue(line, "the worker does not start")
        self.address = line.split()[-1]
        self.capture_works("before the fault")
        self.before = self.settled()

    def restore(self):
        self.network.restore()
        self.network.delay_s = DELAY_S

    # ---- captures ----

    def start(self, duration_s, *arguments):
        command = [CAPTURE, f"--service_addr={self.address}", f"--logdir={self.logdir.name}", "--json"]
        client = subprocess.Popen(
            [*command, f"--duration_ms={1000 * duration_s:.0f}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        return client

    def entry(self, client):
        """What the client says of the worker at its end, and on standard error."""
        out, errors = client.communicate(timeout=HANG_S)
        (worker,) = json.loads(out)["workers"]
        return worker, errors

    def arrives_whole(self, client, duration_s):
        worker, errors = self.entry(client)
        self.assertEqual((worker["outcome"], client.returncode), ("ok", 0), (worker, errors))
        self.assertEqual(worker.get("lost", 0), 0, worker)
        self.assertGreater(worker["events"], duration_s * SCOPES_PER_SECOND / 2)
        self.assertNotRegex(f"{worker} {errors}", "connection (was )?lost")

    def await_recording(self, client):
        for line in client.stderr:
            if "recording" in line:
                return

    def start_streaming(self, duration_s):
        """Starts a native capture, and returns when it has sent some of its events."""
        client = self.start(duration_s, "--protocol=native", "--num_tracing_attempts=20")
        self.await_recording(client)
        enough_bytes = self.network.carried_bytes[FAR] + STREAMED_BYTES

        def streams():
            return self.network.carried_bytes[FAR] >= enough_bytes or client.poll() is not None

        if not workers.until(streams, HANG_S) or client.poll() is not None:
            client.kill()
            self.fail(f"no events are sent: {client.communicate()}")
        return client

    def capture_works(self, when):
        for _ in range(20):  # on a busy machine the worker may not run during a capture
            worker, errors = self.entry(self.start(0.2, "--num_tracing_attempts=20"))
            if worker["outcome"] != "empty":
                break
        self.assertEqual(worker["outcome"], "ok", (f"the capture {when} does not work", worker, errors))

    # ---- what remains ----

    def idle(self):
        """Waits until the worker has no session, for at most the time that the server's own limits give."""

        def found():
            command = [CAPTURE, "check", f"--service_addr={self.address}", "--json", "--connect_timeout_ms=20000"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
            return json.loads(done.stdout)["workers"][0]

        idle = workers.until(lambda: (worker := found())["outcome"] == "ok" and worker.get("busy") is None, HANG_S)
        self.assertTrue(idle, found())

    def usage(self):
        return scene.usage_of(self.worker.pid)

    def settled(self):
        """What the idle worker uses: the least during half a second, since some connections and threads end late."""
        self.idle()
        seen, end = [self.usage()], time.monotonic() + 0.5
        while time.monotonic() < end:
            time.sleep(0.05)
            seen.append(self.usage())
        return tuple(map(min, zip(*seen)))

    def nothing_is_left(self):
        """Once the link is good again."""
        self.restore()
        self.capture_works("after the fault")
        self.idle()
        back = workers.until(lambda: scene.is_back(self.usage(), self.before), HANG_S)
        self.assertTrue(back, f"threads, descriptors, KiB were {self.before}, are {self.usage()}")


class LossTest(PacketCase):
    LOSS = 0.05  # TCP carries some 200 kB/s over this link
    DURATION_S = 1

    def captured(self, protocol):
        self.network.loss, lost = self.LOSS, self.network.lost
        self.arrives_whole(self.start(self.DURATION_S, f"--protocol={protocol}"), self.DURATION_S)
        self.assertGreater(self.network.lost, lost)
        self.nothing_is_left()

    def test_a_native_capture_arrives_whole(self):
        self.captured("native")

    def test_a_stock_capture_arrives_whole(self):
        self.captured("tensorflow")


class SlowTest(PacketCase):
    DURATION_S = 2

    def test_1_mbit_per_second(self):
        rate = 125_000
        self.network.bytes_per_s = {NEAR: rate, FAR: rate}
        before_bytes, began = self.network.carried_bytes[FAR], time.monotonic()
        self.arrives_whole(self.start_streaming(self.DURATION_S), self.DURATION_S)
        took_s = time.monotonic() - began
        carried_s = (self.network.carried_bytes[FAR] - before_bytes) / rate
        # More than the link carries while the capture records, and no faster than the link carries it.
        self.assertGreater(carried_s, 1.5 * self.DURATION_S)
        self.assertGreater(took_s, carried_s - 1)
        self.nothing_is_left()

    def test_200_ms_each_way(self):
        self.network.delay_s, began = 0.2, time.monotonic()
        self.arrives_whole(self.start_streaming(self.DURATION_S), self.DURATION_S)
        # The connection, its first answer, arming and the start take a round trip each.
        self.assertGreater(time.monotonic() - began, self.DURATION_S + 4 * 2 * 0.2)
        self.nothing_is_left()


class CutTest(PacketCase):
    DURATION_S = 6  # of a capture that is cut once it streams

    def cut(self, *ends):
        self.network.cut = frozenset(ends)
        time.sleep(2 * DELAY_S)  # what is on its way arrives
        return dict(self.network.carried_bytes)

    @machine.again_if_busy(0.5)
    def is_noticed(self, *ends):
        """A cut that lasts, of what these ends send."""
        self.restore()
        client = self.start_streaming(self.DURATION_S)
        carried_bytes, began = self.cut(*ends), time.monotonic()
        worker, errors = self.entry(client)
        took_s = time.monotonic() - began
        for end in (NEAR, FAR):
            if end in ends:
                self.assertEqual(self.network.carried_bytes[end], carried_bytes[end])
            else:
                self.assertGreater(self.network.carried_bytes[end], carried_bytes[end])
        self.assertEqual((worker["outcome"], client.returncode), ("truncated", 0), (worker, errors))
        self.assertRegex(worker["reason"], BROKE_OFF)
        self.assertGreater(worker["events"], 0)
        # 12 s until the worker is taken for dead, and one more attempt to connect; far below --transfer_timeout_ms.
        self.assertLess(took_s, 60)

    def test_nothing_reaches_the_worker(self):
        self.is_noticed(NEAR)
        self.nothing_is_left()

    def test_nothing_reaches_the_client(self):
        self.is_noticed(FAR)
        self.nothing_is_left()

    def test_nothing_reaches_anybody(self):
        self.is_noticed(NEAR, FAR)
        self.nothing_is_left()


class ShortCutTest(PacketCase):
    DURATION_S = 4

    @machine.again_if_busy(0.5)
    def costs_nothing(self, *ends):
        """A cut that ends before the worker is taken for dead."""
        self.restore()
        client = self.start_streaming(self.DURATION_S)
        self.network.cut = frozenset(ends)
        time.sleep(4)
        self.restore()
        self.arrives_whole(client, self.DURATION_S)

    def test_nothing_reaches_the_worker(self):
        self.costs_nothing(NEAR)
        self.nothing_is_left()

    def test_nothing_reaches_the_client(self):
        self.costs_nothing(FAR)
        self.nothing_is_left()

    def test_nothing_reaches_anybody(self):
        self.costs_nothing(NEAR, FAR)
        self.nothing_is_left()


if __name__ == "__main__":
    try:
        PacketCase.network = Network()
    except Unsupported as error:
        print(f"skipped: {error}")
        sys.exit(NOT_SUPPORTED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
