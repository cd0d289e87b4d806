# SPDX-License-Identifier: Apache-2.0
"""Marks the steps and input waits of a training loop."""
import itertools

from jobscope import _native
from jobscope._input_waits import input_waits


class steps:  # pylint: disable=invalid-name
    """Marks a training loop: `for i, batch in jobscope.steps(loader):` yields the same as `enumerate(loader, first)`.

    Each iteration is a step named `name`. Each wait for a batch is an input wait, and belongs to the step of that batch.
    Steps are numbered from `first` on through all loops over the object; for a new object per epoch, pass
    `first=epoch * len(loader)`. The length and attributes are the iterable's. break or an exception ends the current step.
    """

    def __init__(self, iterable, first=0, name="train"):
        if not isinstance(first, int):
            raise TypeError(f"steps: first is an int, not {type(first).__name__}")
        if not isinstance(name, str):
            raise TypeError(f"steps: the name is a str, not {type(name).__name__}")
        self._waits = input_waits(iterable)
        self._next = first
        self._name = name

    def __iter__(self):
        waiting = iter(self._waits)
        while True:
            # Popped and not kept: the program may free its batch before it requests the next one.
            batch = list(itertools.islice(waiting, 1))
            if not batch:
                return
            number = self._next
            self._next = number + 1
            with _native.step(number, self._name):
                yield number, batch.pop()

    def __len__(self):
        return len(self._waits)

    def __getattr__(self, attribute):
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(self._waits, attribute)
