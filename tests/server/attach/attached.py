# SPDX-License-Identifier: Apache-2.0
"""Starts processes with the attach library preloaded as a user does: with an environment and a command only."""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "shipped"), os.path.join(HERE, "..", "..", "python")]
import harness  # noqa: E402
import line_process  # noqa: E402
import ports  # noqa: E402

free_port = ports.free_port

LIBRARY = os.environ["JOBSCOPE_TEST_ATTACH"]
TARGET = os.environ["JOBSCOPE_TEST_TARGET"]
CAPTURE = os.environ.get("JOBSCOPE_TEST_CAPTURE", "")
PROGRAM = os.environ.get("JOBSCOPE_TEST_PROGRAM", "")  # jobscope
FAKE_FOLDER = os.environ.get("JOBSCOPE_TEST_FAKE", "")
# The interpreter itself, not a launcher that picks one by folder.
PYTHON = os.path.realpath(sys.executable)
DEADLINE_S = 180
SANITIZED = "ASAN_OPTIONS" in os.environ  # set by the build with AddressSanitizer
# AddressSanitizer's runtime, which this process has too: it must come before all other libraries.
RUNTIME = os.environ.get("LD_PRELOAD", "") if SANITIZED else ""

# Variables of the machine and of the user, which the tests remove.
FOREIGN = re.compile(
    r"JOBSCOPE_|LD_PRELOAD$|CUDA_INJECTION64_PATH$|NVTX_INJECTION64_PATH$|(LOCAL_|WORLD_)?(RANK|SIZE)$|SLURM_|OMPI_|PMI_|MPI_"
)


def environment(**added):
    """The caller's, without what would attach or give a rank; then `added`, where None takes out."""
    clean = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    clean.update({name: value for name, value in added.items() if value is not None})
    return clean


def rankless_name(pid):
    """Of a worker without a rank, in a port directory."""
    return f"{socket.gethostname()}-{pid}"


def preload(*libraries):
    """The value of LD_PRELOAD."""
    return ":".join(filter(None, (RUNTIME, *libraries)))


def preloaded(listen="127.0.0.1:0", **added):
    return environment(LD_PRELOAD=preload(LIBRARY), JOBSCOPE_LISTEN=listen, **added)


def connects(port):
    with socket.socket() as client:
        client.settimeout(5)
        return client.connect_ex(("127.0.0.1", port)) == 0


def run(command, env, **options):
    """A command to its end: (exit code, standard output, standard error)."""
    done = subprocess.run(
        command, env=env, capture_output=True, timeout=DEADLINE_S, check=False, stdin=subprocess.DEVNULL, **options
    )
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


class Process(line_process.LineProcess):
    deadline_s = DEADLINE_S
    hear = line_process.LineProcess.hear_line

    def __init__(self, command, env, **options):
        super().__init__(command, env=env, **options)

    def hear_json(self):
        return json.loads(self.hear())

    def has_said(self, text):
        return text in harness.without_audit(self.errors)

    def finish(self, say="go"):
        """Lets it go on and waits for its end: (exit code, standard error)."""
        if say is not None:
            self.say(say)
        code = self.wait_for_end()
        return code, harness.without_audit(self.errors)


class TestCase(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="attach")
        self.addCleanup(directory.cleanup)
        self.folder = directory.name
        self.ports = os.path.join(self.folder, "ports")
        os.mkdir(self.ports)

    def script(self, text, name="train.py"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def addresses(self):
        """{name of the file without suffix: address} of the port directory."""
        found = {}
        for name in os.listdir(self.ports):
            if name.endswith(".addr"):
                try:
                    with open(os.path.join(self.ports, name), encoding="utf-8") as file:
                        found[name[: -len(".addr")]] = file.read().strip()
                except FileNotFoundError:
                    pass
        return found

    def wait_for(self, condition, what, timeout_s=30):
        self.assertTrue(harness.until(condition, timeout_s), what)

    def warned(self, env):
        """(process id, what it wrote to standard error) of a program that ran well and received a warning."""
        with Process([TARGET, "wait"], env) as process:
            process.hear()
            self.wait_for(lambda: process.has_said("\n"), "a warning")
            code, errors = process.finish()
        self.assertEqual(code, 0)
        return process.pid, errors

    def wait_for_addresses(self, count):
        self.wait_for(lambda: len(self.addresses()) == count, f"{count} addresses; there are {self.addresses()}")
        return self.addresses()

    def wait_until_settled(self, pid):
        """The process and all below it have become workers, or never will: what has not happened now does not happen."""
        self.wait_for(lambda: not any(map(attaches, tree(pid))), "it goes on attaching")

    def assert_serves(self, address, pid=None):
        answer = harness.call(address, "describe")
        self.assertEqual(answer["code"], 0, answer)
        if pid is not None:
            self.assertEqual(answer["pid"], pid)

    def wait_until_served(self, port, pid=None):
        self.wait_for(lambda: connects(port), f"nobody listens on {port}")
        self.assert_serves(f"127.0.0.1:{port}", pid)


def loaded(name, pid="self"):
    """Whether a process has a file of that name in its address space."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return any(line.rstrip().endswith("/" + name) for line in maps)


def tree(root):
    """The process and all below it."""
    parents = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                parents[int(name)] = int(stat.read().rpartition(")")[2].split()[1])
        except (ValueError, OSError):
            pass
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def attaches(pid):
    """Whether the library's thread is there, which waits, loads and starts, and then ends."""
    names = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as comm:
                names.append(comm.read())
    except OSError:
        pass
    return "jobscope-attach\n" in names


def main():
    unittest.main(verbosity=2)
