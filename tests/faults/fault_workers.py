# SPDX-License-Identifier: Apache-2.0
"""The worker of the fault matrix: it trains until SIGTERM or the end of its input, and runs commands meanwhile.

Each line of its input is a command, answered by a line of JSON: fault_commands.py.
"""
import array
import hashlib
import math
import os
import queue
import signal
import statistics
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


class StepTimes:
    """CPU times of the newest steps since the last question. Its memory does not grow."""

    KEPT = 4096

    def __init__(self):
        self.times_ns = array.array("Q", bytes(8 * self.KEPT))
        self.steps = 0

    def add(self, took_ns):
        self.times_ns[self.steps % self.KEPT] = took_ns
        self.steps += 1

    def median_ns(self):
        """0: there was no step."""
        return statistics.median(self.times_ns[: min(self.steps, self.KEPT)] or [0])


class Computing(Training):
    """Steps whose result depends on each of them: a digest of the weights of a small network. About a millisecond of work."""

    WIDTH = 104
    PAUSE_S = 0.002
    RING_RECORDS = 32768

    def __init__(self):
        super().__init__()
        self.filled = False
        # Not a list: its numbers would come to lie all over the memory, and steps would take longer for that alone.
        self.weights = array.array("d", (math.sin(i) for i in range(self.WIDTH * self.WIDTH)))
        self.times = StepTimes()
        self.wanted = None  # (step, queue): somebody waits for the result at that step

    def step(self):
        width, weights = self.WIDTH, self.weights
        batch = [math.cos(self.steps + i) for i in range(width)]
        with jobscope.trace("forward", batch=self.steps):
            out = [math.tanh(sum(weights[row * width + i] * batch[i] for i in range(width))) for row in range(width)]
        with jobscope.trace("backward"):
            for row in range(width):
                gradient = out[row] * (1 - out[row] * out[row]) * 1e-3
                for i in range(width):
                    weights[row * width + i] -= gradient * batch[i]
        self.steps += 1

    def digest(self):
        return hashlib.sha256(self.weights.tobytes()).hexdigest()

    def run(self):
        while not self.ended:
            began_ns = time.thread_time_ns()
            with jobscope.step(self.steps):
                self.step()
            self.times.add(time.thread_time_ns() - began_ns)
            if jobscope.enabled() and not self.filled:
                self.fill_ring()
            time.sleep(self.PAUSE_S)
            if self.wanted and self.steps >= self.wanted[0]:
                self.wanted[1].put({"steps": self.steps, "digest": self.digest()})
                self.wanted = None

    def fill_ring(self):
        """Touches all pages of this thread's ring, which would otherwise look like growth for hundreds of captures."""
        for _ in range(self.RING_RECORDS):
            with jobscope.trace("fill"):
                pass
        self.filled = True

    def step_times(self):
        """Median of the steps since the last question, ns."""
        times, self.times = self.times, StepTimes()
        return times.median_ns()

    def result(self, step):
        """After so many steps, or now if there are more; training goes on."""
        answer = queue.Queue()
        self.wanted = int(step), answer
        return answer.get()


class SlowEnd:
    """A provider whose stop takes until a command ends it: the session drains meanwhile."""

    def __init__(self):
        self.wanted = False
        self.go_on = threading.Event()

    def stop(self, session):
        if self.wanted:
            self.wanted = False
            workers.tell(draining=True)
            self.go_on.wait(1.5)  # below the deadline of the collector
        begin_ns = session.begin_monotonic_ns  # None: it never recorded
        return [] if begin_ns is None else [("end", begin_ns, 1000)]


def _commands(training, slow_end, server):
    for line in sys.stdin:
        name, *arguments = line.split()
        if name == "drain_slowly":
            slow_end.go_on.clear()
            slow_end.wanted = True
            workers.tell(done=True)
        elif name == "go_on":
            slow_end.go_on.set()
        elif name == "steps":
            workers.tell(done=training.steps)
        elif name == "step_times":
            workers.tell(done=training.step_times())
        elif name == "result":
            workers.tell(done=training.result(*arguments))
        else:
            workers.tell(done=getattr(fault_commands, "do_" + name)(server, *arguments))
    training.ended = True


def _serve(training, address):
    slow_end = SlowEnd()

    def end(*_):
        training.ended = True

    signal.signal(signal.SIGTERM, end)
    jobscope.register_provider("slow_end", slow_end)
    server = jobscope.start_server(address)
    if "FAULTS_USER" in os.environ:  # this user may be denied the files of the package: they are loaded now
        fault_commands.become(int(os.environ["FAULTS_USER"]))
    workers.tell(address=server.address, error=server.error)
    threading.Thread(target=_commands, args=(training, slow_end, server), daemon=True).start()
    training.run()


def worker_train(address):
    _serve(Training(), address)


def worker_compute(address):
    _serve(Computing(), address)


def worker_compute_alone():
    """The same steps without a server, so that nothing is recorded."""
    training = Computing()
    threading.Thread(target=_commands, args=(training, None, None), daemon=True).start()
    training.run()


if __name__ == "__main__":
    workers.main(globals())
