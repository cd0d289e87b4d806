#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each example of the documents is run by a test, which takes it from its document.

usage: check_examples.py      prints one line per example that no test runs; exit 1 if there are any
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "docs"))

import documents  # noqa: E402


def main():
    tested = documents.tested()
    examples = [block for block in documents.blocks() if block.language not in documents.PROSE]
    found = []
    for block in examples:
        where = f"{block.document}:{block.line}"
        if block.language not in documents.LANGUAGES:
            found.append(f"{where}: its language must be one of {documents.LANGUAGES}, or of {documents.PROSE}")
        elif not any((block.document, block.language) == (document, language) and containing in block.text
                     for document, language, containing in tested):  # fmt: skip
            found.append(f"{where}: no test runs this example")
    print("\n".join(found) if found else f"{len(examples)} examples are run by tests")
    return 1 if found or not examples else 0


if __name__ == "__main__":
    sys.exit(main())
