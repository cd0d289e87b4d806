# SPDX-License-Identifier: Apache-2.0
"""`jobscope run`: the program becomes a worker, and remains the caller's child in every respect."""
import glob
import os
import re
import shutil
import signal
import subprocess

import attached
import other_users

# One write per line: several of them may share a pipe.
WORKER = "import sys; sys.stdout.write('up\\n'); sys.stdout.flush(); sys.stdin.readline()"
# Two ranks, as a launcher starts them, and their lines passed on.
LAUNCHER = f"""
import os, subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", {WORKER!r}], stdin=subprocess.PIPE,
                          env={{**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)}}) for rank in range(2)]
sys.stdin.readline()
for rank in ranks:
    rank.communicate(b"go\\n")
sys.exit(max(rank.returncode for rank in ranks))
"""


class RunTest(attached.TestCase):
    def setUp(self):
        super().setUp()
        self.env = attached.environment(TMPDIR=self.folder)

    def command(self, *command, flags=()):
        flags = list(flags)
        if not any(flag.startswith("--attach_library") for flag in flags):
            flags.append(f"--attach_library={attached.LIBRARY}")
        return [attached.PROGRAM, "run", *flags, "--", *command]

    def directories(self):
        return glob.glob(os.path.join(self.folder, "jobscope-run-*"))

    def assert_no_files(self):
        self.wait_for(lambda: not self.directories(), f"left: {self.directories()}")

    def run_it(self, *command, flags=("--quiet",), env=None):
        result = attached.run(self.command(*command, flags=flags), env or self.env)
        self.assert_no_files()
        return result

    def test_exit_code(self):
        self.assertEqual(self.run_it("sh", "-c", "echo out; echo err >&2; exit 7"), (7, "out\n", "err\n"))

    def test_as_a_verb_of_capture(self):
        command = self.command("sh", "-c", "exit 7", flags=("--quiet",))
        code, _, errors = attached.run([attached.CAPTURE, *command[1:]], self.env)
        self.assertEqual((code, errors), (7, ""))
        self.assert_no_files()

    def test_end_by_a_signal(self):
        self.assertEqual(self.run_it("sh", "-c", "kill -TERM $$"), (-signal.SIGTERM, "", ""))

    def test_no_such_program(self):
        code, _, errors = self.run_it("/nonexistent/program")
        self.assertEqual(code, 127)
        self.assertIn("/nonexistent/program: No such file", errors)

    def test_no_process_for_the_watch(self):
        """The program still runs. Nobody removes the directory, so the line names it."""
        command = self.command("sh", "-c", "exit 7")
        if os.geteuid() == 0:  # no limit holds for root
            reason = other_users.why_not(65534)
            if reason:
                self.skipTest(reason)
            os.chmod(self.folder, 0o777)
            programs = os.path.join(self.folder, "programs")
            os.mkdir(programs)
            server = os.path.join(os.path.dirname(attached.LIBRARY), "libjobscope.so")
            program, library, _ = other_users.copied([attached.PROGRAM, attached.LIBRARY, server], programs)
            command = [*other_users.as_user(65534), program, "run", f"--attach_library={library}", "--", *command[-3:]]
            self.assertEqual(attached.run(command, self.env)[0], 7)
            self.assert_no_files()
        at = command.index("run") - 1
        code, _, errors = attached.run([*command[:at], "prlimit", "--nproc=0:0", *command[at:]], self.env)
        self.assertEqual(code, 7, errors)
        (directory,) = self.directories()
        self.assertIn(f"remove {directory} when the program has ended", errors)

    def test_program_that_is_none(self):
        code, _, errors = self.run_it(self.folder)
        self.assertEqual(code, 126)
        self.assertIn("Permission denied", errors)

    def test_worker_is_announced_and_served(self):
        with attached.Process(self.command(attached.PYTHON, "-c", WORKER), self.env) as process:
            self.assertEqual(process.hear(), "up")
            self.wait_for(lambda: process.has_said("listens on"), "the address")
            said = process.errors
            (name, address) = re.search(r"jobscope: worker (\S+) listens on (\S+)\n", said).groups()
            self.assertEqual(name, attached.rankless_name(process.pid), "the program is the process that was started")
            self.assert_serves(address, process.pid)
            (directory,) = re.findall(r"--service_addr=@(\S+)", said)
            self.assertEqual([directory], self.directories())
            check = [attached.CAPTURE, "check", f"--service_addr=@{directory}"]
            self.assertEqual(attached.run(check, attached.environment())[0], 0)
            self.assertEqual(process.finish()[0], 0)
        self.assert_no_files()

    def test_two_ranks(self):
        """Their launcher, which has no rank, is one more worker under this verb: every process has a port of its own."""
        flags = ["--listen=127.0.0.1:0"]
        with attached.Process(self.command(attached.PYTHON, "-c", LAUNCHER, flags=flags), self.env) as process:
            self.assertEqual([process.hear(), process.hear()], ["up", "up"])
            for rank in range(2):
                self.wait_for(lambda rank=rank: process.has_said(f"worker {rank} listens on"), f"rank {rank}")
            self.assertEqual(process.finish()[0], 0)
        self.assert_no_files()

    def test_signals_arrive(self):
        code = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(33)); print('up', flush=True); signal.pause()"
        with attached.Process(self.command(attached.PYTHON, "-c", code, flags=["--quiet"]), self.env) as process:
            process.hear()
            os.kill(process.pid, signal.SIGTERM)
            self.assertEqual(process.finish(say=None), (33, ""))
        self.assert_no_files()

    def test_interrupt_of_the_group(self):
        """What a terminal does with Ctrl-C: the program decides, and the process beside it goes when it has."""
        code = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); sys.stdin.readline()"
        )
        command = self.command(attached.PYTHON, "-c", code)
        with attached.Process(command, self.env, start_new_session=True) as process:
            process.hear()
            os.killpg(process.pid, signal.SIGINT)
            self.wait_for(lambda: process.has_said("listens on"), "the address")
            self.assertEqual(process.finish()[0], 0)
        self.assert_no_files()

    def test_interrupt_of_the_group_at_once(self):
        """The same, before the process beside the program has run its first instruction."""
        code = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); sys.stdin.readline()"
        )
        late_fork = os.path.join(attached.FAKE_FOLDER, "libattach_late_fork.so")
        env = {**self.env, "LD_PRELOAD": late_fork}
        with attached.Process(self.command(attached.PYTHON, "-c", code), env, start_new_session=True) as process:
            process.hear()
            os.killpg(process.pid, signal.SIGINT)
            self.wait_for(lambda: process.has_said("listens on"), "the address")
            self.assertEqual(process.finish()[0], 0)
        self.assert_no_files()

    def test_killed(self):
        with attached.Process(self.command(attached.PYTHON, "-c", WORKER), self.env) as process:
            process.hear()
            self.wait_for(lambda: process.has_said("listens on"), "the address")
            os.kill(process.pid, signal.SIGKILL)
            self.assertEqual(process.finish(say=None)[0], -signal.SIGKILL)
        self.assert_no_files()

    def test_no_child_that_the_program_does_not_know(self):
        code = "import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    print('none')"
        self.assertEqual(self.run_it(attached.PYTHON, "-c", code), (0, "none\n", ""))

    def test_program_that_adopts_orphans(self):
        """Process 1 of a container, or a subreaper: the process beside it would become a child that never ends."""
        code = "import os\ntry:\n    print(os.waitpid(-1, os.WNOHANG))\nexcept ChildProcessError:\n    print('none')"
        command = self.command(attached.PYTHON, "-c", code)
        subreaper = (
            "import ctypes, os, sys; assert ctypes.CDLL(None).prctl(36, 1) == 0; os.execv(sys.argv[1], sys.argv[1:])"
        )
        first = ["unshare", "--pid", "--fork"]
        ways = [[attached.PYTHON, "-c", subreaper]]
        if attached.run([*first, "true"], self.env)[0] == 0:
            ways.append(first)
        for way in ways:
            with self.subTest(way[0]):
                code, out, errors = attached.run([*way, *command], self.env)
                self.assertEqual((code, out), (0, "none\n"), errors)
                (directory,) = self.directories()
                self.assertRegex(errors, rf"{directory}.*\n.*are not printed.*; remove {directory} when the program has ended\n$")
                shutil.rmtree(directory)

    def test_descriptors_are_the_program_s(self):
        """Nothing of ours stays open in the program, and nothing of the program in the process beside it."""
        look = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
        plain = attached.run([attached.PYTHON, "-c", look], self.env)
        self.assertEqual(self.run_it(attached.PYTHON, "-c", look, env={**self.env, "JOBSCOPE_DISABLE": "1"}), plain)

    def test_preloads_and_settings_of_the_user_stay(self):
        code = "import os; print(os.environ['LD_PRELOAD'], os.environ['JOBSCOPE_LISTEN'], os.environ['JOBSCOPE_PORT_DIR'])"
        env = {**self.env, "LD_PRELOAD": "libm.so.6", "JOBSCOPE_LISTEN": "localhost:0", "JOBSCOPE_PORT_DIR": self.ports}
        _, out, _ = self.run_it(attached.PYTHON, "-c", code, env=env)
        library = os.path.realpath(attached.LIBRARY)
        self.assertEqual(out, f"libm.so.6:{library} localhost:0 {os.path.realpath(self.ports)}\n")
        self.assertTrue(os.path.isdir(self.ports), "a directory of the user's is not removed")

    def test_nobody_became_a_worker(self):
        _, _, errors = self.run_it("true", flags=())
        self.assertIn("no worker has appeared; JOBSCOPE_LOG_LEVEL=debug logs", errors)


class UsageTest(attached.TestCase):
    def refused(self, *arguments, env=None):
        code, out, errors = attached.run([attached.PROGRAM, "run", *arguments], env or attached.environment())
        self.assertEqual((code, out), (2, ""), errors)
        return errors

    def test_usage(self):
        self.assertIn("no program", self.refused())
        self.assertIn("no program", self.refused("--quiet", "--"))
        self.assertIn("--nonsense", self.refused("--nonsense", "--", "true"))
        self.assertIn("not expected", self.refused("true"))

    def test_help(self):
        code, out, errors = attached.run([attached.PROGRAM, "run", "--help"], attached.environment())
        self.assertEqual((code, errors), (0, ""))
        self.assertIn("--attach_library", out)

    def test_library(self):
        missing = os.path.join(self.folder, "none.so")
        self.assertIn(missing, self.refused(f"--attach_library={missing}", "--", "true"))
        alone = shutil.copy(attached.LIBRARY, self.folder)
        self.assertIn("no libjobscope.so beside", self.refused(f"--attach_library={alone}", "--", "true"))

    def test_path_that_cannot_be_preloaded(self):
        folder = os.path.join(self.folder, "with space")
        os.mkdir(folder)
        library = shutil.copy(attached.LIBRARY, folder)
        shutil.copy(library, os.path.join(folder, "libjobscope.so"))
        self.assertIn("spaces and colons", self.refused(f"--attach_library={library}", "--", "true"))

    def test_library_is_found_beside_the_program(self):
        for place in ("bin", "lib", "shipped"):
            prefix = os.path.join(self.folder, place)
            os.makedirs(os.path.join(prefix, "bin"))
            program = shutil.copy(attached.PROGRAM, os.path.join(prefix, "bin"))
            os.makedirs(os.path.join(prefix, place), exist_ok=True)
            for name in ("libjobscope_attach.so", "libjobscope.so"):
                shutil.copy(attached.LIBRARY, os.path.join(prefix, place, name))
            out = subprocess.run(
                [program, "run", "--quiet", "--", "printenv", "LD_PRELOAD"], env=attached.environment(TMPDIR=self.folder),
                capture_output=True, check=True, timeout=30,
            ).stdout.decode()  # fmt: skip
            self.assertEqual(out, os.path.realpath(os.path.join(prefix, place, "libjobscope_attach.so")) + "\n")

    def test_port_directory_that_is_missing(self):
        errors = self.refused(
            f"--attach_library={attached.LIBRARY}", f"--port_dir={self.folder}/none", "--", "true"
        )
        self.assertIn("does not exist", errors)


if __name__ == "__main__":
    attached.main()
