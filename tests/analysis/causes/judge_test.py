# SPDX-License-Identifier: Apache-2.0
"""The judge of the cause suite: it must not take a wrong answer for a right one, nor a busy machine for a wrong answer."""
import unittest

import judge

RANKS = 4


def accounts(**of_rank_2):
    quiet = {"cpu_ms": 3.0, "delay_ms": 1.0}
    return [{**quiet, **(of_rank_2 if rank == 2 else {})} for rank in range(RANKS)]


def report(rank=2, step_class="host", finding="straggler", **verdict):
    workers = [{"name": f"w{one}", "rank": one} for one in range(RANKS)]
    return {
        "workers": workers,
        "verdict": {
            "finding": finding, "workers": [] if rank is None else [f"w{rank}"], "class": step_class, "class_ms": 31.0,
            "class_others_ms": 1.0, "step_ms": 40.0, "mended_step_ms": 10.0, **verdict,
        },
    }  # fmt: skip


class InjectedTest(unittest.TestCase):
    def outcome(self, found, cause="host", of_rank_2=None):
        return judge.injected(cause, 2, 30.0, accounts(**(of_rank_2 or {"cpu_ms": 33.0})), found).outcome

    def test_right(self):
        self.assertEqual(self.outcome(report()), judge.RIGHT)
        self.assertEqual(self.outcome(report(step_class="not_running"), "cpu", {"delay_ms": 31.0}), judge.RIGHT)
        link = report(None, "transfer", "bound")
        self.assertEqual(self.outcome(link, "link", {"cpu_ms": 3.0}), judge.RIGHT)
        asleep = report(step_class="unexplained", asleep_ms=29.0)
        self.assertEqual(self.outcome(asleep, "lock", {"cpu_ms": 3.0}), judge.RIGHT)

    def test_wrong(self):
        self.assertEqual(self.outcome(report(rank=1)), judge.WRONG)
        self.assertEqual(self.outcome(report(rank=None, finding="balanced")), judge.WRONG)
        self.assertEqual(self.outcome(report(step_class="unexplained")), judge.WRONG)
        self.assertEqual(self.outcome(report(step_class="not_running")), judge.WRONG)
        self.assertEqual(self.outcome(report(class_ms=5.0)), judge.WRONG)
        self.assertEqual(self.outcome(report(finding="undecidable")), judge.WRONG)
        self.assertEqual(self.outcome(report(2, "transfer"), "link", {"cpu_ms": 3.0}), judge.WRONG)
        self.assertEqual(self.outcome(report(step_class="unexplained"), "sleep", {"cpu_ms": 3.0}), judge.WRONG)

    def test_a_busy_machine_takes_the_victims_cpu(self):
        busy = {"cpu_ms": 33.0, "delay_ms": 20.0}
        self.assertEqual(self.outcome(report(), of_rank_2=busy), judge.RIGHT)
        self.assertEqual(self.outcome(report(step_class="not_running"), of_rank_2=busy), judge.HALF)
        self.assertEqual(self.outcome(report(1, "not_running"), of_rank_2=busy), judge.WRONG)
        self.assertEqual(self.outcome(report(step_class="input"), of_rank_2=busy), judge.WRONG)

    def test_a_busy_machine_leaves_less_to_take(self):
        """17 of 30 ms were taken, and the report finds 12 of them, or 5."""
        self.assertEqual(self.outcome(report(step_class="not_running", class_ms=13.0), "cpu", {"delay_ms": 18.0}), judge.RIGHT)
        self.assertEqual(self.outcome(report(step_class="not_running", class_ms=6.0), "cpu", {"delay_ms": 18.0}), judge.WRONG)

    def test_a_busy_machine_slows_another(self):
        self.assertEqual(self.outcome(report(), "cpu", {"delay_ms": 5.0}), judge.DISTURBED)
        slowed = accounts(cpu_ms=33.0)
        slowed[0]["delay_ms"] = 40.0
        self.assertEqual(judge.injected("host", 2, 30.0, slowed, report()).outcome, judge.DISTURBED)


class CleanTest(unittest.TestCase):
    def test_nobody_is_blamed(self):
        for finding in ("balanced", "bound"):
            self.assertEqual(judge.clean(accounts(), report(None, finding=finding)).outcome, judge.RIGHT)

    def test_false_alarm(self):
        self.assertEqual(judge.clean(accounts(), report()).outcome, judge.WRONG)
        self.assertEqual(judge.clean(accounts(), report(None, finding="undecidable", why_undecidable="")).outcome, judge.WRONG)

    def test_a_rank_that_was_slower_is_no_false_alarm(self):
        self.assertEqual(judge.clean(accounts(delay_ms=25.0), report()).outcome, judge.DISTURBED)
        self.assertEqual(judge.clean(accounts(delay_ms=25.0), report(rank=1)).outcome, judge.WRONG)


if __name__ == "__main__":
    unittest.main()
