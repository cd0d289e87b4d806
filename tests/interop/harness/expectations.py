# SPDX-License-Identifier: Apache-2.0
"""What every trace of examples/train_loop must hold, for any client."""

from harness import traces

# Scopes of the trainer, of the loader and of the preprocessing threads.
SCOPES = {"train", "forward", "backward", "update", "load_batch", "preprocess"}
THREADS = {"trainer", "loader"}


def check_train_loop_trace(test, path, file_stem=None, whole=True):
    """Parses the file with a real protobuf parser and holds it against the program and against the format's rules.

    `whole`: nothing may be lost, as at an ordinary rate. Returns the trace.
    """
    trace = traces.Trace.load(path)
    test.assertEqual(traces.rule_violations(trace), [], path)
    test.assertEqual(list(trace.space.errors), [])
    test.assertLessEqual(SCOPES, trace.names(), path)
    threads = {name.split("/")[0] for name in trace.lines()}
    test.assertLessEqual(THREADS, threads, path)

    steps = trace.steps()
    test.assertGreaterEqual(len(steps), 3, "no whole steps in the trace")
    numbers = [step.stats["step_num"] for step in steps]
    test.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))), "steps are missing")

    summary = trace.summary()
    test.assertIsNotNone(summary, "the trace has no account of itself")
    test.assertEqual(summary.events, trace.event_count(), "the account and the file differ")
    test.assertEqual(summary.attempted, summary.events + summary.lost + summary.outside)
    if whole:
        test.assertEqual(summary.lost, 0, summary)
    if file_stem is not None:
        test.assertEqual(list(trace.space.hostnames), [file_stem])
    return trace


def check_xprof_shows(test, xprof, path, trace, input_floor):
    """XProf shows the steps, the scopes, the wait for input and the operations that the trace holds.

    `input_floor`: the least part of the step time that the program spent waiting for input.
    """
    steps = trace.steps()
    # XProf leaves out the first and the last of six or more steps.
    shown = [step for step in steps[1:-1]] if len(steps) >= 6 else steps
    overview = xprof.overview([path])
    test.assertEqual([row["stepnum"] for row in overview.step_rows], [f"train {step.stats['step_num']}" for step in shown])
    for row, step in zip(overview.step_rows, shown):
        test.assertAlmostEqual(float(row["stepTimeMs"]), step.duration_ps / 1e9, delta=0.001 + step.duration_ps / 1e11)
    test.assertEqual(overview.environment["host_count"], "1")

    pipeline = xprof.input_pipeline([path])
    test.assertEqual(len(pipeline.steps), len(shown))
    test.assertGreaterEqual(pipeline.input_share(), input_floor)

    operations = {row["operation"] for row in xprof.op_rows([path])}
    for scope in ("forward", "backward", "update"):
        test.assertTrue(any(scope in operation for operation in operations), f"no operation '{scope}' in {operations}")

    viewer = xprof.viewer([path])
    test.assertLessEqual(SCOPES, set(viewer.names))
    for thread in THREADS:
        test.assertTrue(any(name.startswith(thread) for name in viewer.threads), f"no thread '{thread}' in {viewer.threads}")
