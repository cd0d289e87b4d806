# SPDX-License-Identifier: Apache-2.0
"""Processes that inherit the environment and are no training processes: nothing is loaded, nothing is said."""
import os
import shutil
import socket
import stat
import subprocess

import attached
import other_users

SERVER = "libjobscope.so"
# Tells what its process has of ours.
LOOK = """
import json, os, sys
with open("/proc/self/maps") as maps:
    files = {os.path.basename(line.split()[-1]) for line in maps if ".so" in line}
names = ("JOBSCOPE_ATTACHED", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
print(json.dumps({"server": "libjobscope.so" in files, "attach": "libjobscope_attach.so" in files,
                  "threads": len(os.listdir("/proc/self/task")), "variables": [n for n in names if n in os.environ]}))
sys.stdout.flush()
sys.stdin.readline()
"""
# Until the library's thread has ended.
UNTIL_SETTLED = """
def names():
    for thread in os.listdir("/proc/self/task"):
        try:
            yield open(f"/proc/self/task/{thread}/comm").read()
        except OSError:
            pass
while "jobscope-attach\\n" in names():
    pass
"""
NOTHING = {"server": False, "attach": True, "threads": 1, "variables": []}


class InheritTest(attached.TestCase):
    def assert_untouched(self, *command, env=None):
        """The command does with us what it does without."""
        plain = attached.run(command, attached.environment())
        port = attached.free_port()
        with_us = attached.run(command, env or attached.preloaded(f"127.0.0.1:{port}", JOBSCOPE_PORT_DIR=self.ports))
        self.assertEqual(with_us, plain)
        self.assertEqual(self.addresses(), {})

    def test_true(self):
        self.assert_untouched("/bin/true")

    def test_false(self):
        self.assert_untouched("/bin/false")

    def test_shell_pipeline(self):
        self.assert_untouched("sh", "-c", "printf 'b\\na\\n' | sort | head -n 1; exit 3")

    def test_nested_shells(self):
        self.assert_untouched("env", "nice", "sh", "-c", "exec env sh -c 'kill -TERM $$'")

    def test_make(self):
        path = self.script("all: a b\na b:\n\t@echo $@; cat $(MAKEFILE_LIST) | wc -l\n", "Makefile")
        self.assert_untouched("make", "-s", "-f", path)

    def test_compiler(self):
        if shutil.which("g++") is None:
            self.skipTest("no compiler")
        path = self.script("int main() { return 0; }\n", "empty.cc")
        self.assert_untouched("g++", "-o", os.path.join(self.folder, "empty"), path)

    def test_container_runtime_of_one_thread(self):
        """The kernel gives a user namespace to processes of one thread only."""
        program = shutil.copy(shutil.which("unshare"), os.path.join(self.folder, "ch-run"))
        if attached.run([program, "--user", "true"], attached.environment())[0] != 0:
            self.skipTest("no user namespaces here")
        self.assert_untouched(program, "--user", "true")

    def test_programs_by_python(self):
        """A process with an address, whose children are tools."""
        code = "import subprocess; print(subprocess.run('echo x | tr x y; exit 5', shell=True).returncode)"
        for env in ({}, {"RANK": "0"}):
            self.assertEqual(
                attached.run([attached.PYTHON, "-c", code], attached.preloaded(**env)), (0, "y\n5\n", "")
            )

    def look(self, env, *command):
        with attached.Process([*command, attached.PYTHON, "-c", LOOK], env) as process:
            said = process.hear_json()
            self.assertEqual(process.finish(), (0, ""))
        return said

    def test_nothing_without_an_address(self):
        self.assertEqual(self.look(attached.preloaded(None)), NOTHING)
        self.assertEqual(self.look(attached.preloaded("")), NOTHING)

    def test_kill_switch(self):
        self.assertEqual(self.look(attached.preloaded(JOBSCOPE_DISABLE="1")), NOTHING)

    def test_programs_that_are_not_listed(self):
        self.assertEqual(self.look(attached.preloaded(JOBSCOPE_PROGRAMS="train.py,eval*")), NOTHING)
        self.assertEqual(self.look(attached.preloaded(JOBSCOPE_PROGRAMS="!python*")), NOTHING)

    def test_debug_says_why(self):
        env = attached.preloaded(JOBSCOPE_LOG_LEVEL="debug", JOBSCOPE_PROGRAMS="train.py")
        code, _, errors = attached.run([attached.TARGET, "leave", "0"], env)
        self.assertEqual(code, 0)
        self.assertRegex(errors, r"jobscope\[\d+\] debug: not attached: attach_target is not among the programs")

    def test_launcher(self):
        path = self.script(LOOK, "torchrun")
        with attached.Process([attached.PYTHON, path], attached.preloaded()) as process:
            self.assertEqual(process.hear_json(), NOTHING)
            self.assertEqual(process.finish(), (0, ""))

    def test_short_programs_load_nothing(self):
        """They are over before anything is loaded; here one with a thousand times its usual delay, to be sure of it."""
        env = attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="10000", JOBSCOPE_PORT_DIR=self.ports)
        with attached.Process([attached.TARGET, "wait"], env) as process:
            process.hear()
            self.wait_for(lambda: attached.attaches(process.pid), "the thread that waits")
            self.assertFalse(attached.loaded(SERVER, process.pid))
            self.assertEqual(process.finish(), (0, ""))

    def test_more_rights_than_the_caller(self):
        """A setuid program: neither preloaded nor, where it loads us itself, served."""
        reason = "needs root" if os.geteuid() != 0 else other_users.why_not(65534)
        if reason:
            self.skipTest(reason)
        program, library = other_users.copied([attached.TARGET, attached.LIBRARY], self.folder)
        os.chmod(program, 0o755 | stat.S_ISUID)
        port = attached.free_port()
        env = attached.environment(LD_PRELOAD=library, JOBSCOPE_LISTEN=f"127.0.0.1:{port}", JOBSCOPE_ATTACH_DELAY_MS="0")
        with attached.Process([*other_users.as_user(65534), program, "inject", library, "InitializeInjection"], env) as process:
            said = process.hear()
            if said != "secure 1 answer 1":
                self.skipTest(f"setuid has no effect here: {said}")
            self.assertEqual(process.hear(), "up")
            with open(f"/proc/{process.pid}/task/{process.pid}/status", encoding="utf-8") as status:
                self.assertIn("Threads:\t1\n", status.read())
            self.assertFalse(attached.connects(port))
            self.assertEqual(process.finish(), (0, ""))

    def test_closed_standard_error(self):
        """What the program opens in its place is its own: no line of ours goes there."""
        path = os.path.join(self.folder, "data")
        # A use of CUDA ends the delay.
        code = f"""
import ctypes, os
assert os.open({path!r}, os.O_RDWR | os.O_CREAT) == 2
assert ctypes.CDLL(None).InitializeInjection() == 1
{UNTIL_SETTLED}"""
        env = attached.preloaded("127.0.0.1:nonsense", JOBSCOPE_ATTACH_DELAY_MS="10000")
        done = subprocess.run(
            ["sh", "-c", 'exec "$0" -c "$1" 2>&-', attached.PYTHON, code], env=env, check=False, timeout=60
        )
        self.assertEqual((done.returncode, os.path.getsize(path)), (0, 0))

    def test_standard_error_that_nobody_reads(self):
        """A line of ours into a pipe without a reader ends no program."""
        reader, writer = os.pipe()
        os.close(reader)
        env = attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="nonsense")  # said by the thread that becomes main's
        done = subprocess.run([attached.TARGET, "leave", "0"], env=env, check=False, timeout=60, stderr=writer)
        os.close(writer)
        self.assertEqual(done.returncode, 0)

    def test_port_of_another_program(self):
        """One line with the remedy, and the program runs."""
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            env = attached.preloaded(f"127.0.0.1:{port}", JOBSCOPE_ATTACH_DELAY_MS="0")
            pid, errors = self.warned(env)
        self.assertRegex(errors, rf"^\S+ jobscope\[{pid}\] warning: not attached: .*{port}.*\n$")


if __name__ == "__main__":
    attached.main()
