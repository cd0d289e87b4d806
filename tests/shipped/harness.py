# SPDX-License-Identifier: Apache-2.0
"""Workers that embed libjobscope.so through its C ABI, and RPCs to them from other processes."""
import ctypes
import json
import os
import re
import subprocess
import sys
import threading
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import line_process  # noqa: E402
import machine  # noqa: E402
import run_tests  # noqa: E402

again_if_busy = machine.again_if_busy
tell = line_process.tell
wait = line_process.wait
until = line_process.until

LIBRARY = os.environ["JOBSCOPE_TEST_LIBRARY"]
PROBE = os.environ["JOBSCOPE_TEST_PROBE"]
# Time limit of one worker and of one call; larger for long tests.
DEADLINE_S = int(os.environ.get("JOBSCOPE_TEST_DEADLINE_S", "180"))

E_ADDRESS = 2
E_REFUSED = 3
E_FORKED = 5


class ServerOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("address", ctypes.c_char_p),
        ("insecure", ctypes.c_int),
        ("store_bytes", ctypes.c_uint64),
        ("ring_records", ctypes.c_uint32),
        ("rings_cap_bytes", ctypes.c_uint64),
        ("no_always_on", ctypes.c_int),
        ("tls_cert", ctypes.c_char_p),
        ("tls_key", ctypes.c_char_p),
        ("tls_ca", ctypes.c_char_p),
        ("token_file", ctypes.c_char_p),
        ("tls_allowed_names", ctypes.c_char_p),
        ("allow_users", ctypes.c_char_p),
        ("max_duration_ms", ctypes.c_uint64),
        ("max_trace_bytes", ctypes.c_uint64),
        ("max_captures_per_minute", ctypes.c_uint32),
        ("max_levels", ctypes.c_char_p),
        ("allow_close", ctypes.c_int),
    ]


class Library:
    """libjobscope.so as an embedder sees it."""

    def __init__(self, path=LIBRARY):
        self.c = ctypes.CDLL(path)  # RTLD_LOCAL
        self.c.jobscope_version.restype = ctypes.c_char_p

    def start(self, address="127.0.0.1:0", **more):
        """Returns (code, address, error). `more`: further options, by name."""
        options = ServerOptions(size=ctypes.sizeof(ServerOptions), address=address.encode())
        for name, value in more.items():
            setattr(options, name, value.encode() if isinstance(value, str) else value)
        bound = ctypes.create_string_buffer(256)
        error = ctypes.create_string_buffer(1024)
        code = self.c.jobscope_server_start(
            ctypes.byref(options), bound, ctypes.c_size_t(256), error, ctypes.c_size_t(1024)
        )
        return code, bound.value.decode(), error.value.decode()

    def stop(self):
        return self.c.jobscope_server_stop()

    def running(self):
        return self.c.jobscope_server_running()


class Token(ctypes.Structure):
    _fields_ = [("begin_ticks", ctypes.c_uint64), ("place", ctypes.c_uint64)]


class Recorder:
    """The recorder that is already in the process: OSError if there is none."""

    BIT_LEVEL1 = 1 << 3

    def __init__(self, scope):
        c = ctypes.CDLL("libjobscope_trace.so.0", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        c.jobscope_trace_begin.restype = Token
        c.jobscope_trace_end.argtypes = [ctypes.c_uint32, Token, ctypes.c_void_p, ctypes.c_uint32]
        self.c = c
        self.site = c.jobscope_trace_site(scope.encode(), None, None, 0, self.BIT_LEVEL1, 0, None, 0)

    def enabled(self):
        return bool(self.c.jobscope_trace_enabled(self.BIT_LEVEL1))

    def record(self):
        """One scope, if recording is on."""
        if not self.enabled():
            return False
        token = self.c.jobscope_trace_begin(self.site)
        self.c.jobscope_trace_end(self.site, token, None, 0)
        return True

    def record_while_waiting(self):
        """Records about 1,000 scopes per second on another thread, until the test lets the worker go on."""
        ended = threading.Event()

        def loop():
            while not ended.wait(0.001):
                self.record()

        thread = threading.Thread(target=loop)
        thread.start()
        wait()
        ended.set()
        thread.join()


# ---- the worker's side ----


def serve(address="127.0.0.1:0"):
    """Loads the library, starts the server, tells the address."""
    library = Library()
    code, bound, error = library.start(address)
    if code != 0:
        tell(failed=error, code=code)
        os._exit(91)
    tell(address=bound)
    return library


def socket_inodes(pid="self"):
    """Inode numbers of the sockets a process holds."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(int(target[len("socket:[") : -1]))
    return inodes


def inodes_of_port(port):
    """Inode numbers of all TCP sockets whose local port is `port`, listening or connected."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):
            continue
        with open(table, encoding="ascii") as lines:
            for line in list(lines)[1:]:
                fields = line.split()
                if int(fields[1].rsplit(":", 1)[1], 16) == port:
                    inodes.add(int(fields[9]))
    return inodes - {0}


def holds_port(port, pid="self"):
    return bool(socket_inodes(pid) & inodes_of_port(port))


def port_of(address):
    return int(address.rsplit(":", 1)[1])


# ---- the test's side ----


def without_audit(errors):
    """What a worker wrote to standard error, without the lines that each request leaves there."""
    return re.sub(r"^.* jobscope\[\d+\] audit: .*\n", "", errors, flags=re.MULTILINE)


class Worker(line_process.Worker):
    deadline_s = DEADLINE_S

    def audited(self, method):
        """How many audit lines of that method there are so far."""
        return self.errors.count(f'/{method}"')

    def finish(self, timeout_s=None, with_audit=False):
        """Waits for the end; returns the exit code and what was written to standard error, without the audit lines."""
        code = self.wait_for_end(timeout_s)
        return code, self.errors if with_audit else without_audit(self.errors)


def call(address, *verb, environment=None):
    """One RPC from another process; the probe's answer."""
    done = subprocess.run(
        [PROBE, address, *verb],
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    lines = done.stdout.decode().splitlines()
    assert lines, f"the probe said nothing (exit {done.returncode}): {done.stderr.decode()}"
    return json.loads(lines[-1])


class Caller:
    """An RPC that goes on while the test does other things."""

    def __init__(self, address, *verb, environment=None):
        self.process = subprocess.Popen(
            [PROBE, address, *verb],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        self.first = self.process.stdout.readline().decode().strip()

    def result(self, timeout_s=DEADLINE_S):
        """Ends the loop, if it is one, and returns the last answer."""
        self.process.stdin.close()
        timer = threading.Timer(timeout_s, self.process.kill)
        timer.start()
        text = self.process.stdout.read().decode()
        self.process.stdout.close()
        self.process.wait()
        timer.cancel()
        lines = text.splitlines() or [self.first]
        try:
            return json.loads(lines[-1])
        except ValueError as error:
            raise AssertionError(f"no answer within {timeout_s} s, last was {lines[-1]!r}") from error


class TestCase(unittest.TestCase):
    def assert_serves(self, address):
        answer = call(address, "describe")
        self.assertEqual(answer["code"], 0, answer)
        return answer


def main(namespace):
    line_process.main(namespace, run_tests.main)
