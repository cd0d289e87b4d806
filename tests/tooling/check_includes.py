#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the edges of the design: which folder may include what of ours, who may see gRPC, and which locks there are.

usage: check_includes.py [ROOT]      prints one line per violation; exit 1 if there are any
       check_includes.py --write     draws the edges into docs/architecture.md, which must show them as they are
"""
import pathlib
import re
import sys

# What each folder may include: other folders, or single headers, of this project. `proto` stands for messages
# (x.pb.h), `proto_grpc` for services (x.grpc.pb.h), `include` for jobscope/*.h. The longest prefix of a file's path
# decides. A folder that is not listed (tests, bench) may include anything.
MAY_INCLUDE = {
    "include": ["include"],
    "common/text": ["common/text"],
    "common/sync": ["common/sync"],
    "common/status": ["common/status"],
    "common/containers": ["common/containers"],
    "common/descriptors": ["common/descriptors"],
    "common/process": ["common/process", "common/descriptors", "common/sync", "common/text", "include", "proto"],
    "common/log": ["common/log", "common/process", "common/text"],
    "common/threads": ["common/threads", "common/log", "common/process", "common/status", "common/sync"],
    "common/clock": ["common/clock", "common/sync", "include"],
    "common/arguments": ["common/arguments"],
    "common/options": ["common/options", "common/text", "include", "proto"],
    "common/credentials": ["common/credentials"],
    "common/xspace/wire": ["common/xspace/wire"],
    "common/xspace/segment": ["common/xspace/segment", "common/xspace/wire", "common/sync", "common/text", "proto"],
    "common/xspace/assemble": ["common/xspace/assemble", "common/xspace/segment", "common/xspace/wire", "common/containers",
                               "common/files/byte_sink.h", "common/text", "proto"],
    "common/files": ["common/files", "common/clock", "common/descriptors", "common/process"],
    "common/net": ["common/net", "common/files", "common/text"],
    "common/run": ["common/run", "common/files", "common/text", "proto"],
    "collectors": ["common"],
    "collectors/host": ["collectors/host", "collectors/collector.h", "common", "include", "proto"],
    "collectors/host/encoding": ["collectors/host/encoding", "collectors/host/recorder/reader_abi.h", "common"],
    "collectors/host/recorder": ["collectors/host/recorder", "include"],
    "collectors/cuda/libraries": ["collectors/cuda/libraries", "common"],
    "collectors/cuda/tracing": ["collectors/cuda/tracing", "collectors/cuda/libraries", "common"],
    "collectors/cuda/records": ["collectors/cuda/records", "collectors/cuda/libraries", "common"],
    "collectors/cuda/events": ["collectors/cuda/events", "collectors/cuda/records", "collectors/cuda/libraries", "common"],
    "collectors/cuda": ["collectors/cuda", "collectors/collector.h", "common", "proto"],
    "collectors/nvml": ["collectors/nvml", "collectors/collector.h", "common", "include", "proto"],
    "collectors/nvtx": ["collectors/nvtx", "common/text/utf8.h", "common/xspace/segment/nvtx_place.h", "include"],
    "collectors/system": ["collectors/system", "collectors/collector.h", "common", "include"],
    "collectors/python/bridge": ["collectors/python/bridge", "common"],
    "collectors/python/stacks": ["collectors/python/stacks", "collectors/python/bridge", "collectors/collector.h", "common", "include"],
    "collectors/python/calls": ["collectors/python/calls", "collectors/python/stacks", "collectors/python/bridge",
                                "collectors/collector.h", "common", "include"],
    "collectors/python/gc": ["collectors/python/gc", "collectors/python/stacks", "collectors/python/bridge", "collectors/collector.h",
                             "common", "include"],
    "collectors/python": ["collectors/python", "collectors/collector.h", "common"],
    "collectors/inferred": ["collectors/inferred", "common", "include"],
    "collectors/xspace_import": ["collectors/xspace_import", "collectors/inferred", "common"],
    "collectors/torch": ["collectors/torch", "collectors/inferred", "collectors/python/bridge", "collectors/collector.h", "common",
                         "include"],
    "collectors/framework": ["collectors/framework", "collectors/torch", "collectors/xspace_import", "collectors/inferred",
                             "collectors/python/bridge", "collectors/collector.h", "common", "include", "proto"],
    "collectors/provider": ["collectors/provider", "collectors/xspace_import", "collectors/collector.h", "common", "include"],
    "rpc": ["rpc", "common/status", "common/text", "proto"],
    "server/guard": ["server/guard", "server/limits.h", "common"],
    "server/tasks": ["server/tasks", "server/guard", "collectors/collector.h", "common", "proto"],
    "server/session": ["server/session", "server/tasks", "server/guard", "server/limits.h", "collectors/collector.h", "common", "include",
                       "proto"],
    "server/programmatic": ["server/programmatic", "server/session", "server/guard", "common"],
    "server/listen": ["server/listen", "server/limits.h", "rpc", "common", "proto", "proto_grpc"],
    "server/security": ["server/security", "server/listen", "common"],
    "server/rpc": ["server/rpc", "rpc", "server/security", "server/guard", "server/limits.h", "common"],
    "server/services": ["server/services", "server/rpc", "server/session", "server/limits.h", "common", "proto"],
    "server/native/items": ["server/native/items", "server/limits.h", "common"],
    "server/native": ["server/native", "rpc", "server/services", "server/rpc", "server/session", "server/guard", "server/limits.h", "common", "proto",
                      "proto_grpc"],
    "server/tensorflow": ["server/tensorflow", "server/services", "server/rpc", "server/session", "server/guard", "server/limits.h",
                          "common", "proto", "proto_grpc"],
    "server/grpc_server": ["server/grpc_server", "server/native", "server/tensorflow", "server/services", "server/rpc", "server/security",
                           "server/listen", "server/session", "server/guard", "server/limits.h", "rpc", "common", "proto"],
    "server/process": ["server/process", "server/grpc_server", "server/services", "server/rpc", "server/security", "server/listen",
                       "server/session", "server/guard", "server/limits.h", "common", "include", "proto"],
    "server/c_api": ["server/c_api", "server/process", "server/programmatic", "server/guard", "server/limits.h", "common", "include"],
    "server/attach": ["server/attach", "common/process/blocked_signal.h", "common/text/utc_text.h", "include"],
    "client/clock": ["client/clock"],
    "client/worker": ["client/worker", "client/clock", "rpc", "common", "proto"],
    "client/rpc": ["client/rpc", "client/worker", "rpc", "common", "proto"],
    "client/diagnosis": ["client/diagnosis", "client/rpc", "client/worker", "common"],
    "client/run": ["client/run", "client/worker", "common", "proto"],
    "client/tensorflow": ["client/tensorflow", "client/run", "client/rpc", "client/worker", "common", "proto"],
    "client/native/wire": ["client/native/wire", "client/worker", "client/clock", "common", "proto"],
    "client/native/spool": ["client/native/spool", "client/native/wire", "client/run", "client/rpc", "client/worker", "common", "proto"],
    "client/native": ["client/native", "rpc", "client/run", "client/rpc", "client/worker", "client/clock", "common", "proto"],
    "client/terminal": ["client/terminal", "common"],
    "client/fan_out": ["client/fan_out", "client/terminal", "client/run", "client/worker", "client/clock", "common", "proto"],
    "client/cli/base": ["client/cli/base", "client/rpc", "common"],
    "client/cli/run": ["client/cli/run", "client/cli/base/exit_code.h", "common"],
    "client/cli/survey": ["client/cli/survey", "client/cli/base", "client/diagnosis", "client/terminal", "client/rpc", "client/worker", "rpc",
                          "common"],
    "client/cli": ["client", "common"],
    "client": ["client/cli", "common/descriptors"],
    "analysis/text": ["analysis/text", "common/text"],
    "analysis/steps": ["analysis/steps"],
    "analysis/trace": ["analysis/trace", "analysis/steps", "common", "proto"],
    "analysis/digest": ["analysis/digest", "analysis/trace", "analysis/steps", "common", "proto"],
    "analysis/statistics": ["analysis/statistics"],
    "analysis/alignment": ["analysis/alignment", "analysis/digest", "analysis/statistics", "analysis/steps", "proto"],
    "analysis/blame": ["analysis/blame", "analysis/statistics", "analysis/steps"],
    "analysis/report": ["analysis/report", "analysis/alignment", "analysis/blame", "analysis/digest", "analysis/statistics",
                        "analysis/steps"],
    "analysis/verdict": ["analysis/verdict", "analysis/report", "analysis/alignment", "analysis/blame", "analysis/digest",
                         "analysis/statistics", "analysis/text"],
    "analysis/output": ["analysis/output", "analysis/verdict", "analysis/report", "analysis/statistics", "analysis/steps", "analysis/text", "common/files",
                        "common/text"],
    "analysis/cli": ["analysis", "common"],
    "examples": ["examples", "include"],
}
# Single files that may include more: the composition root, which alone knows concrete collectors; the C ABI of those that others
# register, which must not make that root; what finds the recorder's table;
# and the program, of which `report` is a verb.
EXCEPTIONS = {
    "client/cli/verbs.cc": ["analysis/cli/diff_verb.h", "analysis/cli/report_verb.h"],
    "client/cli/capture.cc": ["analysis/cli/capture_report.h"],
    "server/process/worker_runtime.h": ["collectors"],
    "server/process/worker_runtime.cc": ["collectors"],
    "server/c_api/provider_c.cc": ["collectors/provider/provider_registry.h"],
    "server/process/recorder_loader.h": ["collectors/host/recorder/reader_abi.h"],
    "server/c_api/nvtx_c.cc": ["collectors/nvtx/handler.h"],
}
# Whose folders are listed one by one.
SPLIT = ("analysis/", "collectors/", "common/", "server/")
WITHOUT_GRPC = ("include/", "common/", "collectors/", "analysis/", "examples/", "server/guard/", "server/tasks/", "server/session/",
                "server/programmatic/", "client/clock/", "client/terminal/")
FOLDERS = ("include", "common", "collectors", "rpc", "server", "client", "analysis", "examples", "proto", "bench", "tests")
# Locks of ours are common/sync/mutex.h's and abseil's, which clang checks. The sink of the log is a template of spdlog's.
NAKED_LOCK = re.compile(r"std::(mutex|recursive_mutex|shared_mutex|condition_variable|lock_guard|unique_lock|scoped_lock)\b")
MAY_LOCK_NAKED = ("common/sync/mutex.h", "common/log/log.cc", "include/", "examples/")
# Threads of ours get no settings of the application's (worker_thread.h), and a program goes on where the system has none left.
NAKED_THREAD = re.compile(r"\bstd::(?:thread\b(?!::)|jthread\b|async\b)|\bpthread_create\(")
MAY_START_THREADS = ("common/threads/", "server/attach/", "examples/")  # attach needs libc only
# Instants: what our own code reads of MONOTONIC comes from one place, and no deadline of ours stands on the date, which may be set.
NAKED_MONOTONIC = re.compile(r"\bclock_gettime\(\s*CLOCK_MONOTONIC\b")
STEADY_CLOCK = re.compile(r"\bstd::chrono::steady_clock\b")  # waits of a CondVar have CondVar::Clock
MAY_READ_STEADY = ("include/", "examples/", "common/sync/mutex.h")
MAY_READ_MONOTONIC = ("include/", "common/clock/", "server/attach/", "examples/")  # attach needs libc only
DATE_SUM = re.compile(r"absl::Now\(\)\s*(?:[-+]\s|[<>]=?\s)|(?:\s[-+<>]=?)\s+absl::Now\(\)")
TIMED = ("server/", "collectors/", "rpc/", "python/src/")
# Converts the deadline of a call, which gRPC gives as a date.
MAY_SUM_DATES = ("server/rpc/peer.cc",)
# The loader's lock: a thread that waits for it with the GIL, while a constructor under that lock waits for the GIL, waits for ever.
NAKED_LOADER = re.compile(r"\b(dlopen|dlsym|dlclose|dladdr|Symbol)\(")
LOADS = ("collectors/python/", "collectors/torch/", "collectors/framework/")
# Called without the GIL.
MAY_LOAD = ("collectors/python/bridge/api.", "collectors/python/stacks/trace_api.cc", "collectors/torch/torch_library.cc")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def resolve(target):
    """The path under which MAY_INCLUDE speaks of an included header; None if it is not ours."""
    if target.endswith(".grpc.pb.h"):
        return "proto_grpc"
    if target.endswith(".pb.h"):
        return "proto"
    top = target.split("/")[0]
    if top == "jobscope":
        return "include"
    return target if "/" in target and top in FOLDERS else None


def violations(path, text):
    """Yields what is wrong with the includes of the file at `path` (relative to the root)."""
    folder = max((f for f in MAY_INCLUDE if path.startswith(f + "/")), key=len, default=None)
    if folder is None:
        if path.startswith(SPLIT) and path.count("/") > 1:
            yield f"{path}: {path.rsplit('/', 1)[0]}/ has no edges yet: say in MAY_INCLUDE what it may include"
        return
    for lock in [] if path.startswith(MAY_LOCK_NAKED) else NAKED_LOCK.findall(text):
        yield f"{path}: std::{lock}: nobody checks what it guards; take those of common/sync/mutex.h"
    if NAKED_THREAD.search(text) and not path.startswith(MAY_START_THREADS):
        yield f"{path}: starts a thread itself: take StartWorkerThread or ThreadGroup of common/threads"
    if NAKED_MONOTONIC.search(text) and not path.startswith(MAY_READ_MONOTONIC):
        yield f"{path}: reads CLOCK_MONOTONIC itself: take MonotonicNow of common/clock/monotonic.h, or detail::MonotonicNs"
    if STEADY_CLOCK.search(text) and not path.startswith(MAY_READ_STEADY):
        yield f"{path}: reads std::chrono::steady_clock: take SteadyNow of common/clock/monotonic.h, or CondVar::Clock for a wait"
    if path.startswith(TIMED) and path not in MAY_SUM_DATES and DATE_SUM.search(text):
        yield f"{path}: computes with absl::Now(), which jumps when the clock is set: take SteadyNow of common/clock/monotonic.h"
    for call in NAKED_LOADER.findall(text) if path.startswith(LOADS) and not path.startswith(MAY_LOAD) else []:
        yield f"{path}: calls {call}, which must not be done with the GIL held: look symbols up in FindApi or FindTraceApi"
    allowed = MAY_INCLUDE[folder] + EXCEPTIONS.get(path, [])
    for bracket, target in INCLUDE.findall(text):
        if re.match(r"(grpc|grpcpp|grpc\+\+)/", target) and path.startswith(WITHOUT_GRPC):
            yield f"{path}: includes {target}: gRPC is known to server and client only"
        if target.startswith("absl/synchronization/") and path.startswith(WITHOUT_GRPC):
            yield f"{path}: includes {target}: ThreadSanitizer cannot see its locks; take those of common/sync/mutex.h"
        ours = resolve(target)
        if ours is not None and not any(ours == a or ours.startswith(a + "/") for a in allowed):
            yield f"{path}: includes {target}: {folder}/ may include only {', '.join(allowed)}"
        if bracket == '"' and ours is None and "/" not in target:
            yield f'{path}: includes "{target}": write the full path'


def unused(sources):
    """Yields the edges of MAY_INCLUDE that none of the files {path: text} uses: they would be drawn, and are not there."""
    used = {folder: set() for folder in MAY_INCLUDE}
    for path, text in sources.items():
        folder = max((f for f in MAY_INCLUDE if path.startswith(f + "/")), key=len, default=None)
        if folder is not None:
            used[folder].update(filter(None, (resolve(target) for _, target in INCLUDE.findall(text))))
    for folder, allowed in MAY_INCLUDE.items():
        for edge in allowed:
            if edge != folder and not any(target == edge or target.startswith(edge + "/") for target in used[folder]):
                yield f"{folder}/ includes nothing of {edge}: take that edge out of MAY_INCLUDE"


def drawing(top):
    """The edges between the folders below `top`, as a Mermaid chart; one that others imply is left out."""
    folders = [f for f in MAY_INCLUDE if f.startswith(top + "/")]
    edges = {f: {g for g in folders if g != f and any(g == a or g.startswith(a + "/") for a in MAY_INCLUDE[f])} for f in folders}

    def reaches(a, b):
        return b in edges[a] or any(reaches(c, b) for c in edges[a])

    lines = ["```mermaid", "flowchart TD"]
    for f in folders:
        name = f[len(top) + 1:]
        lines.append(f"  {name}")
        lines += [f"  {name} --> {a[len(top) + 1:]}" for a in sorted(edges[f])
                  if not any(c != a and reaches(c, a) for c in edges[f])]
    return "\n".join(lines + ["```"])


def draw(text):
    """`text` with today's drawings between its marks."""
    return re.sub(r"(<!-- edges of (\w+) -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{drawing(m[2])}\n{m[3]}", text, flags=re.S)


def main():
    document = pathlib.Path(__file__).parents[2] / "docs" / "architecture.md"
    if sys.argv[1:] == ["--write"]:
        document.write_text(draw(document.read_text("utf-8")), "utf-8")
        return 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    files = [f for top in FOLDERS for ext in ("h", "cc", "c") for f in sorted(root.glob(f"{top}/**/*.{ext}"))]
    sources = {f.relative_to(root).as_posix(): f.read_text("utf-8") for f in files}
    found = [v for path, text in sources.items() for v in violations(path, text)]
    if root == pathlib.Path(__file__).parents[2]:
        found += unused(sources)
        if draw(document.read_text("utf-8")) != document.read_text("utf-8"):
            found.append("docs/architecture.md: its drawings are old: run tests/tooling/check_includes.py --write")
    print("\n".join(found) if found else f"{len(files)} files keep the edges")
    if not files:
        print(f"{root}: no sources found")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
