# SPDX-License-Identifier: Apache-2.0
"""Attaches jobscope to NVTX in this process."""
import os

from jobscope import _native


def serve():
    """Makes NVTX use jobscope's library, for modules that make their first NVTX call after this. Keeps an existing
    setting: an attached library, another tool, or "none". Child processes inherit the setting; if they have no recorder,
    the library leaves NVTX without a tool.
    """
    if "NVTX_INJECTION64_PATH" not in os.environ:
        path = _native.library_path()
        if path is not None:
            os.environ["NVTX_INJECTION64_PATH"] = path
