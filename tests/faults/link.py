# SPDX-License-Identifier: Apache-2.0
"""The network between a client and a worker: a TCP relay that stops at chosen messages, and that is cut, slow, far or lossy."""
import collections
import random
import socket
import struct
import threading
import time

import wire

TO_WORKER, TO_CLIENT = True, False
_SEGMENT = 1448  # bytes of one packet
_RETRANSMIT_S = 0.2
_END, _RESET = object(), object()


class _Gate:
    """Stands in a queue before what is held."""


class Link:
    """Connections to `address` are relayed to `target`. Thread-safe."""

    def __init__(self, target):
        self._target = ("127.0.0.1", int(target.rsplit(":", 1)[1]))
        self._changed = threading.Condition()
        self._seen = collections.Counter()
        self._stops = {}  # message: what is done when it comes, before it is passed on
        self._gates = set()  # those that are shut
        self._dead = set()  # directions whose bytes vanish
        self._cut = False
        self._open = []
        self.bytes_per_s = 0  # each way; 0: no limit
        self.delay_s = 0.0  # each way
        self.loss = 0.0  # share of the packets, of both directions
        self._random = random.Random(1)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    # ---- phases ----

    def stop_at(self, message, action=None, hold=True):
        """When the next such message comes: runs `action`, and with `hold` passes nothing more on in its direction."""
        with self._changed:
            self._stops[message] = (action, hold)

    def has_met(self, message):
        """Whether the message of stop_at has come; its action may not have ended."""
        with self._changed:
            return message not in self._stops

    def await_message(self, message, timeout_s):
        with self._changed:
            return self._changed.wait_for(lambda: self._seen[message] > 0, timeout_s)

    def release(self):
        with self._changed:
            self._gates.clear()
            self._stops.clear()
            self._changed.notify_all()

    def seen(self):
        with self._changed:
            return dict(self._seen)

    def forget(self):
        """Messages are counted from here."""
        with self._changed:
            self._seen.clear()

    # ---- faults ----

    def cut(self):
        """Resets all connections, and those to come."""
        with self._changed:
            self._cut = True
        self._reset_all()

    def silence(self, *directions):
        """What is sent in these directions vanishes; nothing is reset, and nothing answers who connects."""
        with self._changed:
            self._dead.update(directions)
            self._gates.clear()
            self._changed.notify_all()

    def restore(self):
        """As new. Connections that have lost bytes are reset: they would pass on what no TCP passes on."""
        with self._changed:
            lost = bool(self._dead)
            self._dead.clear()
            self._cut = False
            self._gates.clear()
            self.bytes_per_s, self.delay_s, self.loss = 0, 0.0, 0.0
            self._stops.clear()
            self._changed.notify_all()
        if lost:
            self._reset_all()

    def close(self):
        self.restore()
        self._listener.close()
        self._reset_all()

    # ---- relay ----

    def _reset_all(self):
        with self._changed:
            sockets, self._open = self._open, []
        for one in sockets:
            _reset(one)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._cut:
                    raise OSError("cut")
                worker = socket.create_connection(self._target)
            except OSError:
                _reset(client)
                continue
            connection = wire.Connection()
            with self._changed:
                self._open += [client, worker]
            relayed = {TO_WORKER, TO_CLIENT}
            for source, sink, direction in ((client, worker, TO_WORKER), (worker, client, TO_CLIENT)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                arguments = (source, sink, direction, wire.Direction(connection, direction), relayed)
                threading.Thread(target=self._relay, args=arguments, daemon=True).start()

    def _relay(self, source, sink, direction, frames, relayed):
        waiting = collections.deque()  # (when it is due, bytes) or a _Gate
        writer = threading.Thread(target=self._write, args=(sink, direction, waiting), daemon=True)
        writer.start()
        in_order = False
        try:
            while data := source.recv(1 << 16):
                for frame, messages in frames.take(data):
                    gate = self._pass(messages)
                    with self._changed:
                        self._changed.wait_for(lambda: len(waiting) < 64 or not writer.is_alive())
                        waiting.extend([gate] if gate else [])
                        waiting.append((time.monotonic() + self.delay_s, frame))
                        self._changed.notify_all()
            in_order = True
        except OSError:
            pass
        with self._changed:
            waiting.append((0, _END if in_order else _RESET))
            self._changed.notify_all()
        writer.join()
        with self._changed:
            relayed.discard(direction)
            # Both sides have ended it, and know that.
            if relayed or self._dead or source not in self._open:
                return
            for one in (source, sink):
                self._open.remove(one)
                one.close()

    def _pass(self, messages):
        """Notes the messages of one frame, and does what they were waited for. A gate if the frame is to be held."""
        gate = None
        for message in messages:
            with self._changed:
                action, hold = self._stops.pop(message, (None, False))
                if hold:
                    gate = _Gate()
                    self._gates.add(gate)
            if action:
                action()
            with self._changed:
                self._seen[message] += 1
                self._changed.notify_all()
        return gate

    def _write(self, sink, direction, waiting):
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: waiting and waiting[0] not in self._gates)
                    entry = waiting.popleft()
                    self._changed.notify_all()
                if isinstance(entry, _Gate):
                    continue
                due, frame = entry
                if frame in (_END, _RESET) and direction in self._dead:
                    return  # nor does the end arrive; restore() resets the connection
                if frame is _END:
                    sink.shutdown(socket.SHUT_WR)
                    return
                if frame is _RESET:
                    break
                time.sleep(max(0.0, due - time.monotonic()))
                if direction not in self._dead:
                    self._transmit(sink, frame)
        except OSError:
            pass
        _reset(sink)
        with self._changed:
            self._changed.notify_all()

    def _transmit(self, sink, frame):
        for at in range(0, len(frame), _SEGMENT):
            segment = frame[at : at + _SEGMENT]
            while self.loss and self._random.random() < self.loss:
                time.sleep(_RETRANSMIT_S)  # all that follows waits for it, as TCP keeps the order
            if self.bytes_per_s:
                time.sleep(len(segment) / self.bytes_per_s)
            sink.sendall(segment)


def _reset(one):
    """RST, as when the machine in between has gone."""
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()
