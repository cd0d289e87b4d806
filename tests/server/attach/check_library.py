# SPDX-License-Identifier: Apache-2.0
"""Checks that libjobscope_attach.so exports only CUDA's and NVTX's entry points, and needs only libc."""
import os
import re
import subprocess
import unittest

LIBRARY = os.environ["JOBSCOPE_TEST_ATTACH"]
ENTRY_POINTS = {"InitializeInjection", "InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension"}
MAX_BYTES = 64 * 1024  # mapped into every process that inherits LD_PRELOAD


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class AttachLibrary(unittest.TestCase):
    def test_exports_the_entry_points_only(self):
        lines = [line.split()[-2:] for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()]
        self.assertEqual({tuple(line) for line in lines}, {("T", name) for name in ENTRY_POINTS})

    def test_needs_only_libc(self):
        self.assertEqual(re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-dW", LIBRARY)), ["libc.so.6"])

    def test_undefined_symbols_are_libc_s(self):
        toolchain = ("__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable")
        for line in run("nm", "-D", "--undefined-only", LIBRARY).splitlines():
            kind, symbol = line.split()[-2:]
            if kind != "w" or symbol not in toolchain:
                self.assertRegex(symbol, r"@GLIBC_", line)

    def test_glibc_floor(self):
        versions = {(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "-T", LIBRARY))}
        self.assertLessEqual(max(versions), (2, 34))

    def test_flags(self):
        dynamic = run("readelf", "-dW", LIBRARY)
        self.assertRegex(dynamic, r"FLAGS_1.*NODELETE")
        self.assertIn("BIND_NOW", dynamic)
        self.assertNotIn("TEXTREL", dynamic)
        self.assertNotIn("TLS", run("readelf", "-lW", LIBRARY))

    def test_size(self):
        self.assertLess(os.path.getsize(LIBRARY), MAX_BYTES)


if __name__ == "__main__":
    unittest.main(verbosity=2)
