# SPDX-License-Identifier: Apache-2.0
"""`capture stop --server`: callers close a worker's server, where its start has allowed that. Real workers and `capture`."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "../../shipped"))
import harness  # noqa: E402

CAPTURE = os.environ["JOBSCOPE_TEST_CAPTURE"]
PERMISSION_DENIED, UNAUTHENTICATED = 7, 16


def thread_names():
    names = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm", encoding="utf-8") as comm:
                names.add(comm.read().strip())
        except OSError:
            pass
    return names


def descriptors():
    """What the descriptors of this process lead to, without numbers of inodes and processes."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(re.sub(r"\d+", "", os.readlink(f"/proc/self/fd/{fd}")))
        except OSError:
            pass
    return sorted(found)


def worker_job(address, in_code=""):
    """A job with steps. Tells what a stopped server leaves, serves, and starts again when the test says so."""
    library = harness.Library()
    options = {"allow_close": 1} if in_code else {}

    def start():
        code, bound, error = library.start(address, **options)
        harness.tell(code=code, address=bound, error=error)

    library.start(address)
    recorder = harness.Recorder("work")
    library.stop()
    # gRPC's idle threads remain; their number varies.
    harness.until(lambda: not any(name.startswith("jobscope") for name in thread_names()))
    threads, files = thread_names(), descriptors()
    steps = 0
    going = True

    def work():
        nonlocal steps
        while going:
            recorder.record()
            steps += 1

    job = threading.Thread(target=work)
    start()
    job.start()
    while (order := harness.wait()) != "end":
        if order == "start":
            start()
        elif order == "look":
            before = steps
            same = harness.until(lambda: thread_names() <= threads and descriptors() == files)
            harness.tell(
                running=library.running(),
                goes_on=harness.until(lambda: steps > before + 100),
                same=same,
                left=(sorted(threads), files),
                now=(sorted(thread_names()), descriptors()),
            )
    going = False
    job.join()


def run(*arguments):
    """`capture`, with --json: (exit code, the manifest)."""
    done = subprocess.run(
        [CAPTURE, *arguments, "--json"], capture_output=True, timeout=harness.DEADLINE_S, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def ask(verb, address, *flags):
    """The verb of one worker: (exit code, the worker's account)."""
    code, manifest = run(*verb.split(), f"--service_addr={address}", *flags)
    return code, manifest["workers"][0]


class CloseTest(harness.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def serve(self, *arguments, **environment):
        worker = harness.Worker(__file__, "job", *arguments, environment=environment)
        self.addCleanup(worker.__exit__)
        said = worker.hear()
        self.assertEqual(said["code"], 0, said)
        return worker, said["address"]

    def assert_serves(self, address, *flags):
        code, answer = ask("check", address, *flags)
        self.assertEqual((code, answer["outcome"]), (0, "ok"), answer)

    def close(self, address, *flags):
        code, answer = ask("stop --server", address, *flags)
        self.assertEqual((code, answer["outcome"], answer["reason"]), (0, "ok", "the server is closed"), answer)

    def capture(self, address, protocol):
        """A capture that records."""
        command = [CAPTURE, f"--service_addr={address}", f"--logdir={self.folder}", "--duration_ms=60000", "--json", "--quiet"]
        process = subprocess.Popen([*command, f"--protocol={protocol}"], stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        recording = lambda: ask("check", address)[1].get("busy", {}).get("state") == "recording"  # noqa: E731
        self.assertTrue(harness.until(recording, harness.DEADLINE_S))
        return process

    def assert_closed(self, address):
        """At once: the answer says that the port is closed."""
        code, answer = ask("check", address)
        self.assertEqual((code, answer["outcome"]), (4, "unreachable"), answer)
        self.assertRegex(answer["reason"], "Connection refused|No such file")

    def assert_ended(self, worker):
        """The job goes on, and no more is left than after a stop by the program."""
        worker.go_on("look")
        seen = worker.hear()
        self.assertEqual(seen["running"], 0)
        self.assertTrue(seen["goes_on"])
        self.assertTrue(seen["same"], f"{seen['left']}\n{seen['now']}")

    def finish(self, worker):
        worker.go_on("end")
        code, errors = worker.finish(with_audit=True)
        self.assertEqual(code, 0, errors)
        return errors

    def test_is_refused_by_default(self):
        worker, address = self.serve("127.0.0.1:0")
        code, answer = ask("stop --server", address)
        self.assertEqual((code, answer["outcome"], answer["grpc_code"]), (4, "refused", PERMISSION_DENIED), answer)
        self.assertIn("have it started with JOBSCOPE_ALLOW_CLOSE=1 (options.allow_close)", answer["reason"])
        self.assert_serves(address)
        self.assertRegex(self.finish(worker), r'audit: method="jobscope.v1.Profiler/Close" .* status=PERMISSION_DENIED')

    def test_closes_and_starts_again(self):
        ports = os.path.join(self.folder, "ports")
        os.mkdir(ports)
        path = f"unix:{self.folder}/worker"
        cases = (
            (("127.0.0.1:0",), {"JOBSCOPE_ALLOW_CLOSE": "1", "JOBSCOPE_PORT_DIR": ports}),
            (("127.0.0.1:0", "in code"), {}),
            ((path,), {"JOBSCOPE_ALLOW_CLOSE": "1"}),
        )
        for arguments, environment in cases:
            worker, address = self.serve(*arguments, **environment)
            for _ in range(2):
                self.assert_serves(address)
                self.close(address)
                self.assert_closed(address)
                self.assertEqual(os.listdir(ports), [])
                if not address.startswith("unix:"):
                    socket.create_server(("127.0.0.1", harness.port_of(address))).close()
                self.assert_ended(worker)
                worker.go_on("start")
                said = worker.hear()
                self.assertEqual(said["code"], 0, said)
                address = said["address"]
            self.assert_serves(address)
            peer = r"unix:[^\"]*" if address.startswith("unix:") else r"127.0.0.1:\d+"
            self.assertRegex(
                self.finish(worker),
                rf'audit: method="jobscope.v1.Profiler/Close" peer="{peer}" seconds=[\d.]+ status=OK outcome="the server is closed"',
            )

    def test_a_running_capture_is_delivered(self):
        worker, address = self.serve("127.0.0.1:0", JOBSCOPE_ALLOW_CLOSE="1")
        for protocol in ("native", "tensorflow"):
            capture = self.capture(address, protocol)
            self.close(address)
            answer = json.loads(capture.communicate(timeout=harness.DEADLINE_S)[0])["workers"][0]
            self.assertEqual(capture.returncode, 0, answer)
            self.assertEqual(answer["outcome"], "truncated", answer)
            self.assertIn("shutdown", json.dumps(answer))
            self.assertGreater(answer["events"], 0)
            self.assertGreater(os.path.getsize(os.path.join(self.folder, self.file_of(answer))), 0)
            worker.go_on("start")
            address = worker.hear()["address"]
        self.finish(worker)

    def test_a_client_that_does_not_read_delays_the_end_only(self):
        worker, address = self.serve("127.0.0.1:0", JOBSCOPE_ALLOW_CLOSE="1")
        self.capture(address, "native").send_signal(signal.SIGSTOP)
        self.close(address)
        self.assert_closed(address)
        self.assert_ended(worker)
        self.finish(worker)

    def file_of(self, answer):
        path = answer["files"][0]["path"]
        for folder, _, files in os.walk(self.folder):
            if os.path.basename(path) in files:
                return os.path.join(folder, os.path.basename(path))
        self.fail(f"there is no {path}")

    def test_needs_the_token_of_the_worker(self):
        token = os.path.join(self.folder, "token")
        with open(token, "w", encoding="ascii") as file:
            file.write("0123456789abcdef0123\n")
        os.chmod(token, 0o600)
        worker, address = self.serve("127.0.0.1:0", JOBSCOPE_ALLOW_CLOSE="1", JOBSCOPE_TOKEN_FILE=token)
        code, answer = ask("stop --server", address)
        self.assertEqual((code, answer["outcome"], answer["grpc_code"]), (4, "refused", UNAUTHENTICATED), answer)
        self.assert_serves(address, f"--token_file={token}")
        self.close(address, f"--token_file={token}")
        self.assert_ended(worker)
        self.finish(worker)

    def test_several_close_at_once(self):
        """One closes it; the others find it closed, or closing, whenever they come."""
        worker, address = self.serve("127.0.0.1:0", JOBSCOPE_ALLOW_CLOSE="1")
        answers = []
        callers = [threading.Thread(target=lambda: answers.append(ask("stop --server", address))) for _ in range(8)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        outcomes = [answer["outcome"] for _, answer in answers]
        self.assertIn("ok", outcomes)
        self.assertLessEqual(set(outcomes), {"ok", "unreachable", "failed"}, answers)  # failed: gRPC's shutdown has cancelled it
        self.assert_ended(worker)
        self.finish(worker)


if __name__ == "__main__":
    harness.main(globals())
