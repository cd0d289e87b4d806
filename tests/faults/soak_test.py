#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The soak judges figures that are made up: what grows, and what makes training slower, is found; what varies, is not."""
import os
import random
import socket
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python")]

import link  # noqa: E402
import soak  # noqa: E402
import workers  # noqa: E402

CAPTURES = 1000


def flat(values_of):
    """{figure: whether it is flat}. `values_of`: what the worker has after capture i, by figure; of others, always the same."""
    constant = {"resident KiB": 38_000, "descriptors": 16, "threads": 14}
    phase = soak.Phase(mock.Mock(), "phase")
    for i in range(CAPTURES):
        phase.samples.append(tuple(values_of[figure](i) if figure in values_of else constant[figure] for figure in soak.BOUNDS))
    return {row[0]: row[5] for row in phase.rows()}


def times(median_us, mad_us=20.0, blocks=10_000):
    return {"median_ns": median_us * 1e3, "mad_ns": mad_us * 1e3, "blocks": blocks}


class Slope(unittest.TestCase):
    def test_a_line(self):
        steepness, error = soak.slope([3 + 2 * i for i in range(50)])
        self.assertAlmostEqual(steepness, 2)
        self.assertAlmostEqual(error, 0)

    def test_noise_has_an_error(self):
        chance = random.Random(1)
        steepness, error = soak.slope([chance.gauss(100, 5) for _ in range(CAPTURES)])
        self.assertGreater(error, 0)
        self.assertLess(abs(steepness), 4 * error)


class Growth(unittest.TestCase):
    def grown(self, **values_of):
        return [figure for figure, is_flat in flat({name.replace("_", " "): value for name, value in values_of.items()}).items() if not is_flat]

    def test_nothing_grows(self):
        self.assertEqual(self.grown(), [])

    def test_one_capture_in_a_hundred_leaves_a_descriptor(self):
        self.assertEqual(self.grown(descriptors=lambda i: 16 + i // 100), ["descriptors"])

    def test_one_capture_in_a_hundred_leaves_a_thread(self):
        self.assertEqual(self.grown(threads=lambda i: 14 + i // 100), ["threads"])

    def test_each_capture_leaves_8_kib(self):
        self.assertEqual(self.grown(resident_KiB=lambda i: 38_000 + 8 * i), ["resident KiB"])

    def test_what_a_year_would_not_hold(self):
        # 1 MiB in the phase is within its bound; 98 MiB in a year is not.
        self.assertEqual(self.grown(resident_KiB=lambda i: 38_000 + i), ["resident KiB"])
        self.assertEqual(self.grown(resident_KiB=lambda i: 38_000 + 0.5 * i), [])

    def test_what_varies(self):
        chance = random.Random(1)
        self.assertEqual(self.grown(descriptors=lambda i: 16 + i % 3, threads=lambda i: 14 + chance.randrange(3)), [])

    def test_what_fills_in_the_first_tenth(self):
        self.assertEqual(self.grown(resident_KiB=lambda i: 30_000 + 80 * min(i, CAPTURES // 10), descriptors=lambda i: 9 + min(i, 7)), [])


class StepTimes(unittest.TestCase):
    def speed(self, captured, alone):
        text, speed = soak.step_times(captured, alone)
        self.assertIn(f"{captured['median_ns'] / 1e3:.1f} µs in the process that is captured", text)
        self.assertEqual("decide nothing" in text, speed is None)
        return speed

    def test_as_fast(self):
        self.assertEqual(self.speed(times(600), times(600)), "as fast")
        self.assertEqual(self.speed(times(580), times(600)), "as fast")

    def test_slower_than_2_percent_and_the_error(self):
        # The error of 10,000 blocks with this deviation is 0.37 µs; three of both together are 1.6 µs.
        self.assertEqual(self.speed(times(613), times(600)), "as fast")
        self.assertEqual(self.speed(times(614), times(600)), soak.SLOWER)

    def test_a_machine_whose_times_vary_decides_less(self):
        self.assertEqual(self.speed(times(614, mad_us=200), times(600, mad_us=200)), "as fast")
        self.assertEqual(self.speed(times(630, mad_us=200), times(600, mad_us=200)), soak.SLOWER)

    def test_too_few_blocks_decide_nothing(self):
        for median_us in (600, 900):
            self.assertIsNone(self.speed(times(median_us), times(600, blocks=soak.MIN_BLOCKS - 1)))


class EndedConnections(unittest.TestCase):
    def test_the_relay_keeps_none(self):
        """Thousands of captures would leave it without descriptors."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            relay = link.Link(f"127.0.0.1:{server.getsockname()[1]}")
            self.addCleanup(relay.close)
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", int(relay.address.rsplit(":", 1)[1]))) as client:
                    worker, _ = server.accept()
                    client.shutdown(socket.SHUT_WR)
                    self.assertEqual(worker.recv(1), b"")
                    worker.close()
                    self.assertEqual(client.recv(1), b"")
            self.assertTrue(workers.until(lambda: len(os.listdir("/proc/self/fd")) <= before))


if __name__ == "__main__":
    unittest.main()
