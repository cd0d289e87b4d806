# SPDX-License-Identifier: Apache-2.0
"""The examples of the documents: fenced blocks of README.md and docs/."""
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a reader would run or compile: a test runs each block. `console`: commands behind "$ ", and what they print.
LANGUAGES = ("python", "cpp", "c", "sh", "cmake", "console")
# What is read: output, formats, drawings.
PROSE = ("text", "mermaid")

Block = collections.namedtuple("Block", "document line language text")


def blocks():
    """All blocks, in the order of the documents. The language of one without is empty."""
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"^ *```([^\n]*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(str(path.relative_to(ROOT)), line, match[1], match[2]))
    return found


def block(document, language, containing):
    """The only block of a document with this text in it."""
    found = [one for one in blocks() if (one.document, one.language) == (document, language) and containing in one.text]
    assert len(found) == 1, f"{document}: {len(found)} blocks in {language} with {containing!r}"
    return found[0]


def tested():
    """(document, language, text in it) of each block that a test of this tree takes by block()."""
    return [
        match.groups()
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for match in re.finditer(r'documents\.block\(\s*"([^"]+)", "([^"]+)", "([^"]+)"', path.read_text(encoding="utf-8"))
    ]
