# SPDX-License-Identifier: Apache-2.0
"""Two hosts, as network namespaces of this process, and a switch between them that loses, delays and limits packets.

TCP itself runs over this link: what is lost is sent again by the kernel, and nobody acknowledges what did not arrive. Needs user namespaces
and /dev/net/tun.
"""
import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import subprocess
import threading
import time

NEAR, FAR = "10.7.0.1", "10.7.0.2"  # the host of this process, and the other one

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFFLAGS, _IFF_UP = 0x8916, 0x891C, 0x8914, 0x1
_MTU_BYTES = 1500
_MAX_QUEUE_S = 0.5  # of a limited link: what would wait for longer is lost

_libc = ctypes.CDLL(None, use_errno=True)


class Unsupported(Exception):
    """This machine does not allow it."""


def _checked(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise Unsupported(f"{what}: {os.strerror(error)}")


def _enter_own_users():
    """Makes this process root of namespaces of its own. It must have one thread."""
    user, group = os.getuid(), os.getgid()
    _checked(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError as error:
            raise Unsupported(f"{name}: {error}") from None


def _interface(name, address):
    """Adds an interface to this thread's network; what is written to the result arrives there."""
    try:
        packets = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(packets, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, "255.255.255.0")):
                fcntl.ioctl(control, request, struct.pack("16sHH4s16x", name.encode(), socket.AF_INET, 0, socket.inet_aton(value)))
            for each in (name, "lo"):
                fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", each.encode(), _IFF_UP))
    except OSError as error:
        raise Unsupported(f"/dev/net/tun: {error}") from None
    return packets


class Network:
    """Moves this process to NEAR: one per process. Raises Unsupported."""

    def __init__(self):
        _enter_own_users()
        self.restore()
        self.sent = self.lost = 0  # packets
        self.carried_bytes = {NEAR: 0, FAR: 0}  # that an end has sent, and that were not lost
        self._free_at = {NEAR: 0.0, FAR: 0.0}  # when all that an end has sent is on its way
        near = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        ends = [_interface("near", NEAR)]
        _checked(_libc.unshare(_CLONE_NEWNET), "unshare")
        self._far = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        ends.append(_interface("far", FAR))
        _checked(_libc.setns(near, _CLONE_NEWNET), "setns")
        os.close(near)
        threading.Thread(target=self._switch, args=ends, daemon=True).start()

    def restore(self):
        """As new: a link that neither loses nor delays."""
        self.loss = 0.0  # share of packets, in both directions
        self.delay_s = 0.0  # each way
        self.bytes_per_s = {NEAR: 0, FAR: 0}  # of what that end sends; 0: no limit
        self.cut = frozenset()  # ends whose packets vanish

    def start_far(self, command, **options):
        """Starts a program on the other host."""
        return subprocess.Popen(["nsenter", f"--net=/proc/self/fd/{self._far}", "--", *command], pass_fds=[self._far], **options)

    def _switch(self, near, far):
        sender = {near: NEAR, far: FAR}
        other = {near: far, far: near}
        due = []  # (time, number, where to, packet)
        while True:
            wait_s = max(0, due[0][0] - time.monotonic()) if due else None
            for source in select.select([near, far], [], [], wait_s)[0]:
                packet = os.read(source, _MTU_BYTES)
                self.sent += 1
                arrives_at = self._arrival(sender[source], len(packet))
                if arrives_at is None:
                    self.lost += 1
                    continue
                heapq.heappush(due, (arrives_at, self.sent, other[source], packet))
            while due and due[0][0] <= time.monotonic():
                _, _, target, packet = heapq.heappop(due)
                try:
                    os.write(target, packet)
                except BlockingIOError:
                    self.lost += 1  # as a full queue would

    def _arrival(self, end, size_bytes):
        """When a packet arrives that `end` sends now; None if it is lost."""
        if end in self.cut or random.random() < self.loss:
            return None
        now = time.monotonic()
        rate = self.bytes_per_s[end]
        if rate and self._free_at[end] - now > _MAX_QUEUE_S:
            return None
        # Also without a limit, a packet waits for those that a limit has held: the order remains.
        self._free_at[end] = max(now, self._free_at[end]) + (size_bytes / rate if rate else 0)
        self.carried_bytes[end] += size_bytes
        return self._free_at[end] + self.delay_s
