#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the newest wheel of a directory into a fresh environment, and uses it like a user.

  python/try_wheel.py DIRECTORY

Captures two training loops with the console script `capture`: one that starts its server, and one without jobscope that
is run by `jobscope run`. Needs a Python with venv and ensurepip, and no network. Exit code 0: both traces are complete.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

DEADLINE_S = 60

OWN_SERVER = """
import jobscope
print(jobscope.start_server("127.0.0.1:0").address, flush=True)
step = 0
while True:
    with jobscope.step(step), jobscope.trace("work", step=step):
        sum(range(10000))
    step += 1
"""
NO_CODE = "while True: sum(range(10000))\n"


def fail(text):
    sys.exit(f"try_wheel: {text}")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **options)
    if done.returncode != 0:
        fail(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def capture(venv, address, logdir):
    """Returns the collectors of the only worker, by name."""
    answer = json.loads(run(f"{venv}/bin/capture", f"--service_addr={address}", "--duration_ms=300", f"--logdir={logdir}", "--json"))
    (worker,) = answer["workers"]
    if worker["outcome"] != "ok" or not glob.glob(os.path.join(answer["run_directory"], "*.xplane.pb")):
        fail(f"the capture of {address} is {worker['outcome']}: {worker.get('reason')}")
    return {collector["name"]: collector for collector in worker["collectors"]}


def address_in(directory):
    """Waits for the port file of `jobscope run`'s worker and returns its content."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        for path in glob.glob(os.path.join(directory, "*.addr")):
            with open(path, encoding="utf-8") as file:
                if text := file.read().strip():
                    return text.splitlines()[0]
        time.sleep(0.02)
    return fail("no worker of `jobscope run` has written its address")


def main():
    if len(sys.argv) != 2:
        fail("usage: try_wheel.py DIRECTORY")
    wheels = sorted(glob.glob(os.path.join(sys.argv[1], "jobscope-*.whl")), key=os.path.getmtime)
    if not wheels:
        fail(f"no wheel in {sys.argv[1]}: python/build_wheel.sh builds one")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JOBSCOPE_", "PYTHON"))}
    with tempfile.TemporaryDirectory(prefix="jobscope-wheel-") as folder:
        venv, logdir, ports = (os.path.join(folder, name) for name in ("venv", "logdir", "ports"))
        os.mkdir(ports)
        run(sys.executable, "-m", "venv", venv)
        run(f"{venv}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheels[-1])
        for name, command, variables in (
            ("start_server", (f"{venv}/bin/python", "-c", OWN_SERVER), {}),
            ("jobscope run", (f"{venv}/bin/jobscope", "run", "--", f"{venv}/bin/python", "-c", NO_CODE), {"JOBSCOPE_PORT_DIR": ports}),
        ):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**environment, **variables})
            try:
                address = address_in(ports) if variables else process.stdout.readline().strip()
                collectors = capture(venv, address, os.path.join(logdir, name.replace(" ", "_")))
            finally:
                process.terminate()
                process.wait(DEADLINE_S)
            host = collectors["host"]
            if host["state"] != "on" or (not variables and host.get("events", 0) == 0):
                fail(f"{name}: the host collector says {host}")
            print(f"try_wheel: {name}: captured {address}, {sum(c.get('events', 0) for c in collectors.values())} events")
    print(f"try_wheel: {os.path.basename(wheels[-1])} works")


if __name__ == "__main__":
    main()
