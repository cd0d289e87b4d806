#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures of one worker for a long time: what grows, and whether the training computes the same, as fast.

  soak.py PACKAGE [--captures N] [--minutes M] [--pairs P] [--write]

N captures in a row, then M minutes of captures back to back, each second one cancelled at a message of the protocol that chance
chooses, with forks of the worker in between. After each capture: resident memory, descriptors and threads of the worker. A line
is fitted to them by least squares, without the first tenth, in which allocators and thread pools fill. A process without a
server computes the same steps meanwhile: the result must be the same, bit by bit. Before and after, the steps of P pairs of
windows, with a capture and without, are compared (step_pairs.py). --write puts the figures into docs/reliability.md.
Exit code 0: nothing grows, the result is the same, training is not slower.
"""
import argparse
import math
import os
import random
import signal
import statistics
import sys
import threading
import time

import step_pairs

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "docs", "reliability.md")
BEGIN, END = "<!-- soak begin -->", "<!-- soak end -->"
# Growth over a whole phase that is still flat. Memory: as much as the budget of one capture leaves behind. Threads: those that
# gRPC starts when it first needs them.
BOUNDS = {"resident KiB": 4096, "descriptors": 2, "threads": 3}
# Memory of a worker that is captured every five minutes for a year, and the figures that so many captures need to tell it.
YEAR_CAPTURES, YEAR_KIB, YEAR_SAMPLES = 100_000, 64 << 10, 300
STEPS_AHEAD = 2000
MESSAGES = ["arm", "armed", "start", "started", "items", "ack", "summary", "ended"]


def slope(values):
    """(slope per capture, its standard error) of a line by least squares."""
    count = len(values)
    middle, mean = (count - 1) / 2, sum(values) / count
    spread = sum((i - middle) ** 2 for i in range(count))
    steepness = sum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread
    residue = sum((value - mean - steepness * (i - middle)) ** 2 for i, value in enumerate(values))
    return steepness, math.sqrt(residue / max(1, count - 2) / spread)


class Phase:
    """Figures of the worker after each capture."""

    def __init__(self, scene, name):
        self.scene, self.name = scene, name
        self.began = time.monotonic()
        self.samples = []
        self.took_s = 0.0

    def sample(self):
        threads, descriptors, kib = self.scene.usage()
        self.samples.append((kib, descriptors, threads))
        self.took_s = time.monotonic() - self.began

    def rows(self):
        """(figure, median of its first and last tenth, slope, error, whether it is flat)."""
        kept = self.samples[len(self.samples) // 10 :]
        for figure, values in zip(BOUNDS, zip(*kept)):
            per_capture, error = slope(values)
            # What is certain of the growth, over all captures of the phase.
            flat = (per_capture - 2 * error) * len(kept) <= BOUNDS[figure]
            if figure == "resident KiB" and len(kept) >= YEAR_SAMPLES:
                flat = flat and (per_capture + 2 * error) * YEAR_CAPTURES <= YEAR_KIB
            tenth = max(1, len(values) // 10)
            first, last = statistics.median(values[:tenth]), statistics.median(values[-tenth:])
            yield figure, first, last, per_capture, error, flat


def in_a_row(scene, captures):
    phase = Phase(scene, f"{captures} captures in a row")
    for _ in range(captures):
        client = scene.capture(50, "--num_tracing_attempts=20", logdir=scene.fresh_logdir())
        if client.code != 0:
            raise AssertionError(f"capture {len(phase.samples)}: exit {client.code}: {client.worker.get('reason')} {client.errors}")
        phase.sample()
    return phase


def with_cancels(scene, minutes, chance):
    from scene import HANG_S, Client

    phase = Phase(scene, f"{minutes:g} minutes of captures, cancels and forks")
    cancels = forks = 0
    while time.monotonic() < phase.began + 60 * minutes:
        cancelled = chance.random() < 0.5
        started, client = threading.Event(), []
        if cancelled:
            cancels += 1
            how = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])

            def cancel(number=how, of=client, ready=started):
                ready.wait(HANG_S)
                of[0].process.send_signal(number)

            scene.link.stop_at(chance.choice(MESSAGES), cancel, hold=False)
        client.append(Client(scene, 100, "--num_tracing_attempts=50", logdir=scene.fresh_logdir()))
        started.set()
        if chance.random() < 0.3:
            forks += 1
            code = scene.ask("fork", chance.choice(["exec", "exit", "_exit"]))
            if code != 0:
                raise AssertionError(f"a forked child ended with {code}")
        client[0].finish()
        scene.link.release()
        if not cancelled and client[0].code != 0:
            raise AssertionError(f"exit {client[0].code}: {client[0].worker.get('reason')} {client[0].errors}")
        phase.sample()
    phase.name += f" ({len(phase.samples)} captures, {cancels} cancelled, {forks} forks)"
    return phase


def ask(workers, *words):
    """What each of them answers."""
    for worker in workers:
        worker.process.stdin.write(" ".join(map(str, words)) + "\n")
        worker.process.stdin.flush()
    return [worker.hear()["done"] for worker in workers]


def compare_training(captured, alone):
    """What both say of their training after the same number of steps, which both have yet to make."""
    at = max(ask([captured, alone], "steps")) + STEPS_AHEAD
    of_both = ask([captured, alone], "result", at)
    if {said["steps"] for said in of_both} != {at}:
        raise AssertionError(f"asked for the result of {at} steps: {of_both}")
    return of_both


def step_pairs_of(scene, alone, pairs):
    """Step times of the captured worker and of the one alone, in windows with a capture and without."""
    both = [scene.worker, alone]

    def window(passes):
        ask(both, "step_times")  # of the time before
        passes()
        return step_pairs.relative(*ask(both, "step_times"))

    def capture():
        client = scene.capture(step_pairs.WINDOW_MS, "--num_tracing_attempts=20", logdir=scene.fresh_logdir())
        if client.code != 0:
            raise AssertionError(f"exit {client.code}: {client.worker.get('reason')} {client.errors}")

    return step_pairs.measure(lambda: window(capture), lambda: window(lambda: time.sleep(step_pairs.WINDOW_MS / 1000)), pairs)


def table(phases):
    lines = ["| phase | figure | median of the first tenth | of the last tenth | per capture, by least squares |\n|---|---|---|---|---|\n"]
    for phase in phases:
        for figure, first, last, per_capture, error, _ in phase.rows():
            lines.append(f"| {phase.name} | {figure} | {first:.0f} | {last:.0f} | {per_capture:+.3f} ± {error:.3f} |\n")
    lines.append(
        f"\nThe soak fails if a phase certainly adds more than {BOUNDS['resident KiB'] >> 10} MiB, {BOUNDS['descriptors']} descriptors or "
        f"{BOUNDS['threads']} threads,\nor if {YEAR_CAPTURES:,} captures, one every five minutes for a year, would add more than "
        f"{YEAR_KIB >> 10} MiB at the slope plus two errors.\n"
    )
    return "".join(lines)


def write(text):
    with open(DOCUMENT, encoding="utf-8") as file:
        document = file.read()
    before, rest = document.split(BEGIN)
    with open(DOCUMENT, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n" + text + END + rest.split(END)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--captures", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    os.environ["JOBSCOPE_TEST_PACKAGE"] = os.path.abspath(options.package)
    os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(os.path.abspath(options.package)), os.path.join(HERE, "..", "python"), HERE])
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "python")]
    import workers
    from scene import Scene

    scene = Scene(worker="compute")
    # The same training without a server, at the same time: any process that else uses the machine slows down both.
    alone = workers.Worker(os.path.join(HERE, "fault_workers.py"), "compute_alone")
    for worker in (scene.worker, alone):
        worker._timer.cancel()  # it lives as long as the soak
    try:
        before = step_pairs_of(scene, alone, options.pairs)
        phases = [in_a_row(scene, options.captures), with_cancels(scene, options.minutes, random.Random(14))]
        scene.idle()
        after = step_pairs_of(scene, alone, options.pairs)
        captured, uncaptured = compare_training(scene.worker, alone)
    finally:
        alone.__exit__()
        scene.close()
    same = captured["digest"] == uncaptured["digest"]
    times, speed = step_pairs.compare(before, after)
    text = table(phases) + (
        f"\nResult of {captured['steps']:,} training steps: {'the same' if same else 'NOT THE SAME'} with and without captures, bit by bit.\n\n{times}"
    )
    print(text)
    grown = [f"{phase.name}: {row[0]}" for phase in phases for row in phase.rows() if not row[5]]
    print(f"soak: grown: {', '.join(grown) or 'nothing'}; training {speed or 'not compared'}; {sum(phase.took_s for phase in phases):.0f} s")
    fine = same and speed != step_pairs.SLOWER and not grown
    if options.write and fine:
        write(text)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
