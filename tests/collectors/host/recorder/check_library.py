#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libjobscope_trace.so promises as a file: its exports, what it needs, its size, its flags.

Usage: check_library.py LIBRARY VERSION_SCRIPT
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile

MAX_STRIPPED_BYTES = 100 * 1024


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    library, script = sys.argv[1:]
    wanted = set(re.findall(r"^\s+(jobscope_\w+);$", open(script).read(), re.M))
    if len(wanted) < 10:
        sys.exit(f"{script}: only {len(wanted)} exports found; is the script still read right?")

    exported, failures = {}, []
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        _, kind, name = line.split()
        if kind != "A":
            exported[name.split("@")[0]] = kind
    if set(exported) != wanted:
        failures.append(f"exports differ from the version script: {sorted(set(exported) ^ wanted)}")
    data = sorted(name for name, kind in exported.items() if kind != "T")
    if data:
        failures.append(f"exported, and not a function: {data}")

    dynamic = run("readelf", "-d", "-W", library)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    if needed != ["libc.so.6"]:
        failures.append(f"needs {needed}, not libc.so.6 alone")
    soname = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
    if soname != ["libjobscope_trace.so.0"]:
        failures.append(f"the SONAME is {soname}")
    for flag in ("NODELETE", "NOW"):
        if flag not in dynamic:
            failures.append(f"not linked with -z {flag.lower()}")
    symbols = run("readelf", "-V", "-W", library)
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", symbols)]
    if max(versions) > (2, 34):
        failures.append(f"needs glibc {max(versions)}, the floor is 2.34")
    # Static TLS is a scarce resource of the process that dlopens the library: it takes 16 bytes, no more.
    segments = run("readelf", "-l", "-W", library)
    tls = re.findall(r"^\s+TLS(?:\s+\S+){4}\s+(0x[0-9a-f]+)", segments, re.M)
    if [int(size, 16) for size in tls] != [16]:
        failures.append(f"TLS segments: {tls}")

    # Loaded late, into a process that knows nothing of it: the static TLS is available, and
    # recording is off.
    late = ctypes.CDLL(library)
    late.jobscope_trace_next_id.restype = ctypes.c_uint64
    late.jobscope_trace_set_thread_name(b"late")
    if late.jobscope_trace_enabled(0xFFFFFFFF) != 0:
        failures.append("recording is on in a process that nobody asked")
    if late.jobscope_trace_next_id() >> 32 != 1:
        failures.append("a thread could not be attached after a late dlopen")

    with tempfile.TemporaryDirectory() as directory:
        stripped = os.path.join(directory, "stripped.so")
        run("strip", "-o", stripped, library)
        size = os.path.getsize(stripped)
    if size > MAX_STRIPPED_BYTES:
        failures.append(f"{size} bytes stripped, at most {MAX_STRIPPED_BYTES}")
    if failures:
        sys.exit("\n".join(failures))
    print(f"{len(exported)} exports, needs {needed}, {size} bytes stripped")


if __name__ == "__main__":
    main()
