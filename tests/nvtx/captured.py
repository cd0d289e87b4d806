# SPDX-License-Identifier: Apache-2.0
"""Captures a worker with the client, and gives its events."""
import json
import os
import subprocess

import attached
import xspace


class TestCase(attached.TestCase):
    def capture(self, address, duration_ms=300):
        """(manifest, events of the host) of one capture."""
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

    def address(self):
        return next(iter(self.wait_for_addresses(1).values()))
