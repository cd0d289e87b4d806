# SPDX-License-Identifier: Apache-2.0
"""Processes that start processes: forks, spawns, exec chains, launchers, and ends at any moment."""
import json
import os

import attached

# A parent with two children by one of multiprocessing's methods; each child tells of itself.
POOL = """
import json, multiprocessing, os, sys

def child(queue):
    with open("/proc/self/maps") as maps:
        server = "/libjobscope.so" in maps.read()
    queue.put((os.getpid(), server))
    multiprocessing.parent_process().join()  # lives as long as the parent

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    children = [context.Process(target=child, args=(queue,), daemon=True) for _ in range(2)]
    print("up", flush=True)
    sys.stdin.readline()
    for one in children:
        one.start()
    answers = [queue.get(timeout=30) for _ in children]
    print(json.dumps(dict(answers)), flush=True)
    sys.stdin.readline()
    for one in children:
        one.kill()
        one.join()
"""
# One write per line: several of them may share a pipe.
WAIT = "import sys; sys.stdout.write('up\\n'); sys.stdout.flush(); sys.stdin.readline()"
# Starts a copy of itself with other variables, and passes the lines on.
PARENT = """
import os, subprocess, sys
child = dict(item.split("=", 1) for item in sys.argv[1:])
sys.stdin.readline()
sys.exit(subprocess.run([sys.executable, "-c", %r], env={**os.environ, **child}).returncode)
""" % WAIT


class PoolTest(attached.TestCase):
    def pool(self, method, env):
        """Starts a pool whose parent is served; returns the process and the answers of its children."""
        process = attached.Process([attached.PYTHON, self.script(POOL), method], {**env, "JOBSCOPE_PORT_DIR": self.ports})
        self.addCleanup(process.__exit__)
        process.hear()
        self.wait_for_addresses(1)
        process.say()
        return process, process.hear_json()

    def one_address(self, method, listen=None, **variables):
        """All of them with the same address: it is the parent's, and nobody says a word."""
        env = attached.preloaded(
            listen or f"127.0.0.1:{attached.free_port()}+rank", JOBSCOPE_ATTACH_DELAY_MS="0", **variables
        )
        process, children = self.pool(method, env)
        self.assertEqual(len(children), 2)
        self.wait_until_settled(process.pid)
        (address,) = self.addresses().values()
        self.assert_serves(address, process.pid)
        self.assertEqual(process.finish(), (0, ""))
        return children

    def test_fork(self):
        self.one_address("fork")

    def test_spawn(self):
        children = self.one_address("spawn")
        self.assertEqual(list(children.values()), [False, False], "a child has loaded a server that it cannot have")

    def test_spawn_with_other_addresses(self):
        """A name of this host, and a Unix socket."""
        for listen in (f"localhost:{attached.free_port()}", f"unix:{self.folder}/socket"):
            with self.subTest(listen):
                children = self.one_address("spawn", listen)
                self.assertEqual(list(children.values()), [False, False])

    def test_forkserver(self):
        children = self.one_address("forkserver")
        self.assertEqual(list(children.values()), [False, False])

    def test_spawn_of_a_rank(self):
        children = self.one_address("spawn", LOCAL_RANK="0", RANK="0")
        self.assertEqual(list(children.values()), [False, False])

    def test_spawn_with_free_ports(self):
        """Without ranks each process that is spawned is a worker of its own."""
        process, children = self.pool("spawn", attached.preloaded())
        names = {attached.rankless_name(pid) for pid in (process.pid, *children)}
        self.wait_for(lambda: set(self.addresses()) == names, f"{names}; there are {self.addresses()}")
        for name, address in self.addresses().items():
            self.assert_serves(address, int(name.rsplit("-", 1)[1]))
        self.assertEqual(process.finish(), (0, ""))

    def test_spawn_with_free_ports_of_a_rank(self):
        """The data loader of rank 0 does not take its place in the port directory."""
        env = attached.preloaded(RANK="0", JOBSCOPE_ATTACH_DELAY_MS="0")
        process, _ = self.pool("spawn", env)
        self.wait_until_settled(process.pid)
        self.assertEqual(list(self.addresses()), ["0"])
        self.assert_serves(self.addresses()["0"], process.pid)
        self.assertEqual(process.finish(), (0, ""))

    def test_forkserver_with_free_ports(self):
        process, children = self.pool("forkserver", attached.preloaded())
        self.assertEqual(list(children.values()), [False, False])
        self.wait_until_settled(process.pid)
        self.assertEqual(list(self.addresses()), [attached.rankless_name(process.pid)])
        self.assertEqual(process.finish(), (0, ""))


class ChainTest(attached.TestCase):
    def test_exec_chain(self):
        """Shell, env, Python, Python: one process, served in the end, and on the way nothing takes its port."""
        port = attached.free_port()
        env = attached.preloaded(f"127.0.0.1:{port}")
        inner = f"import os, sys; sys.stdin.readline(); os.execv(sys.executable, [sys.executable, '-c', {WAIT!r}])"
        with attached.Process(["sh", "-c", 'exec env X=1 "$0" -c "$1"', attached.PYTHON, inner], env) as process:
            self.wait_until_served(port, process.pid)
            process.say()  # exec with the server running
            process.hear()
            self.wait_until_served(port, process.pid)
            self.assertEqual(process.finish(), (0, ""))

    def test_exec_of_a_tool_that_starts_the_worker(self):
        """Python, then sh by exec, the same process: the rank is not taken by a process that is a worker no longer."""
        port = attached.free_port()
        env = attached.preloaded(f"127.0.0.1:{port}", RANK="0", JOBSCOPE_PORT_DIR=self.ports)
        command = ["sh", "-c", '"$0" -c "$1"; exit $?', attached.PYTHON, WAIT]
        outer = f"import os, sys; sys.stdin.readline(); os.execv('/bin/sh', {command!r})"
        with attached.Process([attached.PYTHON, "-c", outer], env) as process:
            self.wait_until_served(port, process.pid)
            process.say()
            process.hear()
            self.wait_until_settled(process.pid)
            self.wait_until_served(port)
            self.assertEqual(list(self.addresses()), ["0"])
            self.assertEqual(process.finish(), (0, ""))

    def child_of_a_parent(self, listen, parent, child, port):
        env = attached.preloaded(listen, JOBSCOPE_PORT_DIR=self.ports, **parent)
        command = [attached.PYTHON, "-c", PARENT, *(f"{name}={value}" for name, value in child.items())]
        process = attached.Process(command, env)
        self.addCleanup(process.__exit__)
        self.wait_until_served(port, process.pid)
        process.say()
        process.hear()
        return process

    def test_subprocess_of_the_same_rank(self):
        port = attached.free_port(2)
        process = self.child_of_a_parent(f"127.0.0.1:{port}+rank", {"RANK": "1", "LOCAL_RANK": "1"}, {}, port + 1)
        self.wait_until_settled(process.pid)
        self.assertEqual(list(self.addresses()), ["1"])
        self.assertEqual(process.finish(), (0, ""))

    def test_launcher_by_its_name(self):
        """Its ranks have the ports, the first one too."""
        port = attached.free_port(2)
        code = (
            "import os, subprocess, sys\n"
            "ranks = [subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdin=subprocess.PIPE,\n"
            "         env={**os.environ, 'RANK': str(rank), 'LOCAL_RANK': str(rank)}) for rank in range(2)]\n"
            "sys.stdin.readline()\n"
            "for rank in ranks:\n    rank.communicate(b'go')\n"
            "sys.exit(max(rank.returncode for rank in ranks))\n"
        )
        command = [attached.PYTHON, self.script(code, "torchrun"), WAIT]
        env = attached.preloaded(f"127.0.0.1:{port}+rank", JOBSCOPE_PORT_DIR=self.ports)
        with attached.Process(command, env) as process:
            process.hear()
            process.hear()
            self.wait_until_served(port)
            self.wait_until_served(port + 1)
            ranks = {"0": f"127.0.0.1:{port}", "1": f"127.0.0.1:{port + 1}"}
            self.wait_for(lambda: self.addresses() == ranks, f"{ranks}; there are {self.addresses()}")
            self.assertEqual(process.finish(), (0, ""))

    def test_launcher_that_nobody_knows(self):
        """It has no rank, so it takes the first port; its ranks say why they cannot have it, and the others are served."""
        port = attached.free_port(2)
        listen = f"127.0.0.1:{port}+rank"
        process = self.child_of_a_parent(listen, {}, {"LOCAL_RANK": "0", "RANK": "0"}, port)
        self.wait_for(lambda: process.has_said("\n"), "a warning")
        code, errors = process.finish()
        self.assertEqual(code, 0)
        self.assertRegex(errors, rf"^\S+ jobscope\[\d+\] warning: not attached: .*{port}.*\n$")
        self.assertIn("JOBSCOPE_PROGRAMS", errors)
        process = self.child_of_a_parent(listen, {}, {"LOCAL_RANK": "1", "RANK": "1"}, port)
        self.wait_until_served(port + 1)
        self.assertEqual(process.finish(), (0, ""))


class StormTest(attached.TestCase):
    """Everything at the worst moment: while the thread loads and starts. The delay is taken out for that."""

    def test_forks_while_it_starts(self):
        """One in six of these met the start itself with a fork that waited for it, on two busy cores."""
        env = attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="0")
        for _ in range(30):
            self.assertEqual(attached.run([attached.TARGET, "forks", "10"], env), (0, "", ""))

    def test_a_fork_that_begins_before_the_start_and_ends_after_it(self):
        """The C library does not run the server's fork handler in its child; nevertheless the child must not hold the port."""
        env = attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="500")
        self.assertEqual(attached.run([attached.TARGET, "fork_around_the_start"], env), (0, "", ""))

    def test_spawns_while_it_starts(self):
        env = attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="0")
        self.assertEqual(attached.run([attached.TARGET, "spawns", "60", "/bin/true"], env), (0, "", ""))

    def test_spawns_of_programs_that_attach(self):
        """They leave while they load."""
        env = attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="0", JOBSCOPE_PROGRAMS="attach_target,true")
        self.assertEqual(attached.run([attached.TARGET, "spawns", "30", "/bin/true"], env), (0, "", ""))

    def test_end_at_any_moment(self):
        env = attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="0", JOBSCOPE_PORT_DIR=self.ports)
        for i in range(80):
            self.assertEqual(attached.run([attached.TARGET, "leave", str(i * 250)], env), (0, "", ""), i)

    def test_python_that_ends_at_any_moment(self):
        env = attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="0")
        for i in range(10):
            code = f"import time; time.sleep({i} * 0.002)"
            self.assertEqual(attached.run([attached.PYTHON, "-S", "-c", code], env), (0, "", ""), i)


class OwnGrpcTest(attached.TestCase):
    """A C++ program with a gRPC, a protobuf and a profiler service of its own, and two servers of ours asked for: by its own code
    and by us. They are one."""

    def test_both_servers(self):
        hosts = os.environ.get("JOBSCOPE_TEST_OWN_GRPC", "")
        if not hosts:
            self.skipTest("own_grpc_host is not built")
        library = os.path.join(os.path.dirname(attached.LIBRARY), "libjobscope.so")
        for host in hosts.split(":"):
            for order in ("before", "after"):
                env = attached.preloaded(JOBSCOPE_ATTACH_DELAY_MS="0", JOBSCOPE_LOG_LEVEL="info")
                code, _, errors = attached.run([host, library, order], env)
                self.assertEqual(code, 0, errors)
                self.assertEqual(errors.count("profiler server listens on"), 1, errors)
                self.assertEqual([line for line in attached.harness.without_audit(errors).splitlines() if " info: " not in line], [])


class EnvironmentTest(attached.TestCase):
    def test_address_of_a_process_is_seen_by_its_child(self):
        """What a program finds in its environment is a string that it can pass on."""
        code = "import json, os; print(json.dumps(os.environ['JOBSCOPE_ATTACHED']))"
        parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
        first, out, errors = attached.run([attached.PYTHON, "-c", parent], attached.preloaded(RANK="9"))
        self.assertEqual((first, errors), (0, ""))
        self.assertRegex(json.loads(out), r"^\d+ RANK=9$")


if __name__ == "__main__":
    attached.main()
