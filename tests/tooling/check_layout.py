#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the layout: no folder and no file grows beyond what one reads at once, and a test lies where its subject lies.

usage: check_layout.py [ROOT]      prints one line per violation; exit 1 if there are any

A test belongs to a subject if its name is the subject's and no other source of the product has that name: subject_test.cc tests
subject.cc. Tests named after a theme may lie anywhere in tests/.
"""
import collections
import pathlib
import sys

PRODUCT = ("include", "common", "rpc", "collectors", "server", "client", "analysis", "examples", "python", "deploy", "tools")
FOLDERS = (*PRODUCT, "tests", "bench")
SUFFIXES = (".h", ".cc", ".c", ".cu", ".py", ".sh", ".proto", ".cmake")
MOST_FILES = 25
MOST_LINES = 500
# Tests that have the name of a file that is not their subject.
OTHER_SUBJECT = {
    "tests/server/listen/descriptors_test.cc",  # the acceptor without descriptors
    "tests/collectors/host/recorder/inferred_steps_test.cc",  # the recorder's side of inferred steps
    "tests/analysis/cli/program_test.cc",  # `jobscope report` as a program
    "tests/client/cli/program_test.cc",  # `capture` as a program
    "tests/collectors/cuda/steps_test.cc",  # steps of GPU events
    "tests/collectors/host/recorder/trace_api_test.cc",  # include/jobscope/trace.h
    "tests/collectors/nvml/layout_test.cc",  # each compares our declarations with a foreign library's headers
    "tests/collectors/nvtx/layout_test.cc",
    "tests/collectors/cuda/layout_test.cc",
}


def violations(files):
    """Yields what is wrong with `files`: {path relative to the root: number of lines}."""
    for folder, count in sorted(collections.Counter(path.rsplit("/", 1)[0] for path in files).items()):
        if count > MOST_FILES:
            yield f"{folder}/ has {count} files, more than {MOST_FILES}: which of them are a room of their own?"
    for path, lines in sorted(files.items()):
        if lines > MOST_LINES:
            yield f"{path} has {lines} lines, more than {MOST_LINES}: is there a second job in it?"
    homes = collections.defaultdict(set)
    for path in files:
        folder, _, name = path.rpartition("/")
        if path.split("/")[0] in PRODUCT and name.endswith((".cc", ".c")):
            homes[name.rsplit(".", 1)[0]].add(folder)
    for path in sorted(files):
        folder, _, name = path.rpartition("/")
        subject = homes.get(name.removesuffix("_test.cc"), set()) if name.endswith("_test.cc") else set()
        if len(subject) == 1 and path not in OTHER_SUBJECT:
            (home,) = subject
            if folder != f"tests/{home}":
                yield f"{path}: its subject lies in {home}/, so it belongs into tests/{home}/"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    paths = [path for folder in FOLDERS for path in root.glob(f"{folder}/**/*") if path.suffix in SUFFIXES and path.is_file()]
    files = {str(path.relative_to(root)): path.read_bytes().count(b"\n") for path in paths if "corpus" not in path.parts}
    found = list(violations(files))
    print("\n".join(found) if found else f"{len(files)} files keep to the layout")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
