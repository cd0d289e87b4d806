# SPDX-License-Identifier: Apache-2.0
"""Attaches jobscope to NVTX in this process."""
import os

from jobscope import _native


def serve():
    """Makes NVTX use our library, for modules that make their first NVTX call from now on. Keeps an existing setting: an
    attached library, another tool, or "none". Child processes inherit it; in them our library finds no recorder and
    declines.
    """
    if "NVTX_INJECTION64_PATH" not in os.environ:
        path = _native.library_path()
        if path is not None:
            os.environ["NVTX_INJECTION64_PATH"] = path
