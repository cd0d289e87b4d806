# SPDX-License-Identifier: Apache-2.0
"""Processes that start at once on the same Unix socket: one gets it, and every client reaches that one."""
import contextlib
import os
import socket
import tempfile

import harness

PROCESSES = 6
ROUNDS = 10


def worker_start_together(address, start):
    library = harness.Library()
    harness.tell(ready=True)
    while harness.wait() == "start":
        os.close(os.open(start, os.O_RDONLY))  # returns when the test opens it
        code, _, error = library.start(address)
        harness.tell(code=code, error=error)
        harness.wait()
        library.stop()
        harness.tell(stopped=True)


class UnixSocketTest(harness.TestCase):
    def test_one_of_several_that_start_together_listens(self):
        with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
            path = os.path.join(directory, "socket")
            start = os.path.join(directory, "start")
            os.mkfifo(start)
            workers = [
                stack.enter_context(harness.Worker(__file__, "start_together", f"unix:{path}", start))
                for _ in range(PROCESSES)
            ]
            for worker in workers:
                worker.hear()
            for round_ in range(2 * ROUNDS):
                if round_ % 2:
                    with socket.socket(socket.AF_UNIX) as stale:
                        stale.bind(path)
                for worker in workers:
                    worker.go_on("start")
                fifo = os.open(start, os.O_WRONLY)  # returns when the first of them has opened it
                answers = [worker.hear() for worker in workers]
                os.close(fifo)
                served = [worker.process.pid for worker, said in zip(workers, answers) if said["code"] == 0]
                self.assertEqual(len(served), 1, answers)
                self.assertLessEqual({said["code"] for said in answers}, {0, harness.E_ADDRESS}, answers)
                self.assertEqual(self.assert_serves(f"unix:{path}")["pid"], served[0])
                for worker in workers:
                    worker.go_on()
                for worker in workers:
                    worker.hear()
                self.assertFalse(os.path.exists(path))
            for worker in workers:
                worker.go_on("end")
                self.assertEqual(worker.finish()[0], 0)


if __name__ == "__main__":
    harness.main(globals())
