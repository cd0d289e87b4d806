# SPDX-License-Identifier: Apache-2.0
"""python -m jobscope: the same as the program jobscope."""
from jobscope import _programs

_programs.jobscope()
