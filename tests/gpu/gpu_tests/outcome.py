# SPDX-License-Identifier: Apache-2.0
"""What a check can end with, and the table of all checks."""
import collections

Check = collections.namedtuple("Check", "name deadline_s proves function")

# name -> Check, in the order in which they run.
CHECKS = {}


class Failed(Exception):
    """What was checked does not hold. The text says what was seen, and what was expected."""


class Skipped(Exception):
    """This machine cannot tell: the text says what is missing."""


def require(holds, text):
    if not holds:
        raise Failed(text)


def check(deadline_s, proves):
    """Registers a function as a check: it takes a Fixture, and returns what it measured as a dict of plain values."""

    def register(function):
        CHECKS[function.__name__] = Check(function.__name__, deadline_s, proves, function)
        return function

    return register
