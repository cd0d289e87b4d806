# SPDX-License-Identifier: Apache-2.0
"""Names that are made up at each call fill tables of fixed size, and do not take the place of those in the code."""
import tempfile
import unittest

import jobscope
import xspace
from jobscope import _native

MADE_UP = 10000
ROOM = 4096  # of the recorder's table of names that are not in the code


class DictionaryTest(unittest.TestCase):
    def test_made_up_names_are_bounded(self):
        with tempfile.TemporaryDirectory() as folder:
            with jobscope.capture(folder) as it:
                with jobscope.trace("before"):
                    pass
                for i in range(MADE_UP):
                    with jobscope.trace(f"made up {i}"):
                        pass
                for _ in range(3):
                    with jobscope.trace("after"):
                        pass
                with jobscope.trace("made up 0"):
                    pass
            events = xspace.host_events(it.result.run_directory)
        self.assertEqual(it.result.lost, 0)
        self.assertEqual(len(xspace.named(events, "before")), 1)
        self.assertEqual(len(xspace.named(events, "after")), 3)
        self.assertEqual(len(xspace.named(events, "made up 0")), 2)
        self.assertEqual(len(xspace.named(events, f"made up {ROOM - 1}")), 1)
        # Events whose names found no room are recorded under a name that says why.
        self.assertEqual(len(xspace.named(events, "(dictionary full)")), MADE_UP - ROOM)
        info = _native.cache_info()
        self.assertLessEqual(info["kept_names"], 2048)
        self.assertLessEqual(info["known_sites"], ROOM + 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
