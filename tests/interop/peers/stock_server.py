# SPDX-License-Identifier: Apache-2.0
"""A stock worker: TensorFlow's or JAX's profiler server beside a step loop of 5 ms.

    stock_server.py tensorflow|jax PORT

Prints `listening on 127.0.0.1:PORT`, then obeys lines on stdin: `mark` prints the number of steps so far and the longest
step since the last mark. Ends with SIGTERM or when stdin closes.
"""

import signal
import sys
import threading
import time

STEP_S = 0.005


def tensorflow_step(port):
    import tensorflow as tf

    tf.profiler.experimental.server.start(port)
    matrix = tf.random.uniform((64, 64))
    product = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)))
    product(matrix)

    def step(number):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            product(matrix)

    return step


def jax_step(port):
    import jax

    jax.profiler.start_server(port)
    matrix = jax.numpy.ones((64, 64))
    product = jax.jit(lambda x: (x @ x).sum())
    product(matrix).block_until_ready()

    def step(number):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            product(matrix).block_until_ready()

    return step


class Control:
    """What stdin and signals ask for; read by the step loop."""

    def __init__(self):
        self.stop = threading.Event()
        self.marks = 0
        signal.signal(signal.SIGTERM, lambda *_: self.stop.set())
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in sys.stdin:
            if line.strip() == "mark":
                self.marks += 1
        self.stop.set()


def main():
    kind, port = sys.argv[1], int(sys.argv[2])
    step = {"tensorflow": tensorflow_step, "jax": jax_step}[kind](port)
    control = Control()
    print(f"listening on 127.0.0.1:{port}", flush=True)
    number, longest, marked = 0, 0.0, 0
    begin = time.monotonic()
    while not control.stop.is_set():
        step(number)
        number += 1
        rest = begin + STEP_S - time.monotonic()
        if rest > 0:
            time.sleep(rest)
        end = time.monotonic()
        longest = max(longest, end - begin)
        begin = end
        if marked < control.marks:
            marked += 1
            print(f"mark steps {number}, longest {longest * 1e3:.2f} ms", flush=True)
            longest = 0.0


main()
