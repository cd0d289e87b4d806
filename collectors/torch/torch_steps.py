# SPDX-License-Identifier: Apache-2.0
"""Notices the end of each step of PyTorch's optimizers and of DeepSpeed's engine, and compilations of torch.compile. Runs
within the traced program; imports nothing of theirs.

Python's import system queries each finder of sys.meta_path for each module that is not loaded yet. Ours finds nothing; it uses
the occasion to notice that a module has been imported, because many are imported after it. So nothing polls, and no loader is
wrapped. It stays installed when its work is done: a list that another thread iterates over must not shrink.
"""

import _thread
import functools
import sys

_given = globals()  # by the collector: _step_ended, _hooked, _engine_begins, _engine_ended, _compile_begins, _compile_ended
_looking = _thread.allocate_lock()  # two threads that import must not both register


def _first_parameter(optimizer):
    """Identifies the parameters of a call of an optimizer: ZeRO calls it for one group after the other."""
    for group in getattr(optimizer, "param_groups", ()):
        for parameter in group["params"]:
            return id(parameter)
    return 0


def _after_step(optimizer, args, kwargs):
    _given["_step_ended"](id(optimizer), _first_parameter(optimizer))


# Keeps torch.compile from compiling it.
_after_step._torchdynamo_disable = True


def _hook_optimizers():
    """Returns whether PyTorch is imported."""
    register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None)
    if register is None:
        return False
    _waiting.remove(_hook_optimizers)  # also if this raises
    register(_after_step)
    _given["_hooked"]()
    return True


def _wrap_engine():
    """Returns whether DeepSpeed is imported. Its engine calls this method once per update, however often that calls an
    optimizer."""
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


def _compile_starts(*arguments):
    _given["_compile_begins"]()


def _compile_ends(*arguments):
    event = arguments[0] if arguments else None  # in versions that provide it
    trigger = getattr(getattr(event, "callback_trigger", None), "name", "")
    _given["_compile_ended"](trigger.lower(), str(getattr(event, "compile_id", "")))


_compile_starts._torchdynamo_disable = True
_compile_ends._torchdynamo_disable = True


def _hook_compiler():
    """Returns whether torch.compile has been used, or is about to be. The program may remove all callbacks
    (torch._dynamo.reset)."""
    handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
    if not hasattr(handler, "register_start_callback") or not hasattr(handler, "register_end_callback"):
        return False
    if _hook_compiler in _waiting:
        _waiting.remove(_hook_compiler)
    if _compile_starts not in handler.start_callbacks:
        handler.register_start_callback(_compile_starts)
    if _compile_ends not in handler.end_callbacks:
        handler.register_end_callback(_compile_ends)
    return True


_waiting = [_wrap_engine, _hook_optimizers, _hook_compiler]


def _try():
    if not _looking.acquire(False):
        return  # another thread is doing this, or was when this process was forked
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
            except Exception:  # pylint: disable=broad-except  # the program's import continues
                pass
        return None


def look(infers_steps):
    if not infers_steps:
        _waiting[:] = [_hook_compiler]
    _try()
    if _waiting:
        sys.meta_path.insert(0, _Finder)


def look_again():
    """Called before a capture."""
    _try()
    _hook_compiler()
