# SPDX-License-Identifier: Apache-2.0
"""Figures of a trace's steps and operators, computed event by event from the protobuf messages: an opinion that shares no code with the
report and none with XProf, for where these two mean different things. Times are picoseconds."""

import collections

from harness import traces

INPUT_PREFIX = "IteratorGetNext "  # of jobscope's input waits; the report leaves it out

Times = collections.namedtuple("Times", "count total self")


def union(spans):
    """Disjoint spans, sorted, of any (begin, end)."""
    found = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return found


def within(spans, windows):
    """How much of each of the windows the disjoint spans cover."""
    return [sum(max(0, min(end, to) - max(begin, at)) for at, to in spans) for begin, end in windows]


def _span(event):
    return event.start_ps, event.start_ps + event.duration_ps


class Host:
    """The threads of a trace. `rows`: the names of the operators that XProf shows."""

    def __init__(self, path, rows=frozenset()):
        self._trace = traces.Trace.load(path)
        self._plane = self._trace.planes[traces.HOST_PLANE]
        # By the report's name: self time excludes all events inside.
        self.operators = {}
        # By XProf's name: self time excludes only those events inside that XProf shows, too.
        self.rows = {}
        # The report's name to XProf's names of the same events; None: XProf does not show some of them.
        self.names = collections.defaultdict(set)
        for line in self._plane.lines:
            if line.name != "_counters_":
                self._read(line, rows)

    def steps(self):
        """(begin, end) of each step."""
        return sorted(_span(step) for step in self._trace.steps())

    def accounts(self):
        """(begin, end) of each step with the gap before it."""
        steps = self.steps()
        return [steps[0], *((before[1], after[1]) for before, after in zip(steps, steps[1:]))]

    def waits(self):
        """The waits for input on the thread of the steps."""
        line = self._trace.steps()[0].line
        return union(_span(event) for event in self._trace.events() if event.line == line and event.name.startswith("IteratorGetNext"))

    def kernels(self):
        """When kernels run on any device, without copies, sets of memory and collectives."""
        planes = [name for name in self._trace.planes if name.startswith("/device:GPU:")]
        events = [event for plane in planes for event in self._trace.events(plane_name=plane)]
        return union(_span(event) for event in events if not event.name.lower().startswith(("memcpy", "memset", "nccl")))

    def _xprof_name(self, event):
        """XProf's name is what precedes the type: "scope/op:Type"."""
        name = self._plane.event_metadata[event.metadata_id].name
        name = traces.stats_of(self._plane, event).get("tf_op", name)
        operation, colon, kind = name.rpartition(":")
        return operation if colon and not kind.startswith(" ") and not operation.endswith(":") else name

    def _read(self, line, rows):
        around = []  # of the report's name, XProf's name, end, length, time inside, time inside that XProf shows
        for event in sorted(line.events, key=lambda event: (event.offset_ps, -event.duration_ps)):
            while around and around[-1][2] <= event.offset_ps:
                self._count(around.pop())
            metadata = self._plane.event_metadata[event.metadata_id]
            name = (metadata.display_name or metadata.name).removeprefix(INPUT_PREFIX)
            row = self._xprof_name(event)
            row = row if row in rows else None
            if around:
                around[-1][4] += event.duration_ps
            if row is not None:
                shown = next((outer for outer in reversed(around) if outer[1] is not None), None)
                if shown is not None:
                    shown[5] += event.duration_ps
            self.names[name].add(row)
            around.append([name, row, event.offset_ps + event.duration_ps, event.duration_ps, 0, 0])
        while around:
            self._count(around.pop())

    def _count(self, event):
        name, row, _, length, inside, shown_inside = event
        _add(self.operators, name, length, length - inside)
        if row is not None:
            _add(self.rows, row, length, length - shown_inside)


def _add(table, name, total, self_time):
    before = table.get(name, Times(0, 0, 0))
    table[name] = Times(before.count + 1, before.total + total, before.self + self_time)
