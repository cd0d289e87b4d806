#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps docs/life_of_a_capture.md true: at most 25 numbered steps, each naming `file:function` that exists.

usage: check_life_of_a_capture.py [ROOT]     prints one line per fault; exit 1 if there are any
"""
import pathlib
import re
import sys

MAX_STEPS = 25
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


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    found = list(faults(root))
    print("\n".join(found) if found else "docs/life_of_a_capture.md names what exists")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
