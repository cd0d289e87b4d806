# SPDX-License-Identifier: Apache-2.0
"""Provides processes, workers, clients and readers of their files for the interop tests."""
