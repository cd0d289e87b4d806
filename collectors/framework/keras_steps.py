# SPDX-License-Identifier: Apache-2.0
"""Notices the end of each training batch of Keras 3. Runs within the traced program; imports nothing of Keras.

Keras notifies a list of callbacks, of a class of its own, which contains the program's own callbacks. Its methods are replaced
on the class, so that running loops are noticed from their next batch on.
"""

import _thread
import functools
import sys

_MODULE = "keras.src.callbacks.callback_list"
_state = "waiting"
_looking = _thread.allocate_lock()  # two threads that import must not both wrap


def _after(method, note):
    @functools.wraps(method)
    def noticed(self, *args, **kwargs):
        result = method(self, *args, **kwargs)
        # Each `fit` has a list of its own; a training loop of many is one of its model.
        model = getattr(self, "_model", None)
        note(id(self if model is None else model))
        return result

    return noticed


def _try():
    if not _looking.acquire(False):
        return  # another thread is doing this, or was when this process was forked
    try:
        if _state == "waiting":
            _wrap()
    finally:
        _looking.release()


def _wrap():
    global _state
    callback_list = getattr(sys.modules.get(_MODULE), "CallbackList", None)
    if callback_list is None:
        return
    _state = "given up"  # if this raises
    given = globals()  # by the collector
    callback_list.on_train_batch_end = _after(callback_list.on_train_batch_end, given["_step_ended"])
    # Anything between two epochs (validation, checkpoints) is not part of a step.
    callback_list.on_epoch_begin = _after(callback_list.on_epoch_begin, given["_step_forgotten"])
    _state = "hooked"


class _Finder:
    """Finds nothing: the import system queries it for each module, so the import of Keras is noticed without polling."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if _state == "waiting":
            try:
                _try()
            except Exception:
                pass
        return None


def look():
    _try()
    if _state == "waiting":
        sys.meta_path.insert(0, _Finder)
