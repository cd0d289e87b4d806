# SPDX-License-Identifier: Apache-2.0
"""jobscope.start_server, its errors, and captures of a Python process by the client."""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import jobscope
import ports
import workers
import xspace


def worker_train(address="127.0.0.1:0"):
    """Steps until the test says so."""
    server = jobscope.start_server(address)
    workers.tell(address=server.address, same=server is jobscope.start_server(address))
    going = True

    def listen():
        nonlocal going
        workers.wait()
        going = False

    threading.Thread(target=listen, daemon=True).start()
    number = 0
    while going:
        with jobscope.step(number):
            with jobscope.trace("load", bytes=number):
                sum(range(2000))
        number += 1
    workers.tell(steps=number)


def worker_rank(address):
    server = jobscope.start_server(address)
    steps = 0
    for _ in jobscope.steps(range(3)):
        steps += 1
    workers.tell(steps=steps, running=bool(server), error=server.error)
    workers.wait()  # until the other one has had its try


def worker_environment():
    server = jobscope.start_server()
    workers.tell(address=server.address)


def worker_disabled():
    try:
        jobscope.start_server("127.0.0.1:0", strict=True)
    except jobscope.RefusedError as error:
        workers.tell(text=str(error), threads=len(os.listdir("/proc/self/task")))
    with jobscope.step(1), jobscope.trace("nothing"):
        pass


def worker_attached(_logdir):
    """The library that was injected starts its server on a thread of its own, at about the time of the import."""
    recorded = workers.until(lambda: jobscope.step(1) is not jobscope.trace("idle"))
    # A program has this call if it is not always started by `jobscope run`.
    server = jobscope.start_server("127.0.0.1:6009")
    workers.tell(step_is_recorded=recorded, running=bool(server), address=server.address, error=server.error)


def worker_nvtx(begin, logdir):
    os.environ.pop("NVTX_INJECTION64_PATH", None)  # of the process that runs the tests
    calls = {"start": jobscope.start, "capture_steps": lambda logdir: jobscope.capture_steps(logdir, 1, 2),
              "start_server": lambda _: jobscope.start_server("127.0.0.1:0")}  # fmt: skip
    calls[begin](logdir)
    first = os.environ["NVTX_INJECTION64_PATH"]
    if begin != "start_server":
        jobscope.stop()
    os.environ["NVTX_INJECTION64_PATH"] = "none"
    with jobscope.capture(logdir), jobscope.start_server("127.0.0.1:0"):
        workers.tell(first=first, then=os.environ["NVTX_INJECTION64_PATH"])


def worker_exit(how, logdir):
    jobscope.start(logdir)
    with jobscope.trace("before the end"):
        pass
    if how == "exception":
        raise SystemExit(3)


class ServerTest(unittest.TestCase):
    def tearDown(self):
        for server in list(jobscope._server._servers.values()):
            server.stop()

    def test_calls_with_the_same_options_give_the_same_server(self):
        server = jobscope.start_server("127.0.0.1:0")
        self.assertRegex(server.address, r"^127\.0\.0\.1:[1-9]\d*$")
        self.assertTrue(server.running)
        self.assertIs(jobscope.start_server("127.0.0.1:0"), server)
        found = []
        threads = [threading.Thread(target=lambda: found.append(jobscope.start_server("127.0.0.1:0"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 8)
        self.assertTrue(all(one is server for one in found))
        server.stop()
        server.stop()
        self.assertFalse(server.running)

    def test_a_new_start_after_a_stop(self):
        address = f"127.0.0.1:{ports.free_port()}"  # which nobody takes meanwhile
        with jobscope.start_server(address) as first:
            self.assertEqual(first.address, address)
        with jobscope.start_server(address) as second:
            self.assertEqual(second.address, address)
            self.assertIsNot(first, second)
            self.assertTrue(second.running)
            self.assertFalse(first.running)

    def test_a_new_start_after_a_caller_has_closed_the_server(self):
        def close(server):
            command = [workers.CLIENT, "stop", "--server", f"--service_addr={server.address}"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=workers.DEADLINE_S)

        with tempfile.TemporaryDirectory() as folder:
            first = jobscope.start_server(f"unix:{folder}/a", allow_close=True)
            close(first)
            self.assertFalse(first.running)
            self.assertIs(jobscope.start_server(f"unix:{folder}/a", allow_close=True), first)
            self.assertTrue(first.running)
            close(first)
            with jobscope.start_server(f"unix:{folder}/b") as second:
                self.assertFalse(first.running)
                first.stop()
                self.assertTrue(second.running)

    def test_a_stop_waits_for_a_close_that_has_begun(self):
        native = jobscope._native
        server = jobscope.start_server("127.0.0.1:0")
        self.assertTrue(server)
        with unittest.mock.patch.object(native, "server_running", lambda: 0):  # as soon as a caller begins to close it
            server.stop()
        self.assertFalse(native.server_running())

    def test_errors_name_the_remedy(self):
        def refused(error, text, *arguments, **options):
            with self.assertRaisesRegex(error, text) as caught:
                jobscope.start_server(*arguments, strict=True, **options)
            self.assertIsInstance(caught.exception, jobscope.Error)

        refused(jobscope.InvalidError, "JOBSCOPE_LISTEN", None)
        refused(jobscope.InvalidError, "store_bytes", "127.0.0.1:0", store_bytes=5)
        refused(jobscope.InvalidError, "out of range", "127.0.0.1:0", store_bytes=-1)
        refused(jobscope.InvalidError, "ring_records", "127.0.0.1:0", ring_records=1000)
        refused(jobscope.InvalidError, "ring_records", "127.0.0.1:0", ring_records=2**32)
        refused(jobscope.InvalidError, "port", "127.0.0.1:99999")
        refused(jobscope.RefusedError, "insecure|credentials|TLS", "0.0.0.0:0")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            refused(jobscope.AddressError, "127.0.0.1", f"127.0.0.1:{taken.getsockname()[1]}")
        server = jobscope.start_server("127.0.0.1:0")
        refused(jobscope.BusyError, server.address, "127.0.0.1:0", store_bytes=1 << 21)
        # The builtin exceptions that say the same catch them, too.
        self.assertTrue(issubclass(jobscope.AddressError, OSError))
        self.assertTrue(issubclass(jobscope.InvalidError, ValueError))
        self.assertTrue(issubclass(jobscope.RefusedError, PermissionError))

    def test_the_job_goes_on_without_a_server(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with self.assertWarnsRegex(RuntimeWarning, f"goes on without.*127.0.0.1:{port}") as caught:
                server = jobscope.start_server(f"127.0.0.1:{port}")
        self.assertEqual(caught.filename, __file__)
        self.assertFalse(server)
        self.assertFalse(server.running)
        self.assertEqual(server.address, "")
        self.assertIn(f"127.0.0.1:{port}", server.error)
        self.assertIn("not running", repr(server))
        server.stop()
        for wrong in (dict(address="127.0.0.1:99999"), dict(store_bytes=5), dict(store_bytes=-1)):
            with self.assertWarns(RuntimeWarning):
                self.assertFalse(jobscope.start_server(**{"address": "127.0.0.1:0", **wrong}))
        with jobscope.start_server("127.0.0.1:0") as again:
            self.assertTrue(again)
            self.assertEqual(again.error, "")

    def test_a_server_with_other_options_is_the_one_that_runs(self):
        with jobscope.start_server("127.0.0.1:0") as server:
            with self.assertWarnsRegex(RuntimeWarning, f"using the server on {server.address}.*other options"):
                self.assertIs(jobscope.start_server("127.0.0.1:0", store_bytes=1 << 21), server)

    def test_ranks_that_want_the_same_port(self):
        """The line of a tutorial, pasted into a job of two ranks: both train; with "+rank" both serve."""
        port = ports.free_port(2)
        for suffix, serving in (("", 1), ("+rank", 2)):
            ranks = []
            for rank in range(2):
                ranks.append(workers.Worker(__file__, "rank", f"127.0.0.1:{port}{suffix}",
                                            environment={"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}))  # fmt: skip
            said = [rank.hear() for rank in ranks]
            for rank in ranks:
                rank.go_on()
            self.assertEqual([rank.finish() for rank in ranks], [0, 0])
            for rank in ranks:
                rank.__exit__()
            self.assertEqual([each["steps"] for each in said], [3, 3])
            self.assertEqual(sum(each["running"] for each in said), serving, said)

    def test_wrong_types(self):
        with self.assertRaisesRegex(TypeError, "127.0.0.1:6009"):
            jobscope.start_server(6009)
        for wrong in (dict(store_bytes=1.5), dict(tls_cert=3), dict(address=3)):
            with self.assertRaises(TypeError):
                jobscope.start_server(**{"address": "127.0.0.1:0", **wrong})

    def test_steps_are_recorded_between_captures(self):
        with jobscope.start_server("127.0.0.1:0", always_on=False):
            self.assertIs(jobscope.step(1), jobscope.trace("idle"))
        with jobscope.start_server("127.0.0.1:0"):
            self.assertIsNot(jobscope.step(1), jobscope.trace("idle"))
            self.assertIsNot(jobscope.input_wait(), jobscope.trace("idle"))
            self.assertIsNot(jobscope.trace_coarse("checkpoint"), jobscope.trace("idle"))
            self.assertFalse(jobscope.enabled())
        self.assertIs(jobscope.step(1), jobscope.trace("idle"))

    def test_environment(self):
        with workers.Worker(__file__, "environment", environment={"JOBSCOPE_LISTEN": "127.0.0.1:0"}) as worker:
            self.assertTrue(worker.hear()["address"].startswith("127.0.0.1:"))
            self.assertEqual(worker.finish(), 0)
        with workers.Worker(__file__, "disabled", environment={"JOBSCOPE_DISABLE": "1"}) as worker:
            said = worker.hear()
            self.assertIn("JOBSCOPE_DISABLE", said["text"])
            self.assertEqual(said["threads"], 1)
            self.assertEqual(worker.finish(), 0)


class ClientTest(unittest.TestCase):
    def setUp(self):
        if not os.access(workers.CLIENT, os.X_OK):
            self.skipTest(f"no client in {workers.CLIENT}")

    def test_captures_two_python_processes(self):
        with workers.Worker(__file__, "train") as one, workers.Worker(__file__, "train") as other:
            said = [one.hear(), other.hear()]
            self.assertTrue(all(each["same"] for each in said))
            addresses = ",".join(each["address"] for each in said)
            code, table, errors = workers.run_client("check", f"--service_addr={addresses}", name="jobscope")
            self.assertEqual(code, 0, errors)
            self.assertIn("2 of 2 workers reachable", table)
            for _ in range(20):  # on a busy machine a worker may not run during a capture
                with tempfile.TemporaryDirectory() as logdir:
                    code, manifest, errors = workers.run_client(
                        f"--service_addr={addresses}", "--duration_ms=300", f"--logdir={logdir}", "--json"
                    )
                    self.assertEqual(code, 0, errors)
                    manifest = json.loads(manifest)
                    events = xspace.host_events(manifest["run_directory"])
                steps = [event for event in xspace.named(events, "train") if "step_num" in event.stats]
                loads = xspace.named(events, "load")
                outcomes = [worker["outcome"] for worker in manifest["workers"]]
                if "empty" not in outcomes and min(len(steps), len(loads)) > 10:
                    break
            self.assertEqual(outcomes, ["ok", "ok"], manifest)
            self.assertGreater(len(steps), 10)
            self.assertGreater(len(loads), 10)
            # The one of each worker that is open at the end has no arguments yet.
            self.assertGreaterEqual(len([event for event in loads if "bytes" in event.stats]), len(loads) - 2)
            for worker in (one, other):
                worker.go_on()
                self.assertGreater(worker.hear()["steps"], 0)
                self.assertEqual(worker.finish(), 0)

    def test_scopes_of_a_program_that_starts_no_server(self):
        """`jobscope run` attaches the server; the package finds the recorder that came with it."""
        if "--attach_library" not in workers.run_client("run", "--help", name="jobscope")[1]:
            self.skipTest("this client has no verb `run`")
        with tempfile.TemporaryDirectory() as logdir:
            code, output, errors = workers.run_client(
                "run", "--listen=127.0.0.1:0", "--", sys.executable, "-B", __file__, "--worker", "attached", logdir, name="jobscope"
            )
        self.assertEqual(code, 0, errors)
        said = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
        self.assertTrue(said["step_is_recorded"], errors)
        self.assertTrue(said["running"], said)
        self.assertEqual(said["error"], "")
        self.assertNotEqual(said["address"], "127.0.0.1:6009")

    def test_the_program_knows_its_name(self):
        self.assertIn("--service_addr", workers.run_client("--help")[1])
        text = workers.run_client("--help", name="jobscope")[1]
        for verb in ("capture", "check", "stop"):
            self.assertIn(verb, text)


class CaptureTest(unittest.TestCase):
    def test_errors_name_the_remedy(self):
        with self.assertRaisesRegex(jobscope.StateError, "jobscope.start"):
            jobscope.stop()
        self.assertTrue(issubclass(jobscope.DiskError, OSError))
        with tempfile.NamedTemporaryFile() as file:
            for logdir in (file.name, "/proc/x"):  # root, too, can create neither
                with self.assertRaisesRegex(jobscope.DiskError, re.escape(logdir)):
                    jobscope.start(logdir)
        with self.assertRaises(jobscope.InvalidError):
            jobscope.start("gs://bucket/x")
        with tempfile.TemporaryDirectory() as logdir:
            with self.assertRaises(jobscope.InvalidError):
                jobscope.start(logdir, host_tracer_level=4)
            with self.assertRaises(jobscope.InvalidError):
                jobscope.capture_steps(logdir, 5, 4)
            with self.assertRaises(jobscope.InvalidError):
                jobscope.capture_steps(logdir, 0, 2**63)
            with self.assertRaises(TypeError):
                jobscope.start(logdir, unknown=1)
            with self.assertRaises(TypeError):
                jobscope.start(3)
            with self.assertRaises(ValueError):
                jobscope.start("a\0b")
            self.assertEqual(os.listdir(logdir), [])
            with jobscope.capture(logdir):
                with self.assertRaisesRegex(jobscope.BusyError, r"jobscope\.stop"):
                    jobscope.start(logdir)

    def test_one_after_the_other(self):
        with tempfile.TemporaryDirectory() as logdir:
            runs = set()
            for _ in range(5):
                with jobscope.capture(logdir) as it:
                    with jobscope.trace("once"):
                        pass
                runs.add(it.result.run_directory)
                self.assertEqual(len(xspace.named(xspace.host_events(it.result.run_directory), "once")), 1)
            self.assertEqual(len(runs), 5)

    def test_report_of_a_capture(self):
        with tempfile.TemporaryDirectory() as logdir:
            with jobscope.capture(logdir) as it:
                pass
            code, text, errors = workers.run_client("report", it.result.run_directory, name="jobscope")
            self.assertEqual(code, 0, errors)
            self.assertNotIn("capture.json", text + errors, "it names all files of the run")

    def test_a_block_that_raises_is_captured_too(self):
        with tempfile.TemporaryDirectory() as logdir:
            it = jobscope.capture(logdir)
            with self.assertRaises(KeyError):
                with it:
                    with jobscope.trace("inside"):
                        raise KeyError
            self.assertEqual(len(xspace.named(xspace.host_events(it.result.run_directory), "inside")), 1)

    def test_the_block_keeps_its_own_exception(self):
        with tempfile.TemporaryDirectory() as logdir:
            with self.assertRaises(KeyError):
                with jobscope.capture(logdir):
                    jobscope.stop()
                    raise KeyError
            with self.assertRaises(jobscope.StateError):
                with jobscope.capture(logdir):
                    jobscope.stop()

    def test_nvtx_gets_the_path_of_the_library(self):
        library = os.path.realpath(os.path.join(workers.PACKAGE, "lib", "libjobscope.so"))
        for begin in ("start", "capture_steps", "start_server"):
            with self.subTest(begin), tempfile.TemporaryDirectory() as logdir:
                with workers.Worker(__file__, "nvtx", begin, logdir) as worker:
                    said = worker.hear()
                    self.assertEqual(worker.finish(), 0, worker.errors)
                self.assertEqual(os.path.realpath(said["first"]), library)
                self.assertEqual(said["then"], "none", "what is set stays")

    def test_paths(self):
        import pathlib

        with tempfile.TemporaryDirectory() as logdir:
            path = pathlib.Path(logdir) / "grün"
            with jobscope.capture(path) as it:
                pass
            self.assertTrue(it.result.run_directory.startswith(str(path)))
            self.assertTrue(os.path.isfile(os.path.join(it.result.run_directory, "capture.json")))

    def test_what_is_open_at_exit_is_written(self):
        for how, code in (("return", 0), ("exception", 3)):
            with tempfile.TemporaryDirectory() as logdir:
                with workers.Worker(__file__, "exit", how, logdir) as worker:
                    self.assertEqual(worker.finish(), code, worker.errors)
                (run,) = os.listdir(f"{logdir}/plugins/profile")
                events = xspace.host_events(f"{logdir}/plugins/profile/{run}")
                self.assertEqual(len(xspace.named(events, "before the end")), 1)


if __name__ == "__main__":
    workers.main(globals())
