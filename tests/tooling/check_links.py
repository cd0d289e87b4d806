#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links of the documents lead to files and headings, paths in backticks exist, and tables have a header.

usage: check_links.py [ROOT]      prints one line per dead link or path; exit 1 if there are any, or no document
"""
import functools
import pathlib
import re
import sys

FOLDERS = ("analysis", "bench", "client", "cmake", "collectors", "common", "deploy", "docs", "examples", "include", "proto", "python", "rpc",
           "server", "tests", "tools")  # fmt: skip
LINK = re.compile(r"\]\(([^)\s]+)\)")
# `folder/…`, perhaps with `:function` or `:line` behind it. An extension may be missing: `client/native/spool/spool` stands for its .h and .cc.
PATH = re.compile(r"`((?:%s)/[\w./*-]+)(?::[^`]*)?`" % "|".join(FOLDERS))


@functools.cache
def anchors(document):
    """The anchors of a document's headings, made as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead(root, document):
    """Yields what leads nowhere in a document."""
    text = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        file = document.parent / target if target else document
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield link
    # Without a header no viewer shows a table.
    for table in re.findall(r"^(?!\|).*\n(\|[-:| ]*-[-:| ]*\|)$", text, re.MULTILINE):
        yield f"the header of a table {table}"
    for path in PATH.findall(text):
        if not any(root.glob(path.rstrip("/"))) and not any(root.glob(f"{path}.*")):
            yield path


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    documents = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("deploy/**/*.md")]
    found = [f"{document.relative_to(root)}: {what} does not exist" for document in documents for what in dead(root, document)]
    print("\n".join(found) if found else f"links and paths of {len(documents)} documents exist")
    return 1 if found or not documents else 0


if __name__ == "__main__":
    sys.exit(main())
