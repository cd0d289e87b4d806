# SPDX-License-Identifier: Apache-2.0
"""Reads the trace files of a run directory, without a protobuf library: the wire format of tensorflow.profiler.XSpace."""
import collections
import glob
import os
import struct

# `site`: the stats that stand once, on what the events of a name share.
Event = collections.namedtuple("Event", "name line start_ps duration_ps stats site")


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Yields (number, value) of a message; value is an int, 8 bytes, or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 1:
            value, at = data[at : at + 8], at + 8
        elif wire == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {wire}")
        if at > len(data):
            raise ValueError(f"cut off: {at - len(data)} bytes are missing")
        yield key >> 3, value


def _message(data):
    found = collections.defaultdict(list)
    for number, value in fields(data):
        found[number].append(value)
    return found


def _signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def _stats(raw, names):
    stats = {}
    for one in raw:
        fields = _message(one)
        name = names.get(fields[1][0], "?")
        if fields[2]:
            stats[name] = struct.unpack("<d", fields[2][0])[0]
        elif fields[3]:
            stats[name] = fields[3][0]
        elif fields[4]:
            stats[name] = _signed(fields[4][0])
        elif fields[5]:
            stats[name] = fields[5][0].decode()
        elif fields[7]:
            stats[name] = names.get(fields[7][0], "?")
    return stats


def _names(entries, number):
    """id -> (a field of the metadata message) of a map<int64, metadata>."""
    names = {}
    for entry in entries:
        fields = _message(entry)
        value = _message(fields[2][0])
        names[fields[1][0] if fields[1] else 0] = value[number][0].decode() if value[number] else ""
    return names


def _site_stats(entries, stat_names):
    """id -> stats of the metadata of events."""
    found = {}
    for entry in entries:
        fields = _message(entry)
        found[fields[1][0] if fields[1] else 0] = _stats(_message(fields[2][0])[5], stat_names)
    return found


def planes(file):
    """The planes of one trace file, as (name, list of Event). Names of events as viewers show them."""
    with open(file, "rb") as opened:
        space = _message(opened.read())
    for raw in space[1]:
        plane = _message(raw)
        names = _names(plane[4], 2)
        shown = {key: value for key, value in _names(plane[4], 4).items() if value}
        stat_names = _names(plane[5], 2)
        site_stats = _site_stats(plane[4], stat_names)
        events = []
        for raw_line in plane[3]:
            line = _message(raw_line)
            line_name = line[2][0].decode() if line[2] else ""
            for raw_event in line[4]:
                event = _message(raw_event)
                key = event[1][0]
                events.append(
                    Event(
                        shown.get(key, names.get(key, "?")),
                        line_name,
                        event[2][0] if event[2] else 0,
                        event[3][0] if event[3] else 0,
                        _stats(event[4], stat_names),
                        site_stats.get(key, {}),
                    )
                )
        yield plane[2][0].decode(), events


def is_whole(file):
    """Whether nothing is missing at the end of a trace file, whose last field names the host."""
    hostnames = 4
    with open(file, "rb") as opened:
        numbers = [number for number, _ in fields(opened.read())]
    return numbers[-1:] == [hostnames]


def plane_stats(file):
    """The stats of each plane of one trace file, as (name, stats)."""
    with open(file, "rb") as opened:
        space = _message(opened.read())
    for raw in space[1]:
        plane = _message(raw)
        yield plane[2][0].decode(), _stats(plane[6], _names(plane[5], 2))


def host_events(run_directory):
    """All events of the host, and the operations beside its threads, of a run: a list of Event. Names as viewers show them."""
    files = sorted(glob.glob(os.path.join(run_directory, "*.xplane.pb")))
    assert files, f"no trace in {run_directory}: {os.listdir(run_directory)}"
    host = ("/host:CPU", "/device:CUSTOM:async")
    return [event for file in files for name, events in planes(file) if name in host for event in events]


def named(events, name):
    return [event for event in events if event.name == name]


def input_share(steps, events):
    """The share of the steps' time in which their thread waited for input, by the rule of XProf's step breakdown."""
    waited = 0
    for step in steps:
        end = step.start_ps + step.duration_ps
        reached = step.start_ps
        for wait in sorted((e for e in events if e.line == step.line and e.name.startswith("IteratorGetNext")), key=lambda e: e.start_ps):
            begin, until = max(wait.start_ps, reached), min(wait.start_ps + wait.duration_ps, end)
            waited += max(0, until - begin)
            reached = max(reached, until)
    return waited / max(1, sum(step.duration_ps for step in steps))
