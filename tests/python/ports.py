# SPDX-License-Identifier: Apache-2.0
"""Ports for tests that must know a port before anybody listens on it."""

import fcntl
import os
import random
import socket
import tempfile

_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
_taken = []  # locks, held until this process ends: other tests take other ports


def _candidates():
    """Where the kernel takes no port of its own accord: no connection and no ":0" gets one of these."""
    with open(_RANGE, encoding="ascii") as range_of_the_kernel:
        first = int(range_of_the_kernel.read().split()[0])
    return (16_000, first) if first > 17_000 else (1024, 65_000)


def _take(port):
    """Whether the port is this process's now."""
    lock = os.open(os.path.join(tempfile.gettempdir(), f"jobscope-test-port-{port}"), os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("", port))
    except OSError:
        os.close(lock)
        return False
    _taken.append(lock)
    return True


def free_port(count=1):
    """The first of `count` ports in a row that nobody listens on, and that no other test is given meanwhile."""
    low, high = _candidates()
    while True:
        first = random.randrange(low, high - count)
        if all(_take(port) for port in range(first, first + count)):
            return first
