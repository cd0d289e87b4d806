# SPDX-License-Identifier: Apache-2.0
"""Processes that use the package, started by tests.

A test file holds both sides: functions `worker_*`, each the main of a process of its own, and the test cases. The worker says
lines of JSON with `tell` and waits with `wait`. Frameworks write to standard output, too: other lines are skipped.
"""
import glob
import json
import os
import subprocess
import sys
import threading
import time
import unittest

PACKAGE = os.environ.get("JOBSCOPE_TEST_PACKAGE", "")
CLIENT = os.path.join(PACKAGE, "bin", "capture")
# Time limit of one worker.
DEADLINE_S = 120


def tell(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def wait():
    """Blocks until the test says to go on; leaves when the test has gone."""
    if not sys.stdin.readline():
        os._exit(90)


class Worker:
    """A process that runs `worker_<name>` of a test file."""

    def __init__(self, file, name, *arguments, python=sys.executable, environment=None, interpreter_options=()):
        self.process = subprocess.Popen(
            [python, "-B", *interpreter_options, file, "--worker", name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.errors = ""
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        # Ends a test that hangs; the failure is then an end of file.
        self._timer = threading.Timer(DEADLINE_S, self.process.kill)
        self._timer.daemon = True
        self._timer.start()

    def _read_errors(self):
        self.errors = self.process.stderr.read()

    def hear(self):
        while True:
            line = self.process.stdout.readline()
            if not line:
                self.process.wait()
                self._reader.join(5)
                raise AssertionError(f"the worker ended with {self.process.returncode}: {self.errors[-4000:]}")
            if line.startswith("{"):
                return json.loads(line)

    def go_on(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def finish(self):
        """Waits for the end; the exit code."""
        code = self.process.wait(DEADLINE_S)
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


def run_client(*arguments, name="capture"):
    """The C++ client, as the console script runs it: (exit code, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", f"from jobscope import _programs; _programs.{name}()", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def until(condition, timeout_s=30):
    """Waits until a condition of another process or thread holds; False if it does not in time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return bool(condition())


def other_pythons():
    """Interpreters of other versions that are installed here, as deploy and pyenv install them."""
    candidates = {}
    patterns = ("/usr/bin/python3.[0-9]*", os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):
        if path.endswith("-config"):
            continue
        script = "import sys, sysconfig; print(sys.version_info[1], bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
        done = subprocess.run([path, "-c", script], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            minor, free_threaded = done.stdout.split()
            if int(minor) >= 10 and int(minor) != sys.version_info[1] and free_threaded == "False":
                candidates[int(minor)] = path
    return candidates


def main(namespace):
    """Runs the worker that the command line names, or else the tests."""
    if len(sys.argv) > 2 and sys.argv[1] == "--worker":
        namespace["worker_" + sys.argv[2]](*sys.argv[3:])
        return
    unittest.main(verbosity=2)
