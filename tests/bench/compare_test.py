# SPDX-License-Identifier: Apache-2.0
"""bench/compare.py: distinguishes what got worse from noise. Run by tools/venv.sh, where scipy is."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

COMPARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "compare.py")


def result(values, name="overhead", better="lower"):
    return {"name": name, "unit": "s", "own": values, "stock": [], "better": better}


class CompareTest(unittest.TestCase):
    def compare(self, before, after, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, data in (("before", before), ("after", after)):
                paths.append(os.path.join(folder, name + ".json"))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write(data if isinstance(data, str) else json.dumps(data))
            done = subprocess.run([sys.executable, COMPARE, *paths, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def verdicts(self, out):
        rows = [line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("| ")]
        return {row[0]: row[-1] for row in rows[1:]}

    def test_worse_better_same_and_too_few(self):
        before = {"results": [
            result([1.0, 1.1, 1.2, 1.3, 1.4], "slower"), result([2.0, 2.1, 2.2, 2.3, 2.4], "quicker"),
            result([1.0, 2.0, 3.0, 4.0, 5.0], "noise"), result([1.0, 1.1], "few"), result([5.0] * 5, "events", "higher"),
            result([5.0] * 5, "gone"),
        ]}  # fmt: skip
        after = {"results": [
            result([2.0, 2.1, 2.2, 2.3, 2.4], "slower"), result([1.0, 1.1, 1.2, 1.3, 1.4], "quicker"),
            result([1.5, 2.5, 3.5, 4.5, 5.5], "noise"), result([9.0, 9.1], "few"), result([4.0] * 5, "events", "higher"),
        ]}  # fmt: skip
        code, out, _ = self.compare(before, after)
        self.assertEqual(code, 1)
        self.assertEqual(self.verdicts(out), {
            "slower [s]": "worse", "quicker [s]": "better", "noise [s]": "same", "few [s]": "too few values",
            "events [s]": "worse", "gone [s]": "only in one of them",
        })  # fmt: skip
        self.assertIn("compare: 2 of 5 figures got worse", out)
        self.assertEqual(self.compare(before, before)[0], 0)
        self.assertEqual(self.compare(before, after, "--least=9")[0], 0)

    def test_google_benchmark(self):
        def run(times, unit):
            return {"benchmarks": [{"run_name": "BM", "run_type": "iteration", "cpu_time": one, "time_unit": unit} for one in times] + [
                {"run_name": "BM", "run_type": "aggregate", "cpu_time": 7e9, "time_unit": unit}]}  # fmt: skip

        self.assertEqual(self.compare(run([10, 11, 12, 13], "ns"), run([0.010, 0.011, 0.012, 0.013], "us"))[0], 0)
        self.assertEqual(self.compare(run([10, 11, 12, 13], "ns"), run([20, 21, 22, 23], "ns"))[0], 1)

    def test_a_time_that_the_benchmark_measures_itself(self):
        def run(times):
            return {"benchmarks": [{"run_name": "BM/manual_time", "run_type": "iteration", "cpu_time": 7, "real_time": one,
                                    "time_unit": "ms"} for one in times]}  # fmt: skip

        self.assertEqual(self.compare(run([10, 11, 12, 13]), run([20, 21, 22, 23]))[0], 1)

    def test_what_a_scope_costs_above_its_baseline(self):
        def run(scope):
            times = {"TwoTickReads": [100.0] * 4, "Scope": [100 + scope + i / 100 for i in range(4)]}
            return {"benchmarks": [{"run_name": name, "cpu_time": one, "time_unit": "ns"} for name in times for one in times[name]]}

        code, out, _ = self.compare(run(2), run(4))  # 2 % of the scope's time, and twice its cost
        self.assertEqual(code, 1, out)
        self.assertEqual(self.verdicts(out), {"TwoTickReads": "same", "Scope": "same", "Scope, above TwoTickReads": "worse"})

    def test_what_cannot_be_compared(self):
        good = {"results": [result([1.0])]}
        for bad in ("", "[1", "[]", '{"results": [{}]}'):
            code, _, errors = self.compare(good, bad)
            self.assertEqual((code, errors.count("compare: ")), (2, 1), errors)
            self.assertIn("after.json", errors)
        code, _, errors = self.compare(good, {"results": [result([1.0], "other")]})
        self.assertEqual(code, 2)
        self.assertIn("no figure in common", errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
