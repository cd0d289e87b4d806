#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The load generator at a low rate is quiet: a crowd of such workers measures the workers, not the generator.

usage: flood_worker_test.py FLOOD_WORKER
"""
import os
import subprocess
import sys
import time


def switches(pid):
    """Voluntary context switches so far of the thread that records."""
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as status:
                fields = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if fields["Name"] == "flood_worker" and int(task) != pid:  # the other threads have names of their own
            return int(fields["voluntary_ctxt_switches"])
    return None


def wait_until(condition, worker):
    while not condition():
        # Polls each time: /proc keeps the task of an ended process until its parent has waited for it.
        if worker.poll() is not None:
            sys.exit(f"the worker ended with {worker.returncode}")
        time.sleep(0.02)


def main(program):
    command = [program, "--listen=127.0.0.1:0", "--threads=1", "--scopes_per_second=20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        try:
            worker.stdout.readline()
            wait_until(lambda: switches(worker.pid) is not None, worker)
            begin, first = time.monotonic(), switches(worker.pid)
            wait_until(lambda: (switches(worker.pid) or 0) >= first + 20, worker)
            # On a busy machine this process reads its clock late, which only lowers the rate.
            last, elapsed = switches(worker.pid), time.monotonic() - begin
        finally:
            worker.terminate()
    rate = (last - first) / elapsed
    print(f"{rate:.1f} wake-ups per second")
    assert rate < 60, "it wakes up more than it records"


if __name__ == "__main__":
    main(sys.argv[1])
