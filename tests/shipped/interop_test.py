# SPDX-License-Identifier: Apache-2.0
"""The library beside TensorFlow, JAX, grpcio and Python's protobuf in one process, loaded before and after them.

Each row is an order of words. After each word, once our server runs, an RPC from another process must be answered, and
what was loaded must work. Import order decides which symbols bind where, so one lucky order proves nothing.
"""
import multiprocessing

import harness

ROWS = (
    "tf attach grpcio pb",
    "attach tf grpcio pb",
    "tf jax grpcio attach pb",
    "attach jax tf grpcio pb",
    "jax attach pb",
    "attach jax pb",
    "grpcio attach pb",
    "attach grpcio pb",
    "pb attach grpcio",
)

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
_kept = []  # servers and channels stay in use until the process ends


def _use_tf():
    import tensorflow as tf

    @tf.function
    def product(x):
        return tf.reduce_sum(tf.matmul(x, x))

    assert float(product(tf.ones((64, 64)))) == 64.0**3


def _use_jax():
    import jax
    import jax.numpy as jnp

    assert float(jax.jit(lambda x: jnp.sum(x @ x))(jnp.ones((64, 64)))) == 64.0**3


def _use_grpcio():
    from concurrent import futures

    import grpc

    class Echo(grpc.GenericRpcHandler):
        def service(self, details):
            return grpc.unary_unary_rpc_method_handler(lambda request, _: request + b"!")

    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=(Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    assert channel.unary_unary("/echo/Echo")(b"x", timeout=20) == b"x!"
    _kept.extend((server, channel))


def _use_pb():
    from google.protobuf import struct_pb2

    message = struct_pb2.Struct()
    message.update({"a": 1.5, "b": ["c"]})
    copy = struct_pb2.Struct.FromString(message.SerializeToString())
    assert copy == message and copy.DESCRIPTOR.full_name == "google.protobuf.Struct"


def _use_trace_messages():
    """The messages whose names TensorFlow and we share."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace(hostnames=["h"])
    assert xplane_pb2.XSpace.FromString(space.SerializeToString()).hostnames[0] == "h"


USES = {"tf": _use_tf, "jax": _use_jax, "grpcio": _use_grpcio, "pb": _use_pb}


def worker_row(row):
    library = None
    address = ""
    words = row.split()
    for word in words:
        if word == "attach":
            library = harness.Library()
            code, address, error = library.start()
            assert code == 0, error
        else:
            USES[word]()
        harness.tell(word=word, address=address)
        harness.wait()
    # All of it still works side by side.
    for word in words:
        if word != "attach":
            USES[word]()
    if "tf" in words:
        _use_trace_messages()
    harness.tell(done=True)
    harness.wait()


def _child(port, library, results):
    results.put((harness.holds_port(port), library.start()[0]))


def worker_fork():
    for word in ("tf", "jax", "grpcio"):
        USES[word]()
    library = harness.serve()
    address = harness.wait()
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [
        context.Process(target=_child, args=(harness.port_of(address), library, results)) for _ in range(4)
    ]
    for child in children:
        child.start()
    answers = [results.get(timeout=40) for _ in children]
    for child in children:
        child.join(40)
    harness.tell(answers=answers, codes=[child.exitcode for child in children])
    harness.wait()


class OrderTest(harness.TestCase):
    def _row(self, row):
        with harness.Worker(__file__, "row", row, environment=QUIET) as worker:
            address = ""
            for word in row.split():
                said = worker.hear()
                self.assertEqual(said["word"], word)
                address = said["address"] or address
                if address:
                    self.assert_serves(address)
                worker.go_on()
            self.assertTrue(worker.hear()["done"])
            answer = harness.call(address, "profile", "200")
            self.assertEqual(answer["code"], 0, answer)
            worker.go_on()
            code, errors = worker.finish()
            self.assertEqual(code, 0, errors[-2000:])


for _row in ROWS:
    setattr(OrderTest, "test_" + _row.replace(" ", "_"), lambda self, row=_row: self._row(row))


class ForkTest(harness.TestCase):
    def _fork(self, environment):
        with harness.Worker(__file__, "fork", environment={**QUIET, **environment}) as worker:
            address = worker.hear()["address"]
            self.assert_serves(address)
            worker.go_on(address)
            said = worker.hear()
            self.assertEqual(said["codes"], [0] * 4)
            self.assertEqual(said["answers"], [[False, harness.E_FORKED]] * 4)
            self.assert_serves(address)
            worker.go_on()
            code, errors = worker.finish()
            self.assertEqual(code, 0, errors[-2000:])

    def test_children_beside_frameworks(self):
        self._fork({})

    def test_children_with_grpc_fork_support(self):
        self._fork({"GRPC_ENABLE_FORK_SUPPORT": "1"})


if __name__ == "__main__":
    harness.main(globals())
