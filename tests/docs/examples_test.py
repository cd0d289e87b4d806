# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of the documents as they are written, with what they take for granted (a loader, a model) around them.

  examples_test.py BUILD_DIRECTORY
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import documents
import programs
import xspace
from programs import DEADLINE_S, PYTHON_AROUND, run

BUILD = pathlib.Path()
PORT = 6009

class Examples(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="jobscope-examples-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.package = BUILD / "python" / "jobscope"
        commands = self.scratch / "bin"
        commands.mkdir()
        for name, program in (("capture", BUILD / "bin" / "capture"), ("jobscope", BUILD / "bin" / "jobscope"), ("python", sys.executable)):
            (commands / name).symlink_to(program)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("JOBSCOPE_")},
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(BUILD / "python"),
        }

    def needs_port(self):
        if os.environ.get("JOBSCOPE_TEST_SHARED_NETWORK"):
            self.skipTest("network namespaces are not allowed here, and the examples name their ports")

    # ---- making programs of examples ----

    def python(self, block, after=""):
        """A program: the command that runs it."""
        path = self.scratch / "example.py"
        path.write_text(PYTHON_AROUND + block.text + after, encoding="utf-8")
        return [sys.executable, "-B", path]

    def cpp(self, block, declare="", after="", **options):
        return [programs.cpp(BUILD, self.scratch, block, declare, after, **options)]

    # ---- running them ----

    def await_workers(self, addresses, processes):
        """Returns when all addresses serve. Fails if one of the processes ends before that."""
        end = time.monotonic() + DEADLINE_S
        while subprocess.run(["jobscope", "check", f"--service_addr={addresses}", "--json"], env=self.environment,
                             capture_output=True, check=False).returncode != 0:  # fmt: skip
            self.assertLess(time.monotonic(), end, "the workers do not serve")
            for process in processes:
                self.assertIsNone(process.poll(), "a process has ended")

    def serve_two_ranks(self, command, steps=15):
        """Runs it as two ranks of one host, captures both by one command, with so many steps of each at least, and gives the events
        of each."""
        self.needs_port()
        ranks = []
        for rank in range(2):
            environment = {**self.environment, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
            ranks.append(subprocess.Popen([str(word) for word in command], cwd=self.scratch, env=environment, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True))  # fmt: skip
        try:
            addresses = ",".join(f"127.0.0.1:{PORT + rank}" for rank in range(2))
            self.await_workers(addresses, ranks)
            logdir = self.scratch / "logdir"
            for _ in range(20):  # on a busy machine a rank may not run during a capture
                manifest = json.loads(run("capture", f"--service_addr={addresses}", "--duration_ms=500", f"--logdir={logdir}", "--json",
                                          "--quiet", env=self.environment))  # fmt: skip
                if all(worker["outcome"] == "ok" and worker.get("steps", 0) >= steps for worker in manifest["workers"]):
                    break
            self.assertEqual([worker["outcome"] for worker in manifest["workers"]], ["ok", "ok"], manifest)
        finally:
            (self.scratch / "stop").touch()
            outputs = [rank.communicate(timeout=DEADLINE_S)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
        files = sorted(pathlib.Path(manifest["run_directory"]).glob("*.xplane.pb"))
        self.assertEqual(len(files), 2)
        return [[event for name, events in xspace.planes(file) if name == "/host:CPU" for event in events] for file in files]

    def check_loop(self, events):
        """A loop of 6 ms of waiting and 2 ms of computing, on a machine that may stretch both: each step has its wait."""
        steps = [event for event in events if event.stats.get("_r") == 1]
        self.assertGreater(len(steps), 2)
        input_ps = xspace.input_share(steps, events) * sum(step.duration_ps for step in steps)
        self.assertGreater(input_ps / len(steps), 5.9e9)
        for step in steps:
            self.assertGreater(step.duration_ps, 6e9)

    # ---- README.md ----

    def test_readme_python(self):
        for events in self.serve_two_ranks(self.python(documents.block("README.md", "python", "start_server"))):
            self.check_loop(events)
            self.assertTrue(xspace.named(events, "forward"))

    def test_readme_cpp(self):
        command = self.cpp(documents.block("README.md", "cpp", "ProfilerServer"), "Loader loader(20000);")
        for events in self.serve_two_ranks(command):
            self.check_loop(events)

    def test_readme_two_commands(self):
        self.needs_port()
        start, capture = documents.block("README.md", "sh", "jobscope run").text.splitlines()
        (self.scratch / "train.py").write_text(PYTHON_AROUND + "train(20000)\n")
        launcher = self.scratch / "bin" / "torchrun"
        launcher.write_text(  # what PyTorch's does, as far as the example goes
            '#!/bin/bash\nn=${1#--nproc-per-node=}\nfor ((i = 0; i < n; i++)); do LOCAL_RANK=$i RANK=$i python "$2" & done\nwait\n'
        )
        launcher.chmod(0o755)
        job = subprocess.Popen(["bash", "-ec", start], cwd=self.scratch, env=self.environment)
        try:
            self.await_workers(f"127.0.0.1:[{PORT}-{PORT + 3}]", [job])
            output = run("bash", "-ec", capture.replace("/tmp/logdir", str(self.scratch / "logdir")), cwd=self.scratch, env=self.environment)
        finally:
            (self.scratch / "stop").touch()
            self.assertEqual(job.wait(DEADLINE_S), 0)
        self.assertIn("4 of 4 workers delivered", output)
        self.assertRegex(output, "(?m)^VERDICT  ")

    def test_shell_of_pages_without_code(self):
        self.needs_port()
        (self.scratch / "train.py").write_text(PYTHON_AROUND + 'train(3)\nos.write(1, b"trained\\n")\n')
        for block in (documents.block("README.md", "sh", "LD_PRELOAD"), documents.block("docs/attach.md", "sh", "jobscope run"),
                      documents.block("docs/attach.md", "sh", "LD_PRELOAD"), documents.block("docs/frameworks.md", "sh", "jobscope run"),
                      documents.block("docs/nvtx.md", "sh", "jobscope run")):  # fmt: skip
            script = block.text.replace("/opt/jobscope/lib", str(self.package / "lib"))
            output = run("bash", "-ec", script, cwd=self.scratch, env=self.environment)
            self.assertIn("trained", output)
            self.assertNotIn("ERROR: ld.so", output)

    # ---- docs/ ----

    def test_python_page(self):
        for events in self.serve_two_ranks(self.python(documents.block("docs/python.md", "python", "start_server"))):
            self.check_loop(events)
            self.assertTrue(xspace.named(events, "forward"))

    def test_python_page_shell(self):
        self.needs_port()
        command = self.python(documents.block("docs/python.md", "python", "start_server"))
        worker = subprocess.Popen([str(word) for word in command], cwd=self.scratch, env=self.environment)
        try:
            text = documents.block("docs/python.md", "sh", "capture").text.replace("/tmp/logdir", str(self.scratch / "logdir"))
            end = time.monotonic() + DEADLINE_S
            while subprocess.run(["bash", "-ec", text], env=self.environment, capture_output=True, check=False).returncode != 0:
                self.assertLess(time.monotonic(), end)
        finally:
            (self.scratch / "stop").touch()
            self.assertEqual(worker.wait(DEADLINE_S), 0)

    def test_python_page_captures_itself(self):
        command = self.python(documents.block("docs/python.md", "python", "capture_steps"), "train(120)\nprint(jobscope.stop().events)\n")
        output = run(*command, cwd=self.scratch, env=self.environment).splitlines()
        self.assertIn("run_directory=", output[0])
        self.assertGreater(int(output[1]), 10)

    def test_python_page_provider(self):
        after = '\nwith jobscope.capture("logdir") as it:\n    gc.collect()\n    train(3)\nprint(it.result.run_directory)\n'
        command = self.python(documents.block("docs/python.md", "python", "GarbageCollections"), after)
        directory = run(*command, cwd=self.scratch, env=self.environment).splitlines()[-1]
        self.assertTrue(xspace.named(xspace.host_events(self.scratch / directory), "gc"))

    def test_embedding_page(self):
        # Its loop has an end of its own: the file that ends the others' loaders ends this one.
        command = self.cpp(documents.block("docs/embedding.md", "cpp", "ProfilerServer"), "const int steps = 20000;",
                           edit=lambda body: body.replace("  Train(batch);\n", "  if (Stopped()) break;\n  Train(batch);\n"))  # fmt: skip
        for events in self.serve_two_ranks(command):
            self.assertGreater(len([event for event in events if event.stats.get("_r") == 1]), 10)

    def test_embedding_page_captures_itself(self):
        after = "for (const auto& step : jobscope::Steps(Loader(120))) Train(step.batch);\nreturn jobscope::StopCapture().ok() ? 0 : 1;"
        block = documents.block("docs/embedding.md", "cpp", "StartCapture")
        block = block._replace(text="#include <jobscope/steps.h>\n" + block.text)
        output = run(*self.cpp(block, after=after), cwd=self.scratch, env=self.environment)
        self.assertIn("logdir/plugins/profile/", output)
        runs = sorted((self.scratch / "logdir" / "plugins" / "profile").iterdir())
        self.assertEqual(len(runs), 3)
        steps = [event for event in xspace.host_events(runs[-1]) if event.stats.get("_r") == 1]
        self.assertEqual([step.stats["step_num"] for step in steps], list(range(100, 111)))

    def test_embedding_page_by_ctypes(self):
        block = documents.block("docs/embedding.md", "python", "ctypes")
        text = block.text.replace("/opt/jobscope/lib", str(self.package / "lib"))
        wait = '\nimport pathlib, time\nwhile not pathlib.Path("stop").exists():\n    time.sleep(0.01)\n'
        path = self.scratch / "example.py"
        path.write_text(text + wait)
        self.serve_two_ranks([sys.executable, "-B", path], steps=0)

    def test_embedding_page_in_c(self):
        functions, calls = documents.block("docs/embedding.md", "c", "jobscope_provider").text.split("\n}\n", 1)
        source = self.scratch / "example.c"
        source.write_text(
            "#include <jobscope/provider.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <time.h>\n"
            f"static int64_t newest_flush_begin_ns, newest_flush_duration_ns;\n{functions}\n}}\n"
            "int main(void) {\n  char error[1024] = \"\";\n"
            f"{calls}\n"
            "  struct timespec now;\n  jobscope_capture_result result = {sizeof(result)};\n"
            '  if (*error || jobscope_capture_start("logdir", NULL, error, sizeof(error))) return puts(error), 1;\n'
            "  clock_gettime(CLOCK_MONOTONIC, &now);\n"
            "  newest_flush_begin_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;\n  newest_flush_duration_ns = 5000;\n"
            "  if (jobscope_capture_stop(&result, error, sizeof(error))) return puts(error), 1;\n"
            "  puts(result.run_directory);\n  return 0;\n}\n"
        )
        run_directory = run(programs.compile_and_link(BUILD, source, "-D_POSIX_C_SOURCE=199309L"), cwd=self.scratch, env=self.environment)
        (file,) = (self.scratch / run_directory.strip()).glob("*.xplane.pb")
        (flush,) = [event for name, events in xspace.planes(file) if "my_cache" in name for event in xspace.named(events, "flush")]
        self.assertEqual(flush.duration_ps, 5_000_000)

    def test_recording_page(self):
        for block, declare in ((documents.block("docs/recording.md", "cpp", "JOBSCOPE_INPUT_WAIT"), "const int64_t steps = 30;\nEndlessQueue queue;"),
                               (documents.block("docs/recording.md", "cpp", "jobscope::Steps"), "Loader loader(15);\nQueue queue{Loader(15)};")):  # fmt: skip
            command = self.cpp(block, 'jobscope::StartCapture("logdir");\n' + declare, "return jobscope::StopCapture().ok() ? 0 : 1;")
            run(*command, cwd=self.scratch, env=self.environment)
            directory = sorted((self.scratch / "logdir" / "plugins" / "profile").iterdir())[-1]
            self.check_loop(xspace.host_events(directory))

    def test_manifest_page(self):
        train = self.python(documents.block("docs/python.md", "python", "capture_steps"), "train(120)\nprint(jobscope.stop().run_directory)\n")
        run(*train, cwd=self.scratch, env=self.environment)
        # A manifest is the client's: one with a worker that is not there.
        logs = self.scratch / "logs"
        logs.mkdir()
        subprocess.run(["capture", "--service_addr=127.0.0.1:1", f"--logdir={logs}", "--quiet"], env=self.environment, capture_output=True,
                       check=False)  # fmt: skip
        (directory,) = (logs / "failed_runs").iterdir()
        block = documents.block("docs/manifest.md", "python", "capture.json")
        text = block.text.replace("logs/plugins/profile/2026_05_01_12_00_00", str(directory))
        self.assertIn("127.0.0.1:1 connect", run(sys.executable, "-c", text, cwd=self.scratch))

    def run_beside_two_workers(self, *scripts, program="train_loop"):
        """Runs the scripts beside two workers, which are this program, and for which they have the names of the documents. Gives their
        output."""
        self.needs_port()
        ports = (PORT, PORT + 1)
        loops = [subprocess.Popen([BUILD / "bin" / program, f"--listen=127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True,
                                  env={**self.environment, "JOBSCOPE_ALLOW_CLOSE": "1"}) for port in ports]  # fmt: skip
        try:
            for loop, port in zip(loops, ports):
                self.assertEqual(loop.stdout.readline(), f"listening on 127.0.0.1:{port}\n")
            (self.scratch / "ports").write_text("".join(f"127.0.0.1:{port}\n" for port in ports))
            return [
                run("bash", "-ec", script.replace("w1:6009,w2:6009", f"127.0.0.1:{PORT},127.0.0.1:{PORT + 1}"), cwd=self.scratch,
                    env=self.environment) for script in scripts
            ]  # fmt: skip
        finally:
            for loop in loops:
                loop.terminate()
                loop.communicate(timeout=DEADLINE_S)
                self.assertEqual(loop.returncode, 0)

    def test_demo_page_by_hand(self):
        self.needs_port()
        text = documents.block("docs/demo.md", "sh", "build/bin/train_loop").text
        (self.scratch / "build").mkdir()
        (self.scratch / "build" / "bin").symlink_to(BUILD / "bin")
        # The second that the example waits may be too short on a busy machine.
        ready = f"until capture check --service_addr=127.0.0.1:{PORT} >/dev/null; do kill -0 $!; sleep 0.1; done"
        self.assertIn("sleep 1\n", text)
        script = text.replace("/tmp/logdir", str(self.scratch / "logdir")).replace("sleep 1", ready)
        output = run("bash", "-ec", "trap 'kill $! 2>/dev/null || true' EXIT\n" + script, cwd=self.scratch, env=self.environment)
        self.assertIn(f"listening on 127.0.0.1:{PORT}", output)
        self.assertRegex(output, "(?m)^steps ")
        self.assertIn("1 of 1 worker", output)
        self.assertRegex(output, "(?m)^VERDICT  ")

    def test_capture_page(self):
        """All but its second `stop`, which may find that nothing runs any more."""
        lines = documents.block("docs/capture.md", "sh", "capture check").text.replace("…", "w1:6009,w2:6009").splitlines()
        self.assertEqual(len(lines), 4)
        capture, check, stop, close = self.run_beside_two_workers(*lines)
        self.assertIn("2 of 2 workers delivered", capture)
        self.assertIn("2 of 2 workers reachable", check)
        self.assertIn("127.0.0.1:6010", stop)
        self.assertIn("127.0.0.1:6010", close)

    def test_cuda_page(self):
        check, capture = documents.block("docs/cuda.md", "sh", "capture check").text.splitlines()
        states, captured = self.run_beside_two_workers(check, capture, program="fake_gpu_worker")
        self.assertRegex(states, "(?m)^collectors of .*; cuda on")
        self.assertIn("2 of 2 workers delivered", captured)
        self.assertRegex(captured, "(?m)^VERDICT ")

    def test_security_page_trial(self):
        self.needs_port()
        text = documents.block("docs/security.md", "sh", "make_certs").text
        (self.scratch / "build").mkdir()
        (self.scratch / "build" / "bin").symlink_to(BUILD / "bin")
        (self.scratch / "deploy").symlink_to(documents.ROOT / "deploy")
        check = next(line for line in text.splitlines() if " check " in line)
        # The second that the example waits may be too short on a busy machine.
        ready = f"until {check} >/dev/null; do kill -0 $!; sleep 0.1; done"
        self.assertIn("sleep 1\n", text)
        script = text.replace("sleep 1", ready).replace("/tmp/trial", str(self.scratch / "trial"))
        output = run("bash", "-ec", "trap 'kill $! 2>/dev/null || true' EXIT\n" + script, cwd=self.scratch, env=self.environment)
        self.assertIn("1 of 1 worker reachable", output)

    def test_security_page(self):
        (output,) = self.run_beside_two_workers(documents.block("docs/security.md", "sh", "stop --server").text)
        self.assertIn("127.0.0.1:6010", output)

    def test_report_page(self):
        """Its first example; tests/docs/report_test.py has the others."""
        text = documents.block("docs/report.md", "console", "$ capture").text.replace("/2026_05_01_12_00_00", "/*")
        commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        self.assertEqual(len(commands), 2)
        _, report = self.run_beside_two_workers(*commands)
        shown, printed = (re.findall(r"^(?:VERDICT|WHY|NEXT|SURE)\b", output, re.MULTILINE) for output in (text, report))
        self.assertEqual(shown, printed)

    def test_gpu_tests_page(self):
        """The runner takes these flags and names of checks, and looks for its bundle then."""
        runner = self.scratch / "build" / "gpu-test" / "run_gpu_tests"
        runner.parent.mkdir(parents=True)
        runner.write_text(f'#!/bin/bash\npython -B "{documents.ROOT}/tests/gpu/run_gpu_tests.py" --root=none "$@" 2>&1 | grep "is not a bundle"\n')
        runner.chmod(0o755)
        run("bash", "-ec", documents.block("docs/gpu_tests.md", "sh", "run_gpu_tests").text, cwd=self.scratch, env=self.environment)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
