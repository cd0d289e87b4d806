# SPDX-License-Identifier: Apache-2.0
"""The callbacks for Keras and Lightning, without either: called in the order in which those call, and as instances of a base
class that stands for theirs. tests/python/frameworks_test.py has the real Keras."""
import copy
import pickle
import sys
import tempfile
import types
import unittest

import jobscope
import xspace


class Trainer:
    current_epoch = 3


class CallbacksTest(unittest.TestCase):
    def recorded(self, function):
        with tempfile.TemporaryDirectory() as logdir:
            with jobscope.capture(logdir) as it, jobscope.start_server("127.0.0.1:0"):
                function()
            return xspace.host_events(it.result.run_directory)

    def steps(self, events):
        return [event.stats["step_num"] for event in xspace.named(events, "train") if "step_num" in event.stats]

    def test_keras(self):
        callback = jobscope.KerasCallback(first_step=10)

        def fit():
            callback.set_model(None)
            callback.set_params({})
            callback.on_train_begin()
            for epoch in range(2):
                callback.on_epoch_begin(epoch, {})
                for batch in range(3):
                    callback.on_train_batch_begin(batch, {})
                    callback.on_train_batch_end(batch, {})
                callback.on_test_begin({})
                callback.on_test_batch_begin(0, {})
                callback.on_test_batch_end(0, {})
                callback.on_test_end({})
                callback.on_epoch_end(epoch, {})
            callback.on_train_end({})
            callback.on_predict_batch_begin(0, {})
            callback.on_predict_batch_end(0, {})

        events = self.recorded(fit)
        self.assertEqual(self.steps(events), [10, 11, 12, 13, 14, 15])
        self.assertEqual([event.stats["epoch"] for event in xspace.named(events, "epoch")], [0, 1])
        self.assertEqual(len(xspace.named(events, "validation batch")), 2)
        self.assertEqual(len(xspace.named(events, "prediction batch")), 1)

    def test_lightning(self):
        callback = jobscope.LightningCallback()
        self.assertEqual((callback.state_key, callback.state_dict()), ("jobscope", {}))

        def fit():
            trainer, module = Trainer(), object()
            callback.setup(trainer, module, "fit")
            callback.on_train_start(trainer, module)
            callback.on_train_epoch_start(trainer, module)
            for batch in range(2):
                callback.on_train_batch_start(trainer, module, None, batch)
                callback.on_before_optimizer_step(trainer, module, Trainer())
                callback.on_train_batch_end(trainer, module, None, None, batch)
            callback.on_validation_batch_start(trainer, module, None, 0, 0)
            callback.on_validation_batch_end(trainer, module, None, None, 0, 0)
            callback.on_train_epoch_end(trainer, module)
            callback.on_train_end(trainer, module)
            callback.teardown(trainer, module, "fit")

        events = self.recorded(fit)
        self.assertEqual(self.steps(events), [0, 1])
        self.assertEqual([event.stats["epoch"] for event in xspace.named(events, "epoch")], [3])
        marks = xspace.named(events, "optimizer step")
        self.assertEqual([event.stats["optimizer"] for event in marks], ["Trainer", "Trainer"])
        self.assertEqual(len(xspace.named(events, "validation batch")), 1)

    def test_batch_that_raises(self):
        """The hook at its end is not called then; a new fit begins."""
        callback = jobscope.LightningCallback()

        def fit():
            callback.on_train_batch_start(None, None, None, 0)
            callback.on_exception(None, None, KeyError())
            callback.on_train_batch_start(None, None, None, 0)
            callback.on_train_batch_start(None, None, None, 1)
            callback.on_train_end(None, None)

        events = self.recorded(fit)
        self.assertEqual(self.steps(events), [0, 1, 2])
        steps = sorted(xspace.named(events, "train"), key=lambda event: event.start_ps)
        for before, after in zip(steps, steps[1:]):
            self.assertLessEqual(before.start_ps + before.duration_ps, after.start_ps)

    def test_instances_of_the_frameworks_class(self):
        for module, make in (("keras.callbacks", jobscope.KerasCallback), ("lightning.pytorch", jobscope.LightningCallback)):
            with self.subTest(module=module):
                self.assertNotIn(module, sys.modules)
                plain = make()
                fake = types.ModuleType(module)
                fake.Callback = type("Callback", (), {"on_train_batch_end": lambda *_: self.fail("not ours"), "theirs": 5})
                sys.modules[module] = fake
                try:
                    callback = make(first_step=4)
                finally:
                    del sys.modules[module]
                self.assertIsInstance(callback, fake.Callback)
                self.assertIsInstance(callback, make)
                self.assertNotIsInstance(plain, fake.Callback)
                self.assertEqual(callback.theirs, 5)
                arguments = (0, {}) if make is jobscope.KerasCallback else (None, None, None, 0)
                events = self.recorded(
                    lambda: (
                        getattr(callback, "on_train_batch_begin" if len(arguments) == 2 else "on_train_batch_start")(*arguments),
                        callback.on_train_batch_end(*arguments, *([None] if len(arguments) == 4 else [])),
                    )
                )
                self.assertEqual(self.steps(events), [4])

    def test_copies(self):
        for callback in (jobscope.KerasCallback(first_step=3), jobscope.LightningCallback(3)):
            callback.on_train_batch_begin(0) if hasattr(callback, "on_epoch_begin") else None
            for other in (copy.deepcopy(callback), copy.copy(callback), pickle.loads(pickle.dumps(callback))):
                self.assertIs(type(other), type(callback))
                self.assertEqual(other._next_step, callback._next_step)

    def test_wrong_use(self):
        with self.assertRaises(TypeError):
            jobscope.KerasCallback("3")
        with self.assertRaises(AttributeError):
            jobscope.KerasCallback().nothing  # pylint: disable=pointless-statement


if __name__ == "__main__":
    unittest.main(verbosity=2)
