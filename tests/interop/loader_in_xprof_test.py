# SPDX-License-Identifier: Apache-2.0
"""Loops with a slow loader, marked as the documents say: XProf shows the step with its wait, and how much of it is input."""

import json
import os
import pathlib
import sys

from harness import case, processes, workers

# The package of the build tree.
PACKAGE = workers.BIN.parent / "python"
LOOPS = workers.PEERS / "loader_loops.py"


class Loaders(case.InteropTest):
    def check(self, command, **environment):
        """The program prints {"run_directory", "took_s", "waited_s", "steps"} of a loop in which nothing lies outside of steps."""
        env = {**workers.quiet_environment(), **environment}
        program = processes.Process(command, env=env, may_write_files=True)
        self.addCleanup(program.kill)
        self.assertEqual(program.wait(120), 0, program.output())
        told = json.loads(next(line for line in program.stdout().splitlines() if line.startswith("{")))
        (path,) = pathlib.Path(told["run_directory"]).glob("*.xplane.pb")
        xprof = self.xprof()
        share = xprof.input_pipeline([path]).input_share()
        truth = told["waited_s"] / told["took_s"]
        self.assertGreater(truth, 0.3, told)
        # A mark encloses what the loader measured, on a machine that may be busy with other work.
        self.assertGreater(share, truth - 0.08, told)
        self.assertLess(share, truth + 0.15, told)
        # XProf leaves out the first and the last step.
        self.assertAlmostEqual(xprof.overview([path]).step_ms() / (1000 * told["took_s"] / told["steps"]), 1, delta=0.15, msg=told)

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


if __name__ == "__main__":
    case.main("loader_loop")
