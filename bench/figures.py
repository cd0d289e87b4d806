# SPDX-License-Identifier: Apache-2.0
"""The format of the benches' results: written by those in Python, read by compare.py and tables.py.

{"machine": text, "versions": text, "date": "YYYY-MM-DD", "results": [{"name": ..., "unit": ..., "own": [values],
"stock": [values], "better": "lower" | "higher"}, ...]}. Standard library only.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import statistics

TO_NS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}

# What a scope costs is its time above that of a baseline of the same run: {benchmark of scope_bench: its baseline}.
ABOVE = {
    "Scope": "TwoTickReads", "ScopeTwoThreads/threads:2": "TwoTickReads", "ScopeWhileDrained": "TwoTickReads",
    "ScopeWithInteger": "Scope", "ScopeWithFourNumbers": "Scope", "ScopeWithString": "Scope", "Step": "TwoTickReads",
    "ScopeAroundWork": "WorkAlone", "StepWithUsage": "Step",
}  # fmt: skip


def figure(name, unit, own, stock=(), better="lower"):
    return {"name": name, "unit": unit, "own": list(own), "stock": list(stock), "better": better}


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "?")
    return f"{os.cpu_count()} cores, {model}, Linux {platform.release()}, load {os.getloadavg()[0]:.2f} at the start"


def versions(*packages):
    """Names the interpreter and those of the packages that it has, with their versions."""
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return ", ".join(found)


def save(path, where, results, *packages):
    """`where`: what machine() returned before the run."""
    data = {"machine": where, "versions": versions(*packages), "date": str(datetime.date.today()), "results": results}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.write("\n")


def _google_benchmark(data):
    """Returns times in nanoseconds, from the repetitions only: CPU time, unless the benchmark measures another one itself."""
    found = {}
    for one in data["benchmarks"]:
        if one.get("run_type") == "aggregate" or one.get("error_occurred"):
            continue
        name = one["run_name"]
        time = one["real_time" if name.endswith(("/manual_time", "/real_time")) else "cpu_time"]
        found.setdefault(name, figure(name, "ns", []))["own"].append(time * TO_NS[one["time_unit"]])
    for name, base in ABOVE.items():
        if name in found and base in found:
            level = statistics.median(found[base]["own"])
            above = f"{name}, above {base}"
            found[above] = figure(above, "ns", [value - level for value in found[name]["own"]])
    return found


def load(path):
    """Returns {name: figure} of a result file. Raises OSError, ValueError, KeyError or TypeError if it is none."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    if "benchmarks" in data:
        return _google_benchmark(data)
    return {f"{one['name']} [{one['unit']}]": one for one in data["results"] if one["own"]}
