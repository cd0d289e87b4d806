# SPDX-License-Identifier: Apache-2.0
"""The package beside TensorFlow, Keras, JAX, NumPy and grpcio, imported before and after them. Run by tools/venv.sh."""
import os
import tempfile
import unittest

import ports
import workers
import xspace

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")


def worker_orders(order):
    """Imports in the given order; after each, a capture of this process, and at the end the server is asked from outside."""
    import importlib

    found = []
    server = None
    for module in order.split(","):
        importlib.import_module(module)
        if module == "jobscope":
            import jobscope

            server = jobscope.start_server("127.0.0.1:0")
        if server is not None:
            with tempfile.TemporaryDirectory() as logdir:
                with jobscope.capture(logdir) as it:
                    with jobscope.step(1), jobscope.trace("after " + module):
                        pass
                found.append(len(xspace.named(xspace.host_events(it.result.run_directory), "after " + module)))
    # Each works as it does without us.
    import jax
    import tensorflow as tf

    workers.tell(
        address=server.address,
        found=found,
        jax=float(jax.jit(lambda x: x + 1)(1.0)),
        tensorflow=float(tf.function(lambda x: x + 1)(1.0)),
    )
    workers.wait()


def _model(keras):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
    model.compile(optimizer="sgd", loss="mse")
    return model


def worker_keras(order, logdir):
    """Two epochs of four batches with validation; the callback is made before or after the import of Keras."""
    import jobscope

    callback = jobscope.KerasCallback() if order == "callback first" else None
    import keras
    import numpy

    callback = callback or jobscope.KerasCallback()
    is_theirs = isinstance(callback, keras.callbacks.Callback)
    model = _model(keras)
    x, y = numpy.zeros((32, 4), "float32"), numpy.zeros((32, 2), "float32")
    with jobscope.start_server("127.0.0.1:0"), jobscope.capture(logdir) as it:
        model.fit(x, y, batch_size=8, epochs=2, validation_data=(x[:8], y[:8]), callbacks=[callback], verbose=0)
        model.predict(x[:8], verbose=0, callbacks=[callback])
    events = xspace.host_events(it.result.run_directory)
    workers.tell(
        is_theirs=is_theirs,
        steps=[event.stats["step_num"] for event in xspace.named(events, "train") if "step_num" in event.stats],
        epochs=[event.stats["epoch"] for event in xspace.named(events, "epoch")],
        validation=len(xspace.named(events, "validation batch")),
        prediction=len(xspace.named(events, "prediction batch")),
    )


def worker_numpy(logdir):
    import jobscope
    import jax
    import numpy
    import tensorflow as tf

    with jobscope.capture(logdir) as it:
        with jobscope.trace(
            "scalars",
            f32=numpy.float32(0.5), f64=numpy.float64(0.25), i64=numpy.int64(-3), flag=numpy.bool_(True), array=numpy.zeros(2),
            tensor=tf.zeros(()), traced=jax.numpy.zeros(()),
        ):  # fmt: skip
            pass
        jobscope.counter("loss", numpy.float32(0.5))
        jobscope.counter("loss", tf.constant(1.5))
    events = xspace.host_events(it.result.run_directory)
    (scalars,) = xspace.named(events, "scalars")
    workers.tell(stats=scalars.stats, loss=[event.stats["loss"] for event in xspace.named(events, "loss")])


def worker_own_servers():
    """Ours, TensorFlow's and JAX's profiler servers in one process."""
    import jax
    import jobscope
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as logdir:
        jax_server = jax.profiler.start_server(ports.free_port())
        tf.profiler.experimental.server.start(ports.free_port())
        with jobscope.start_server("127.0.0.1:0"), jobscope.capture(logdir) as it:
            with jobscope.trace("beside"):
                jax.jit(lambda x: x + 1)(1.0).block_until_ready()
        found = len(xspace.named(xspace.host_events(it.result.run_directory), "beside"))
    workers.tell(found=found, jax=jax_server is not None)


class FrameworksTest(unittest.TestCase):
    def _hear(self, name, *arguments):
        with workers.Worker(__file__, name, *arguments) as worker:
            said = worker.hear()
            self.assertEqual(worker.finish(), 0, worker.errors)
            return said

    def test_orders_of_import(self):
        others = ("tensorflow", "jax", "grpc")
        orders = [("jobscope", *others), (*others, "jobscope"), ("jax", "jobscope", "grpc", "tensorflow"), ("tensorflow", "jobscope", "jax", "grpc")]
        for order in orders:
            with self.subTest(order=order), workers.Worker(__file__, "orders", ",".join(order)) as worker:
                said = worker.hear()
                self.assertEqual(said["found"], [1] * (len(order) - order.index("jobscope")))
                self.assertEqual((said["jax"], said["tensorflow"]), (2.0, 2.0))
                code, table, errors = workers.run_client("check", f"--service_addr={said['address']}")
                self.assertEqual(code, 0, errors)
                self.assertIn("1 of 1 worker", table)
                worker.go_on()
                self.assertEqual(worker.finish(), 0, worker.errors)

    def test_keras(self):
        for order in ("callback first", "keras first"):
            with self.subTest(order=order), tempfile.TemporaryDirectory() as logdir:
                said = self._hear("keras", order, logdir)
                self.assertEqual(said["is_theirs"], order == "keras first")
                self.assertEqual(said["steps"], list(range(8)))
                self.assertEqual(said["epochs"], [0, 1])
                self.assertEqual(said["validation"], 2)
                self.assertEqual(said["prediction"], 1)

    def test_scalars_of_numpy_and_tensors(self):
        with tempfile.TemporaryDirectory() as logdir:
            said = self._hear("numpy", logdir)
        stats = said["stats"]
        self.assertEqual([stats[key] for key in ("f32", "f64", "i64", "flag")], [0.5, 0.25, -3, 1])
        # Reported by type, not by value: reading the value may wait for a device.
        for key in ("array", "tensor", "traced"):
            self.assertRegex(stats[key], "^<.*>$")
        self.assertEqual(said["loss"], [0.5, 1.5])

    def test_beside_the_frameworks_own_servers(self):
        self.assertEqual(self._hear("own_servers"), {"found": 1, "jax": True})


if __name__ == "__main__":
    workers.main(globals())
