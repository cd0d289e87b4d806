# SPDX-License-Identifier: Apache-2.0
"""Marks steps, validation and epochs of Keras and PyTorch Lightning, through their callbacks.

Imports no framework. If the framework is already imported, an object is also an instance of its Callback class, as
Lightning requires. Otherwise it only has the same methods.
"""
import sys

from jobscope import _native


def _ignore(*_args, **_kwargs):
    """Handles hooks that do nothing here."""


def _base(modules):
    """Returns the framework's class Callback, from the first of its modules that is imported; None without one."""
    for module in modules:
        base = getattr(sys.modules.get(module), "Callback", None)
        if isinstance(base, type):
            return base
    return None


class _Open:
    """Scopes that one hook begins and another ends. If the ending hook is never called, after an exception or a break,
    the scope stays open and ends with the next one of its kind, or with the scope around it.
    """

    def __init__(self):
        self._scopes = {}

    def begin(self, kind, scope):
        self.end(kind)
        scope.__enter__()
        self._scopes[kind] = scope

    def end(self, *kinds):
        for kind in kinds:
            scope = self._scopes.pop(kind, None)
            if scope is not None:
                scope.__exit__(None, None, None)

    def __deepcopy__(self, memo):
        # If a callback is copied or pickled with its trainer, its open scopes are not.
        return _Open()

    def __reduce__(self):
        return (_Open, ())


class _Callback:
    _MODULES = ()

    def __new__(cls, *_args, **_kwargs):
        base = _base(cls._MODULES)
        if base is not None and not issubclass(cls, base):
            cls = type(cls.__name__, (cls, base), {"__module__": cls.__module__})
        return object.__new__(cls)

    def __reduce__(self):
        # By the public class: a class created for a framework cannot be found by name.
        public = next(c for c in type(self).__mro__ if c.__dict__.get("_MODULES"))
        return (_remake, (public, self.__dict__.copy()))

    def __init__(self, first_step=0):
        super().__init__()
        if not isinstance(first_step, int):
            raise TypeError(f"first_step is an int, not {type(first_step).__name__}")
        self._next_step = first_step
        self._open = _Open()

    def _begin_step(self):
        self._open.begin("step", _native.step(self._next_step))
        self._next_step += 1


def _remake(public, attributes):
    callback = public()
    callback.__dict__.update(attributes)
    return callback


class KerasCallback(_Callback):
    """model.fit(..., callbacks=[jobscope.KerasCallback()]): each training batch is a step; epochs, and batches of
    validation and prediction, are scopes.

    Steps are numbered from `first_step` through all epochs and fits of the object. With `steps_per_execution`,
    Keras calls the hook once for several batches, which are then one step. Keras fetches a batch within its step; a
    generator over `jobscope.input_waits(loader)` records how long this takes.
    """

    _MODULES = ("keras.callbacks", "keras.src.callbacks.callback", "tf_keras.callbacks", "tf_keras.src.callbacks")

    def __getattr__(self, name):
        if name.startswith("on_") or name in ("set_model", "set_params"):
            return _ignore
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def on_epoch_begin(self, epoch, logs=None):
        self._open.begin("epoch", _native.trace_coarse("epoch", epoch=epoch))

    def on_epoch_end(self, epoch, logs=None):
        self._open.end("step", "epoch")

    def on_train_batch_begin(self, batch, logs=None):
        self._begin_step()

    def on_train_batch_end(self, batch, logs=None):
        self._open.end("step")

    def on_train_end(self, logs=None):
        self._open.end("step", "epoch")

    def on_test_batch_begin(self, batch, logs=None):
        self._open.begin("test", _native.trace("validation batch", batch=batch))

    def on_test_batch_end(self, batch, logs=None):
        self._open.end("test")

    def on_test_end(self, logs=None):
        self._open.end("test")

    def on_predict_batch_begin(self, batch, logs=None):
        self._open.begin("predict", _native.trace("prediction batch", batch=batch))

    def on_predict_batch_end(self, batch, logs=None):
        self._open.end("predict")

    def on_predict_end(self, logs=None):
        self._open.end("predict")


class LightningCallback(_Callback):
    """Trainer(callbacks=[jobscope.LightningCallback()]): each training batch is a step; epochs, optimizer steps, and
    batches of validation, test and prediction, are scopes or instants.

    Steps are numbered from `first_step` through all epochs and fits of the object. A step is a batch, regardless of the
    number of optimizer steps in it. Lightning fetches a batch before its step: pass `jobscope.input_waits(loader)`, and
    the wait belongs to the step of the batch.
    """

    _MODULES = ("lightning.pytorch.callbacks", "lightning.pytorch", "pytorch_lightning.callbacks", "pytorch_lightning")

    def __getattr__(self, name):
        if name.startswith("on_") or name in ("setup", "teardown", "load_state_dict"):
            return _ignore
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def state_key(self):
        return "jobscope"

    def state_dict(self):
        return {}

    def on_train_epoch_start(self, trainer, pl_module):
        self._open.begin("epoch", _native.trace_coarse("epoch", epoch=getattr(trainer, "current_epoch", None)))

    def on_train_epoch_end(self, trainer, pl_module, *_):
        self._open.end("step", "epoch")

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx, *_):
        self._begin_step()

    def on_before_optimizer_step(self, trainer, pl_module, optimizer, *_):
        _native.instant("optimizer step", optimizer=type(optimizer).__name__)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *_):
        self._open.end("step")

    def on_train_end(self, trainer, pl_module):
        self._open.end("step", "epoch")

    def on_exception(self, trainer, pl_module, exception):
        self._open.end("step", "validation", "test", "predict", "epoch")

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, *_):
        self._open.begin("validation", _native.trace("validation batch", batch=batch_idx))

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *_):
        self._open.end("validation")

    def on_test_batch_start(self, trainer, pl_module, batch, batch_idx, *_):
        self._open.begin("test", _native.trace("test batch", batch=batch_idx))

    def on_test_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *_):
        self._open.end("test")

    def on_predict_batch_start(self, trainer, pl_module, batch, batch_idx, *_):
        self._open.begin("predict", _native.trace("prediction batch", batch=batch_idx))

    def on_predict_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *_):
        self._open.end("predict")
