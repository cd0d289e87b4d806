# SPDX-License-Identifier: Apache-2.0
"""The worker of the fault matrix: it trains until SIGTERM or the end of its input, and does what it is told meanwhile.

Each line of its input is a command, answered by a line of JSON: fault_commands.py.
"""
import os
import signal
import sys
import threading
import time

import fault_commands
import jobscope
import workers


class Training:
    """Steps of about a millisecond, on the main thread."""

    def __init__(self):
        self.ended = False
        self.steps = 0

    def run(self):
        while not self.ended:
            with jobscope.step(self.steps):
                with jobscope.trace("forward", batch=self.steps):
                    time.sleep(0.0005)
                jobscope.counter("loss", 1.0 / (1 + self.steps))
            self.steps += 1


class SlowEnd:
    """A provider whose stop takes until it is told to go on: the session drains meanwhile."""

    def __init__(self):
        self.wanted = False
        self.go_on = threading.Event()

    def stop(self, session):
        if self.wanted:
            self.wanted = False
            workers.tell(draining=True)
            self.go_on.wait(1.5)  # below the deadline of the collector
        return [("end", session.begin_monotonic_ns, 1000)]


def _commands(training, slow_end, server):
    for line in sys.stdin:
        name, *arguments = line.split()
        if name == "drain_slowly":
            slow_end.go_on.clear()
            slow_end.wanted = True
            workers.tell(done=True)
        elif name == "go_on":
            slow_end.go_on.set()
        else:
            workers.tell(done=getattr(fault_commands, "do_" + name)(server, *arguments))
    training.ended = True


def worker_train(address="127.0.0.1:0"):
    if "FAULTS_USER" in os.environ:
        fault_commands.become(int(os.environ["FAULTS_USER"]))
    training, slow_end = Training(), SlowEnd()

    def end(*_):
        training.ended = True

    signal.signal(signal.SIGTERM, end)
    jobscope.register_provider("slow_end", slow_end)
    server = jobscope.start_server(address)
    workers.tell(address=server.address, error=server.error)
    threading.Thread(target=_commands, args=(training, slow_end, server), daemon=True).start()
    training.run()


if __name__ == "__main__":
    workers.main(globals())
