# SPDX-License-Identifier: Apache-2.0
"""A stock worker: TensorFlow's or JAX's profiler server beside a step loop.

    stock_server.py tensorflow|jax PORT [--step_ms=5] [--flood=LIBRARY,THREADS,SCOPES_PER_SECOND]

Prints `listening on 127.0.0.1:PORT`, then obeys lines on stdin: `mark` prints the number of steps so far, and the median and
the longest step since the last mark. Ends with SIGTERM or when stdin closes. --step_ms=0 computes without a pause. --flood
records from threads of C++ besides (bench/peers/stock_flood.cc).
"""

import argparse
import ctypes
import signal
import statistics
import sys
import threading
import time


def tensorflow_step(port, size):
    import tensorflow as tf

    tf.profiler.experimental.server.start(port)
    matrix = tf.random.uniform((size, size))
    product = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)))
    product(matrix)

    def step(number):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            product(matrix).numpy()

    return step


def jax_step(port, size):
    import jax

    jax.profiler.start_server(port)
    matrix = jax.numpy.ones((size, size))
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
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["tensorflow", "jax"])
    parser.add_argument("port", type=int)
    parser.add_argument("--step_ms", type=float, default=5)
    parser.add_argument("--size", type=int, default=64, help="of the square matrix that each step multiplies")
    parser.add_argument("--flood")
    options = parser.parse_args()

    step = {"tensorflow": tensorflow_step, "jax": jax_step}[options.kind](options.port, options.size)
    control = Control()
    flood = None
    if options.flood:
        library, threads, rate = options.flood.split(",")
        flood = ctypes.CDLL(library)
        flood.StartStockFlood(ctypes.c_int(int(threads)), ctypes.c_double(float(rate)))
    print(f"listening on 127.0.0.1:{options.port}", flush=True)
    number, marked, times_ms = 0, 0, []
    begin = time.monotonic()
    while not control.stop.is_set():
        step(number)
        number += 1
        rest = begin + options.step_ms / 1e3 - time.monotonic()
        if rest > 0:
            time.sleep(rest)
        end = time.monotonic()
        times_ms.append((end - begin) * 1e3)
        begin = end
        if marked < control.marks:
            marked += 1
            print(f"mark steps {number}, median {statistics.median(times_ms):.3f} ms, longest {max(times_ms):.3f} ms", flush=True)
            times_ms = []
    if flood is not None:
        flood.StopStockFlood()


main()
