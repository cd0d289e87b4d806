# SPDX-License-Identifier: Apache-2.0
"""Notices the end of each step of PyTorch's optimizers, and of DeepSpeed's engine. Runs within the traced program; imports nothing
of theirs.

Python's import system asks each finder of sys.meta_path for each module that is not loaded yet. Ours finds nothing; it notices on
the occasion that a module has come, of which many are imported after it. So nothing polls, and no loader is wrapped. It is left
in its place when its work is done: a list that another thread walks must not shrink.
"""

import _thread
import functools
import sys

_given = globals()  # by the collector: _step_ended, _hooked, _engine_begins, _engine_ended
_looking = _thread.allocate_lock()  # two threads that import must not both register


def _first_parameter(optimizer):
    """Tells one call of an optimizer from another that is for other parameters: ZeRO calls it for one group after the other."""
    for group in getattr(optimizer, "param_groups", ()):
        for parameter in group["params"]:
            return id(parameter)
    return 0


def _after_step(optimizer, args, kwargs):
    _given["_step_ended"](id(optimizer), _first_parameter(optimizer))


# A compiler of Python functions is not to look into it.
_after_step._torchdynamo_disable = True


def _hook_optimizers():
    """Whether PyTorch is there."""
    register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None)
    if register is None:
        return False
    _waiting.remove(_hook_optimizers)  # also if this raises
    register(_after_step)
    _given["_hooked"]()
    return True


def _wrap_engine():
    """Whether DeepSpeed is there. Its engine calls this method once per update, however often that calls an optimizer."""
    engine = getattr(sys.modules.get("deepspeed.runtime.engine"), "DeepSpeedEngine", None)
    step = getattr(engine, "_take_model_step", None)
    if step is None:
        return False
    _waiting.remove(_wrap_engine)

    @functools.wraps(step)
    def noticed(self, *args, **kwargs):
        _given["_engine_begins"]()
        try:
            return step(self, *args, **kwargs)
        finally:
            _given["_engine_ended"](id(self))

    noticed._torchdynamo_disable = True
    engine._take_model_step = noticed
    return True


_waiting = [_wrap_engine, _hook_optimizers]


def _try():
    if not _looking.acquire(False):
        return  # another thread is at it, or was when this process was forked
    try:
        for look_for in list(_waiting):
            look_for()
    finally:
        _looking.release()


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if _waiting:
            try:
                _try()
            except Exception:  # pylint: disable=broad-except  # the program's import goes on
                pass
        return None


def look():
    _try()
    if _waiting:
        sys.meta_path.insert(0, _Finder)
