# SPDX-License-Identifier: Apache-2.0
"""What is said of the results, and of the machine."""
import json
import os
import platform
import subprocess
import time

from gpu_tests.outcome import CHECKS


def _output(*command):
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False)
        return run.stdout.decode(errors="replace").strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"


def machine(root):
    """Where the checks ran."""
    try:
        with open(os.path.join(root, "BUNDLE.json"), encoding="utf-8") as file:
            bundle = json.load(file)
    except (OSError, ValueError):
        bundle = {}
    query = "name,driver_version,memory.total,mig.mode.current,persistence_mode,clocks.max.sm"
    return {
        "gpus": _output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader").splitlines(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "user": os.geteuid(),
        "bundle": bundle,
        "begun_unix_s": int(time.time()),
    }


def one_line(info):
    commit = info["bundle"].get("commit", "unknown commit")
    return f"gpu: {'; '.join(info['gpus'])} | kernel {info['kernel']} | {info['cores']} cores | bundle {commit}"


def _short(value, limit):
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def line(result):
    measured = result.get("text") or result.get("measured") or ""
    limit = 700 if result["result"] == "failed" else 160
    return f"{result['result']:8} {result['name']:26} {result['seconds']:6.1f} s  {_short(measured, limit)}"


def summary(results):
    def count(kind):
        return sum(1 for result in results if result["result"] == kind)

    text = f"{count('passed')} passed, {count('failed') + count('no device')} failed"
    for kind in ("skipped", "not run"):
        if count(kind):
            text += f", {count(kind)} {kind}"
    return text


def write(out, info, results):
    with open(os.path.join(out, "report.json"), "w", encoding="utf-8") as file:
        json.dump({"machine": info, "summary": summary(results), "results": results}, file, indent=1, sort_keys=True)
    with open(os.path.join(out, "report.md"), "w", encoding="utf-8") as file:
        file.write("# GPU tests\n\n")
        for gpu in info["gpus"]:
            file.write(f"* {gpu}\n")
        file.write(f"* kernel {info['kernel']}, {info['cores']} cores, bundle {json.dumps(info['bundle'].get('commit', ''))}, "
                   f"libcupti {json.dumps(info['bundle'].get('libcupti', ''))}\n\n**{summary(results)}**\n\n")
        file.write("| check | result | s | what it proves | measured, or why |\n|---|---|---|---|---|\n")
        for result in results:
            measured = _short(result.get("text") or result.get("measured") or "", 1500).replace("|", "\\|")
            proves = CHECKS[result["name"]].proves.replace("|", "\\|")
            file.write(f"| {result['name']} | {result['result']} | {result['seconds']} | {proves} | {measured} |\n")
