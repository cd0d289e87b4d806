# SPDX-License-Identifier: Apache-2.0
"""NVTX ranges of this process."""
import os

from jobscope import _native


def serve():
    """Names our library to NVTX, for the modules that make their first NVTX call from now on. What is set already stays:
    an attached library, another tool, or "none". Processes below inherit it; in them our library finds no recorder and
    declines."""
    if "NVTX_INJECTION64_PATH" not in os.environ:
        path = _native.library_path()
        if path is not None:
            os.environ["NVTX_INJECTION64_PATH"] = path
