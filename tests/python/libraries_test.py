# SPDX-License-Identifier: Apache-2.0
"""The package beside libraries that are missing, of another version or loaded later: the job goes on, with a warning."""
import ctypes
import os
import shutil
import tempfile
import unittest
import warnings

import jobscope
import workers


# A recorder with a table that is too short.
OLDER_RECORDER = os.environ.get("JOBSCOPE_TEST_OLDER_RECORDER", "")


def _error_of(call):
    try:
        call()
    except jobscope.Error as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def worker_start(logdir):
    """What a program sees of a server, and of captures, that cannot be started."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        server = jobscope.start_server("127.0.0.1:0")
    workers.tell(
        running=bool(server),
        error=server.error,
        warnings=[f"{warning.category.__name__}: {warning.message}" for warning in caught],
        strict=_error_of(lambda: jobscope.start_server("127.0.0.1:0", strict=True)),
        start=_error_of(lambda: jobscope.start(logdir)),
        steps=_error_of(lambda: jobscope.capture_steps(logdir, 1, 2)),
        provider=_error_of(lambda: jobscope.register_provider("mine", lambda session: None)),
    )


def worker_beside_another_recorder(logdir):
    ctypes.CDLL(OLDER_RECORDER)
    worker_start(logdir)


class Number:
    """Stands for an integer of NumPy."""

    def __index__(self):
        return 5


def worker_later():
    """Steps alone notice a recorder that something else loads."""
    before = jobscope._native.recorder_lives()
    ctypes.CDLL(os.path.join(workers.PACKAGE, "lib", "libjobscope_trace.so.0"))
    for _ in range(64):
        jobscope.step(Number())
    workers.tell(before=before, after=jobscope._native.recorder_lives())


class LibrariesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="jobscope-python-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def said_without_a_server(self, name="start", **environment):
        with workers.Worker(__file__, name, self.folder, environment=environment) as worker:
            said = worker.hear()
            self.assertEqual(worker.finish(), 0, worker.errors)
        self.assertFalse(said["running"])
        warning = f"RuntimeWarning: jobscope: the program goes on without a profiler server: {said['error']}"
        self.assertEqual(said["warnings"], [warning])
        return said, worker.errors

    def test_a_library_that_is_missing(self):
        """As in a package that is being replaced."""
        copy = os.path.join(self.folder, "package")
        shutil.copytree(workers.PACKAGE, os.path.join(copy, "jobscope"), ignore=shutil.ignore_patterns("libjobscope.so", "bin"))
        said, _ = self.said_without_a_server(PYTHONPATH=copy)
        self.assertRegex(said["error"], "libjobscope.so.*reinstall the package")
        for call in ("strict", "start", "steps", "provider"):
            self.assertEqual(said[call], f"Error: {said['error']}", call)

    @unittest.skipUnless(os.path.exists(OLDER_RECORDER), "the older recorder is not built here")
    def test_an_older_recorder(self):
        """A second recorder beside it would take Python's scopes, and nobody would read it."""
        preload = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), OLDER_RECORDER]))
        for name, environment in (
            ("beside_another_recorder", {}),
            ("start", {"LD_PRELOAD": preload}),
            ("start", {"LD_PRELOAD": preload, "JOBSCOPE_LISTEN": "127.0.0.1:0"}),
        ):
            with self.subTest(name, **environment):
                said, errors = self.said_without_a_server(name, **environment)
                self.assertIn("is older than the jobscope package: use one version of both", said["error"])
                for call in ("strict", "start", "steps"):
                    self.assertEqual(said[call], f"Error: {said['error']}", call)
                if environment:
                    self.assertIn(f"RuntimeWarning: jobscope: Python's scopes are not recorded: {said['error']}", errors)

    def test_a_recorder_that_is_loaded_later(self):
        with workers.Worker(__file__, "later") as worker:
            self.assertEqual(worker.hear(), {"before": False, "after": True})
            self.assertEqual(worker.finish(), 0, worker.errors)

    def test_an_error_that_names_a_path_of_other_bytes(self):
        said, _ = self.said_without_a_server(JOBSCOPE_TOKEN_FILE=os.fsdecode(b"/nowhere/\xe9"))
        self.assertIn("/nowhere/\ufffd", said["error"])
        self.assertEqual(said["strict"], f"InvalidError: {said['error']}")

    def test_a_text_that_the_library_cannot_take(self):
        for wrong in (dict(tls_cert=b"/nowhere/\xe9.pem"), dict(address="unix:/nowhere/\0")):
            options = {"address": "127.0.0.1:0", **wrong}
            with self.assertWarnsRegex(RuntimeWarning, "use UTF-8"):
                self.assertFalse(jobscope.start_server(**options))
            with self.assertRaisesRegex(jobscope.InvalidError, "use UTF-8"):
                jobscope.start_server(**options, strict=True)


if __name__ == "__main__":
    workers.main(globals())
