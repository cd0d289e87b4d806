#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fault matrix judges its rows: what hangs, says nothing, comes late or leaves too much is a row that failed."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python")]

import client_rows  # noqa: E402
import disk_rows  # noqa: E402
import faults  # noqa: E402
import machine  # noqa: E402
import row as rows  # noqa: E402
import scene as scenes  # noqa: E402
import worker_rows  # noqa: E402
import xspace  # noqa: E402


class FakeClient:
    def __init__(self, code=0, took_s=1.0, errors="", **worker):
        self.code, self.took_s, self.errors, self.hasty = code, took_s, errors, True
        self.worker = worker


def row_of(run, *endings, **options):
    return rows.Row("topic", "fault", "phase", endings or [rows.Ending("ok", 0)], run, **options)


class Play(unittest.TestCase):
    def play(self, row, waited_s=(0.0, 0.0)):
        with mock.patch.object(scenes, "Scene"), mock.patch.object(machine, "waited_s", side_effect=waited_s):
            return faults.play(row)[0]

    def test_what_a_row_raises_is_a_failed_row(self):
        errors = [subprocess.TimeoutExpired("check", 150), subprocess.CalledProcessError(1, "mount"), KeyError("done"), ValueError("no JSON"),
                  scenes.Failure("wrong"), OSError("gone"), AssertionError("the worker ended")]
        for error in errors:
            with self.subTest(error=error):
                self.assertRegex(self.play(row_of(mock.Mock(side_effect=error))), "^FAILED: ")

    def test_a_late_client_is_a_failed_row(self):
        late = FakeClient(took_s=scenes.HASTY_S + 1, outcome="ok", files=["f"])
        self.assertRegex(self.play(row_of(lambda _: late)), "^FAILED: the client took 31.0 s")
        self.assertEqual(self.play(row_of(lambda _: late, within_s=60)), "holds")

    def test_a_late_client_of_a_busy_machine_is_tried_again(self):
        clients = [FakeClient(took_s=took_s, outcome="ok", files=["f"]) for took_s in (99, 1)]
        self.assertEqual(self.play(row_of(lambda _: clients.pop(0)), waited_s=[0, 100, 100, 100]), "holds")


class NotRun(unittest.TestCase):
    """The root of a container may neither mount nor become every user."""

    def play(self, row, command, says):
        """The verdict where `command` fails and says this, and no other one is started."""
        failed = subprocess.CompletedProcess([command], 1, "", says)
        with tempfile.TemporaryDirectory() as root, mock.patch.object(scenes, "Scene") as scene, \
             mock.patch.object(subprocess, "run", return_value=failed) as run:
            scene.return_value.root = root
            verdict = faults.play_once(row)[0]
        self.assertEqual([call.args[0][0] for call in run.call_args_list], [command])
        return verdict

    def row(self, module, fault):
        return next(one for one in module.ROWS if one.fault == fault)

    def test_a_mount_that_is_denied(self):
        says = "mount: disk: permission denied.\n  dmesg(1) may say more\n"
        verdict = self.play(self.row(disk_rows, "logdir read-only"), "mount", says)
        self.assertEqual(verdict, "not run: a tmpfs: mount: disk: permission denied. dmesg(1) may say more")

    def test_a_user_that_does_not_exist_here(self):
        says = "setpriv: setresuid failed: Invalid argument\n"
        for row in (self.row(client_rows, "client with 8 threads"), row_of(None, environment={"FAULTS_USER": "1"})):
            with self.subTest(row=row.name):
                self.assertRegex(self.play(row, "setpriv", says), r"^not run: .* user \d+: setpriv: .*: Invalid argument$")


class Judge(unittest.TestCase):
    ENDINGS = [rows.Ending("ok", 0), rows.Ending("truncated", 0, "in time"), rows.Ending("timeout", 4, "in time")]

    def judge(self, client):
        return row_of(None, *self.ENDINGS).judge(client)

    def test_endings(self):
        self.judge(FakeClient(outcome="ok", files=["f"]))
        self.judge(FakeClient(outcome="truncated", reason="not in time", files=["f"]))
        self.judge(FakeClient(4, outcome="timeout", reason="not in time"))

    def test_what_is_none_of_them(self):
        for client in (
            FakeClient(outcome="died", reason="not in time"),
            FakeClient(3, outcome="timeout", reason="not in time"),  # the exit code of another one
            FakeClient(4, outcome="timeout", reason="broke"),
            FakeClient(4, outcome="timeout"),
            FakeClient(4, outcome="timeout", reason="not in time", files=["f"]),
            FakeClient(outcome="truncated", reason="not in time"),  # without a file
            FakeClient(outcome="ok", files=["f"], warnings=["lost"]),
        ):
            with self.subTest(client=vars(client)), self.assertRaises(scenes.Failure):
                self.judge(client)


class Write(unittest.TestCase):
    """The table is written of all rows, or not at all."""

    def main(self, *options, verdicts=("holds", "holds")):
        results = [(verdict, ("ok", 0, "") if verdict == "holds" else None, 1.0) for verdict in verdicts]
        all_rows = mock.Mock(ROWS=[row_of(None) for _ in verdicts])
        with mock.patch.object(sys, "argv", ["faults.py", "package", "shim", "module", *options]), mock.patch.dict(os.environ), \
             mock.patch.dict(sys.modules, all_rows=all_rows), mock.patch.object(faults, "play", side_effect=results), \
             mock.patch.object(faults, "write") as write, contextlib.redirect_stdout(io.StringIO()), \
             contextlib.redirect_stderr(io.StringIO()) as self.errors:
            try:
                code = faults.main()
            except SystemExit as exit_:
                code = exit_.code
        return code, write.called

    def test_all_rows(self):
        self.assertEqual(self.main("--write"), (0, True))
        self.assertEqual(self.main(), (0, False))

    def test_some_of_the_rows(self):
        for options in (["--quick"], ["--only", "topic"]):
            with self.subTest(options=options):
                self.assertEqual(self.main("--write", *options), (2, False))
                self.assertIn("leave out --only and --quick", self.errors.getvalue())

    def test_rows_that_did_not_run(self):
        verdicts = ("holds", "not run: no tmpfs")
        self.assertEqual(self.main("--write", verdicts=verdicts), (2, False))
        self.assertIn("rows that did not run: 1", self.errors.getvalue())
        self.assertEqual(self.main(verdicts=verdicts), (0, False))
        self.assertEqual(self.main("--write", verdicts=("holds", "FAILED: late")), (1, False))


class Whole(unittest.TestCase):
    def test_a_trace_that_is_cut_off(self):
        whole = b"\x0a\x03\x12\x01p" + b"\x22\x01h"
        for bytes_, expected in ((whole, True), (whole[:5], False)):
            with mock.patch("builtins.open", mock.mock_open(read_data=bytes_)):
                self.assertEqual(xspace.is_whole("file"), expected)
        with mock.patch("builtins.open", mock.mock_open(read_data=whole[:4])), self.assertRaises(ValueError):
            xspace.is_whole("file")


class Cancelled(unittest.TestCase):
    """What is left of a capture that was ended at any moment."""

    PLANE, HOST = b"\x0a\x03\x12\x01p", b"\x22\x01h"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_directory = folder.name

    def client(self, code, trace=PLANE + HOST, events=0, manifest=True, **worker):
        """One that has written a trace without events, and a manifest that says this of it."""
        client = FakeClient(code, **{"outcome": "ok", **worker})
        client.runs, client.temporary_files = [self.run_directory], set
        path = os.path.join(self.run_directory, "w1.xplane.pb")
        client.traces = lambda: [path] if trace else []
        if trace:
            with open(path, "wb") as file:
                file.write(trace)
            client.worker["files"] = [{"path": "w1.xplane.pb", "events": events}]
        written = {"run_directory": self.run_directory, "workers": [{"files": [], **client.worker}]}
        client.manifest = written if code >= 0 else {}
        if manifest:
            with open(os.path.join(self.run_directory, "capture.json"), "w", encoding="utf-8") as file:
                json.dump(written, file)
        return client

    def check(self, client):
        scene = mock.Mock()
        scene.files_are_whole = lambda of, at_any_moment: scenes.Scene.files_are_whole(scene, of, at_any_moment)
        worker_rows.check_cancelled(scene, client)

    def fails(self, pattern, client):
        with self.assertRaisesRegex(scenes.Failure, pattern):
            self.check(client)

    def test_a_run_with_its_manifest(self):
        self.check(self.client(0))
        self.check(self.client(0, outcome="truncated", reason="ended by request"))
        self.fails("has 0 events", self.client(0, events=1))
        self.fails("without a reason", self.client(0, outcome="truncated"))
        self.fails("exit 4", self.client(4, outcome="failed", reason="interrupted"))

    def test_a_run_without_its_manifest(self):
        self.fails("there is no .*capture.json", self.client(0, manifest=False))

    def test_a_client_that_has_recorded_nothing(self):
        self.check(self.client(4, trace=b"", outcome="failed", reason="interrupted before anything was recorded"))

    def test_a_client_that_was_killed(self):
        self.check(self.client(-9, manifest=False))
        self.fails("is cut off", self.client(-9, trace=self.PLANE, manifest=False))

    def test_a_client_that_was_killed_after_its_manifest(self):
        self.check(self.client(-9))
        self.fails("has 0 events", self.client(-9, events=1))
        with self.assertRaisesRegex(scenes.Failure, "killed and leaves"):
            scenes.Scene.files_are_whole(mock.Mock(), self.client(-9))

    def test_a_client_that_had_not_begun(self):
        client = self.client(130, trace=b"", manifest=False)
        client.runs, client.manifest, client.worker = [], {}, {}
        self.check(client)
        client.runs = [self.run_directory]
        self.fails("interrupted before its run", client)


if __name__ == "__main__":
    unittest.main()
