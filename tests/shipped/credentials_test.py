# SPDX-License-Identifier: Apache-2.0
"""TLS, mutual TLS and tokens of the library as shipped, and the program `capture` against it, each in a process of its own."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import harness

CAPTURE = os.environ["JOBSCOPE_TEST_CAPTURE"]
MAKE_CERTS = os.environ["JOBSCOPE_TEST_MAKE_CERTS"]
E_INVALID = 1
UNAUTHENTICATED = 16


def worker_serve(address, **options):
    """Serves with the credentials of the environment, or with those given as name=path, and records until the test lets it end."""
    library = harness.Library()
    code, bound, error = library.start(address, **options)
    harness.tell(code=code, address=bound, error=error)
    if code == 0:
        harness.Recorder("guarded scope").record_while_waiting()
    else:
        harness.wait()


def worker_serve_with_options(address, *pairs):
    worker_serve(address, **dict(pair.split("=", 1) for pair in pairs))


class MakeCertsTest(harness.TestCase):
    """The script called again in a directory whose files are in use."""

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.make("--host=w1", "--operator=alice")

    def make(self, *flags, check=True):
        """Exit code, and the names of the files that it has changed."""
        before = self.contents()
        done = subprocess.run([MAKE_CERTS, self.folder, *flags], check=check, stderr=subprocess.DEVNULL)
        after = self.contents()
        return done.returncode, {name for name in before | after if before.get(name) != after.get(name)}

    def contents(self):
        return {name: pathlib.Path(self.folder, name).read_bytes() for name in os.listdir(self.folder)}

    def test_changes_only_what_a_flag_asks_for(self):
        self.assertEqual(self.make(), (0, set()))
        self.assertEqual(self.make("--operator=bob"), (0, {"client.crt", "client.key"}))
        self.assertEqual(self.make("--host=w2"), (0, {"server.crt", "server.key"}))
        os.remove(os.path.join(self.folder, "token"))
        self.assertEqual(self.make(), (0, {"token"}))

    def test_a_ca_without_its_key_is_not_replaced(self):
        os.remove(os.path.join(self.folder, "ca.key"))
        self.assertEqual(self.make("--operator=bob", check=False), (1, set()))


class CredentialsTest(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        subprocess.run([MAKE_CERTS, cls.folder, "--broken"], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def server(self, name="server", ca=None, token=None):
        """A worker's environment."""
        variables = {"JOBSCOPE_TLS_CERT": self.path(f"{name}.crt"), "JOBSCOPE_TLS_KEY": self.path(f"{name}.key")}
        if ca is not None:
            variables["JOBSCOPE_TLS_CA"] = self.path(f"{ca}.crt")
        if token is not None:
            variables["JOBSCOPE_TOKEN_FILE"] = self.path(token)
        return variables

    def client(self, own=None, ca="ca", token=None):
        flags = []
        if ca is not None:
            flags.append("--tls_ca=" + self.path(f"{ca}.crt"))
        if own is not None:
            flags += ["--tls_cert=" + self.path(f"{own}.crt"), "--tls_key=" + self.path(f"{own}.key")]
        if token is not None:
            flags.append("--token_file=" + self.path(token))
        return flags

    def serve(self, environment, address="127.0.0.1:0"):
        worker = harness.Worker(__file__, "serve", address, environment=environment)
        said = worker.hear()
        self.assertEqual(said["code"], 0, said)
        return worker, said["address"].replace("0.0.0.0", "127.0.0.1")

    def run_capture(self, *arguments, environment=None):
        """Exit code, manifest, standard error. The variables that the test's own environment may have do not count."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith("JOBSCOPE_T")}
        done = subprocess.run(
            [CAPTURE, *arguments, "--json"],
            capture_output=True,
            timeout=harness.DEADLINE_S,
            check=False,
            env={**variables, **(environment or {})},
        )
        manifest = json.loads(done.stdout) if done.stdout else None
        return done.returncode, manifest, done.stderr.decode()

    def capture(self, address, *flags, environment=None):
        with tempfile.TemporaryDirectory() as logdir:
            code, manifest, errors = self.run_capture(
                f"--service_addr={address}", f"--logdir={logdir}", "--duration_ms=200", *flags, environment=environment
            )
            self.assertIsNotNone(manifest, errors)
            worker = manifest["workers"][0]
            for file in worker.get("files", []):
                self.assertTrue(os.path.exists(os.path.join(manifest["run_directory"], file["path"])), file)
            return code, worker

    def assert_captures(self, address, *flags, environment=None):
        for _ in range(20):  # on a busy machine the worker's loop may not run during a capture
            code, worker = self.capture(address, *flags, environment=environment)
            self.assertEqual(code, 0, worker)
            if worker.get("events", 0) > 10:
                break
        self.assertEqual(worker["outcome"], "ok", worker)
        self.assertGreater(worker["events"], 10)
        self.assertTrue(worker["files"])

    def assert_refused(self, address, *flags, reason):
        code, worker = self.capture(address, *flags)
        self.assertEqual((code, worker["outcome"], worker["grpc_code"]), (4, "refused", UNAUTHENTICATED), worker)
        self.assertIn(reason, worker["reason"])
        code, manifest, _ = self.run_capture("check", f"--service_addr={address}", *flags)
        self.assertEqual(code, 4)
        self.assertIn(reason, manifest["workers"][0]["reason"])
        code, manifest, _ = self.run_capture("stop", f"--service_addr={address}", *flags)
        self.assertEqual(code, 4)
        self.assertIn(reason, manifest["workers"][0]["reason"])

    def leave(self, worker):
        """The worker ends as without us, and has written nothing to standard error."""
        worker.go_on()
        self.assertEqual(worker.finish(), (0, ""))

    def test_capture_over_mutual_tls_and_token(self):
        worker, address = self.serve(self.server(ca="ca", token="token"), "0.0.0.0:0")
        with worker:
            good = self.client("client", token="token")
            self.assert_captures(address, *good)
            for protocol in ("native", "tensorflow"):
                self.assert_captures(address, *good, f"--protocol={protocol}")
            code, manifest, errors = self.run_capture("check", f"--service_addr={address}", *good)
            self.assertEqual((code, manifest["workers"][0]["outcome"]), (0, "ok"), errors)
            code, _, errors = self.run_capture("stop", f"--service_addr={address}", *good)
            self.assertEqual(code, 0, errors)
            variables = {
                "JOBSCOPE_TLS_CA": self.path("ca.crt"),
                "JOBSCOPE_TLS_CERT": self.path("client.crt"),
                "JOBSCOPE_TLS_KEY": self.path("client.key"),
                "JOBSCOPE_TOKEN_FILE": self.path("token"),
            }
            self.assert_captures(address, environment=variables)
            self.leave(worker)

    def test_each_wrong_credential_is_named(self):
        worker, address = self.serve(self.server(ca="ca", token="token"))
        with worker:
            refused = self.assert_refused
            refused(address, *self.client("client"), reason="requires a token")
            refused(address, *self.client("client", token="other_token"), reason="not this worker's")
            refused(address, *self.client(token="token"), reason="requires a client certificate")
            refused(address, *self.client("other_client", token="token"), reason='signed by "another CA"')
            refused(address, *self.client("client", "other_ca", "token"), reason="not in --tls_ca=")
            refused(address, reason="the worker speaks TLS")
            self.assert_captures(address, *self.client("client", token="token"))
            self.leave(worker)

    def test_wrong_certificates_of_workers_are_named(self):
        worker, address = self.serve(self.server("wrong_host", token="token"))
        with worker:
            flags = self.client(token="token")
            self.assert_refused(address, *flags, reason="is for elsewhere.example, 192.0.2.7, not for 127.0.0.1")
            self.assert_captures(address, *flags, "--tls_server_name=elsewhere.example")
            self.leave(worker)
        worker, address = self.serve({})
        with worker:
            self.assert_refused(address, *self.client(), reason="the worker does not speak TLS")
            self.leave(worker)

    def test_a_token_guards_loopback_and_unix_sockets(self):
        for address in ("127.0.0.1:0", f"unix:{self.folder}/worker.sock"):
            worker, bound = self.serve({"JOBSCOPE_TOKEN_FILE": self.path("token")}, address)
            with worker:
                self.assert_refused(bound, reason="requires a token")
                self.assert_captures(bound, *self.client(ca=None, token="token"))
                self.leave(worker)

    def test_a_token_in_clear_text_is_refused_before_dialling(self):
        code, manifest, errors = self.run_capture(
            "check", "--service_addr=192.0.2.1:6009", "--token_file=" + self.path("token")
        )
        self.assertEqual((code, manifest), (2, None))
        self.assertIn("192.0.2.1:6009", errors)
        self.assertIn("clear text", errors)

    def test_options_in_code(self):
        pairs = [
            "tls_cert=" + self.path("server.crt"),
            "tls_key=" + self.path("server.key"),
            "tls_ca=" + self.path("ca.crt"),
            "token_file=" + self.path("token"),
        ]
        # They win: the variables name what is not there.
        environment = {name: "/absent" for name in self.server(ca="ca", token="token")}
        with harness.Worker(__file__, "serve_with_options", "127.0.0.1:0", *pairs, environment=environment) as worker:
            said = worker.hear()
            self.assertEqual(said["code"], 0, said)
            self.assert_captures(said["address"], *self.client("client", token="token"))
            self.leave(worker)

    def test_a_start_with_bad_credentials_fails_with_a_text(self):
        cases = (
            (self.server("expired"), E_INVALID, "has expired, at 20"),
            ({"JOBSCOPE_TLS_CERT": self.path("server.crt")}, E_INVALID, "JOBSCOPE_TLS_KEY (options.tls_key) is not"),
            ({"JOBSCOPE_TOKEN_FILE": self.path("ca.crt")}, E_INVALID, "everybody on this host may read this secret"),
            ({"JOBSCOPE_TOKEN_FILE": "/absent"}, E_INVALID, "JOBSCOPE_TOKEN_FILE=/absent"),
        )
        for environment, code, text in cases:
            with harness.Worker(__file__, "serve", "127.0.0.1:0", environment=environment) as worker:
                said = worker.hear()
                self.assertEqual(said["code"], code, said)
                self.assertIn(text, said["error"])
        reachable = (
            ({}, "JOBSCOPE_TLS_CERT"),
            (self.server(), "TLS alone"),
            ({"JOBSCOPE_TOKEN_FILE": self.path("token")}, "clear text"),
        )
        for environment, text in reachable:
            with harness.Worker(__file__, "serve", "0.0.0.0:0", environment=environment) as worker:
                said = worker.hear()
                self.assertEqual(said["code"], harness.E_REFUSED, said)
                self.assertIn(text, said["error"])

    def test_a_certificate_is_replaced_while_a_capture_runs(self):
        # As Kubernetes does it with a mounted secret: a link to a folder is renamed.
        for folder, name in (("old", "server"), ("new", "other_server")):
            os.mkdir(self.path(folder))
            for kind in ("crt", "key"):
                shutil.copy(self.path(f"{name}.{kind}"), os.path.join(self.path(folder), f"tls.{kind}"))
        os.symlink("old", self.path("live"))
        worker, address = self.serve(self.server("live/tls", token="token"))
        with worker, tempfile.TemporaryDirectory() as logdir:
            old, new = self.client(token="token"), self.client(ca="other_ca", token="token")
            self.assert_captures(address, *old)
            flags = [*old, f"--logdir={logdir}", "--duration_ms=3000", "--json"]
            with subprocess.Popen(
                [CAPTURE, f"--service_addr={address}", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as capture:
                for line in capture.stderr:
                    if line.startswith(b"recording"):
                        break
                os.symlink("new", self.path("live.new"))
                os.rename(self.path("live.new"), self.path("live"))
                end = time.monotonic() + harness.DEADLINE_S
                while self.run_capture("check", f"--service_addr={address}", *new)[0] != 0:
                    self.assertLess(time.monotonic(), end, "the new certificate is never shown")
                manifest = json.loads(capture.stdout.read())
                capture.stderr.read()
            self.assertEqual(manifest["workers"][0]["outcome"], "ok", manifest)
            self.assert_captures(address, *new)
            self.assert_refused(address, *old, reason="not in --tls_ca=")
            self.leave(worker)

    def test_each_request_leaves_an_audit_line(self):
        worker, address = self.serve(self.server(ca="ca", token="token"))
        with worker:
            self.run_capture("check", f"--service_addr={address}", *self.client("client", token="token"))
            self.run_capture("check", f"--service_addr={address}", *self.client("client"))
            worker.go_on()
            code, errors = worker.finish(with_audit=True)
            self.assertEqual(code, 0)
            self.assertRegex(errors, r'audit: method="jobscope.v1.Profiler/Describe" peer="127\.0\.0\.1:\d+ \(operator\)".* status=OK')
            self.assertRegex(errors, r'audit: method="jobscope.v1.Profiler/Describe" peer="certificate operator".*status=UNAUTHENTICATED')
            with open(self.path("token"), encoding="ascii") as token:
                self.assertNotIn(token.read().strip(), errors)

    @harness.again_if_busy(0.5)
    def test_ends_with_a_capture_over_tls_in_flight(self):
        worker, address = self.serve(self.server(ca="ca", token="token"))
        with worker, tempfile.TemporaryDirectory() as logdir:
            flags = [*self.client("client", token="token"), f"--logdir={logdir}", "--duration_ms=60000", "--json"]
            with subprocess.Popen(
                [CAPTURE, f"--service_addr={address}", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as capture:
                for line in capture.stderr:
                    if line.startswith(b"recording"):
                        break
                worker.go_on()
                self.assertEqual(worker.finish(), (0, ""))
                manifest = json.loads(capture.stdout.read())
                capture.stderr.read()
            self.assertEqual(manifest["workers"][0]["outcome"], "truncated", manifest)

    def test_a_killed_worker_is_not_blamed_on_credentials(self):
        worker, address = self.serve(self.server(ca="ca"))
        with worker:
            self.assert_captures(address, *self.client("client"))
            worker.process.send_signal(signal.SIGKILL)
            worker.process.wait()
            code, manifest, _ = self.run_capture("check", f"--service_addr={address}", *self.client("client"))
            self.assertEqual((code, manifest["workers"][0]["outcome"]), (4, "unreachable"), manifest)


if __name__ == "__main__":
    harness.main(globals())
