# SPDX-License-Identifier: Apache-2.0
"""Whether others had this machine: for tests of time limits, which no program keeps that does not run. tests/again_if_busy.h has the
same for C++."""
import functools
import time
import unittest


def waited_s():
    """How long, since the machine's start, somebody had to wait for a processor or a disk, as the kernel's pressure accounts tell.
    Where it keeps none, all time counts."""
    total_us = 0
    for resource in ("cpu", "io"):
        try:
            with open(f"/proc/pressure/{resource}", encoding="ascii") as accounts:
                total_us += int(accounts.readline().rpartition("total=")[2])
        except (OSError, ValueError):
            return time.monotonic()
    return total_us / 1e6


def again_if_busy(limit_s, most_tries=5, then_skip=False):
    """Decorates a test of a time limit: it is made again if it fails while somebody had to wait for `limit_s` in all. `then_skip`: where
    that was so in all tries, the test is skipped, because its subject rightly does something else on such a machine."""

    def decorate(test):
        @functools.wraps(test)
        def run(*arguments, **options):
            last = None
            for _ in range(most_tries):
                before = waited_s()
                try:
                    return test(*arguments, **options)
                except AssertionError as failed:
                    if waited_s() - before < limit_s:
                        raise
                    last = failed
            if then_skip:
                raise unittest.SkipTest(f"the machine was busy in each of {most_tries} tries: {last}")
            raise last

        return run

    return decorate
