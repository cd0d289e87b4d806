# SPDX-License-Identifier: Apache-2.0
"""Processes that a test starts and talks to, line by line: both sides.

A test file may hold both: functions `worker_*`, each the main of a process of its own, and the test cases, which start them as
`Worker`. The worker says JSON with `tell`, and waits with `wait`.
"""
import json
import os
import subprocess
import sys
import threading
import time


class LineProcess:
    """A child process that never outlives its `with`."""

    deadline_s = 180  # of its whole life

    def __init__(self, command, **options):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", **options
        )
        self.pid = self.process.pid
        self._errors = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        # Ends a test that hangs; the failure is then an end of file.
        self._timer = threading.Timer(self.deadline_s, self.process.kill)
        self._timer.daemon = True
        self._timer.start()

    def _read_errors(self):
        for line in self.process.stderr:
            self._errors.append(line)

    @property
    def errors(self):
        """What it has written to standard error so far."""
        return "".join(self._errors)

    def hear_line(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self._reader.join(5)
            raise AssertionError(f"the process ended with {self.process.returncode}: {self.errors[-4000:]}")
        return line.strip()

    def say(self, text="go"):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def wait_for_end(self, timeout_s=None):
        """Returns the exit code; all errors have been read then."""
        code = self.process.wait(timeout_s or self.deadline_s)
        self._timer.cancel()
        self._reader.join(5)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._timer.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(5)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


class Worker(LineProcess):
    """Runs `worker_<name>` of a test file, with `prefix`, such as setpriv, before its command."""

    def __init__(self, file, name, *arguments, python=sys.executable, environment=None, interpreter_options=(), prefix=()):
        super().__init__(
            [*prefix, python, "-B", *interpreter_options, file, "--worker", name, *arguments],
            env={**os.environ, **(environment or {})},
        )

    def hear(self):
        """The next message that the worker tells. Frameworks write to standard output too: those lines are skipped."""
        while not (line := self.hear_line()).startswith("{"):
            pass
        return json.loads(line)

    def go_on(self, text="go"):
        self.say(text)


# ---- the worker's side ----


def tell(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def wait():
    """Blocks until the test says to go on, and returns what it says; leaves when the test has gone."""
    line = sys.stdin.readline()
    if not line:
        os._exit(90)
    return line.strip()


def main(namespace, run_tests):
    """Runs the worker that the command line names, or else the tests."""
    if len(sys.argv) > 2 and sys.argv[1] == "--worker":
        namespace["worker_" + sys.argv[2]](*sys.argv[3:])
    else:
        run_tests()


# ---- the test's side ----


def until(condition, timeout_s=30):
    """Waits until a condition of another process or thread holds; False if it does not in time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return bool(condition())
