# SPDX-License-Identifier: Apache-2.0
"""A network of one's own, so that an example may have the port that it names: alone.py PROGRAM [ARGUMENTS...]

Where namespaces are not allowed the program runs in the network that is there, with JOBSCOPE_TEST_SHARED_NETWORK=1.
"""
import fcntl
import os
import socket
import struct
import subprocess
import sys

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1


def main():
    if sys.argv[1] == "--up":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", IFF_UP, b""))
        os.execv(sys.executable, [sys.executable, "-B", *sys.argv[2:]])
    unshare = ["unshare", "--user", "--map-root-user", "--net"]
    try:
        allowed = subprocess.run([*unshare, sys.executable, "-B", __file__, "--up", "-c", ""], capture_output=True, check=False)
        if allowed.returncode == 0:
            os.execvp(unshare[0], [*unshare, sys.executable, "-B", __file__, "--up", *sys.argv[1:]])
    except FileNotFoundError:
        pass
    os.environ["JOBSCOPE_TEST_SHARED_NETWORK"] = "1"
    os.execv(sys.executable, [sys.executable, "-B", *sys.argv[1:]])


main()
