# SPDX-License-Identifier: Apache-2.0
"""Samples of a loop whose shares are known, taken by the tracer and by py-spy. Run by tools/venv.sh.

py_spy_test.py --loop WORK_MS REST_MS      the loop, which py-spy starts; prints the share of its time in which it worked
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import machine
import tracer_test

LOOPS_MS = ((3, 3), (1, 4))


def run_loop(work_ms, rest_ms):
    loop = tracer_test.Loop(float(work_ms), float(rest_ms), start=False, seconds=2.0)
    loop.run()
    print("share", loop.spent["working"] / sum(loop.spent.values()))


class PySpyTest(unittest.TestCase):
    def py_spy_shares(self, work_ms, rest_ms):
        """The share of samples in which the loop works, the share of its time that it measured itself, and the number of samples."""
        with tempfile.TemporaryDirectory() as scratch:
            stacks = pathlib.Path(scratch) / "stacks"
            py_spy = pathlib.Path(sys.executable).parent / "py-spy"
            done = subprocess.run([py_spy, "record", "--rate=1000", "--idle", "--format=raw", f"--output={stacks}", "--", sys.executable, "-B",
                                   __file__, "--loop", str(work_ms), str(rest_ms)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout)
            text = stacks.read_text(encoding="utf-8")
        seen = {name: sum(int(count) for count in re.findall(rf";{name} \([^;\n]*\) (\d+)$", text, re.MULTILINE)) for name in ("working", "resting")}
        samples = sum(seen.values())
        return seen["working"] / samples, float(re.search(r"^share (\S+)$", done.stdout, re.MULTILINE)[1]), samples

    @machine.again_if_busy(0.5)
    def test_shares(self):
        if tracer_test.LINUX < (6, 12):
            self.skipTest("this kernel lets a sampler wait for the turn of the program")
        for work_ms, rest_ms in LOOPS_MS:
            ours, known = tracer_test.TracerTest().shares(1, work_ms, rest_ms)
            theirs, known_to_theirs, samples = self.py_spy_shares(work_ms, rest_ms)
            print(f"{work_ms} ms of work, {rest_ms} ms of rest: works {known:.1%} of its time, jobscope {ours:.1%};"
                  f" beside py-spy {known_to_theirs:.1%}, py-spy {theirs:.1%} of {samples} samples")  # fmt: skip
            self.assertLessEqual(abs(ours - known), 0.05)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--loop"]:
        run_loop(*sys.argv[2:])
    else:
        unittest.main(verbosity=2)
