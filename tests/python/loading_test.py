# SPDX-License-Identifier: Apache-2.0
"""Calls of jobscope while another thread loads a library whose constructor waits for the GIL."""
import os
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.environ.get("JOBSCOPE_TEST_SLOW_LIBRARY", "")

# The constructor ends when another thread has got the GIL, a second after the call that is tested has begun: a call that
# waits for the loader with the GIL held waits for ever.
PROGRAM = """
import ctypes, os, signal, subprocess, sys, threading
import jobscope
here, here_writer = os.pipe()
until, until_writer = os.pipe()
later, later_writer = os.pipe()
os.environ["JOBSCOPE_TEST_PIPES"] = f"{here_writer} {until}"
load = ctypes.CDLL(None).dlopen
threading.Thread(target=load, args=(sys.argv[1].encode(), os.RTLD_NOW)).start()
os.read(here, 1)
subprocess.Popen(["sleep", "1"], stdout=later_writer)
os.close(later_writer)
def release():
    os.read(later, 1)
    os.close(until_writer)
threading.Thread(target=release).start()
signal.alarm(60)
exec(sys.argv[2])
"""


@unittest.skipUnless(os.path.exists(LIBRARY), "the slow library is not built here")
class LoadingTest(unittest.TestCase):
    def run_beside(self, call):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-B", "-c", PROGRAM, LIBRARY, call], cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_name_of_a_thread(self):
        self.run_beside("jobscope.set_thread_name('main')")

    def test_steps(self):
        self.run_beside("for i in range(100): jobscope.step(i)")

    def test_a_capture(self):
        self.run_beside("jobscope.start('.', frameworks='none'); jobscope.stop()")

    def test_a_provider(self):
        self.run_beside("jobscope.register_provider('mine', lambda session: None)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
