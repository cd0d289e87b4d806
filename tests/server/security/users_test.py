# SPDX-License-Identifier: Apache-2.0
"""Tests which users of a host may call a worker, and to whose process a client sends its token. Real workers and other users."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "../../shipped"), os.path.join(FOLDER, "../../python")]
import harness  # noqa: E402
import other_users  # noqa: E402
from other_users import as_user  # noqa: E402

CAPTURE = os.environ["JOBSCOPE_TEST_CAPTURE"]
# Neither 65534, which stands for users without a number, nor anybody who is likely to exist.
JOB, STRANGER = 64001, 64002
PERMISSION_DENIED = 7


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        return True
    except OSError:
        return False


def worker_serve(address):
    """Serves until the test lets it end."""
    code, bound, error = harness.Library().start(address)
    harness.tell(code=code, address=bound, error=error)
    harness.wait()


class UsersTest(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        for user in (JOB, STRANGER):
            reason = other_users.why_not(user, sys.executable, "-c", "")
            if reason:
                raise unittest.SkipTest(f"this process cannot start others of other users: {reason}")
        programs = tempfile.mkdtemp(prefix="jobscope-users-")
        cls.addClassCleanup(shutil.rmtree, programs)
        # This file finds the modules that it needs beside it.
        needed = (harness, harness.line_process, harness.machine, harness.run_tests, other_users)
        modules = (__file__, *(module.__file__ for module in needed))
        recorder = os.path.join(os.path.dirname(harness.LIBRARY), "libjobscope_trace.so.0")
        cls.script, *_, cls.library, cls.capture, _ = other_users.copied([*modules, harness.LIBRARY, CAPTURE, recorder], programs)

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        os.chmod(self.folder, 0o1777)
        self.addCleanup(shutil.rmtree, self.folder)

    def serve(self, user, address="127.0.0.1:0", **environment):
        environment["JOBSCOPE_TEST_LIBRARY"] = self.library
        worker = harness.Worker(self.script, "serve", address, environment=environment, prefix=as_user(user))
        self.addCleanup(worker.__exit__)
        said = worker.hear()
        self.assertEqual(said["code"], 0, said)
        return worker, said["address"]

    def check(self, user, address, *flags):
        """What `capture check` of that user says of the worker."""
        done = subprocess.run(
            [*as_user(user), self.capture, "check", f"--service_addr={address}", "--json", *flags],
            capture_output=True,
            timeout=harness.DEADLINE_S,
            check=False,
            cwd="/",
        )
        self.assertTrue(done.stdout, done.stderr)
        return json.loads(done.stdout)["workers"][0]

    def assert_answers(self, user, address, *flags):
        answer = self.check(user, address, *flags)
        self.assertEqual(answer["outcome"], "ok", answer)

    def assert_refused(self, user, address, *flags, reason):
        answer = self.check(user, address, *flags)
        self.assertEqual((answer["outcome"], answer["grpc_code"]), ("refused", PERMISSION_DENIED), answer)
        self.assertIn(reason, answer["reason"])

    def finish(self, worker):
        worker.go_on()
        code, errors = worker.finish(with_audit=True)
        self.assertEqual(code, 0)
        return errors

    def token_of(self, user):
        path = os.path.join(self.folder, f"token{user}")
        with open(path, "w", encoding="ascii") as token:
            token.write("0123456789abcdef0123\n")
        os.chmod(path, 0o600)
        os.chown(path, user, user)
        return path

    def test_loopback_is_for_the_own_user_and_root(self):
        self.check_loopback("127.0.0.1:0")

    @unittest.skipUnless(has_ipv6(), "no IPv6 here")
    def test_loopback_of_ipv6_too(self):
        self.check_loopback("[::1]:0")

    def check_loopback(self, address):
        worker, bound = self.serve(JOB, address)
        self.assert_answers(JOB, bound)
        self.assert_answers(0, bound)
        self.assert_refused(STRANGER, bound, reason=f"callers of user {JOB} (its own) and root only")
        self.assert_refused(STRANGER, bound, reason="JOBSCOPE_ALLOW_USERS")
        errors = self.finish(worker)
        self.assertRegex(errors, rf'audit: method="connection" peer="[^"]+:\d+" asked="user {STRANGER}" .*PERMISSION_DENIED')

    def test_a_job_of_root_is_not_for_everybody(self):
        _, bound = self.serve(0)
        self.assert_answers(0, bound)
        self.assert_refused(STRANGER, bound, reason="callers of root (its own user) only")

    def test_a_unix_socket_is_for_the_own_user_and_root(self):
        path = os.path.join(self.folder, "worker")
        _, bound = self.serve(JOB, f"unix:{path}")
        self.assert_answers(JOB, bound)
        self.assert_answers(0, bound)
        self.assertEqual(self.check(STRANGER, bound)["outcome"], "unreachable")
        os.chmod(path, 0o666)  # the mode alone admits nobody
        self.assert_refused(STRANGER, bound, reason=f"callers of user {JOB} (its own) and root only")

    def test_other_users_are_let_in_when_they_are_named(self):
        for address in ("127.0.0.1:0", f"unix:{self.folder}/open"):
            for allowed in (f"4711,{STRANGER}", "any"):
                worker, bound = self.serve(JOB, address, JOBSCOPE_ALLOW_USERS=allowed)
                self.assert_answers(STRANGER, bound)
                self.assert_answers(JOB, bound)
                if allowed != "any":
                    self.assert_refused(STRANGER + 1, bound, reason=f"users 4711, {STRANGER} and root only")
                self.finish(worker)

    def test_insecure_and_a_token_open_it_too(self):
        _, bound = self.serve(JOB, JOBSCOPE_INSECURE="1")
        self.assert_answers(STRANGER, bound)
        _, bound = self.serve(JOB, JOBSCOPE_TOKEN_FILE=self.token_of(JOB))
        self.assert_answers(JOB, bound, f"--token_file={self.token_of(JOB)}")

    def test_a_stranger_who_closes_at_once_is_not_root(self):
        """The kernel reports user 0 for a socket that its process has closed."""
        worker, bound = self.serve(JOB)
        port = harness.port_of(bound)
        program = (
            "import socket, sys\n"
            "count, request, wait = int(sys.argv[1]), bytes.fromhex(sys.argv[2]), len(sys.argv) > 3\n"
            "for _ in range(count):\n"
            f"    with socket.create_connection(('127.0.0.1', {port})) as s:\n"
            "        s.sendall(request)\n"
            "        if wait:\n"
            "            sys.stdin.read()\n"
        )
        # The connection preface, empty settings, and the headers of a call of Describe with an empty message.
        headers = b"\x83\x86" + b"".join(
            b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v
            for k, v in (
                (b":authority", b"worker"),
                (b":path", b"/jobscope.v1.Profiler/Describe"),
                (b"te", b"trailers"),
                (b"content-type", b"application/grpc"),
            )
        )
        frame = lambda kind, flags, stream, body: len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body  # noqa: E731
        request = (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + frame(4, 0, 0, b"")
            + frame(1, 4, 1, headers)
            + frame(0, 1, 1, bytes(5))
        )
        command = [sys.executable, "-c", program]
        subprocess.run([*as_user(STRANGER), *command, "50", request.hex()], check=True, cwd="/")
        # The same bytes are a call, when they come from the job's user.
        with subprocess.Popen([*as_user(JOB), *command, "1", request.hex(), "wait"], stdin=subprocess.PIPE, cwd="/") as own:
            answered = harness.until(lambda: worker.audited("Describe") == 1, harness.DEADLINE_S)
            own.stdin.close()
            self.assertTrue(answered)
        self.finish(worker)
        self.assertEqual(worker.audited("Describe"), 1)

    def test_a_token_goes_only_to_the_own_user_and_root(self):
        token = self.token_of(STRANGER)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"unix:{self.folder}/theirs"):
            mine, bound = self.serve(STRANGER, address, JOBSCOPE_TOKEN_FILE=token)
            self.assert_answers(STRANGER, bound, f"--token_file={token}")
            self.finish(mine)
            if address.startswith("unix:"):
                os.unlink(address[len("unix:") :])
            # Another user has taken the address over, and wants to learn the token.
            theirs, bound = self.serve(
                JOB, address, JOBSCOPE_TOKEN_FILE=self.token_of(JOB), JOBSCOPE_LOG_LEVEL="debug"
            )
            if address.startswith("unix:"):
                os.chmod(address[len("unix:") :], 0o666)
            self.assert_refused(
                STRANGER,
                bound,
                f"--token_file={token}",
                reason=f"the token was not sent: the process that listens on {bound} is of user {JOB}",
            )
            self.finish(theirs)
        _, bound = self.serve(0, JOBSCOPE_TOKEN_FILE=self.token_of(0))
        self.assert_answers(STRANGER, bound, f"--token_file={self.token_of(STRANGER)}")


if __name__ == "__main__":
    harness.main(globals())
