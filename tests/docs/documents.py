# SPDX-License-Identifier: Apache-2.0
"""The examples of the documents: fenced blocks of README.md and docs/."""
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a reader would run or compile. Blocks without a language are output, drawings, or patterns of commands.
LANGUAGES = ("python", "cpp", "c", "sh", "cmake")
# What is drawn.
DRAWINGS = ("mermaid",)

Block = collections.namedtuple("Block", "document line language text")


def blocks():
    """All blocks of a language, in the order of the documents."""
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(str(path.relative_to(ROOT)), line, match[1], match[2]))
    return found


def block(document, language, containing):
    """The only block of a document with this text in it."""
    found = [one for one in blocks() if (one.document, one.language) == (document, language) and containing in one.text]
    assert len(found) == 1, f"{document}: {len(found)} blocks in {language} with {containing!r}"
    return found[0]
