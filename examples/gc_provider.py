# SPDX-License-Identifier: Apache-2.0
"""A custom collector in Python: records when the garbage collector ran, and on which thread.

  python examples/gc_provider.py LOGDIR        captures this process for a moment, and prints where the trace is
"""
import gc
import sys
import threading
import time

import jobscope


class GarbageCollections:
    """Installs no callback between captures."""

    def start(self, session):
        self._session = session
        self._begin_ns = 0
        gc.callbacks.append(self._called)

    def stop(self, session):
        if self._called in gc.callbacks:  # otherwise it was armed but never started
            gc.callbacks.remove(self._called)

    def _called(self, phase, info):
        if phase == "start":
            self._begin_ns = time.monotonic_ns()
        elif self._begin_ns:
            begin, now = self._begin_ns, time.monotonic_ns()
            # On the line of the thread that had to wait for it.
            event = jobscope.Event(f"gc generation {info['generation']}", begin, now - begin, threading.get_native_id(), info)
            self._session.add([event])


def main():
    jobscope.register_provider("garbage", GarbageCollections())
    with jobscope.capture(sys.argv[1]) as it:
        for number in range(20):
            with jobscope.step(number):
                garbage = [[] for _ in range(2000)]
                for one in garbage:
                    one.append(garbage)
                del garbage
        gc.collect()
    print(it.result.run_directory)


if __name__ == "__main__":
    main()
