# SPDX-License-Identifier: Apache-2.0
"""Runs the program jobscope, as `python -m jobscope`."""
from jobscope import _programs

_programs.jobscope()
