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
import step_pairs  # noqa: E402
import workers  # noqa: E402

CAPTURES = 1000


def flat(values_of):
    """{figure: whether it is flat}. `values_of`: what the worker has after capture i, by figure; of others, always the same."""
    constant = {"resident KiB": 38_000, "descriptors": 16, "threads": 14}
    phase = soak.Phase(mock.Mock(), "phase")
    for i in range(CAPTURES):
        phase.samples.append(tuple(values_of[figure](i) if figure in values_of else constant[figure] for figure in soak.BOUNDS))
    return {row[0]: row[5] for row in phase.rows()}


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


def pairs(slower=1.0, layout=1.0, noise=0.002, count=60, seed=1):
    """Step times of a process that captures make `slower`, and that takes `layout` as long as the one alone anyway."""
    chance = random.Random(seed)

    def window(factor):
        load = chance.uniform(1, 3)  # of the machine: both have it
        return step_pairs.relative(900e3 * load * factor * chance.gauss(1, noise), 900e3 * load * chance.gauss(1, noise))

    return step_pairs.measure(lambda: window(layout * slower), lambda: window(layout), count)


class StepPairs(unittest.TestCase):
    def speed(self, before, after):
        text, speed = step_pairs.compare(before, after)
        self.assertEqual("not compared" in text, speed is None)
        return speed

    def test_as_fast(self):
        self.assertEqual(self.speed(pairs(), pairs(seed=2)), step_pairs.AS_FAST)
        self.assertEqual(self.speed(pairs(slower=1.015), pairs(slower=1.015, seed=2)), step_pairs.AS_FAST)

    def test_a_process_whose_memory_lies_badly(self):
        self.assertEqual(self.speed(pairs(layout=1.05), pairs(layout=1.05, seed=2)), step_pairs.AS_FAST)

    def test_slower_during_captures(self):
        self.assertEqual(self.speed(pairs(slower=1.03), pairs(seed=2)), step_pairs.SLOWER)
        self.assertEqual(self.speed(pairs(), pairs(slower=1.03, seed=2)), step_pairs.SLOWER)

    def test_slower_for_ever(self):
        self.assertEqual(self.speed(pairs(), pairs(layout=1.03, seed=2)), step_pairs.SLOWER)

    def test_a_machine_whose_times_vary_decides_less(self):
        self.assertEqual(self.speed(pairs(noise=0.1), pairs(slower=1.03, noise=0.1, seed=2)), step_pairs.AS_FAST)
        self.assertEqual(self.speed(pairs(noise=0.1), pairs(slower=1.3, noise=0.1, seed=2)), step_pairs.SLOWER)

    def test_too_few_windows_decide_nothing(self):
        self.assertIsNone(self.speed(pairs(), pairs(slower=2, count=step_pairs.MIN_PAIRS - 1)))

    def test_windows_without_a_step_are_left_out(self):
        before, after = pairs(), pairs(seed=2)
        after[step_pairs.CAPTURED][5] = step_pairs.relative(0, 900e3)
        text, speed = step_pairs.compare(before, after)
        self.assertEqual(speed, step_pairs.AS_FAST)
        windows = [line.split("|")[3].strip() for line in text.splitlines() if line.startswith(("| during", "| between"))]
        self.assertEqual(windows, ["60", "59", "60"])


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
