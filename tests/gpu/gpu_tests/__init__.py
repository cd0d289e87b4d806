# SPDX-License-Identifier: Apache-2.0
"""Checks of the CUDA collector on a real GPU: docs/gpu_tests.md. Standard library only."""
