# SPDX-License-Identifier: Apache-2.0
"""Whether `jobscope report` is right, judged by the ranks' own accounts (rank.py). Pure functions.

A machine that is busy with something else slows ranks, too. If by the ranks' accounts it slowed another rank about as much as the
cause slowed its victim, the run is `disturbed`, and proves nothing, whatever the answer is. If it took CPU time from the victim, an
answer that says so is true as well: it proves the rank, and is `half` a proof.
"""
import dataclasses
import statistics

# Causes, and the class of the report's answer. `cpu` comes from processes on the rank's CPU, `link` from a delay of what it sends:
# then all ranks are as long in the collective, and none of them is the straggler.
CLASSES = {
    "loader": "input", "host": "host", "gc": "garbage_collection", "cpu": "not_running", "sleep": "unexplained", "lock": "unexplained",
    "link": "transfer", "compile": "compilation",
}  # fmt: skip
# Share of the injected time that the report must find.
MIN_FOUND = 0.5
# Another cause, as a part of the injected one, from which on a run is disturbed.
DISTURBS = 0.5

RIGHT, HALF, WRONG, DISTURBED = "right", "half", "wrong", "disturbed"


@dataclasses.dataclass
class Judgement:
    outcome: str
    note: str = ""


def _awake_ms(account):
    """What a rank that does not suffer from a sleep has of its own: it computes, or wants to."""
    return account["cpu_ms"] + account["delay_ms"]


def _excess_ms(values, rank):
    """Of one rank above the median of the others."""
    return values[rank] - statistics.median(values[:rank] + values[rank + 1 :])


def taken_ms(victim, accounts):
    """CPU that others took from the victim, more than from the other ranks."""
    return _excess_ms([account["delay_ms"] for account in accounts], victim)


def disturbance(cause, victim, ms, accounts):
    """What slowed another rank about as much as the cause slowed its victim; None: nothing did."""
    own = [_awake_ms(account) for account in accounts]
    if cause == "cpu" and taken_ms(victim, accounts) < ms * MIN_FOUND:
        return f"only {taken_ms(victim, accounts):.1f} ms of CPU were taken from rank {victim}"
    for rank in range(len(accounts)):
        if rank != victim and _excess_ms(own, rank) > DISTURBS * ms:
            return f"others on the machine slowed rank {rank} by {_excess_ms(own, rank):.1f} ms"
    return None


def _blamed(verdict, report):
    ranks = {worker["name"]: worker["rank"] for worker in report["workers"]}
    return [ranks[name] for name in verdict["workers"]]


def injected(cause, victim, ms, accounts, report):
    """Judges the answer for a run in which `victim` suffered from `cause`, `ms` per step."""
    disturbed = disturbance(cause, victim, ms, accounts)
    if disturbed:
        return Judgement(DISTURBED, disturbed)
    verdict, wanted = report["verdict"], CLASSES[cause]
    taken = 0 if cause == "cpu" else taken_ms(victim, accounts)
    # Of the CPU, a busy machine gives the taking processes less than they want.
    to_find_ms = taken_ms(victim, accounts) if cause == "cpu" else ms
    outcome = HALF if taken > DISTURBS * ms and verdict.get("class") == CLASSES["cpu"] else RIGHT
    if cause == "link":
        faults = [] if verdict["finding"] == "bound" and not verdict["workers"] else ["blames ranks for the link between them"]
    else:
        faults = [] if verdict["finding"] == "straggler" and _blamed(verdict, report) == [victim] else ["blames another one, or none"]
    if outcome == HALF:
        wanted = CLASSES["cpu"]
    if verdict.get("class") != wanted:
        faults.append(f"class {verdict.get('class')} instead of {wanted}")
    elif verdict["class_ms"] - verdict.get("class_others_ms", 0) < MIN_FOUND * to_find_ms:
        faults.append(f"finds {verdict['class_ms']:.1f} ms of {to_find_ms:.1f} ms")
    if verdict.get("class") == "unexplained" and verdict.get("asleep_ms", 0) < MIN_FOUND * ms:
        faults.append("does not say that the thread sleeps")
    note = f"others took {taken:.1f} ms of CPU from it" if outcome == HALF else ""
    return Judgement(WRONG, "; ".join(faults)) if faults else Judgement(outcome, note)


def clean(accounts, report):
    """Judges the answer for a run without a cause: it must blame nobody, unless a rank really was slower by its own account."""
    verdict = report["verdict"]
    if verdict["finding"] == "undecidable":
        return Judgement(WRONG, verdict["why_undecidable"])
    if not verdict["workers"]:
        return Judgement(RIGHT)
    own = [_awake_ms(account) for account in accounts]
    claimed_ms = verdict["step_ms"] - verdict["mended_step_ms"]
    for rank in _blamed(verdict, report):
        if _excess_ms(own, rank) < MIN_FOUND * claimed_ms:
            return Judgement(WRONG, f"false alarm: rank {rank} was slower by {_excess_ms(own, rank):.1f} ms of {claimed_ms:.1f} ms")
    return Judgement(DISTURBED, "the blamed rank did compute or wait for a CPU for longer")
