# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of us, served: addresses, ranks, injection, capture, and their end in the middle of it."""
import json
import os
import shutil
import signal
import subprocess
import unittest

import attached

LOOP = """
import sys, threading
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
print("up", flush=True)
total = 0
while not stop.is_set():
    total += sum(range(1000))
"""

# Sets each NAME=VALUE that it hears, as a function that torch.multiprocessing.spawn has started does.
RANKED = """
import os, sys, threading, time
heard = []
def listen():
    for line in sys.stdin:
        name, equals, value = line.strip().partition("=")
        if not equals:
            break
        os.environ[name] = value
        print(line.strip(), flush=True)
    heard.append(True)
threading.Thread(target=listen, daemon=True).start()
print("up", flush=True)
while not heard:
    sum(range(1000))
"""


# Starts the server again when the test asks for it.
STARTS_AGAIN = """
import ctypes, sys
print("up", flush=True)
sys.stdin.readline()
print(ctypes.CDLL("libjobscope.so").jobscope_server_start(None, None, 0, None, 0), flush=True)
sys.stdin.readline()
"""


class ServeTest(attached.TestCase):
    def serve(self, env, command=None, port=None):
        """Starts a target, waits until it is served, returns its address."""
        with attached.Process(command or [attached.TARGET, "wait"], env) as process:
            process.hear()
            if port is None:
                (address,) = self.wait_for_addresses(1).values()
                self.assert_serves(address, process.pid)
            else:
                self.wait_until_served(port, process.pid)
            self.assertEqual(process.finish(), (0, ""))
        return process

    def test_preloaded(self):
        port = attached.free_port()
        self.serve(attached.preloaded(f"127.0.0.1:{port}"), port=port)

    def test_preloaded_python(self):
        port = attached.free_port()
        self.serve(attached.preloaded(f"127.0.0.1:{port}"), [attached.PYTHON, self.script(LOOP)], port)

    def test_rank_is_added(self):
        port = attached.free_port(3)
        self.serve(attached.preloaded(f"127.0.0.1:{port}+rank", LOCAL_RANK="2"), port=port + 2)

    def test_no_rank_to_add(self):
        port = attached.free_port()
        self.serve(attached.preloaded(f"127.0.0.1:{port}+rank"), port=port)

    def test_port_directory(self):
        process = self.serve(attached.preloaded(JOBSCOPE_PORT_DIR=self.ports))
        self.assertEqual(os.listdir(self.ports), [], f"left by {process.pid}")

    def test_port_directory_with_ranks(self):
        env = {"JOBSCOPE_PORT_DIR": self.ports}
        with attached.Process([attached.TARGET, "wait"], attached.preloaded(RANK="5", **env)) as five:
            with attached.Process([attached.TARGET, "wait"], attached.preloaded(RANK="7", **env)) as seven:
                self.assertEqual(set(self.wait_for_addresses(2)), {"5", "7"})
                self.assertEqual(five.finish(), (0, ""))
                self.assertEqual(seven.finish(), (0, ""))

    def test_unix_socket(self):
        path = os.path.join(self.folder, "socket")
        with attached.Process([attached.TARGET, "wait"], attached.preloaded("unix:" + path)) as process:
            process.hear()
            self.wait_for(lambda: os.path.exists(path), "the socket")
            self.assert_serves("unix:" + path, process.pid)
            self.assertEqual(process.finish(), (0, ""))

    def test_closed_by_a_caller_and_started_again_by_the_program(self):
        port = attached.free_port()
        env = attached.preloaded(f"127.0.0.1:{port}", JOBSCOPE_ALLOW_CLOSE="1")
        with attached.Process([attached.PYTHON, "-c", STARTS_AGAIN], env) as process:
            process.hear()
            self.wait_until_served(port, process.pid)
            close = [attached.CAPTURE, "stop", "--server", f"--service_addr=127.0.0.1:{port}"]
            self.assertEqual(attached.run(close, attached.environment())[0], 0)
            self.assertFalse(attached.connects(port))
            process.say()
            self.assertEqual(process.hear(), "0")
            self.assert_serves(f"127.0.0.1:{port}", process.pid)
            self.assertEqual(process.finish(), (0, ""))

    def test_named_programs_only(self):
        port = attached.free_port()
        env = attached.preloaded(f"127.0.0.1:{port}", JOBSCOPE_PROGRAMS="train.py")
        self.serve(env, [attached.PYTHON, "-u", self.script(LOOP)], port)

    def test_descendants_inherit_the_variables(self):
        code = "import json, os; print(json.dumps(dict(os.environ))); input()"
        env = attached.preloaded(RANK="3", CUDA_INJECTION64_PATH="none")
        with attached.Process([attached.PYTHON, "-c", code], env) as process:
            variables = process.hear_json()
            self.assertEqual(variables["JOBSCOPE_ATTACHED"], f"{process.pid} RANK=3")
            self.assertEqual(variables["NVTX_INJECTION64_PATH"], os.path.realpath(attached.LIBRARY))
            self.assertEqual(variables["CUDA_INJECTION64_PATH"], "none")  # what is set stays
            self.assertEqual(process.finish(), (0, ""))

    def test_relative_path_and_another_directory(self):
        """The library is found although the program has gone elsewhere since."""
        port = attached.free_port()
        env = attached.preloaded(f"127.0.0.1:{port}", JOBSCOPE_ATTACH_DELAY_MS="200")
        env["LD_PRELOAD"] = attached.preload("./" + os.path.basename(attached.LIBRARY))
        code = "import os, sys; os.chdir('/'); print('up', flush=True); sys.stdin.readline()"
        with attached.Process([attached.PYTHON, "-c", code], env, cwd=os.path.dirname(attached.LIBRARY)) as process:
            process.hear()
            self.wait_until_served(port, process.pid)
            self.assertEqual(process.finish(), (0, ""))

    def test_signals_are_the_program_s(self):
        port = attached.free_port()
        with attached.Process([attached.TARGET, "wait"], attached.preloaded(f"127.0.0.1:{port}")) as process:
            process.hear()
            self.wait_until_served(port)
            os.kill(process.pid, signal.SIGTERM)
            self.assertEqual(process.finish(say=None), (-signal.SIGTERM, ""))
        self.assertFalse(attached.connects(port))

    def test_library_that_is_missing(self):
        alone = shutil.copy(attached.LIBRARY, self.folder)
        env = {**attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="0"), "LD_PRELOAD": attached.preload(alone)}
        errors = self.warned(env)[1]
        self.assertRegex(errors, r"^\S+ jobscope\[\d+\] warning: not attached: .*libjobscope\.so.*\n$")
        self.assertIn("install libjobscope.so beside libjobscope_attach.so", errors)

    def test_delay_that_is_none(self):
        env = attached.preloaded(f"127.0.0.1:{attached.free_port()}", JOBSCOPE_ATTACH_DELAY_MS="60000")
        errors = self.warned(env)[1]
        self.assertRegex(errors, r'warning: JOBSCOPE_ATTACH_DELAY_MS must be 0 to 10000, is "60000": using 20\n')

    def test_address_that_is_none(self):
        env = attached.preloaded("127.0.0.1:nonsense", JOBSCOPE_ATTACH_DELAY_MS="0")
        errors = self.warned(env)[1]
        self.assertRegex(errors, r"warning: not attached: .*127\.0\.0\.1:nonsense.*\n$")


class InjectionTest(attached.TestCase):
    """As libcuda and NVTX load the library: by a dlopen of theirs, without LD_PRELOAD."""

    def inject(self, name, answer):
        port = attached.free_port()
        env = attached.environment(JOBSCOPE_LISTEN=f"127.0.0.1:{port}")
        with attached.Process([attached.TARGET, "inject", attached.LIBRARY, name], env) as process:
            self.assertEqual(process.hear(), f"secure 0 answer {answer}")
            self.assertEqual(process.hear(), "up")
            self.wait_until_served(port, process.pid)
            self.assertEqual(process.finish(), (0, ""))

    def test_cuda(self):
        self.inject("InitializeInjection", 1)

    def test_nvtx_without_tables_stays_off(self):
        """The handler declines; NVTX then closes us, which is harmless. With tables: tests/collectors/nvtx."""
        self.inject("InitializeInjectionNvtx2", 0)

    def test_nothing_is_asked(self):
        for name, answer in (("InitializeInjection", 1), ("InitializeInjectionNvtx2", 0)):
            command = [attached.TARGET, "inject", attached.LIBRARY, name]
            with attached.Process(command, attached.environment()) as process:
                self.assertEqual(process.hear(), f"secure 0 answer {answer}")
                self.assertFalse(attached.loaded("libjobscope.so", process.pid))
                process.hear()
                self.assertEqual(process.finish(), (0, ""))

    def test_another_injection_library_first(self):
        """Its entry point replaces ours: libjobscope.so is still searched for beside the attach library."""
        other = os.path.join(attached.FAKE_FOLDER, "libattach_other_injection.so")
        port = attached.free_port()
        env = attached.preloaded(f"127.0.0.1:{port}")
        env["LD_PRELOAD"] = attached.preload(other, attached.LIBRARY)
        with attached.Process([attached.TARGET, "wait"], env) as process:
            process.hear()
            self.wait_until_served(port, process.pid)
            self.assertEqual(process.finish(), (0, ""))

    def test_cuda_below_a_worker(self):
        """A process that a worker spawns is left alone until it uses CUDA: with a rank of its own it is a worker too."""
        below = f"{os.getpid()} RANK=0"
        for rank, attaches in (("1", True), ("0", False)):
            library, env, lines = self.fake(JOBSCOPE_ATTACHED=below, RANK="0", JOBSCOPE_ATTACH_DELAY_MS="10000")
            command = [attached.TARGET, "ranked", library, rank]
            with attached.Process(command, env | {"LD_PRELOAD": attached.preload(library)}) as process:
                self.assertEqual(process.hear(), "secure 0 answer 1")
                process.hear()
                if attaches:
                    self.wait_for(lambda: os.path.exists(env["FAKE_SERVER_LOG"]) and len(lines()) == 3, "the start")
                    self.assertIn("start 127.0.0.1:7", lines())
                    self.assertEqual(process.finish(), (0, ""))
                    os.remove(env["FAKE_SERVER_LOG"])
                    continue
                code, errors = process.finish()
                self.assertEqual(code, 0)
                self.assertRegex(errors, r"warning: not attached: this process uses CUDA, .* worker with RANK=0 .*\n$")
                self.assertFalse(os.path.exists(env["FAKE_SERVER_LOG"]))

    def fake(self, **added):
        log = os.path.join(self.folder, "log")
        library = os.path.join(attached.FAKE_FOLDER, os.path.basename(attached.LIBRARY))
        env = attached.environment(JOBSCOPE_LISTEN="127.0.0.1:7+rank", FAKE_SERVER_LOG=log, **added)

        def lines():
            with open(log, encoding="utf-8") as file:
                return file.read().splitlines()

        return library, env, lines

    def test_hand_over_and_start(self):
        """The handlers of libjobscope.so answer at once; the start is the thread's, and without further delay."""
        for name, answer, line in (
            ("InitializeInjectionNvtx2", 17, "nvtx null"),
            ("InitializeInjectionNvtxExtension", 18, "extension "),
        ):
            library, env, lines = self.fake(JOBSCOPE_ATTACH_DELAY_MS="10000", LOCAL_RANK="4")
            with attached.Process([attached.TARGET, "inject", library, name], env) as process:
                self.assertEqual(process.hear(), f"secure 0 answer {answer}")
                process.hear()
                self.wait_for(lambda: len(lines()) == 4, "the start", 9)  # the delay is 10 s
                self.assertEqual(
                    sorted(lines()),
                    sorted([line, "start 127.0.0.1:7+rank", "thread jobscope-attach", "signals blocked"]),
                )
                self.assertEqual(process.finish(), (0, ""))
            os.remove(env["FAKE_SERVER_LOG"])

    @unittest.skipIf(attached.SANITIZED, "GCC 12's AddressSanitizer forks while its allocator is locked")
    @attached.harness.again_if_busy(0.5)
    def test_a_fork_waits_for_a_slow_start(self):
        """Its child would hold the port."""
        library, env, _ = self.fake(JOBSCOPE_ATTACH_DELAY_MS="0", FAKE_SERVER_SLOW="1")
        command = [attached.TARGET, "fork_while_it_starts"]
        self.assertEqual(attached.run(command, env | {"LD_PRELOAD": attached.preload(library)}), (0, "", ""))

    def test_under_the_loader_s_lock(self):
        """A constructor of a library uses NVTX while its dlopen goes on: nobody waits for our thread, which waits for the loader."""
        library, env, lines = self.fake(JOBSCOPE_ATTACH_DELAY_MS="0")
        env["NVTX_INJECTION64_PATH"] = library
        plugin = os.path.join(attached.FAKE_FOLDER, "libattach_plugin.so")
        for preload in (None, library):
            if preload is not None:
                env["LD_PRELOAD"] = attached.preload(preload)
            with attached.Process([attached.TARGET, "plugin", plugin], env) as process:
                self.assertEqual(process.hear(), "answer 17")
                process.hear()
                self.wait_for(lambda: len(lines()) == 4, "the start")
                self.assertEqual(process.finish(), (0, ""))
            os.remove(env["FAKE_SERVER_LOG"])


class CaptureTest(attached.TestCase):
    def capture(self, address, duration_ms, protocol):
        command = [
            attached.CAPTURE, f"--service_addr={address}", f"--protocol={protocol}", f"--duration_ms={duration_ms}",
            f"--logdir={self.folder}/logs", "--json", "--quiet",
        ]  # fmt: skip
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=attached.environment())

    def result(self, client):
        out, errors = client.communicate(timeout=attached.DEADLINE_S)
        self.assertTrue(out, errors.decode())
        return client.returncode, json.loads(out)

    def traces(self):
        return [f for _, _, files in os.walk(self.folder) for f in files if f.endswith(".xplane.pb")]

    def capture_two_workers(self, protocol):
        env = {"JOBSCOPE_PORT_DIR": self.ports}
        command = [attached.PYTHON, self.script(LOOP)]
        with attached.Process(command, attached.preloaded(RANK="0", **env)) as first:
            with attached.Process(command, attached.preloaded(RANK="1", **env)) as second:
                self.wait_for_addresses(2)
                code, manifest = self.result(self.capture("@" + self.ports, 200, protocol))
                self.assertEqual(code, 0, manifest)
                self.assertEqual([worker["protocol"] for worker in manifest["workers"]], [protocol] * 2)
                self.assertEqual(len(self.traces()), 2)
                self.assertEqual(first.finish(), (0, ""))
                self.assertEqual(second.finish(), (0, ""))

    def test_capture_by_the_native_protocol(self):
        self.capture_two_workers("native")

    def test_capture_by_the_stock_protocol(self):
        self.capture_two_workers("tensorflow")

    def check(self, address):
        command = [attached.CAPTURE, "check", f"--service_addr={address}", "--json"]
        code, out, errors = attached.run(command, attached.environment())
        self.assertEqual(code, 0, errors)
        return json.loads(out)["workers"][0]

    def trace_of(self, address, *flags):
        """(the worker in the manifest, its trace) of a short capture."""
        command = [attached.CAPTURE, f"--service_addr={address}", "--duration_ms=300", f"--logdir={self.folder}/logs",
                   "--json", "--quiet", *flags]  # fmt: skip
        code, out, errors = attached.run(command, attached.environment())
        self.assertEqual(code, 0, errors)
        manifest = json.loads(out)
        worker = manifest["workers"][0]
        with open(os.path.join(manifest["run_directory"], os.path.basename(worker["files"][0]["path"])), "rb") as file:
            return worker, file.read()

    def rank_is_set_by_the_program(self, command):
        """After the server has started, as programs do that start their own processes."""
        with attached.Process(command, attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, WORLD_SIZE="8")) as process:
            process.hear()
            ((name, address),) = self.wait_for_addresses(1).items()
            self.assertEqual(name, attached.rankless_name(process.pid))
            before = self.check(address)
            self.assertNotIn("rank", before)
            self.assertEqual(before["world_size"], 8)
            for variable in ("RANK=5", "LOCAL_RANK=1", "WORLD_SIZE=16"):
                process.say(variable)
                self.assertEqual(process.hear(), variable)
            for protocol in ("tensorflow", "native"):  # the first one asks nobody who it is
                for _ in range(20):  # on a busy machine nothing of Python may be sampled during a capture
                    worker, trace = self.trace_of(address, f"--protocol={protocol}", "--python_tracer_level=1")
                    if attached.PYTHON not in command or b" [rank 5]" in trace:
                        break
                self.assertEqual((worker["rank"], worker["local_rank"], worker["world_size"]), (5, 1, 16), worker)
                if attached.PYTHON in command:
                    self.assertIn(b" [rank 5]", trace)
            after = self.check(address)
            self.assertEqual((after["rank"], after["world_size"]), (5, 16))
            self.assertEqual(process.finish(), (0, ""))

    def test_rank_that_a_program_sets(self):
        self.rank_is_set_by_the_program([attached.TARGET, "rank"])

    def test_rank_that_a_python_program_sets(self):
        self.rank_is_set_by_the_program([attached.PYTHON, self.script(RANKED)])

    def exit_during_a_capture(self, protocol):
        """What was recorded until then is delivered; the program leaves as it would."""
        with attached.Process([attached.TARGET, "wait"], attached.preloaded(JOBSCOPE_PORT_DIR=self.ports)) as process:
            process.hear()
            (address,) = self.wait_for_addresses(1).values()
            client = self.capture(address, 60_000, protocol)
            self.wait_for(lambda: self.busy(address), "the capture")
            self.assertEqual(process.finish(), (0, ""))
            code, manifest = self.result(client)
        self.assertEqual(code, 0, manifest)
        self.assertEqual(len(manifest["workers"][0]["files"]), 1)

    # A process gives one second to the delivery at its exit.
    @attached.harness.again_if_busy(0.5)
    def test_exit_during_a_native_capture(self):
        self.exit_during_a_capture("native")

    @attached.harness.again_if_busy(0.5)
    def test_exit_during_a_stock_capture(self):
        self.exit_during_a_capture("tensorflow")

    def busy(self, address):
        command = [attached.CAPTURE, "check", f"--service_addr={address}", "--json"]
        out = subprocess.run(command, capture_output=True, check=False, timeout=30, env=attached.environment()).stdout
        return b"recording" in out


if __name__ == "__main__":
    attached.main()
