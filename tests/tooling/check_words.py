#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One word for one thing: finds words that docs/glossary.md lists as retired.

usage: check_words.py [ROOT]      prints one line per retired word; exit 1 if there are any, or nothing to read
"""
import pathlib
import re
import sys

GLOSSARY = "docs/glossary.md"
HEADING = "## Retired words"
FOLDERS = ("include", "proto", "common", "rpc", "collectors", "server", "client", "analysis", "examples", "python", "docs", "deploy", "tools",
           "tests", "bench", "cmake")  # fmt: skip
SUFFIXES = (".h", ".cc", ".c", ".proto", ".py", ".pyi", ".md", ".sh", ".cmake", ".css", ".js")
NAMES = ("Makefile", "CMakeLists.txt")


BETWEEN_WORDS = r"\s+(?:(?://+|#|\*)\s+)?"  # a phrase may go on in the next line of a comment


def pattern_of(word):
    """A word in backticks is part of an identifier, in this case; any other is whole words, in any case."""
    if word.startswith("`"):
        return re.compile(re.escape(word.strip("`")))
    return re.compile(r"(?<!\w)" + BETWEEN_WORDS.join(map(re.escape, word.split())) + r"(?!\w)", re.IGNORECASE)


def retired_in(glossary):
    """(its longest part, pattern, what to say) of each word in the table under HEADING: | word, word | what to say |."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", glossary.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0], re.MULTILINE)
    return [(max(word.strip("`").lower().split(), key=len), pattern_of(word), instead)
            for words, instead in rows[1:] for word in words.split(", ")]  # fmt: skip


def found_in(text, retired):
    """Yields (line number, word, what to say)."""
    lower = text.lower()
    candidates = [(pattern, instead) for part, pattern, instead in retired if part in lower]
    for pattern, instead in candidates:
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), instead


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    glossary = (root / GLOSSARY).read_text("utf-8")
    retired = retired_in(glossary)
    candidates = [*root.glob("*"), *(f for folder in FOLDERS for f in sorted(root.glob(f"{folder}/**/*")))]
    files = [f for f in candidates if f.suffix in SUFFIXES or f.name in NAMES]
    found = []
    for file in files:
        text = file.read_text("utf-8")
        if file == root / GLOSSARY:
            text = text.partition(f"\n{HEADING}\n")[0]
        found += [f"{file.relative_to(root)}:{number}: \"{word}\" is retired: say {instead}"
                  for number, word, instead in found_in(text, retired)]  # fmt: skip
    if not retired:
        found.append(f"{GLOSSARY}: no table under \"{HEADING}\"")
    print("\n".join(found) if found else f"{len(files)} files use none of {len(retired)} retired words")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
