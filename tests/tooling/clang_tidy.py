#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over our sources, two at a time, and skips what has passed before.

usage: clang_tidy.py LINT_BUILD [PATH_PART...]      LINT_BUILD: a tree configured with the preset `lint`

A source that passed is remembered under a hash of all that could change the verdict: the source and every header of
ours it reaches, the compile command, .clang-tidy, the versions of clang-tidy and of the libraries. Kept in JOBSCOPE_CACHE_DIR
(default: .cache in the repository).
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("JOBSCOPE_CACHE_DIR") or ROOT / ".cache") / "clang-tidy"
JOBS = int(os.environ.get("JOBSCOPE_JOBS", "2"))
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
CLANG_TIDY = os.environ.get("JOBSCOPE_CLANG_TIDY") or ROOT / ".venv/lint/bin/clang-tidy"  # tools/venv.sh makes it
LIBRARIES = ["libgrpc-dev", "libabsl-dev", "libprotobuf-dev", "libspdlog-dev", "libgtest-dev", "libstdc++-12-dev"]


def closure(source, search):
    """The source and all headers of ours that it reaches, by name: superset of what the preprocessor would read."""
    seen, waiting = set(), [source]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for target in INCLUDE.findall(file.read_text("utf-8", "replace")):
            found = next((folder / target for folder in search if (folder / target).is_file()), None)
            if found:
                waiting.append(found)
    return sorted(seen)


def key_of(entry, search, common):
    digest = hashlib.sha256(common)
    digest.update(entry["command"].replace(str(ROOT), "").encode())
    for file in closure(pathlib.Path(entry["file"]), search):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def generated_headers(build):
    """Makes the protobuf headers that the sources include (nothing is compiled)."""
    targets = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True, check=True)
    headers = [line.split(":")[0] for line in targets.stdout.splitlines() if re.match(r"proto/gen/\S+\.pb\.h:", line)]
    subprocess.run(["ninja", "-C", build, *headers], check=True, stdout=subprocess.DEVNULL)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    parts = sys.argv[2:]
    generated_headers(build)
    tracked = set(subprocess.run(["git", "ls-files", "*.cc", "*.c"], cwd=ROOT, capture_output=True, text=True,
                                 check=True).stdout.split())
    entries = {}  # one per source, though several targets may compile it
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else None
        if name in tracked and (not parts or any(part in name for part in parts)):
            entries[name] = entry
    version = subprocess.run([CLANG_TIDY, "--version"], capture_output=True, check=True).stdout
    libraries = subprocess.run(["dpkg-query", "-W", *LIBRARIES], capture_output=True, check=False).stdout
    common = version + libraries + (ROOT / ".clang-tidy").read_bytes()
    search = [ROOT, ROOT / "include", build / "proto/gen"]
    keys = {name: key_of(entry, search, common) for name, entry in entries.items()}
    waiting = [name for name in sorted(entries) if not (CACHE / keys[name]).exists()]
    print(f"clang-tidy: {len(entries)} sources, {len(entries) - len(waiting)} known to pass", flush=True)
    left_out = sorted(tracked - set(entries)) if not parts else []
    if left_out:
        print(f"clang-tidy: not compiled in this tree, so not checked: {', '.join(left_out)}")

    def tidy(name):
        start = time.monotonic()
        run = subprocess.run([CLANG_TIDY, "-p", build, "--quiet", ROOT / name], capture_output=True, text=True,
                             check=False)
        if run.returncode == 0:
            CACHE.mkdir(parents=True, exist_ok=True)
            (CACHE / keys[name]).touch()
        return name, run, time.monotonic() - start

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for name, run, seconds in pool.map(tidy, waiting):
            print(f"clang-tidy: {name} ({seconds:.0f} s)", flush=True)
            if run.returncode != 0:
                failed += 1
                print(run.stdout + "\n".join(l for l in run.stderr.splitlines() if "error" in l), flush=True)
    return 1 if failed or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
