# SPDX-License-Identifier: Apache-2.0
"""A gpu_worker process, which executes one command per line; each answer has a deadline."""
import contextlib
import glob
import json
import os
import queue
import shutil
import subprocess
import threading

from gpu_tests.outcome import Failed

NO_DEVICE = 3


def _line(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.readline().strip()


class NoDevice(Exception):
    """The worker found no CUDA device."""


class Worker:
    def __init__(self, argv, log, env, user=None, explain=True):
        """explain: a check that fails tells what the worker's threads did."""
        self.log = log
        self.explain = explain
        identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=env, **identity
            )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            first = self._next(60, "to start")
        except Failed:
            if self.process.poll() == NO_DEVICE:
                raise NoDevice(self.errors()) from None
            self.kill()
            raise
        self.first = first  # what it said of itself
        self.address = first["listening"]
        self.pid = first["pid"]

    def __enter__(self):
        return self

    def __exit__(self, _, error, __):
        if self.explain and isinstance(error, Failed) and self.process.poll() is None:
            error.args = (f"{error}; what the worker's threads did: {self.threads()}",)
        self.kill()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _next(self, deadline_s, what):
        try:
            line = self._lines.get(timeout=deadline_s)
        except queue.Empty:
            raise Failed(f"the worker took more than {deadline_s} s {what}; its log: {self.errors()}") from None
        if line is None:
            try:
                code = self.process.wait(10)
            except subprocess.TimeoutExpired:
                code = "unknown"
            raise Failed(f"the worker ended (exit code {code}) when it was asked {what}; its log: {self.errors()}")
        return json.loads(line)

    def errors(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()[-1500:].strip() or "empty"

    def post(self, command, **arguments):
        """Gives a command; answer() waits for its end."""
        words = [command] + [f"{key}={value}" for key, value in arguments.items()]
        self.process.stdin.write((" ".join(words) + "\n").encode())
        self.process.stdin.flush()

    def answer(self, deadline_s=60, what="to answer"):
        answer = self._next(deadline_s, what)
        if not answer["ok"]:
            raise Failed(f"the worker failed {what}: {answer['error']}")
        return answer

    def do(self, command, deadline_s=60, **arguments):
        self.post(command, **arguments)
        return self.answer(deadline_s, f"to {command}")

    def usage(self):
        """What the kernel counts of the process: resident bytes, open files, threads."""
        status = {}
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                status[key] = value.split()[0] if value.split() else ""
        return {
            "rss_bytes": int(status["VmRSS"]) * 1024,
            "files": len(os.listdir(f"/proc/{self.pid}/fd")),
            "threads": int(status["Threads"]),
        }

    def threads(self):
        """Where each of its threads is: in the kernel, and with gdb also in the program."""
        said = []
        for task in sorted(glob.glob(f"/proc/{self.pid}/task/*")):
            with contextlib.suppress(OSError):  # it has ended
                said.append(" ".join(_line(f"{task}/{name}") for name in ("comm", "wchan", "syscall")))
        if shutil.which("gdb"):
            command = ["gdb", "-p", str(self.pid), "-batch", "-ex", "thread apply all backtrace 20"]
            with contextlib.suppress(subprocess.TimeoutExpired):
                gdb = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
                said.append(gdb.stdout.decode(errors="replace")[-12000:])
        return "\n".join(said)

    def mapped(self, part):
        """Paths of the files mapped into the process whose name contains `part`."""
        with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as file:
            paths = {line.split(None, 5)[5].strip() for line in file if len(line.split(None, 5)) == 6}
        return sorted(path for path in paths if part in os.path.basename(path))

    def end(self, deadline_s=30):
        """Closes its input, which ends it; returns the exit code."""
        self.process.stdin.close()
        return self.wait(deadline_s)

    def wait(self, deadline_s=30):
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"the worker did not end within {deadline_s} s; its log: {self.errors()}") from None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
