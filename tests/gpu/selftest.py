#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the GPU tests where no GPU is: each check on the fake libcupti, once as it is, and once with a fault that it must see.

usage: selftest.py BIN_DIR FAKE_CUPTI FAKE_CUPTI_BARE FAKE_CUDA RECORDER PYTORCH PART...
    a part is a check of gpu_tests, or `figures`

Real workers, captures and traces; only CUPTI's records are made by hand (worker/fake_device.cc).
"""
import concurrent.futures
import json
import os
import shutil
import sys
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python")]

from gpu_tests import expectations, fixture, runner  # noqa: E402
from gpu_tests.outcome import CHECKS, Failed  # noqa: E402

# check -> faults of the fake, and a piece of what must be said of each.
FAULTS = {
    "known_counts": {"vanish": "1 were launched", "lose": "gpu_unfinished", "double": "were launched"},
    "streams_and_threads": {"one_stream": "stands on 1 streams"},
    "loss_is_counted": {"forget_drops": "but 20000 were launched"},
    "highest_rate": {"double": "only 20000 were launched"},
    "launch_order": {"early": "start before their launch", "uncorrelated": "have no call"},
    "copy_kinds_and_bytes": {"copy_kind": "MemcpyHtoD in the trace", "copy_bytes": "bytes in the trace", "memset": "0 Memset"},
    "allocation_totals": {"keep_allocation": "MemoryDeallocation in the trace", "allocation_bytes": "bytes in the trace"},
    "pool_allocation_totals": {"keep_allocation": "MemoryDeallocation in the trace"},
    "unified_memory": {"managed": "wrong value"},
    "two_gpus": {"wrong_device": "0 CountedKernel", "peer_bytes": "bytes copied"},
    "graph_of_before": {"graph_later": "GraphKernel in the trace"},
    "graph_of_between": {"graph_later": "GraphKernel in the trace"},
    "graph_made_in_capture": {"graph_calls": "gpu_unfinished"},
    "several_processes": {"vanish": "were launched"},
    "before_the_first_call": {"vanish": "were launched"},
    "forked_child": {"vanish": "were launched", "child": "the child ended with"},
    "exit_in_capture": {"bad_exit": "the worker ended with"},
    "kill_in_capture": {"vanish": "were launched"},
    "queue_cut_in_the_middle": {"queue_silent": "launches in the trace", "queue_double": "launches in the trace",
                                "stop_hangs_queue": "has not returned"},
    "finalize_with_work_in_flight": {"stop_hangs": "has not returned", "no_spin": "no word that CUPTI stays"},
    "stream_capture_in_arm_and_stop": {"capture_breaks": "StreamCaptureInvalidated"},
    "conflicts_both_ways": {"vanish": "were launched"},
    "idle_kineto": {"vanish": "were launched", "uncorrelated": "gpu_unfinished"},
    "durations_and_gaps": {"long_kernel": "the length of TimedKernel", "gap": "the period of one TimedKernel"},
    "overhead_beside_a_kineto": {"slow_ours": "costs more than the other profiler"},
    "first_attach": {"big_gpu": "GPU memory grew", "vanish_calls": "GPU records lost"},
    "stop_with_work_in_flight": {"stop_hangs": "has not returned", "no_spin": "neither in the trace nor counted"},
    "second_subscriber": {"owner": "does not say"},
    "record_buffers": {"vanish": "were launched"},
    "captures_in_a_row": {"wrong_sum": "state differs", "leak_gpu": "gpu_bytes grew", "leak_host": "rss_bytes grew"},
    "captures_with_finalize": {"wrong_sum": "state differs"},
    "step_time_with_finalize": {"slow_after": "after captures"},
    "step_time": {"slow_traced": "during a capture", "slow_after": "after captures"},
    "steps_and_kernels": {"no_gemm": "products for"},
}
# What these expect depends on CUPTI's version: they run as it is on one without the newer functions, too.
ALSO_OF_CUDA_12 = {"second_subscriber"}
# These need CUDA's runtime or a driver: the runner skips them on the fake.
REAL_ONLY = {"unprivileged_user", "no_device_is_reported", "beside_the_runtime", "static_runtime", "named_library",
             "loaded_already", "earlier_major", "train_loop_example", "gpu_counters",
             "torch_without_code", "torch_cuda_graph", "torch_capture_seconds", "torch_profiler_at_once", "torch_compiled", "torch_verdict", "torch_bound",
             "torch_step_time", "jax_without_code", "jax_step_time"}


class EveryCheckIsTested(unittest.TestCase):
    def test_each_check_has_a_fault_or_needs_a_gpu(self):
        self.assertEqual(set(CHECKS), set(FAULTS) | REAL_ONLY)


class Figures(unittest.TestCase):
    """The verdicts over figures, which need no worker."""

    def test_step_time(self):
        even = [(2.0, 2.0), (2.1, 2.1), (1.9, 1.9)]
        self.assertAlmostEqual(expectations.step_time(even, even, even)["during"], 1.0)
        # What both processes share, such as the GPU's clock, is no cost of ours.
        slow_machine = [(4.0, 4.0)] * 3
        expectations.step_time(even, slow_machine, slow_machine)
        with self.assertRaisesRegex(Failed, "during a capture"):
            expectations.step_time(even, [(2.12, 2.0)] * 3, even)
        with self.assertRaisesRegex(Failed, "after captures"):
            expectations.step_time(even, even, [(2.03, 2.0)] * 3)
        expectations.step_time(even, [(2.08, 2.0)] * 3, [(2.01, 2.0)] * 3)

    def test_steady(self):
        limits = {"rss": 10}
        expectations.steady([{"rss": value} for value in (50, 80, 100, 101, 99, 100, 102)], limits, 2)
        with self.assertRaisesRegex(Failed, "rss grew"):
            expectations.steady([{"rss": 100 + 5 * i} for i in range(8)], limits, 2)
        with self.assertRaisesRegex(Failed, "too few"):
            expectations.steady([{"rss": 1}] * 3, limits, 2)


class Runner(unittest.TestCase):
    """What holds a check in its bounds."""

    def test_a_check_that_hangs_is_ended(self):
        work = tempfile.mkdtemp()
        try:
            hangs = os.path.join(work, "hangs")
            with open(hangs, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nexec tail -f /dev/null\n")
            os.chmod(hangs, 0o755)
            result = runner.run_check("known_counts", {**OPTIONS, "capture": hangs}, os.path.join(work, "check"), 0.5)
        finally:
            shutil.rmtree(work)
        self.assertEqual(result["result"], "failed")
        self.assertIn("did not end", result["text"])

    def bundle(self, worker):
        """A bundle whose worker is a shell command."""
        work = tempfile.mkdtemp(prefix="gpu_selftest_")
        self.addCleanup(shutil.rmtree, work)
        os.makedirs(os.path.join(work, "bin"))
        for name, command in (("gpu_worker", worker), ("capture", f'{OPTIONS["capture"]} "$@"')):
            with open(os.path.join(work, "bin", name), "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec {command}\n")
        return runner.flags(root=work, out=os.path.join(work, "out"))

    def report(self, arguments):
        with open(os.path.join(arguments.out, "report.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_no_gpu_is_no_pass(self):
        arguments = self.bundle("sh -c 'echo no CUDA device >&2; exit 3'")
        self.assertEqual(runner.run_all(arguments), runner.NO_GPU)
        self.assertFalse(os.path.exists(os.path.join(arguments.out, "report.json")))

    def test_a_driver_that_is_too_old_is_not_taken_for_no_gpu(self):
        said = "no CUDA device can be used: cudaGetDeviceCount(&count): cudaErrorInsufficientDriver"
        self.assertIn("the NVIDIA driver is older than CUDA 12.0", runner.no_gpu(said, (12, 0), driver=True))
        self.assertIn("the NVIDIA driver is older than CUDA 13.0", runner.no_gpu(said, (13, 0), driver=True))
        self.assertIn("no GPU here", runner.no_gpu(said, (12, 0), driver=False))
        self.assertIn("no GPU here", runner.no_gpu("no CUDA device: cudaErrorNoDevice", (12, 0), driver=True))

    def test_programs_and_libcupti_are_of_a_cuda_that_the_driver_has(self):
        root = tempfile.mkdtemp(prefix="gpu_selftest_")
        self.addCleanup(shutil.rmtree, root)
        self.assertEqual(runner.choose_cuda((12, 4), 0, root), (13, 0))  # a bundle without the others
        os.makedirs(os.path.join(root, "bin12"))
        for version in ("12.0", "12.2", "12.9"):
            os.makedirs(os.path.join(root, "cupti", version))
            with open(os.path.join(root, "cupti", version, "libcupti.so.12"), "w", encoding="utf-8"):
                pass
        for driver, wanted, program, cupti in (((12, 0), 0, "bin12/gpu_worker", "cupti/12.0/libcupti.so.12"),
                                               ((12, 8), 0, "bin12/gpu_worker", "cupti/12.2/libcupti.so.12"),
                                               ((13, 1), 0, "bin/gpu_worker", "lib/libcupti.so.13"),
                                               ((13, 1), 12, "bin12/gpu_worker", "cupti/12.9/libcupti.so.12")):
            cuda = runner.choose_cuda(driver, wanted, root)
            test = fixture.Fixture({"root": root, "work": root, "cuda": cuda})
            self.assertEqual(os.path.relpath(test.binary("gpu_worker"), root), program)
            self.assertEqual(os.path.relpath(test.libcupti, root), cupti)

    def test_a_check_that_the_budget_cuts_has_not_failed(self):
        arguments = self.bundle(f'{" ".join(OPTIONS["fake"])} "$@"')
        with open(os.path.join(arguments.root, "bin", "capture"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec tail -f /dev/null\n")
        arguments.only = "copy_kinds_and_bytes"
        arguments.budget_s = 2
        runner.MIN_LEFT_S, kept = 0.1, runner.MIN_LEFT_S
        self.addCleanup(setattr, runner, "MIN_LEFT_S", kept)
        self.assertEqual(runner.run_all(arguments), 3)
        self.assertEqual(self.report(arguments)["summary"], "0 passed, 0 failed, 1 not run")

    def test_a_worker_that_does_not_start_is_a_failure(self):
        self.assertEqual(runner.run_all(self.bundle("sh -c 'exit 1'")), 1)

    def test_reports_and_exit_codes(self):
        fake = " ".join(OPTIONS["fake"])
        for fault, code, summary in (("", 0, "1 passed, 0 failed"), ("copy_bytes", 1, "0 passed, 1 failed")):
            arguments = self.bundle(f'{fake} --fault={fault} "$@"')
            arguments.only = "copy_kinds_and_bytes"
            self.assertEqual(runner.run_all(arguments), code)
            report = self.report(arguments)
            self.assertEqual(report["summary"], summary)
            self.assertEqual(report["results"][0]["name"], "copy_kinds_and_bytes")
            with open(os.path.join(arguments.out, "report.md"), encoding="utf-8") as file:
                self.assertIn(f"**{summary}**", file.read())
            with tarfile.open(os.path.join(arguments.out, "logs.tar.gz")) as archive:
                self.assertTrue(any(name.endswith("capture.json") for name in archive.getnames()), archive.getnames())
        arguments.budget_s = 0
        self.assertEqual(runner.run_all(arguments), 3)
        self.assertEqual(self.report(arguments)["summary"], "0 passed, 0 failed, 1 not run")
        arguments.only = "no_such_check"
        self.assertEqual(runner.run_all(arguments), 2)


def checks_of(parts):
    cases = [(name, fault, said, {}) for name in parts if name in FAULTS for fault, said in [("", ""), *FAULTS[name].items()]]
    return cases + [(name, "", "", OPTIONS_OF_CUDA_12) for name in parts if name in ALSO_OF_CUDA_12]


def run_case(case):
    name, fault, said, more = case
    work = tempfile.mkdtemp(prefix="gpu_selftest_")
    try:
        result = runner.run_check(name, {**OPTIONS, **more, "fault": fault}, work, 100)
        if not fault:
            return None if result["result"] == "passed" else f"{name}: {result}"
        if result["result"] == "failed" and said in result["text"]:
            return None
        return f"{name} with fault {fault}, expected to fail with {said!r}: {result}"
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main():
    global OPTIONS, OPTIONS_OF_CUDA_12
    bin_dir, cupti, bare, cuda, recorder, pytorch = sys.argv[1:7]
    parts = sys.argv[7:]
    OPTIONS = {
        "root": os.path.dirname(bin_dir),
        "fake": [os.path.join(bin_dir, "gpu_worker_fake"), f"--fake_cupti={cupti}", f"--fake_cuda={cuda}"],
        "capture": os.path.join(bin_dir, "capture"),
        "libcupti": cupti,
        "recorder": recorder,
        "pytorch": pytorch,
        "quick": True,
    }
    OPTIONS_OF_CUDA_12 = {
        "fake": [OPTIONS["fake"][0], f"--fake_cupti={bare}", f"--fake_cuda={cuda}"],
        "libcupti": bare,
        "cuda": [12, 9],
    }
    failed = count = 0
    if "figures" in parts:
        result = unittest.main(argv=["selftest"], exit=False).result
        count = result.testsRun
        failed = len(result.failures) + len(result.errors)
    cases = checks_of(parts)
    # Mostly waiting, for windows and deadlines.
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for case, fault in zip(cases, pool.map(run_case, cases)):
            how = case[1] or ("as it is, CUDA 12" if case[3] else "as it is")
            print(f"{'FAILED' if fault else 'ok':7} {case[0]:26} {how}", flush=True)
            if fault:
                failed += 1
                print(fault[:20000], flush=True)
    unknown = [part for part in parts if part not in FAULTS and part != "figures"]
    if unknown or not parts:
        print(f"no such part: {unknown}")
        return 2
    count += len(cases)
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
