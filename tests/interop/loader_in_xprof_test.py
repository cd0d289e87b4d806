# SPDX-License-Identifier: Apache-2.0
"""Loops with a slow loader, marked as the documents say: XProf shows the step with its wait, and how much of it is input."""

import json
import os
import pathlib
import sys

from harness import case, processes, workers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs"))
import documents  # noqa: E402
import programs  # noqa: E402

# The package of the build tree.
PACKAGE = workers.BIN.parent / "python"
LOOPS = workers.PEERS / "loader_loops.py"
BATCHES = 60
# What the documents' loops run in, to be checked like the others. Their servers may have any port.
AROUND_PYTHON = (
    "loader = Loader({batches})\njobscope.start({logdir!r}, frameworks='none')\nloop_begin = time.perf_counter()\n{example}"
    "took_s = time.perf_counter() - loop_begin\nimport json\n"
    "print(json.dumps({{'run_directory': jobscope.stop().run_directory, 'took_s': took_s, 'waited_s': loader.waited_s, 'steps': {batches}}}))\n"
)
BEFORE_CPP = 'Loader loader({batches});\njobscope::StartCapture("{logdir}");\nconst auto loop_begin = std::chrono::steady_clock::now();'
AFTER_CPP = (
    "const double took_s = SecondsSince(loop_begin);\nconst jobscope::CaptureResult result = jobscope::StopCapture();\n"
    r'std::cout << "{{\"run_directory\": \"" << result.run_directory() << "\", \"took_s\": " << took_s '
    r'<< ", \"waited_s\": " << waited_s << ", \"steps\": {batches}}}\n";'
)
DOCUMENTED_ADDRESS = "127.0.0.1:6009+rank"


def on_any_port(block):
    assert DOCUMENTED_ADDRESS in block.text
    return block._replace(text=block.text.replace(DOCUMENTED_ADDRESS, "127.0.0.1:0"))


class Loaders(case.InteropTest):
    def check(self, command, **environment):
        """The program prints {"run_directory", "took_s", "waited_s", "steps"} of a loop in which nothing lies outside of steps."""
        env = {**workers.quiet_environment(), **environment}
        program = processes.Process(command, env=env, may_write_files=True)
        self.addCleanup(program.kill)
        self.assertEqual(program.wait(120), 0, program.output())
        result = json.loads(next(line for line in program.stdout().splitlines() if line.startswith("{")))
        (path,) = pathlib.Path(result["run_directory"]).glob("*.xplane.pb")
        xprof = self.xprof()
        share = xprof.input_pipeline([path]).input_share()
        truth = result["waited_s"] / result["took_s"]
        self.assertGreater(truth, 0.3, result)
        # A mark encloses what the loader measured, on a machine that may be busy with other work.
        self.assertGreater(share, truth - 0.08, result)
        self.assertLess(share, truth + 0.15, result)
        # XProf leaves out the first and the last step.
        self.assertAlmostEqual(xprof.overview([path]).step_ms() / (1000 * result["took_s"] / result["steps"]), 1, delta=0.15, msg=result)

    def python(self, loop, **environment):
        path = os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])
        self.check([sys.executable, LOOPS, loop, self.logdir], PYTHONPATH=path, **environment)

    @case.again_if_busy
    def test_steps(self):
        self.python("steps")

    @case.again_if_busy
    def test_input_waits_and_step(self):
        self.python("enumerate")

    @case.again_if_busy
    def test_keras_callback(self):
        self.python("keras", KERAS_BACKEND="jax")

    @case.again_if_busy
    def test_cpp(self):
        self.check([workers.BIN / "loader_loop", self.logdir])

    @case.again_if_busy
    def test_readme_python(self):
        self.documented_python(documents.block("README.md", "python", "start_server"))

    @case.again_if_busy
    def test_python_page(self):
        self.documented_python(documents.block("docs/python.md", "python", "start_server"))

    def documented_python(self, block):
        block = on_any_port(block)
        program = self.scratch / "documented.py"
        program.write_text(programs.PYTHON_AROUND + AROUND_PYTHON.format(batches=BATCHES, logdir=str(self.logdir), example=block.text))
        self.check([sys.executable, program], PYTHONPATH=str(PACKAGE))

    @case.again_if_busy
    def test_readme_cpp(self):
        block = on_any_port(documents.block("README.md", "cpp", "ProfilerServer"))
        values = {"batches": BATCHES, "logdir": self.logdir}
        self.check([programs.cpp(workers.BIN.parent, self.scratch, block, BEFORE_CPP.format(**values), AFTER_CPP.format(**values))])


if __name__ == "__main__":
    case.main("loader_loop")
