# SPDX-License-Identifier: Apache-2.0
"""Children that are forked while a server with port 0 starts: none of them holds the port."""
import os
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
        holders = [pid for pid in children if harness.holds_port(port, pid)]
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


class ForkAtStartTest(harness.TestCase):
    def test_children_forked_meanwhile_hold_no_port(self):
        with harness.Worker(__file__, "fork_at_start") as worker:
            said = worker.hear()
            self.assertEqual((said["error"], said["holders"]), ("", 0), said)
            self.assertGreaterEqual(said["forks"], STARTS)
            self.assertEqual(worker.finish()[0], 0)


if __name__ == "__main__":
    harness.main(globals())
