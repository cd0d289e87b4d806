#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_layout.py: each rule finds what breaks it, and nothing else."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import check_layout


def found(*paths, **lines):
    return list(check_layout.violations({**dict.fromkeys(paths, 10), **lines}))


class CheckLayoutTest(unittest.TestCase):
    def test_a_folder_grows(self):
        most = [f"server/rpc/file{number}.cc" for number in range(check_layout.MOST_FILES)]
        self.assertEqual(found(*most), [])
        self.assertRegex(found(*most, "server/rpc/more.h")[0], r"^server/rpc/ has 26 files")

    def test_a_file_grows(self):
        self.assertEqual(found(**{"server/rpc/call.cc": check_layout.MOST_LINES}), [])
        self.assertRegex(found(**{"server/rpc/call.cc": check_layout.MOST_LINES + 1})[0], r"^server/rpc/call.cc has 501 lines")

    def test_a_test_lies_elsewhere(self):
        self.assertEqual(found("common/net/endpoint.cc", "tests/common/net/endpoint_test.cc"), [])
        self.assertRegex(found("common/net/endpoint.cc", "tests/common/endpoint_test.cc")[0], "belongs into tests/common/net/$")

    def test_names_that_name_no_subject(self):
        # Named after a theme, and after two subjects.
        self.assertEqual(found("server/a/record.cc", "client/b/record.cc", "tests/server/record_test.cc", "tests/server/late_test.cc"), [])

    def test_an_empty_tree_is_an_error(self):
        with tempfile.TemporaryDirectory() as root:
            run = subprocess.run([sys.executable, str(pathlib.Path(check_layout.__file__)), root], capture_output=True, check=False)
        self.assertEqual(run.returncode, 1)


if __name__ == "__main__":
    unittest.main()
