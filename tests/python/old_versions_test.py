# SPDX-License-Identifier: Apache-2.0
"""The import in an interpreter that is too old for the extension says so, before it looks for a symbol that it does not have."""
import glob
import os
import subprocess
import sys
import unittest

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")


def old_pythons():
    found = []
    for path in glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")):
        version = subprocess.run([path, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True, check=False)
        if version.returncode == 0 and int(version.stdout) < 10:
            found.append(path)
    return found


class OldVersionsTest(unittest.TestCase):
    def test_import_says_which_version_is_needed(self):
        for path in old_pythons():
            with self.subTest(python=path):
                done = subprocess.run(
                    [path, "-B", "-c", "import jobscope"], env={**os.environ, "PYTHONPATH": PACKAGE},
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                self.assertEqual(done.returncode, 1)
                self.assertIn("ImportError: jobscope needs Python 3.10 or later, and this is 3.", done.stderr)
                self.assertNotIn("undefined symbol", done.stderr)


if __name__ == "__main__":
    if not old_pythons():
        print("skipped: no interpreter before 3.10")
        sys.exit(77)
    unittest.main()
