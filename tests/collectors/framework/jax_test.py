# SPDX-License-Identifier: Apache-2.0
"""The real JAX in programs that know nothing of us, and in one with marks of ours: its own events in our traces.

Run by tools/venv.sh.
"""
import os
import re
import statistics

import foreign_case
from foreign_case import attached, xspace

TRAIN = foreign_case.OBEY + """
import time
import jax, jax.numpy as jnp

@jax.jit
def normalize(x):
    return x / (1 + jnp.abs(x).max())

@jax.jit
def update(w, x):
    return w - 1e-3 * jax.grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w)

def on_start_trace(folder):
    jax.profiler.start_trace(folder)
    return "traces"

def on_stop_trace(folder):
    jax.profiler.stop_trace()
    return sum(len(files) for _, _, files in os.walk(folder))

def on_try_a_session(_):
    "Not as a program does, which would end ours."
    from jaxlib import _profiler
    session = getattr(_profiler.ProfilerSession, "__wrapped__", _profiler.ProfilerSession)
    return len(session(_profiler.ProfileOptions()).stop()) > 0

from jax.profiler import start_trace, stop_trace

def on_trace_by(argument):
    "Traces itself, in one of the ways of JAX's API; how many traces it got."
    way, folder = argument.split()
    if way == "start_trace":
        start_trace(folder)
        update(w, x).block_until_ready()
        stop_trace()
    else:
        with jax.profiler.trace(folder):
            update(w, x).block_until_ready()
    return sum(name.endswith(".xplane.pb") for _, _, files in os.walk(folder) for name in files)

def on_recompile(size):
    other = jnp.ones((int(size), int(size)))
    update(other, other).block_until_ready()
    return "compiled"

def on_start_server(port):
    jax.profiler.start_server(int(port))
    return "serves"

w = jnp.ones((256, 256))
x = jnp.ones((256, 256))
small = normalize(jnp.ones(8))
w = update(w, x).block_until_ready()
PRELUDE
threading.Thread(target=obey, daemon=True).start()
print("up", flush=True)
i = 0
while running:
    begin = time.perf_counter()
    LOOP
    times.append(time.perf_counter() - begin)
    i += 1
"""
PLAIN = "small = normalize(normalize(small)); w = update(w, x).block_until_ready()"
MARKED = """
    with jax.profiler.StepTraceAnnotation("theirs", step_num=i):
        with jobscope.step(1000 + i):
            with jobscope.trace("updating"):
                w = update(w, x).block_until_ready()
"""
CALL = "PjitFunction(update)"


class JaxTest(foreign_case.ForeignCase):
    collector = "jax"
    program = TRAIN.replace("PRELUDE", "").replace("LOOP", PLAIN)

    def test_compilations(self):
        names = self.compilations()
        self.assertTrue(names & {"backend_compile", "backend_compile_and_load"}, names)

    @attached.harness.again_if_busy(0.5)
    def test_events_steps_and_xprof(self):
        worker, jax, files = self.capture("--duration_ms=500")
        self.assertEqual(jax["state"], "on", jax)
        self.assertEqual(worker["lost"], 0, worker)
        self.assertGreater(jax["events"], 100)
        events = self.host_events(files)
        calls = xspace.named(events, CALL)
        self.assertGreater(len(calls), 10)
        # On the line of the thread that called, by its name and id.
        self.assertEqual({call.line for call in calls}, {f"python/{self.worker_pid()}"})
        compiled = [event for event in events if event.stats.get("hlo_module") == "jit_update"]
        self.assertGreater(len(compiled), 10)

        steps = self.steps(events)
        self.assertEqual({step.name for step in steps}, {"JAX step"})
        self.assertEqual({step.stats["inferred_from"] for step in steps}, {CALL})
        self.assertGreaterEqual(len(calls), len(steps))
        self.assertEqual(worker["steps"], len(steps))
        self.assertEqual((worker["steps_inferred"], worker["steps_source"]), (True, CALL))
        self.assertIn(CALL, " ".join(worker["warnings"]))
        numbers = [step.stats["step_num"] for step in steps]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(steps))))
        self.assert_nested([event for event in events if event.line in {step.line for step in steps}])

        with open(files[0], "rb") as file:
            module = re.search(rb"jit_update\(\d+\)", file.read()).group(0).decode()
        graph = {"module_name": module, "type": "short_txt", "node_name": "", "graph_width": 3, "show_metadata": False,
                 "merge_fusion": False, "format": "html"}  # fmt: skip
        found = self.xprof(
            files, "overview_page", "trace_viewer", "memory_viewer", "graph_viewer",
            module_name=module, graph_viewer_options=graph,
        )  # fmt: skip
        self.assertIn("HloModule jit_update", found["graph_viewer"])
        self.assertIn("maxHeap", found["memory_viewer"])
        self.assertLessEqual({"memory_viewer", "graph_viewer", "overview_page"}, set(found[""]))
        properties, rows = foreign_case.step_rows(found["overview_page"])
        self.assertGreater(rows, 5)
        mean_ms = statistics.mean(step.duration_ps for step in steps) / 1e9
        self.assertAlmostEqual(float(properties["steptime_ms_average"]), mean_ms, delta=0.3 * mean_ms)
        shown = {event["name"] for event in found["trace_viewer"]["traceEvents"] if event.get("ph") == "X"}
        self.assertIn(CALL, shown)

    def worker_pid(self):
        """Of the program, which `jobscope run` became."""
        return self.worker.pid

    def test_captures_in_a_row(self):
        for _ in range(5):
            _, jax, files = self.capture_iterations()
            self.assertEqual(jax["state"], "on", jax)
            self.assertTrue(xspace.named(self.host_events(files), CALL))

    @attached.harness.again_if_busy(0.5)
    def test_choice_and_level(self):
        _, jax, files = self.capture("--duration_ms=50", "--frameworks=none")
        self.assertEqual(jax["state"], "off")
        self.assertEqual(xspace.named(self.host_events(files), CALL), [])
        _, jax, _ = self.capture("--duration_ms=50", "--host_tracer_level=0")
        self.assertEqual(jax["state"], "off")
        _, jax, files = self.capture("--duration_ms=50", "--frameworks=jax", "--host_tracer_level=1")
        self.assertEqual(jax["state"], "on")
        self.assertTrue(xspace.named(self.host_events(files), CALL))

    def test_the_programs_own_trace(self):
        folder = os.path.join(self.folder, "theirs")
        self.assertEqual(self.worker.ask(f"start_trace {folder}"), "traces")
        worker, jax, _ = self.capture("--duration_ms=100")
        self.assertEqual((worker["outcome"], jax["state"]), ("ok", "failed"), jax)
        self.assertIn("jax.profiler.start_trace", jax["reason"])
        self.assertGreater(self.worker.ask(f"stop_trace {folder}"), 0)

        client, logs = self.begin_and_wait("--duration_ms=60000")
        self.assertTrue(self.session_is_taken())
        self.stop()
        _, jax, files = self.end(client, logs)
        self.assertEqual(jax["state"], "on")
        self.assertTrue(xspace.named(self.host_events(files), CALL))
        self.assertEqual(self.worker.ask(f"start_trace {folder}3"), "traces")
        self.assertGreater(self.worker.ask(f"stop_trace {folder}3"), 0)

    def test_the_program_traces_itself_during_a_capture(self):
        for way in ("start_trace", "trace"):
            with self.subTest(way):
                self.the_program_traces_itself(way)

    def test_its_own_server(self):
        port = attached.free_port()
        self.assertEqual(self.worker.ask(f"start_server {port}"), "serves")
        self.both_servers(port, lambda event: event.name == CALL)
        # Our client speaks to theirs, too.
        worker, _, files = self.capture("--duration_ms=100", address=f"127.0.0.1:{port}")
        self.assertEqual((worker["outcome"], worker["protocol"]), ("ok", "tensorflow"))
        self.assertTrue(xspace.named(self.host_events(files), CALL))

    @attached.harness.again_if_busy(0.5)
    def test_a_number_of_steps(self):
        """Steps that are found in the trace cannot be waited for: that is said, and nothing is waited for."""
        worker, _, files = self.capture("--steps=5", "--duration_ms=200", "--max_duration_ms=50000")
        self.assertLess(worker["duration_ns"], 5e9)
        said = " ".join(worker["warnings"])
        self.assertIn("recorded for --duration_ms=200 instead of --steps=5", said)
        self.assertIn("mark steps (jobscope.step)", said)
        self.assertGreater(len(self.steps(self.host_events(files))), 5)

    def session_is_taken(self):
        """Not by jax.profiler.start_trace: in 0.10.2 that stays unusable once its end has failed."""
        answer = self.worker.ask("try_a_session")
        return "ALREADY_EXISTS" in answer if isinstance(answer, str) else False

    def test_a_fork_in_a_capture(self):
        client, logs = self.begin_and_wait("--duration_ms=60000")
        self.assertEqual(self.worker.ask("fork"), 0)
        self.stop()
        _, jax, files = self.end(client, logs)
        self.assertEqual(jax["state"], "on", jax)
        self.assertTrue(xspace.named(self.host_events(files), CALL))

    def test_cost(self):
        """Not a promise, but a figure for docs/frameworks.md: lengths of the program's iterations. They go on during a capture."""
        before = statistics.median(self.iterations(300))
        self.worker.ask("times")
        self.capture("--duration_ms=1000", "--frameworks=none")
        without = self.worker.ask("times")
        self.capture("--duration_ms=1000")
        during = self.worker.ask("times")
        self.assertTrue(without)
        self.assertTrue(during)
        print(f"\n{self.collector}: median iteration {before} ms; captured without its events {statistics.median(without)} ms, with"
              f" them {statistics.median(during)} ms, longest {max(during)} ms")  # fmt: skip


class JaxPiecesTest(foreign_case.ForeignCase):
    """Recordings in pieces; the program ends in the middle of a capture."""

    collector = "jax"
    program = JaxTest.program

    @classmethod
    def environment(cls):
        return {**super().environment(), "JOBSCOPE_FRAMEWORK_PIECE_MS": "700"}

    @attached.harness.again_if_busy(0.5)
    def test_a_long_capture_in_pieces(self):
        worker, jax, files = self.capture("--duration_ms=3000")
        self.assertEqual(jax["state"], "on", jax)
        self.assertRegex(" ".join(worker["warnings"]), r"recorded nothing for [1-9]\d*\.\d ms.*`lost` does not count")
        self.assertEqual(worker["lost"], 0)
        events = self.host_events(files)
        calls = xspace.named(events, CALL)
        self.assertLess(calls[0].start_ps, 0.5e12)
        self.assertGreater(calls[-1].start_ps, 2.5e12)
        self.assertEqual({step.stats["inferred_from"] for step in self.steps(events)}, {CALL})

    def test_an_end_in_the_middle(self):
        client, logs = self.begin_and_wait("--duration_ms=60000")
        self.iterations(20)
        code, errors = self.worker.finish("end")
        self.assertEqual(code, 0, errors)
        worker, jax, files = self.end(client, logs)
        # Handed over by the interpreter's own exit hook: later nobody can ask it.
        self.assertEqual((worker["outcome"], jax["state"]), ("truncated", "on"), jax)
        self.assertTrue(xspace.named(self.host_events(files), CALL))

    @classmethod
    def tearDownClass(cls):
        pass


class JaxWithMarksTest(foreign_case.OwnServerCase):
    """The wheel's server, steps and scopes, beside JAX's own marks."""

    collector = "jax"
    program = TRAIN.replace("PRELUDE", foreign_case.START_SERVER).replace("LOOP", MARKED)

    @attached.harness.again_if_busy(0.5)
    def test_marks_win_and_lines_are_shared(self):
        worker, jax, files = self.capture("--duration_ms=400")
        self.assertEqual(jax["state"], "on", jax)
        events = self.host_events(files)
        steps = self.steps(events)
        self.assertGreater(len(steps), 5)
        self.assertEqual(worker["steps"], len(steps))
        self.assertNotIn("steps_inferred", worker)
        self.assertGreaterEqual(min(step.stats["step_num"] for step in steps), 1000)
        theirs = xspace.named(events, "theirs")
        self.assertGreater(len(theirs), 5)
        self.assertEqual([one for one in theirs if "_r" in one.stats], [])

        # A scope around a call holds the call, on one line, to the microsecond and not to the millisecond.
        scopes = [one for one in xspace.named(events, "updating") if "truncated" not in one.stats]
        calls = [one for one in xspace.named(events, CALL) if "truncated" not in one.stats]
        self.assertEqual({one.line for one in scopes}, {one.line for one in calls})
        slack_ps = 20e6
        inside = 0
        # JAX's own recording begins a little later, and ends a little earlier: as much as the machine is busy.
        first_ps = min(call.start_ps for call in calls)
        last_ps = max(call.start_ps for call in calls)
        recorded = [one for one in scopes if one.start_ps > first_ps and one.start_ps + one.duration_ps < last_ps]
        self.assertGreater(len(recorded), len(scopes) / 2)
        for scope in recorded:
            held = [call for call in calls if scope.start_ps - slack_ps <= call.start_ps
                    and call.start_ps + call.duration_ps <= scope.start_ps + scope.duration_ps + slack_ps]  # fmt: skip
            inside += bool(held)
        self.assertEqual(inside, len(recorded))
        self.assert_nested([event for event in events if event.line == scopes[0].line])

        found = self.xprof(files, "overview_page", "trace_viewer")
        _, rows = foreign_case.step_rows(found["overview_page"])
        self.assertGreater(rows, 3)


if __name__ == "__main__":
    foreign_case.main()
