# SPDX-License-Identifier: Apache-2.0
"""The calls of docs/wire.md, by a caller that knows the protos only."""

import json
import os
import pathlib
import sys

from harness import case, processes, workers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs"))
import documents  # noqa: E402


class WirePage(case.InteropTest):
    def test_calls(self):
        worker = self.train_loop()
        commands = self.scratch / "bin"
        commands.mkdir()
        for name in ("grpcurl", "grpc_health_probe"):
            (commands / name).write_text(f"#!{sys.executable} -B\n" + (workers.PEERS / "grpcurl.py").read_text(encoding="utf-8"))
            (commands / name).chmod(0o755)
        script = documents.block("docs/wire.md", "sh", "grpcurl").text.replace("127.0.0.1:6009", worker.address)
        caller = processes.Process(["bash", "-ec", script], cwd=documents.ROOT, env={"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"})
        self.addCleanup(caller.kill)
        self.assertEqual(caller.wait(120), 0, caller.output())
        described, monitored, profiled = (json.loads(line) for line in caller.stdout().splitlines())
        self.assertTrue(described["collectors"])
        self.assertIn("step time", monitored["data"])
        self.assertTrue(profiled["xspace"])


if __name__ == "__main__":
    case.main("train_loop")
