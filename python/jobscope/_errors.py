# SPDX-License-Identifier: Apache-2.0
"""Defines the exceptions. Each text names the problem and its remedy."""


class Error(RuntimeError):
    """Raised when jobscope cannot do something. `code` is that of the C ABI (jobscope_c.h, JOBSCOPE_E_*)."""

    code = 8


class InvalidError(Error, ValueError):
    """An option is out of range or malformed, or a credential file is invalid."""

    code = 1


class AddressError(Error, OSError):
    """The address cannot be bound."""

    code = 2


class RefusedError(Error, PermissionError):
    """The address is reachable from other hosts without credentials, or JOBSCOPE_DISABLE is set."""

    code = 3


class BusyError(Error):
    """Another server or capture of this process is active."""

    code = 4


class ForkedError(Error):
    """This process was forked from one that already has a server or capture."""

    code = 5


class DiskError(Error, OSError):
    """The logdir, or the directory of JOBSCOPE_PORT_DIR, cannot be written."""

    code = 6


class StateError(Error):
    """stop() without start(), or steps that nobody can watch for."""

    code = 7


_CLASSES = {cls.code: cls for cls in Error.__subclasses__()}


def raise_for(code, text):
    """Raises the exception for a code other than 0."""
    if code != 0:
        raise _CLASSES.get(code, Error)(text or f"the call failed with code {code}")


def call(function, *arguments):
    """Calls a native function. Raises an Error if the libraries cannot be loaded, and for a text that C cannot take."""
    try:
        return function(*arguments)
    except ImportError as error:
        raise Error(str(error)) from error
    except ValueError as error:
        raise InvalidError(f"a text cannot be used ({error}): use UTF-8 without null characters") from error


def whole_number(name, value):
    """Checks a count or a size for the C ABI."""
    if not isinstance(value, int):
        raise TypeError(f"{name} is an int, not {type(value).__name__}")
    if not 0 <= value < 1 << 63:
        raise InvalidError(f"{name} = {value} is out of range: 0 (the default) to {(1 << 63) - 1}")
    return value


DEAD_RECORDER = (
    "this process was forked from one in which jobscope recorded already, and records nothing: "
    "fork before the parent starts a server or a capture, or create the process by spawn or exec "
    '(multiprocessing.set_start_method("spawn"))'
)
