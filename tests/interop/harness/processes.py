# SPDX-License-Identifier: Apache-2.0
"""Child processes that never outlive the test, and whose output can be waited for."""

import os
import re
import select
import signal
import subprocess
import threading
import time


def wait_until(condition, timeout_s, what, interval_s=0.01):
    """Polls `condition` until it returns something true, and returns that. Fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(interval_s)


class _Lines:
    """The lines of one pipe, as they come. Reading goes on to the end, so the child never blocks on a full pipe."""

    def __init__(self, pipe):
        self._pipe = pipe
        self._lines = []
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for raw in self._pipe:
            with self._changed:
                self._lines.append(raw.decode(errors="replace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def text(self):
        with self._changed:
            return "\n".join(self._lines)

    def search(self, pattern, timeout_s, first):
        """Match of the first line from number `first` on that has one, and its number. None: there is none, and none will come."""
        compiled = re.compile(pattern)
        deadline = time.monotonic() + timeout_s
        with self._changed:
            index = first
            while True:
                while index < len(self._lines):
                    match = compiled.search(self._lines[index])
                    if match:
                        return match, index
                    index += 1
                if self._closed or not self._changed.wait(deadline - time.monotonic()):
                    return None, index

    def finish(self):
        self._thread.join()
        self._pipe.close()


class Process:
    """A child that dies with this process, whatever ends it.

    Start it on the main thread: the kernel's parent-death signal follows the thread that forked.
    """

    def __init__(self, argv, cwd=None, env=None, may_write_files=True):
        # A worker that may not write gets SIGXFSZ with its first byte into a regular file.
        limit = [] if may_write_files else ["prlimit", "--fsize=0"]
        self.name = os.path.basename(str(argv[0]))
        self._read_until = 0
        self._popen = subprocess.Popen(
            [*limit, "setpriv", "--pdeathsig", "KILL", *map(str, argv)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._out = _Lines(self._popen.stdout)
        self._err = _Lines(self._popen.stderr)

    @property
    def pid(self):
        return self._popen.pid

    @property
    def returncode(self):
        return self._popen.poll()

    def stdout(self):
        return self._out.text()

    def stderr(self):
        return self._err.text()

    def output(self):
        return f"--- {self.name}, exit {self.returncode}, stdout:\n{self.stdout()}\n--- stderr:\n{self.stderr()}"

    def expect(self, pattern, timeout_s):
        """Waits for a line of stdout that matches, after the one found before, and returns the match."""
        match, index = self._out.search(pattern, timeout_s, self._read_until)
        if match is None:
            raise AssertionError(f"no line '{pattern}' from {self.name} within {timeout_s} s\n{self.output()}")
        self._read_until = index + 1
        return match

    def send(self, line):
        self._popen.stdin.write(line.encode() + b"\n")
        self._popen.stdin.flush()

    def signal(self, number):
        self._popen.send_signal(number)

    def alive(self):
        return self._popen.poll() is None

    def wait(self, timeout_s):
        """Exit code; all output has arrived then. Returns as soon as the child ends: benches take the time of it."""
        if self._popen.poll() is None:
            # Popen.wait with a timeout sleeps up to 50 ms at a time.
            handle = os.pidfd_open(self.pid)
            try:
                ended = select.select([handle], [], [], timeout_s)[0]
            finally:
                os.close(handle)
            if not ended:
                raise AssertionError(f"{self.name} runs on after {timeout_s} s\n{self.output()}")
        code = self._popen.wait()
        self._drain()
        return code

    def terminate(self, timeout_s=60):
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self):
        """For clean-up: never fails, also on a stopped process."""
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()
        self._drain()

    def _drain(self):
        if self._popen.stdin and not self._popen.stdin.closed:
            try:
                self._popen.stdin.close()
            except BrokenPipeError:
                pass
        if not self._popen.stdout.closed:
            self._out.finish()
            self._err.finish()

    def status_kib(self, field):
        """A field of /proc/<pid>/status in KiB, such as VmRSS, or VmHWM, its peak."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        raise AssertionError(f"no {field} of {self.name}")

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class MemorySampler:
    """The peak memory of a child that will be gone when one wants to know. Sampled each 2 ms."""

    def __init__(self, process):
        self._process = process
        self._peak_kib = 0
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self):
        while True:
            try:
                self._peak_kib = max(self._peak_kib, self._process.status_kib("VmHWM"))
            except (AssertionError, OSError):  # A zombie has no memory, and one that was waited for no entry.
                return
            time.sleep(0.002)

    def peak_bytes(self):
        """Waits for the child's end."""
        self._thread.join()
        return self._peak_kib * 1024
