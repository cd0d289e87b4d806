# SPDX-License-Identifier: Apache-2.0
"""Steps inferred from PyTorch's optimizers: its import is noticed, its hook is used, and one optimizer counts.

Uses a fake package `torch` with the API that is needed; torch_test.py tests the real one.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "server", "attach"))
import attached  # noqa: E402
import torch_compilations  # noqa: E402
import torch_programs  # noqa: E402


class HookTest(attached.TestCase):
    def setUp(self):
        super().setUp()
        for name, text in {**torch_programs.FAKE_TORCH_2, **torch_programs.FAKE_DEEPSPEED}.items():
            os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
            self.script(text, name)

    def process(self, argument, program=torch_programs.STEPS, **env):
        command = [attached.PYTHON, "-B", self.script(program), argument]
        return attached.Process(
            command, attached.preloaded(JOBSCOPE_PORT_DIR=self.ports, PYTHONPATH=self.folder, **env)
        )

    def capture(self, *arguments):
        (address,) = self.wait_for_addresses(1).values()
        command = [attached.CAPTURE, *arguments, f"--service_addr={address}", "--json"]
        code, out, errors = attached.run(command, attached.environment())
        self.assertEqual(code, 0, errors)
        (worker,) = json.loads(out)["workers"]
        return worker

    def current_step(self):
        return self.capture("check").get("current_step", 0)

    def step(self, process, count):
        self.wait_for_addresses(1)  # steps are recorded from then on
        process.say(str(count))
        self.assertEqual(process.hear(), "stepped")

    def test_import_that_is_noticed(self):
        with self.process("late") as process:
            self.assertEqual(process.hear(), "up")
            self.step(process, 5)
            self.assertEqual(self.current_step(), 5, "the second optimizer's steps count, or the first ones are missing")
            self.assertEqual(process.finish("end"), (0, ""))

    def test_import_before_the_first_look(self):
        with self.process("at once") as process:
            self.assertEqual(process.hear(), "up")

            def noticed():
                self.step(process, 1)
                return self.current_step() > 0

            self.wait_for(noticed, "no step is seen")
            before = self.current_step()
            self.step(process, 5)
            self.assertEqual(self.current_step(), before + 5)
            self.assertEqual(process.finish("end"), (0, ""))

    def test_switched_off(self):
        with self.process("at once", JOBSCOPE_INFER_STEPS="0") as process:
            self.assertEqual(process.hear(), "up")
            self.capture("--duration_ms=50", f"--logdir={self.folder}/logs", "--quiet")
            self.step(process, 5)
            self.assertEqual(self.current_step(), 0)
            self.assertEqual(process.finish("end"), (0, ""))

    def test_an_optimizer_that_is_called_for_one_group_after_the_other(self):
        with self.process("0", torch_programs.ZERO) as process:
            self.assertEqual(process.hear(), "up")
            self.step(process, 30)
            self.assertEqual(self.current_step(), 30)
            self.assertEqual(process.finish("end"), (0, ""))

    def test_the_step_of_deepspeeds_engine(self):
        """An update, of several micro batches and calls of the optimizer."""
        with self.process("4", torch_programs.ZERO) as process:
            self.assertEqual(process.hear(), "up")
            self.step(process, 40)
            answer = self.capture("check")
            self.assertEqual((answer["current_step"], answer["steps_source"]), (10, "DeepSpeed step"))
            self.assertEqual(process.finish("end"), (0, ""))

    def test_steps_that_alternate_are_reported(self):
        with self.process("", torch_programs.TWICE) as process:
            self.assertEqual(process.hear(), "up")
            self.step(process, 40)
            worker = self.capture("--duration_ms=10", f"--logdir={self.folder}/logs", "--quiet")
            self.assertIn("the inferred steps alternate: one of 2 takes", " ".join(worker["warnings"]))
            self.assertEqual(process.finish("end"), (0, ""))

    def test_compilations_are_scopes_that_say_so(self):
        with self.process("fake", torch_compilations.COMPILES) as process:
            self.assertEqual(process.hear(), "up")
            compiled = torch_compilations.of(self, process, ["0/0", "0/1"])
            self.assertEqual([one.stats["compile_id"] for one in compiled], ["0/0", "0/1"])
            self.assertEqual(process.finish("end"), (0, ""))

    def test_a_compilation_that_ends_on_another_thread_ends(self):
        with self.process("", torch_compilations.CROSSED_COMPILATIONS) as process:
            self.assertEqual(process.hear(), "up")
            self.assertEqual(torch_compilations.in_a_capture(self, process, ["other", "main", "other"], "first"), [])
            self.assertEqual(torch_compilations.in_a_capture(self, process, ["wait"], "second"), [])
            self.assertEqual(process.finish("end"), (0, ""))

    def test_threads_that_import_at_once_register_one_hook(self):
        with self.process("", torch_programs.IMPORTS) as process:
            self.assertEqual(process.hear(), "1")
            self.assertEqual(process.finish("end"), (0, ""))


if __name__ == "__main__":
    attached.main()
