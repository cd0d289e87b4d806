#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps docs/life_of_a_capture.md true: at most 25 numbered steps, each naming `file:function` that exists and that the functions
named so far call, directly or through a few others. What no function of the product mentions (macros, entries of C tables,
handlers that gRPC calls) cannot be checked, and passes.

usage: check_life_of_a_capture.py [ROOT]     prints one line per fault; exit 1 if there are any
"""
import pathlib
import re
import sys

import call_graph

MAX_STEPS = 25
MAX_CALLS = 5
STEP = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |^#|\Z)", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"`([\w./-]+\.(?:cc|h|c|py|sh)):([\w:~]+)`")


def faults(root):
    """Yields what is not true in the document of the tree at `root`."""
    document = root / "docs/life_of_a_capture.md"
    if not document.is_file():
        yield f"{document} is missing"
        return
    steps = [(int(number), text) for number, text in STEP.findall(document.read_text("utf-8"))]
    if not 1 <= len(steps) <= MAX_STEPS:
        yield f"{len(steps)} steps: there must be 1 to {MAX_STEPS}"
    if [number for number, _ in steps] != list(range(1, len(steps) + 1)):
        yield "the steps are not numbered 1, 2, 3, ..."
    graph = call_graph.read(root)
    mentioned = set().union(*graph.values())
    named = set()
    for number, text in steps:
        places = PLACE.findall(text)
        if not places:
            yield f"step {number} names no `file:function`"
        for file, function in places:
            if not (root / file).is_file():
                yield f"step {number}: {file} does not exist"
                continue
            source = (root / file).read_text("utf-8")
            *scopes, name = function.split("::")
            called = re.search(rf"(?<![\w]){re.escape(name)}\s*\(", source)
            if not called or not all(re.search(rf"\b{scope}\b", source) for scope in scopes):
                yield f"step {number}: {file} has no function {function}"
        names = {function.split("::")[-1] for _, function in places}
        for name in sorted(names & mentioned) if named else []:
            if not call_graph.reaches(graph, (named | names) - {name}, name, MAX_CALLS):
                yield f"step {number}: {name} is not called by what is named before it, nor by what that calls"
        named |= names


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    found = list(faults(root))
    print("\n".join(found) if found else "docs/life_of_a_capture.md names what exists, in the order of calls")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
