# SPDX-License-Identifier: Apache-2.0
"""A test case that records with the package `jobscope` and reads the trace."""
import contextlib
import tempfile
import unittest

import jobscope
import xspace


class RecordingCase(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="jobscope-python-")
        self.addCleanup(self._folder.cleanup)

    @contextlib.contextmanager
    def recorded(self, **options):
        """The events of the block, a list that is filled when it has ended."""
        events = []
        with jobscope.capture(self._folder.name, **options) as it:
            yield events
        events += xspace.host_events(it.result.run_directory)
        self.assertEqual(it.result.lost, 0)

    def only(self, events, name):
        found = xspace.named(events, name)
        self.assertEqual(len(found), 1, (name, sorted({event.name for event in events})))
        return found[0]
