# SPDX-License-Identifier: Apache-2.0
"""Children that are forked while a server with port 0 starts: none of them holds the port, and none hangs that starts one
itself."""
import os
import select
import signal
import threading

import harness

STARTS = 15
MOST_CHILDREN = 50  # at a time


def worker_fork_at_start():
    library = harness.Library()
    children = []
    enough = threading.Event()

    def fork_on():
        while not enough.is_set() and len(children) < MOST_CHILDREN:
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)
                signal.pause()
            children.append(pid)

    forks = 0
    for _ in range(STARTS):
        enough.clear()
        thread = threading.Thread(target=fork_on)
        thread.start()
        harness.until(lambda: children)
        code, address, error = library.start()
        enough.set()
        thread.join()
        port = harness.port_of(address) if code == 0 else 0
        # A child closes the socket as soon as it runs for the first time, which on a busy machine is later than its fork.
        holders = [pid for pid in children if not harness.until(lambda pid=pid: not harness.holds_port(port, pid))]
        forks += len(children)
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        children.clear()
        if code != 0 or holders:
            harness.tell(error=error, holders=len(holders), forks=forks)
            return
        library.stop()
    harness.tell(error="", holders=0, forks=forks)


def worker_start_in_children():
    library = harness.Library()
    children = {}  # what a child answers through -> its pid
    begin = threading.Event()
    over = threading.Event()

    def fork_on():
        begin.set()
        while not over.is_set() and len(children) < MOST_CHILDREN // 2:  # each may start a server
            answer, say = os.pipe()
            pid = os.fork()
            if pid == 0:
                signal.alarm(120)
                os.write(say, bytes([library.start()[0]]))
                os._exit(0)
            os.close(say)
            children[answer] = pid

    thread = threading.Thread(target=fork_on)
    thread.start()
    begin.wait()
    code, _, error = library.start()
    over.set()
    thread.join()
    answers = []
    for answer, pid in children.items():
        said = os.read(answer, 1) if select.select([answer], [], [], harness.DEADLINE_S)[0] else b""
        answers.append(said[0] if said else -1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    harness.tell(code=code, error=error, answers=answers)


class ForkAtStartTest(harness.TestCase):
    def test_children_that_start_a_server_meanwhile_do_not_hang(self):
        # Only the first start of a process is to be met, so there are several processes.
        for _ in range(10):
            with harness.Worker(__file__, "start_in_children") as worker:
                said = worker.hear()
                self.assertEqual(said["code"], 0, said)
                # One that was forked before the parent began has a server; the others are refused.
                self.assertLessEqual(set(said["answers"]), {0, harness.E_FORKED}, said)
                self.assertEqual(worker.finish()[0], 0)

    def test_children_forked_meanwhile_hold_no_port(self):
        with harness.Worker(__file__, "fork_at_start") as worker:
            said = worker.hear()
            self.assertEqual((said["error"], said["holders"]), ("", 0), said)
            self.assertGreaterEqual(said["forks"], STARTS)
            self.assertEqual(worker.finish()[0], 0)


if __name__ == "__main__":
    harness.main(globals())
