#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fault matrix: real workers, real clients, one fault per row, and its required outcome.

  faults.py PACKAGE SHIM MODULE [--quick] [--only TEXT] [--parallel N] [--write] [--list]

PACKAGE is the directory of the Python package, complete (build/python/jobscope); SHIM and MODULE are the libraries
fault_shim and recorder_module_a. After each row: nothing hangs, each outcome has a reason, files are whole, the next capture
works, and threads, descriptors and memory of the worker are what they were. --write writes the table of docs/reliability.md.
Exit code 0: all rows hold; rows that this machine cannot run are listed. 2: --write without every row, which would shorten the table.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
DOCUMENT = os.path.join(REPOSITORY, "docs", "reliability.md")
BEGIN, END = "<!-- faults begin -->", "<!-- faults end -->"
HEADER = "| fault | phase | outcome (exit code) | what the user reads |\n|---|---|---|---|\n"
MAX_CELL = 130
# A row that is late on a machine for which somebody waited so long is tried again.
BUSY_S, MOST_TRIES = 5, 3


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("shim")
    parser.add_argument("module")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.write and (options.only or options.quick):
        parser.error("--write needs every row: leave out --only and --quick")  # exit code 2
    return options


def play(row):
    """(verdict, cells, seconds): verdict is "holds", "not run: …" or what is wrong. A row that was late is played again if somebody
    had to wait for this machine meanwhile."""
    import machine

    began = time.monotonic()
    for tries_left in reversed(range(MOST_TRIES)):
        waited_s = machine.waited_s()
        verdict, result, late = play_once(row)
        if not late or machine.waited_s() - waited_s < BUSY_S or not tries_left:
            return verdict, result, time.monotonic() - began


def play_once(row):
    """(verdict, cells, whether it was late)."""
    from row import Unsupported, needs_user
    from scene import Failure, Late, Scene

    scene = None
    try:
        if "FAULTS_USER" in row.environment:
            needs_user(row.environment["FAULTS_USER"])
        scene = Scene(row.environment)
        client = row.run(scene)
        outcome, says = row.judge(client)
        scene.link.restore()
        scene.files_are_whole(client)
        scene.capture_works("after the fault")
        scene.nothing_is_left(row.memory_kib)
        row.judge_time(client)
        return "holds", (outcome, client.code, says), False
    except Unsupported as error:
        return f"not run: {error}", None, False
    except Late as error:
        return f"FAILED: {error}", None, True
    except (Failure, AssertionError, OSError, subprocess.SubprocessError, LookupError, ValueError) as error:
        return f"FAILED: {type(error).__name__}: {error}", None, False
    finally:
        if scene:
            scene.close()


def _nameless(text):
    """Without what differs between two runs."""
    for pattern, name in (
        (r"/tmp/jobscope-faults-\w+", ""),
        (r"(ipv4:)?127\.0\.0\.1:\d+", "w1:6009"),
        (r"127\.0\.0\.1_\d+", "w1_6009"),
        (r"\d{4}(_\d\d){5}(-\d+)?", "RUN"),
        (r"pid \d+", "pid 4711"),
        (r"[\d.]+ (ms|s|MiB)\b", r"N \1"),
    ):
        text = re.sub(pattern, name, text)
    return text


def cells(row, result):
    outcome, code, says = result
    ended = "killed" if code < 0 else code
    says = _nameless(" ".join(says.split()).replace("|", "/"))
    says = says if len(says) <= MAX_CELL else says[:MAX_CELL].rsplit(" ", 1)[0] + " …"
    shown = {"none": "no manifest" if code < 0 else "no worker is asked"}.get(outcome, outcome)
    return f"| {row.fault} | {row.phase} | {shown} ({ended}) | {says or '–'} |\n"


def write(lines):
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(DOCUMENT, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + HEADER + "".join(lines) + END + after)


def main():
    options = arguments()
    os.environ["JOBSCOPE_TEST_PACKAGE"] = os.path.abspath(options.package)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [os.path.dirname(os.path.abspath(options.package)), os.path.join(HERE, "..", "python"), HERE]
    )
    os.environ["FAULTS_SHIM"], os.environ["FAULTS_MODULE"] = map(os.path.abspath, (options.shim, options.module))
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "python")]
    import all_rows

    rows = [row for row in all_rows.ROWS if options.only in row.name and (row.quick or not options.quick)]
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    failed, not_run, lines = 0, 0, []
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        for row, (verdict, result, took_s) in zip(rows, pool.map(play, rows)):
            print(f"{row.name}: {verdict} ({took_s:.1f} s)" + (f": {result[0]}" if result else ""), flush=True)
            failed += verdict.startswith("FAILED")
            not_run += verdict.startswith("not run")
            if result:
                lines.append(cells(row, result))
    print(f"faults: {len(rows)} rows, {failed} failed, {not_run} not run")
    if failed or not rows:
        return 1
    if options.write and not_run:
        print(f"faults: the table is not written, because of rows that did not run: {not_run}", file=sys.stderr)
        return 2
    if options.write:
        write(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
