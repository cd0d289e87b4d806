# SPDX-License-Identifier: Apache-2.0
"""Runs checks, each in a process of its own with a deadline, and reports."""
import contextlib
import ctypes
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import types

from gpu_tests import fixture, report
from gpu_tests.outcome import CHECKS, Failed, Skipped
from gpu_tests.worker import NoDevice

# They register their checks, which run in this order: those that take minutes last.
for module in ("counts", "graphs", "processes", "libraries", "frameworks", "load"):
    importlib.import_module(f"gpu_tests.checks_{module}")

NO_GPU = 77
MIN_LEFT_S = 15  # of the budget, for another check to start
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "run_gpu_tests")


def flags(**given):
    """The runner's flags, for direct calls of run_all."""
    return types.SimpleNamespace(**{"budget_s": 3600.0, "only": "", "skip": "", "captures": 0, "cuda": 0, "libcupti": "", **given})


def list_checks():
    for check in CHECKS.values():
        print(f"{check.name:26} {check.deadline_s:4} s  {check.proves}")
    return 0


def run_one(options_file):
    """In the check's own process: writes the result beside the options."""
    test = fixture.load(options_file)
    check = CHECKS[test.options["check"]]
    result = {"result": "failed"}
    try:
        result = {"result": "passed", "measured": check.function(test)}
    except Failed as failure:
        result["text"] = str(failure)
    except Skipped as skip:
        result = {"result": "skipped", "text": str(skip)}
    except NoDevice as none:
        result = {"result": "no device", "text": str(none)}
    except Exception:  # whatever it is, the others go on
        result["text"] = traceback.format_exc()[-1500:]
    with open(os.path.join(test.work, "result.json"), "w", encoding="utf-8") as file:
        json.dump(result, file)
    return 0


def run_check(name, options, work, deadline_s):
    """Runs one check in a process group of its own, which is ended with it. Returns the result."""
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    options_file = os.path.join(work, "options.json")
    with open(options_file, "w", encoding="utf-8") as file:
        json.dump({**options, "check": name, "work": work}, file)
    program = PROGRAM if os.path.exists(PROGRAM) else PROGRAM + ".py"
    begun = time.monotonic()
    with open(os.path.join(work, "output.log"), "wb") as output:
        process = subprocess.Popen([sys.executable, "-B", program, f"--one={options_file}"], stdout=output,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        # Not reaped before its group is ended, so that the group's number is still its own.
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, process.pid, flags) is None and time.monotonic() - begun < deadline_s:
            time.sleep(0.02)
        late = os.waitid(os.P_PID, process.pid, flags) is None
        os.killpg(process.pid, signal.SIGKILL)  # its workers, if it left any
        process.wait()
    seconds = time.monotonic() - begun
    try:
        with open(os.path.join(work, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
    except (OSError, ValueError):
        with open(os.path.join(work, "output.log"), encoding="utf-8", errors="replace") as output:
            result = {"result": "failed", "text": f"ended without a result: {output.read()[-800:]}"}
    if late:
        result = {"result": "failed", "text": f"did not end within {deadline_s:.0f} s"}
    return {"name": name, "seconds": round(seconds, 1), **result}


def has_driver():
    return os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/nvidiactl")


def driver_cuda():
    """(major, minor) of the newest CUDA that the driver knows; None: there is no driver."""
    version = ctypes.c_int(0)
    try:
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10


def choose_cuda(driver, wanted, root):
    """The CUDA that the programs and libcupti are taken of: the driver's, an earlier one where that is wanted."""
    chosen = driver or (13, 0)
    if wanted == 12 and chosen[0] >= 13:
        chosen = (12, 9)
    if chosen[0] < 13 and not os.path.isdir(os.path.join(root, "bin12")):
        return (13, 0)  # which the driver then refuses
    return chosen


def no_gpu(said, cuda, driver):
    """Why nothing can be tested here, from what the worker says."""
    # CUDA's runtime says the same where there is no driver at all.
    if driver and "cudaErrorInsufficientDriver" in said:
        needs = "12.0 (driver 525)" if cuda[0] < 13 else "13.0 (driver 580), the only programs in this bundle"
        return f"the NVIDIA driver is older than CUDA {needs} ({said})"
    return f"no GPU here ({said})"


def run_all(arguments):
    out = os.path.abspath(arguments.out)
    os.makedirs(out, exist_ok=True)
    machine = report.machine(arguments.root)
    print(report.one_line(machine), flush=True)
    names = [name for name in CHECKS if not arguments.only or name in arguments.only.split(",")]
    names = [name for name in names if name not in arguments.skip.split(",")]
    unknown = [n for n in (arguments.only + "," + arguments.skip).split(",") if n and n not in CHECKS]
    if unknown or not names:
        print(f"run_gpu_tests: no such check: {', '.join(unknown) or 'none is left'}", file=sys.stderr)
        return 2
    cuda = choose_cuda(driver_cuda(), arguments.cuda, arguments.root)
    worker = os.path.join(arguments.root, "bin" if cuda[0] >= 13 else "bin12", "gpu_worker")
    if not os.path.exists(worker):
        print(f"run_gpu_tests: {worker} is missing: this is not a bundle; make gpu-bundle makes one", file=sys.stderr)
        return 2
    for program in os.listdir(os.path.dirname(worker)):  # a copy may have lost it
        with contextlib.suppress(OSError):
            os.chmod(os.path.join(os.path.dirname(worker), program), 0o755)
    probe = subprocess.run([worker], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           timeout=120, check=False)
    if probe.returncode == 3:
        said = probe.stderr.decode(errors="replace").strip()
        print(f"run_gpu_tests: NOT RUN: {no_gpu(said, cuda, has_driver())}", file=sys.stderr)
        return NO_GPU
    if probe.returncode != 0:
        print(f"run_gpu_tests: the worker does not start ({probe.returncode}): {probe.stderr.decode(errors='replace')}",
              file=sys.stderr)
        return 1

    options = {
        "root": os.path.abspath(arguments.root),
        "captures": arguments.captures,
        "recordings": out,
        "cuda": cuda,
        "libcupti": os.path.abspath(arguments.libcupti) if arguments.libcupti else "",
    }
    machine["cuda"] = ".".join(map(str, cuda))
    print(f"gpu: programs and libcupti for CUDA {machine['cuda']}", flush=True)
    end = time.monotonic() + arguments.budget_s
    results = []
    work = tempfile.mkdtemp(prefix="gpu_tests_")
    os.chmod(work, 0o755)
    for name in names:
        left = end - time.monotonic()
        deadline_s = CHECKS[name].deadline_s
        if left < MIN_LEFT_S:
            result = {"name": name, "seconds": 0, "result": "not run", "text": "the budget had ended"}
        else:
            result = run_check(name, options, os.path.join(work, name), min(deadline_s, left))
            if left < deadline_s and "did not end within" in result.get("text", ""):
                # It was cut by the budget, and might have held.
                result = {**result, "result": "not run", "text": "the budget ended while it ran"}
        results.append(result)
        print(report.line(result), flush=True)
        report.write(out, machine, results)  # also what there is if this process is ended
    _pack(work, out)
    print(report.summary(results), flush=True)
    kinds = {result["result"] for result in results}
    if kinds & {"failed", "no device"}:
        return 1
    return 3 if "not run" in kinds else 0


def _pack(work, out):
    """Logs and manifests go into one archive; traces are left out: they are large, and what matters of them is measured."""
    with tarfile.open(os.path.join(out, "logs.tar.gz"), "w:gz") as archive:
        for folder, _, files in os.walk(work):
            for name in sorted(files):
                path = os.path.join(folder, name)
                if name.endswith((".log", ".json")) and os.path.getsize(path) < 1 << 20:
                    archive.add(path, os.path.relpath(path, work))
    shutil.rmtree(work, ignore_errors=True)
