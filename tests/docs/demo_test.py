# SPDX-License-Identifier: Apache-2.0
"""Runs examples/demo.sh, which `make demo` runs, and compares what it prints with docs/demo.md and README.md.

  demo_test.py BUILD_DIRECTORY
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import documents
import machine

BUILD = pathlib.Path()
DEADLINE_S = 120
# The client tells its progress on stderr, a few times per second.
PROGRESS = re.compile(r"^(connecting|arming|recording|collecting|writing) .*\n", re.MULTILINE)


def words(transcript):
    """What stays the same from one run to the next, however wide the columns are: words, with the numbers and their units blanked."""
    text = PROGRESS.sub("", transcript)
    text = re.sub(r"/\S+(?=/build/demo)", "DIRECTORY", text)
    text = re.sub(r"(?<=  idle   native    )(\S+ +)\S+", r"\1HOST", text)
    text = re.sub(r"\S+(?=/train_loop\.cc:)", "SOURCES", text)
    text = re.sub(r"\d[\d,.]*", "N", text)
    text = re.sub(r"\bN (B|KiB|MiB)\b", "N BYTES", text)
    text = re.sub(r"\bN (ns|us|ms|s)\b", "N SECONDS", text)
    # Workers that have hardly run have no step time, and where none has one, the table has no column for it.
    text = re.sub(r" STEP TIME\b|(?<= HOST N N) N SECONDS\b", "", " ".join(text.split()))
    return text.split()


class Demo(unittest.TestCase):
    def run_demo(self):
        """Its output, and the addresses of its workers."""
        with tempfile.TemporaryDirectory(prefix="jobscope-demo-") as scratch:
            # The folders that the Makefile names, so that the output names them, too.
            (pathlib.Path(scratch) / "build").mkdir()
            (pathlib.Path(scratch) / "build" / "bin").symlink_to(BUILD / "bin")
            done = subprocess.run([documents.ROOT / "examples" / "demo.sh", "build/bin", "build/demo"], cwd=scratch, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE_S)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        addresses = re.search(r"capture check --service_addr=(\S+),(\S+)$", done.stdout, re.MULTILINE)
        self.assertIsNotNone(addresses, done.stdout)
        return done.stdout, addresses.groups()

    @machine.again_if_busy(0.5, most_tries=10, then_skip=True)  # where workers lack processors, the report says that instead
    def test_prints_what_its_page_shows(self):
        output, (_, slow) = self.run_demo()
        verdict = next(line for line in output.splitlines() if line.startswith("VERDICT"))
        self.assertRegex(verdict, f"^VERDICT  {re.escape(slow.replace(':', '_'))} is slow: .*input-bound: input [\\d.]+ ms")
        command, transcript = documents.block("docs/demo.md", "console", "$ make demo").text.split("\n", 1)
        self.assertEqual(command, "$ make demo")
        self.assertEqual(words(output), words(transcript), output)
        self.assertTrue(transcript.endswith(documents.block("README.md", "text", "is slow").text))

    def test_make_runs_it(self):
        """The commands of the README, as far as a test of `make test` may go."""
        recipes = {}
        # As a user's shell runs them: a make that another make has started, such as that of `make test`, also prints its directory.
        shell = {name: value for name, value in os.environ.items() if name not in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")}
        for line in documents.block("README.md", "sh", "make demo").text.splitlines():
            command = line.partition("#")[0].split()
            recipes[" ".join(command)] = subprocess.run(
                [*command, "--dry-run"], cwd=documents.ROOT, env=shell, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE_S
            ).stdout.splitlines()
        self.assertEqual(recipes["make demo"][-1], "examples/demo.sh build/bin build/demo")
        self.assertTrue(recipes["make test"][-1].startswith("ctest "), recipes["make test"])


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
