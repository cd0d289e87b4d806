# SPDX-License-Identifier: Apache-2.0
"""Captures a worker with the client, and gives its events."""
import contextlib
import json
import os
import subprocess
import types

import attached
import xspace


class TestCase(attached.TestCase):
    def capture(self, address, duration_ms=300, of=None):
        """(manifest, events of the host) of one capture, which has more than 5 events `of` that name: on a busy machine the program
        may not run in the first one."""
        for _ in range(20):
            manifest, events = self._capture(address, duration_ms)
            if of is None or len(xspace.named(events, of)) > 5:
                break
        return manifest, events

    def _capture(self, address, duration_ms):
        logs = os.path.join(self.folder, "logs")
        done = subprocess.run(
            [attached.CAPTURE, f"--service_addr={address}", f"--duration_ms={duration_ms}", f"--logdir={logs}", "--json",
             "--quiet"],
            capture_output=True, timeout=attached.DEADLINE_S, check=False, env=attached.environment(),
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout.decode() + done.stderr.decode())
        manifest = json.loads(done.stdout)
        runs = os.path.join(logs, "plugins", "profile")
        return manifest, xspace.host_events(os.path.join(runs, max(os.listdir(runs))))

    @contextlib.contextmanager
    def capturing(self, address):
        """A capture that records while the block runs. What it yields has `events` afterwards."""
        logs = os.path.join(self.folder, "logs")
        client = subprocess.Popen(
            [attached.CAPTURE, f"--service_addr={address}", "--duration_ms=60000", f"--logdir={logs}", "--quiet"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=attached.environment(),
        )  # fmt: skip
        self.addCleanup(client.kill)
        check = [attached.CAPTURE, "check", f"--service_addr={address}", "--json"]
        self.wait_for(
            lambda: b"recording" in subprocess.run(check, capture_output=True, check=False, timeout=30).stdout,
            "it records",
        )
        result = types.SimpleNamespace()
        yield result
        subprocess.run([attached.CAPTURE, "stop", f"--service_addr={address}"], check=True, timeout=30, capture_output=True)
        out, _ = client.communicate(timeout=attached.DEADLINE_S)
        runs = os.path.join(logs, "plugins", "profile")
        result.events = xspace.host_events(os.path.join(runs, max(os.listdir(runs))))
        self.assertEqual(client.returncode, 0, out.decode())

    def address(self):
        return next(iter(self.wait_for_addresses(1).values()))
