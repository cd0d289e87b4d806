#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts the traces of a run for https://ui.perfetto.dev: one <worker>.json.gz beside each <worker>.xplane.pb.

usage: to_perfetto.py RUN_DIRECTORY [OUTPUT_DIRECTORY]      needs `pip install xprof`
"""
import gzip
import json
import pathlib
import sys

SUFFIX = ".xplane.pb"


def ranks_of(run):
    """Returns {file name: rank} of the workers whose rank is in the run's manifest."""
    manifest = run / "capture.json"
    workers = json.loads(manifest.read_text())["workers"] if manifest.exists() else []
    return {file["path"]: worker["rank"] for worker in workers if "rank" in worker for file in worker["files"]}


def with_rank(events, rank):
    """Renames the trace's processes by rank, because the name of the file is an address."""
    if rank is None:
        return events
    trace = json.loads(events)
    for event in trace["traceEvents"]:
        if event.get("ph") == "M" and event.get("name") == "process_name":
            event["args"]["name"] = f"rank {rank} {event['args']['name']}"
    return json.dumps(trace)


def main():
    if not 2 <= len(sys.argv) <= 3:
        print(__doc__, file=sys.stderr)
        return 2
    run = pathlib.Path(sys.argv[1])
    output = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else sys.argv[1])
    traces = sorted(run.glob("*" + SUFFIX))
    if not traces:
        print(f"to_perfetto: {run}: no *{SUFFIX} here; is it a run directory?", file=sys.stderr)
        return 1
    try:
        from xprof.convert import raw_to_tool_data
    except ImportError as error:
        print(f"to_perfetto: {error}: pip install xprof", file=sys.stderr)
        return 1
    ranks = ranks_of(run)
    for trace in traces:
        # XProf converts to the JSON that Chrome's and Perfetto's viewers read.
        events, _ = raw_to_tool_data.xspace_to_tool_data([str(trace)], "trace_viewer", {})
        if not events:
            print(f"to_perfetto: XProf could not read {trace}", file=sys.stderr)
            return 1
        events = with_rank(events, ranks.get(trace.name))
        target = output / (trace.name.removesuffix(SUFFIX) + ".json.gz")
        with gzip.open(target, "wb") as file:
            file.write(events.encode() if isinstance(events, str) else events)
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
