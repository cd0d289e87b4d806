#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One word for one thing: finds words that the vocabulary (docs/glossary.md) has retired.

usage: check_words.py [ROOT]      prints one line per retired word; exit 1 if there are any
"""
import pathlib
import re
import sys

# What may not come back, in code and in prose, and what is said instead.
RETIRED = {
    r"[Pp]atience": "timeout, time limit or grace period",
    r"[Pp]ython's lock": "GIL",
    r"[Pp]atiently": "without abandoning, or within a time limit",
    r"to be had\b": "available",
    r"\blets? go of\b": "releases",
    r"\bknocks\b": "connects",
    r"jobscope\.stage\b": "jobscope.step",
    r"[Tt]end(s|ed)? the line|tend_line": "processes the request queue",
    r"Limits of today": "Known limitations",
    r"The way of the data": "Data flow",
    r"LeaveAtOnce": "ExitAtOnce",
    r"\bWorker::Get\b": "WorkerRuntime::Get",
}
FOLDERS = ("include", "proto", "common", "rpc", "collectors", "server", "client", "analysis", "examples", "python", "docs", "deploy", "tools")
SUFFIXES = (".h", ".cc", ".c", ".proto", ".py", ".pyi", ".md", ".sh")


def retired_words(text):
    """Yields (line number, word, what to say)."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in RETIRED.items():
            for match in re.finditer(pattern, line):
                yield number, match[0], instead


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    files = [f for folder in FOLDERS for f in sorted(root.glob(f"{folder}/**/*")) if f.suffix in SUFFIXES] + sorted(root.glob("*.md"))
    found = [f"{f.relative_to(root)}:{number}: \"{word}\" is retired: say {instead}"
             for f in files for number, word, instead in retired_words(f.read_text("utf-8"))]  # fmt: skip
    print("\n".join(found) if found else f"{len(files)} files keep to the vocabulary")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
