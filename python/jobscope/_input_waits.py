# SPDX-License-Identifier: Apache-2.0
"""Marks the time in which a training loop waits for its data loader."""
from jobscope import _native

_END = object()


class _Waiting:
    """The iterator: each next() is recorded as an input wait."""

    __slots__ = ("_iterator", "_name")

    def __init__(self, iterator, name):
        self._iterator = iterator
        self._name = name

    def __iter__(self):
        return self

    def __next__(self):
        # A default avoids StopIteration: an exception raised inside the block would cost 1 us.
        with _native.input_wait(self._name):
            item = next(self._iterator, _END)
        if item is _END:
            raise StopIteration
        return item

    def __getattr__(self, attribute):
        if attribute.startswith("__"):  # copy asks an object that has no attributes yet
            raise AttributeError(attribute)
        return getattr(self._iterator, attribute)


class input_waits:  # pylint: disable=invalid-name
    """Marks the waits for a data loader: `for batch in jobscope.input_waits(loader):`.

    Yields the same as `iterable`, any number of times; the length and attributes are the iterable's. A wait belongs to the
    next step of its thread. `jobscope.steps` marks both waits and steps.
    """

    def __init__(self, iterable, name="input_wait"):
        if not isinstance(name, str):
            raise TypeError(f"input_waits: the name is a str, not {type(name).__name__}")
        self._iterable = iterable
        self._name = name

    def __iter__(self):
        # Creating the iterator is waiting, too: a loader starts its workers and fetches the first batches.
        with _native.input_wait(self._name):
            iterator = iter(self._iterable)
        return _Waiting(iterator, self._name)

    def __len__(self):
        return len(self._iterable)

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(self._iterable, attribute)
