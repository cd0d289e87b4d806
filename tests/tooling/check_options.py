#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A recording option is declared once: all that passes it on does so without its name.

usage: check_options.py [ROOT]      prints one line per violation; exit 1 if there are any
"""
import pathlib
import re
import sys

# What a new option touches, besides the collector that acts on it.
PLACES = (
    "common/options/recording_options.h",
    "common/options/recording_options.cc",
    "proto/jobscope/v1/options.proto",
    "include/jobscope/jobscope_c.h",
    "include/jobscope/capture.h",
    "python/jobscope/_capture.py",
)
# Files that act on the value of one, or advise people to change it.
USERS = {
    "analysis/blame/advice.cc",
    "analysis/blame/advice.h",
    "analysis/verdict/verdict_text.cc",
    "client/terminal/notes.cc",
    "common/xspace/segment/loss_cause.cc",
    "include/jobscope/provider.h",
    "proto/tensorflow/profiler_options.proto",
    "python/jobscope/__init__.pyi",
    "python/jobscope/_providers.py",
    "python/src/provider.c",
    "server/process/worker_runtime.cc",
    "server/rpc/ceilings.cc",
    "server/tasks/collector_tasks.cc",
    "server/tensorflow/continuous_profiling.cc",
    "server/tensorflow/tensorflow_validation.cc",
}
FOLDERS = ("analysis", "client", "common", "include", "proto", "python", "rpc", "server")
SUFFIXES = (".h", ".cc", ".c", ".proto", ".py", ".pyi")


def options(text):
    """The names of all options, of the rows in recording_options.cc."""
    return re.findall(r"JOBSCOPE_OPTION\((\w+)\),", text)


def names(option, text):
    """Whether code names the option; comments and words such as `frameworks` in them do not count."""
    return re.search(rf'(\.|->|set_|")"?{option}\b|\b{option}[:=]|[\w>*] \*?{option}( = [^;]*)?;', text) is not None


def violations(root):
    texts = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                texts[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    found = options(texts[PLACES[1]])
    if not found:
        yield f"{PLACES[1]}: has no row of an option"
    for option in found:
        for place in PLACES:
            if not re.search(rf"\b{option}\b", texts[place]):
                yield f"{place}: the option {option} is missing"
        for path, text in texts.items():
            if path not in PLACES and path not in USERS and names(option, text):
                yield f"{path}: names the option {option}: pass RecordingOptions on, or list the file among USERS if it acts on it"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    lines = list(violations(root))
    print("\n".join(lines) if lines else f"each recording option stands in {len(PLACES)} files, and nothing else passes it on by name")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
