# SPDX-License-Identifier: Apache-2.0
"""Names the messages that pass on a connection: HTTP/2 frames, gRPC messages, the fields of jobscope.v1.Profiler.

The phases of a capture are taken from here, so that a fault hits between two messages and not at some time.
"""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import xspace  # noqa: E402  pylint: disable=wrong-import-position

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS = 0, 1
# Fields of the oneof in CaptureRequest, FetchRequest and CaptureResponse.
_REQUEST = {
    "Capture": {1: "arm", 2: "start", 3: "ack", 4: "finish"},
    "Fetch": {1: "resume", 2: "ack", 3: "finish"},
}
_RESPONSE = {1: "armed", 2: "started", 3: "progress", 4: "items", 5: "ended", 6: "chunk"}
_EVENTS, _SUMMARY = 2, 9  # fields of Item


def _field(message, wanted):
    return next((value for number, value in xspace.fields(message) if number == wanted), None)


class Connection:
    """What both directions of a connection know: which method a stream calls, and from which item on there are events."""

    def __init__(self):
        self.methods = {}
        self.first_events = None  # number of the item

    def name(self, method, to_worker, body):
        """What the message is called here: by its field; "summary" for items with that one, "ack of events" for the first."""
        if method not in _REQUEST:
            return method + (" request" if to_worker else " answer")
        number, value = next(iter(xspace.fields(body)), (0, b""))
        name = (_REQUEST[method] if to_worker else _RESPONSE).get(number, "unknown")
        if name == "ack" and self.first_events and (_field(value, 1) or 0) >= self.first_events:
            return "ack of events"
        if name != "items":
            return name
        for _, item in xspace.fields(value):
            if _field(item, _EVENTS) is not None:
                self.first_events = self.first_events or _field(item, 1)
            if _field(item, _SUMMARY) is not None:
                return "summary"
        return name


class Direction:
    """One direction of a connection. `take` cuts its bytes into frames, each with the messages that it completes."""

    def __init__(self, connection, to_worker):
        self._connection = connection
        self._to_worker = to_worker
        self._bytes = bytearray()
        self._preface = len(_PREFACE) if to_worker else 0
        self._bodies = collections.defaultdict(bytearray)

    def take(self, data):
        """Yields (frame, names of messages)."""
        self._bytes += data
        if self._preface and len(self._bytes) >= self._preface:
            yield bytes(self._bytes[: self._preface]), []
            del self._bytes[: self._preface]
            self._preface = 0
        while not self._preface and len(self._bytes) >= 9:
            end = 9 + int.from_bytes(self._bytes[:3], "big")
            if len(self._bytes) < end:
                return
            frame = bytes(self._bytes[:end])
            del self._bytes[:end]
            yield frame, self._messages(frame)

    def _messages(self, frame):
        kind, stream = frame[3], int.from_bytes(frame[5:9], "big") & 0x7FFFFFFF
        if kind == _HEADERS and self._to_worker:
            for method in ("Describe", "Stop", "SyncClock", "Capture", "Fetch"):
                if b"/jobscope.v1.Profiler/" + method.encode() in frame:
                    self._connection.methods[stream] = method
        if kind != _DATA or stream not in self._connection.methods:
            return []
        names = []
        body = self._bodies[stream]
        body += frame[9:]
        while len(body) >= 5 and len(body) >= 5 + int.from_bytes(body[1:5], "big"):
            size = 5 + int.from_bytes(body[1:5], "big")
            names.append(self._connection.name(self._connection.methods[stream], self._to_worker, bytes(body[5:size])))
            del body[:size]
        return names
