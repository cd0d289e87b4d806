#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports how many of the lines of each parser of foreign bytes its fuzzer has reached.

usage: fuzz_coverage.py FUZZER_DIRECTORY [--lines] [--write]
       fuzz_coverage.py FUZZER_DIRECTORY --check

Reads the counts that the fuzzers wrote when fuzz.sh ran them (coverage/*.profraw, and *.stats: how often and for how long), and the parsers that each was declared for
(fuzzers.txt; jobscope_fuzzer in cmake/JobscopeTargets.cmake). --lines prints the lines not reached, --write writes the table of
docs/reliability.md. Exits with 1 if a parser is below 85 %. --check: whether that table has each parser that was declared, and no
other; it needs fuzzers.txt alone. Fuzzers that did not run keep their rows.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- fuzz coverage begin -->", "<!-- fuzz coverage end -->"
LEAST_PERCENT = 85


def declared(directory):
    """(parser, fuzzer) pairs."""
    lines = (directory / "fuzzers.txt").read_text(encoding="utf-8").splitlines()
    return sorted((parser, fuzzer) for fuzzer, parser in map(str.split, lines))


def export(directory, fuzzer):
    """{path: what llvm-cov reports of the file: a summary, and segments of the source} for the sources of the fuzzer."""
    raw = directory / "coverage" / f"{fuzzer}.profraw"
    if not raw.exists():
        sys.exit(f"fuzz_coverage: no {raw}: run tests/tooling/fuzz.sh first")
    merged = raw.with_suffix(".profdata")
    subprocess.run(["llvm-profdata", "merge", "-sparse", "-o", merged, raw], check=True)
    exported = subprocess.run(
        ["llvm-cov", "export", "-skip-functions", f"-instr-profile={merged}", directory / f"{fuzzer}_fuzzer"],
        check=True, cwd=ROOT, stdout=subprocess.PIPE).stdout
    return {from_the_top(file["filename"], directory): file for file in json.loads(exported)["data"][0]["files"]}


def from_the_top(filename, directory):
    """The compiler has seen paths from the top, or from the build folder; some versions of llvm-cov put the build folder in front."""
    path = pathlib.Path(os.path.normpath(ROOT / filename))
    build = directory.parent
    return os.path.relpath(path, build if path.is_relative_to(build) and not path.exists() else ROOT)


def ran(directory, fuzzer):
    """(runs, seconds)."""
    path = directory / "coverage" / f"{fuzzer}.stats"
    try:
        runs, seconds = map(int, path.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        sys.exit(f"fuzz_coverage: no numbers in {path}: run tests/tooling/fuzz.sh first")
    return runs, seconds


def missed(file):
    """The lines of regions that were never reached: "12, 40-43"."""
    ranges = []
    segments = file["segments"]  # line, column, count, has a count, begins a region, is a gap
    for at, after in zip(segments, segments[1:]):
        if at[2] == 0 and at[3] and not at[5]:
            if ranges and at[0] <= ranges[-1][1] + 1:
                ranges[-1][1] = after[0]
            else:
                ranges.append([at[0], after[0]])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def written():
    """The rows of the table, by (parser, fuzzer). Rows of the form without runs and seconds are not among them."""
    table = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    return {(row[1], row[2]): row[0] for row in re.finditer(r"^\| `(\S+)` \| `(\S+)` \|([^|\n]+\|){4}\n", table, re.MULTILINE)}


def check(pairs):
    rows = set(written())
    for parser, fuzzer in sorted(rows.symmetric_difference(pairs)):
        print(f"{DOCUMENT.name}: {parser} ({fuzzer}): {'not declared any more' if (parser, fuzzer) in rows else 'not in the table'}")
    if rows != set(pairs):
        print("fuzz_coverage: run the fuzzer (tests/tooling/fuzz.sh), and write the table (--write)")
    return int(rows != set(pairs))


def write(lines):
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    DOCUMENT.write_text(before + BEGIN + "\n" + "".join(lines) + END + after, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    directory = options.directory.absolute()
    pairs = declared(directory)
    if options.check:
        return check(pairs)
    kept = {pair: row for pair, row in written().items() if not (directory / "coverage" / f"{pair[1]}.profraw").exists()}
    files = {fuzzer: export(directory, fuzzer) for fuzzer in sorted({pair[1] for pair in pairs if pair not in kept})}
    runs = {fuzzer: ran(directory, fuzzer) for fuzzer in files}
    lines = ["| parser | fuzzer | lines | reached | runs | seconds |\n", "|---|---|---|---|---|---|\n"]
    below = []
    for name, fuzzer in pairs:
        if (name, fuzzer) in kept:
            lines.append(kept[name, fuzzer])
            continue
        if name not in files[fuzzer]:
            sys.exit(f"fuzz_coverage: {fuzzer} does not have {name} in it")
        summary = files[fuzzer][name]["summary"]["lines"]
        if summary["percent"] < LEAST_PERCENT:
            below.append(name)
        count, seconds = runs[fuzzer]
        lines.append(f"| `{name}` | `{fuzzer}` | {summary['count']} | {summary['percent']:.0f} % | {count:,} | {seconds} |\n")
        if options.lines:
            print(f"{name}: {missed(files[fuzzer][name])}")
    print("".join(lines), end="")
    if below:
        print(f"fuzz_coverage: below {LEAST_PERCENT} %: {', '.join(below)}", file=sys.stderr)
    elif options.write:
        write(lines)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
