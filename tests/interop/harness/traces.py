# SPDX-License-Identifier: Apache-2.0
"""Reads XSpaces with a real protobuf parser, and holds them against the rules that XProf's tools depend on."""

import collections
import pathlib

from harness import messages

TASK_ENVIRONMENT = "Task Environment"
HOST_PLANE = "/host:CPU"

Event = collections.namedtuple("Event", "name start_ps duration_ps stats line")


class Trace:
    def __init__(self, data):
        self.space = messages.XSpace()
        self.space.ParseFromString(data)
        self.planes = {plane.name: plane for plane in self.space.planes}

    @classmethod
    def load(cls, path):
        return cls(pathlib.Path(path).read_bytes())

    def event_count(self):
        return sum(len(line.events) for plane in self.space.planes for line in plane.lines)

    def lines(self, plane_name=HOST_PLANE):
        return {line.name: line for line in self.planes[plane_name].lines}

    def events(self, name=None, plane_name=HOST_PLANE):
        plane = self.planes[plane_name]
        found = []
        for line in plane.lines:
            for event in line.events:
                event_name = plane.event_metadata[event.metadata_id].name
                if name is None or event_name == name:
                    start = line.timestamp_ns * 1000 + event.offset_ps
                    found.append(Event(event_name, start, event.duration_ps, stats_of(plane, event), line.name))
        return found

    def names(self, plane_name=HOST_PLANE):
        plane = self.planes[plane_name]
        return {plane.event_metadata[event.metadata_id].name for line in plane.lines for event in line.events}

    def steps(self):
        """Whole steps: those that XProf takes as steps."""
        return [event for event in self.events() if event.stats.get("_r") == 1 and "step_num" in event.stats]

    def task_environment(self):
        plane = self.planes[TASK_ENVIRONMENT]
        return stats_of(plane, plane)

    def summary(self):
        """The account that every file of ours carries, or None in a stock one."""
        data = self.task_environment().get("jobscope_summary")
        return None if data is None else messages.Summary.FromString(data)


def stats_of(plane, owner):
    stats = {}
    for stat in owner.stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind)
        if kind == "ref_value":
            value = plane.stat_metadata[value].name
        stats[plane.stat_metadata[stat.metadata_id].name] = value
    return stats


def rule_violations(trace):
    """The rules that cost a tool when broken: an empty list is a good file."""
    broken = []
    names = [plane.name for plane in trace.space.planes]
    broken += [f"plane '{name}' stands there {n} times" for name, n in collections.Counter(names).items() if n > 1]
    for plane in trace.space.planes:
        line_ids = collections.Counter(line.id for line in plane.lines)
        broken += [f"{plane.name}: line {i} stands there {n} times" for i, n in line_ids.items() if n > 1]
        for kind in ("event_metadata", "stat_metadata"):
            entries = getattr(plane, kind)
            broken += [f"{plane.name}: {kind} {key} has id {value.id}" for key, value in entries.items() if value.id != key]
        for line in plane.lines:
            broken += _line_violations(plane, line)
    return broken


def _line_violations(plane, line):
    where = f"{plane.name}, line '{line.name}'"
    if line.timestamp_ns != 0:
        return [f"{where}: timestamp_ns is {line.timestamp_ns}"]
    last = (-1, 0)
    for event in line.events:
        key = (event.offset_ps, -event.duration_ps)
        if event.metadata_id not in plane.event_metadata:
            return [f"{where}: event without a name, metadata id {event.metadata_id}"]
        if event.offset_ps < 0:
            return [f"{where}: an event starts at {event.offset_ps} ps"]
        if event.duration_ps < 1 and line.name != "_counters_":
            return [f"{where}: an event of {event.duration_ps} ps"]
        if key < last:
            return [f"{where}: events are not sorted: {last} before {key}"]
        last = key
    return []
