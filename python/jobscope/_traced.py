# SPDX-License-Identifier: Apache-2.0
"""Implements the decorator."""
import functools

from jobscope import _native

# By level; enum site_kind of sites.h.
_KINDS = {1: 0, 2: 1, 3: 2}
_ASYNC_KINDS = {1: 8, 2: 9, 3: 10}


def _place(function):
    import inspect  # takes some milliseconds, which not every importer of jobscope should pay

    code = getattr(inspect.unwrap(function), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)


def _name(function):
    return getattr(function, "__qualname__", None) or type(function).__name__


def _wrap(function, name, level):
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(_wrap(function.__func__, name, level))
    if not callable(function):
        raise TypeError(f"traced: {function!r} cannot be called")
    import inspect

    name = name or _name(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"traced: {name} is a generator function, whose body runs in pieces: "
            "put `with jobscope.trace(...)` around the pieces"
        )
    if inspect.iscoroutinefunction(function):
        # It may be suspended while others run on the same thread, so it is an async operation, not a scope.
        begin, end = _native.async_begin, _native.async_end
        site = _native.Site(name, *_place(function), _ASYNC_KINDS[level])

        @functools.wraps(function)
        async def traced_coroutine(*args, **kwargs):
            operation = begin(site)
            try:
                return await function(*args, **kwargs)
            finally:
                end(site, operation)

        return traced_coroutine

    wrapped = _native.Traced(function, _native.Site(name, *_place(function), _KINDS[level]))
    functools.update_wrapper(wrapped, function, updated=("__dict__",) if hasattr(function, "__dict__") else ())
    return wrapped


def traced(function=None, *, name=None, level=1):
    """Records each call of a function: `@jobscope.traced`, `@jobscope.traced("name")`, `@jobscope.traced(level=2)`.

    The name is the function's qualified name unless one is given. A coroutine function is recorded as an operation
    from its first step to its end. Generator functions are refused, because their bodies run in pieces.
    """
    if level not in _KINDS:
        raise ValueError(f"traced: the level is 1, 2 or 3, not {level!r}")
    if isinstance(function, str):
        function, name = None, function
    if function is None:
        return functools.partial(_wrap, name=name, level=level)
    return _wrap(function, name, level)
