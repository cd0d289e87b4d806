# SPDX-License-Identifier: Apache-2.0
"""A worker under a tight limit, and what its callers get: shared by the tests of limits."""
import concurrent.futures
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import typing
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import machine  # noqa: E402

LIBRARY = os.environ["JOBSCOPE_TEST_LIBRARY"]
PROBE = os.environ["JOBSCOPE_TEST_PROBE"]
CAPTURE = os.environ["JOBSCOPE_TEST_CAPTURE"]
WORKER = os.environ["JOBSCOPE_TEST_LIMITED_WORKER"]
FINE = os.environ.get("JOBSCOPE_TEST_FINE_LADDER") == "1"
WITHOUT_SANITIZER = unittest.skipIf(os.environ.get("JOBSCOPE_TEST_SANITIZED"), "a sanitizer ends the process where memory is short")
# The most that a start, a refusal, a stop, or a call takes. A call's time includes that of the program that makes it.
MOST_S = 3
# Time after which the library counts as hung. Its own deadlines are a few seconds; the rest allows for a busy machine.
HANG_S = 60
NOT_SUPPORTED = 77
RESOURCE_EXHAUSTED = 8
UNAVAILABLE = 14
# The worker says this when it has given its stop up.
STOP_GIVEN_UP = "has not closed"


class Worker:
    def __init__(self, limit="none", free=0):
        self.process = subprocess.Popen([WORKER, LIBRARY, limit, str(free)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, bufsize=0)
        self.short_of_memory = limit == "memory"  # it may refuse connections
        self.said = self.hear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def hear(self):
        ready, _, _ = select.select([self.process.stdout], [], [], HANG_S)
        return self.process.stdout.readline().decode().strip() if ready else "hangs"

    def tell(self, command):
        try:
            self.process.stdin.write(command.encode() + b"\n")
        except BrokenPipeError:
            return "has ended"
        return self.hear()

    def _state(self, thread):
        """The kernel's letter for it; None: it has ended."""
        try:
            with open(f"/proc/{self.process.pid}/task/{thread}/stat", encoding="utf-8") as stat:
                return stat.read().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return None

    def settle(self):
        """Waits until all threads but the main one have begun and sleep: a new thread needs memory, and ends the process without."""
        main = str(self.process.pid)
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            if all(self._state(thread) in ("S", None) for thread in os.listdir(f"/proc/{main}/task") if thread != main):
                return
            time.sleep(0.01)

    @property
    def address(self):
        return self.said.split()[2]

    def call(self, *arguments):
        """The answer to a call from another process."""
        probe = subprocess.run([PROBE, self.address, *arguments], capture_output=True, text=True, timeout=HANG_S, check=False)
        return json.loads(probe.stdout.splitlines()[-1])

    def finish(self):
        """Returns (exit code, standard error)."""
        self.process.stdin.close()
        try:
            code = self.process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            code = "hangs"
        if code == "hangs":
            self.process.kill()
        errors = self.process.stderr.read().decode()
        self.process.stdin = open(os.devnull, "wb")  # for __exit__
        return code, errors

    def capture(self, duration_ms=50):
        """The worker's entry in the manifest of one native capture, with its exit code."""
        with tempfile.TemporaryDirectory(prefix="jobscope-limits-") as logdir:
            command = [CAPTURE, f"--service_addr={self.address}", f"--logdir={logdir}", f"--duration_ms={duration_ms}", "--protocol=native"]
            client = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=HANG_S, check=False)
        if client.returncode not in (0, 4):
            return {"exit": client.returncode, "outcome": client.stderr}
        (worker,) = json.loads(client.stdout)["workers"]
        return {"exit": client.returncode, **{key: worker.get(key) for key in ("outcome", "reason", "events")}}


def wrong_with_call(worker, *arguments):
    """(what the worker answered to a call from another process, what is wrong with it, or None)"""
    answer = worker.call(*arguments)
    known = (0, RESOURCE_EXHAUSTED, UNAVAILABLE) if worker.short_of_memory else (0, RESOURCE_EXHAUSTED)
    return answer, None if answer["code"] in known else f"{arguments[0]} has no answer"


def wrong_with_profile(worker):
    return wrong_with_call(worker, "profile", "50")


def wrong_with_native(worker):
    captured = worker.capture()
    if captured["outcome"] == "empty":  # beside others, the thread that records did not run for so long
        captured = worker.capture(2_000)
    delivered = captured["outcome"] in ("ok", "truncated") and captured["exit"] == 0
    refused = captured["outcome"] == "refused" and "raise" in captured["reason"]
    refused = refused or (worker.short_of_memory and captured["outcome"] == "unreachable")
    return captured, None if delivered or refused else "a native capture is neither delivered nor refused with a remedy"


class Fault(typing.NamedTuple):
    text: str
    only_late: bool


UNSUPPORTED = "unsupported"  # of a limit that cannot be set here


def fault_of(what, wrong, late, said, errors):
    """Of a rung that is over: None if all is well, or what is wrong and whether it is only late."""
    if STOP_GIVEN_UP in errors:
        late = [*late, "the server has not closed within its time"]
    if not wrong and not late:
        return None
    return Fault(f"{what}: {', '.join([*wrong, *late])}: {said} {errors[-500:]}", only_late=not wrong)


class Ladder(unittest.TestCase):
    maxDiff = None

    def climb(self, rung, rungs, at_a_time):
        """Calls rung(*arguments) for each of `rungs`; it returns None, UNSUPPORTED or a Fault."""
        with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
            results = list(pool.map(lambda arguments: rung(*arguments), rungs))
        faults = [(arguments, fault) for arguments, fault in zip(rungs, results) if isinstance(fault, Fault)]
        self.assertEqual([fault.text for _, fault in faults if not fault.only_late], [])
        for arguments, _ in faults:
            self._alone(rung, arguments)
        if UNSUPPORTED in results:
            self.skipTest(f"the limit of {rungs[results.index(UNSUPPORTED)]} cannot be set here (threads: root only)")

    @machine.again_if_busy(0.5)
    def _alone(self, rung, arguments):
        """What was late beside others is not late by itself."""
        self.assertIsNone(rung(*arguments))
