# SPDX-License-Identifier: Apache-2.0
"""Captures by the real client, and their results: the manifest, and each worker's planes."""
import json
import os
import re
import subprocess
import time

import xspace
from gpu_tests.outcome import Failed, require

DEVICE_PLANE = re.compile(r"^/device:(?:CUSTOM:)?GPU:(\d+)$")
HOST_PLANE = "/host:CPU"


class Trace:
    """What one worker delivered."""

    def __init__(self, entry, run_directory):
        self.entry = entry
        self.outcome = entry["outcome"]
        self.reason = entry.get("reason", "")
        self.files = [os.path.join(run_directory, file["path"]) for file in entry.get("files", [])]
        self._planes = None

    @property
    def cuda(self):
        """The CUDA collector's line of the manifest."""
        found = [c for c in self.entry.get("collectors", []) if c["name"] == "cuda"]
        require(found, f"the manifest has no CUDA collector: {self.entry}")
        return found[0]

    @property
    def planes(self):
        """name -> events."""
        if self._planes is None:
            require(self.files, f"no trace: outcome {self.outcome}, {self.reason}")
            self._planes = {}
            for file in self.files:
                for name, events in xspace.planes(file):
                    self._planes.setdefault(name, []).extend(events)
        return self._planes

    def device_events(self, ordinal=None):
        """Work of the GPUs, or of one of them."""
        events = []
        for name, plane in self.planes.items():
            match = DEVICE_PLANE.match(name)
            if match and (ordinal is None or int(match.group(1)) == ordinal):
                events += plane
        return events

    def plane_stat(self, name):
        """The sum of a stat over the GPUs' planes."""
        return sum(stats.get(name, 0) for file in self.files for plane, stats in xspace.plane_stats(file) if DEVICE_PLANE.match(plane))

    def host_events(self):
        return self.planes.get(HOST_PLANE, [])


class Capture:
    """A running capture of some workers: made when all of them record."""

    def __init__(self, client, addresses, logdir, log, duration_ms=60000, flags=()):
        self.client = client
        self.addresses = ",".join(addresses)
        self.begun = time.monotonic()
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                [client, f"--service_addr={self.addresses}", f"--duration_ms={duration_ms}", f"--logdir={logdir}",
                 "--json", *flags],
                stdout=subprocess.PIPE, stderr=errors,
            )
        self.log = log
        self.ready_seconds = None  # from its start until all workers recorded

    def wait_until_recording(self, deadline_s=30):
        deadline = time.monotonic() + deadline_s
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failed(f"capture ended before it recorded: {self.finish().manifest}")
            answer = run_json(self.client, "check", f"--service_addr={self.addresses}", "--json")
            states = [worker.get("busy", {}).get("state") for worker in answer.get("workers", [])]
            if states and all(state == "recording" for state in states):
                # "recording" is reported when the start is due; the first events must be within.
                self.ready_seconds = time.monotonic() - self.begun
                time.sleep(0.02)
                return self
            time.sleep(0.005)
        self.process.kill()
        raise Failed(f"the workers did not record within {deadline_s} s: {answer}")

    def stop(self):
        run_json(self.client, "stop", f"--service_addr={self.addresses}", "--json")
        return self

    def finish(self, deadline_s=60):
        """Waits for its end; returns the Run."""
        try:
            output, _ = self.process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Failed(f"capture did not end within {deadline_s} s") from None
        return Run(output, self.process.returncode, time.monotonic() - self.begun, self.log)


class Run:
    """What a capture left."""

    def __init__(self, output, exit_code, seconds, log):
        try:
            self.manifest = json.loads(output)
        except ValueError:
            with open(log, encoding="utf-8", errors="replace") as errors:
                raise Failed(f"capture (exit code {exit_code}) printed no manifest: {errors.read()[-800:]}") from None
        self.exit_code = exit_code
        self.seconds = seconds
        self.traces = [
            Trace(entry, self.manifest.get("run_directory", "")) for entry in self.manifest.get("workers", [])
        ]

    @property
    def trace(self):
        require(len(self.traces) == 1, f"{len(self.traces)} workers in the manifest")
        return self.traces[0]


def run_json(client, *arguments):
    """What a verb of the client prints with --json; {} if that is nothing."""
    run = subprocess.run([client, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    try:
        return json.loads(run.stdout)
    except ValueError:
        return {}
