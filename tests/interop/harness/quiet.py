# SPDX-License-Identifier: Apache-2.0
"""Bounds on time that hold on a busy machine, too; tests/quiet_stopwatch.h has the same for C++."""

import re
import time


def _pressure_s():
    total_us = 0
    for resource in ("cpu", "io"):
        try:
            with open(f"/proc/pressure/{resource}", encoding="ascii") as account:
                total_us += int(re.search(r"total=(\d+)", account.readline()).group(1))
        except OSError:
            return time.monotonic()  # the kernel keeps none: no time counts
    return total_us / 1e6


class Stopwatch:
    """Measures time in which nobody on this machine had to wait for a processor or a disk."""

    def __init__(self):
        self._pressure = _pressure_s()
        self._begin = time.monotonic()

    def elapsed_s(self):
        return max(0, time.monotonic() - self._begin - (_pressure_s() - self._pressure))
