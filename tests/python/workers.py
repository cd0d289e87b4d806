# SPDX-License-Identifier: Apache-2.0
"""Workers that use the package, started by tests."""
import glob
import os
import subprocess
import sys
import unittest

import line_process

tell = line_process.tell
wait = line_process.wait
until = line_process.until

PACKAGE = os.environ.get("JOBSCOPE_TEST_PACKAGE", "")
CLIENT = os.path.join(PACKAGE, "bin", "capture")
# Time limit of one worker and of one client.
DEADLINE_S = 120


class Worker(line_process.Worker):
    deadline_s = DEADLINE_S

    def finish(self):
        """Waits for the end; the exit code."""
        return self.wait_for_end()


def run_client(*arguments, name="capture"):
    """The C++ client, as the console script runs it: (exit code, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", f"from jobscope import _programs; _programs.{name}()", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def other_pythons():
    """Interpreters of other versions that are installed here, as deploy and pyenv install them."""
    candidates = {}
    patterns = ("/usr/bin/python3.[0-9]*", os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):
        if path.endswith("-config"):
            continue
        script = "import sys, sysconfig; print(sys.version_info[1], bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
        done = subprocess.run([path, "-c", script], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            minor, free_threaded = done.stdout.split()
            if int(minor) >= 10 and int(minor) != sys.version_info[1] and free_threaded == "False":
                candidates[int(minor)] = path
    return candidates


def main(namespace):
    line_process.main(namespace, lambda: unittest.main(verbosity=2))
