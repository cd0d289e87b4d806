# SPDX-License-Identifier: Apache-2.0
"""What the interop tests share: processes, workers, clients, and readers of what they leave on disk."""
