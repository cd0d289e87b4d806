# SPDX-License-Identifier: Apache-2.0
"""What the dynamic linker sees of libjobscope.so and libjobscope_trace.so: the agreed symbols, libc, and nothing else. And how these,
libjobscope_attach.so, the Python extension and the wheel's client are hardened."""
import os
import re
import subprocess
import sys
import unittest

LIBRARY = os.environ["JOBSCOPE_TEST_LIBRARY"]
TRACE = os.environ["JOBSCOPE_TEST_TRACE_LIBRARY"]
ATTACH = os.environ["JOBSCOPE_TEST_ATTACH"]
EXTENSION = os.environ.get("JOBSCOPE_TEST_PYTHON_EXTENSION", "")
WHEELS_CLIENT = os.environ.get("JOBSCOPE_TEST_WHEELS_CLIENT", "")
FOLDER = os.path.dirname(os.path.abspath(__file__))
GLIBC_FLOOR = (2, 34)
MIB = 1 << 20


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def public_symbols(library):
    """The agreed list: lines 'file symbol'."""
    name = os.path.basename(library).split(".so")[0]
    with open(os.path.join(FOLDER, "exported_symbols.txt"), encoding="ascii") as lines:
        pairs = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return {symbol for file, symbol in pairs if file == name}


class Hardening:
    """Holds for all that is shipped."""

    library = ""
    checked = ()  # functions with a check of their buffer that it calls

    def test_relocations_become_read_only(self):
        self.assertIn("GNU_RELRO", run("readelf", "-lW", self.library))
        self.assertRegex(run("readelf", "-dW", self.library), r"FLAGS_1.*NOW")

    def test_neither_stack_nor_data_are_executable(self):
        # Type, offset, two addresses, two sizes, flags ("R E" are two words), alignment.
        lines = [line.split() for line in run("readelf", "-lW", self.library).splitlines()]
        segments = [(line[0], "".join(line[6:-1])) for line in lines if len(line) > 7 and line[1].startswith("0x")]
        self.assertIn(("GNU_STACK", "RW"), segments)
        for kind, flags in segments:
            self.assertFalse("W" in flags and "E" in flags, kind)

    def test_stack_and_buffers_are_checked(self):
        undefined = run("nm", "-D", "--undefined-only", self.library)
        self.assertIn("__stack_chk_fail@", undefined)
        for function in self.checked:
            self.assertIn(f" {function}@", undefined)

    def test_holds_no_path_of_the_build(self):
        with open(self.library, "rb") as file:
            # Not assertNotIn, which prints the library.
            self.assertEqual(file.read().find(os.path.realpath(os.path.join(FOLDER, "../..")).encode()), -1)

    def test_has_no_text_relocations(self):
        self.assertNotIn("TEXTREL", run("readelf", "-dW", self.library))


class Checks(Hardening):
    """Holds for both libraries."""

    needed = set()

    def _exported(self):
        """(kind, symbol without its version) of each, but for the names of the versions themselves."""
        fields = [line.split()[-2:] for line in run("nm", "-D", "--defined-only", self.library).splitlines()]
        return [(kind, symbol.split("@")[0]) for kind, symbol in fields if kind != "A"]

    def test_exports_exactly_the_public_list(self):
        self.assertEqual({symbol for _, symbol in self._exported()}, public_symbols(self.library))

    def test_exports_functions_only(self):
        # "u" would be shared with every other library of the process; a variable may be copied into the program.
        self.assertEqual({kind for kind, _ in self._exported()}, {"T"})

    def test_needs_only_the_c_library(self):
        needed = re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-dW", self.library))
        self.assertLessEqual(set(needed), self.needed)

    def test_undefined_symbols_are_libc_s(self):
        for line in run("nm", "-D", "--undefined-only", self.library).splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "w" and symbol in ("__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable"):
                continue  # the toolchain's own, absent everywhere
            self.assertRegex(symbol, r"@(GLIBC|GCC)_", line)

    def test_glibc_floor(self):
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "-T", self.library))
        self.assertTrue(versions)
        self.assertLessEqual(max((int(major), int(minor)) for major, minor in versions), GLIBC_FLOOR)

    def test_stays_loaded(self):
        self.assertRegex(run("readelf", "-dW", self.library), r"FLAGS_1.*NODELETE")

    def test_is_stripped(self):
        self.assertNotIn(".debug_info", run("readelf", "-SW", self.library))
        self.assertNotIn(".symtab", run("readelf", "-SW", self.library))


class ServerLibrary(Checks, unittest.TestCase):
    library = LIBRARY
    checked = ("__memcpy_chk",)
    needed = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

    def test_has_no_static_tls(self):
        # A library with it can fail to load late, when the process's static block is used up.
        self.assertNotIn("STATIC_TLS", run("readelf", "-dW", self.library))

    def test_runs_no_code_of_others_through_the_loader(self):
        dynamic = run("readelf", "-dW", self.library)
        self.assertIn("SYMBOLIC", dynamic)
        self.assertIn("BIND_NOW", dynamic)

    def test_size(self):
        size = os.path.getsize(self.library)
        print(f"{self.library}: {size / MIB:.1f} MiB", file=sys.stderr)
        self.assertLess(size, 16 * MIB)


class TraceLibrary(Checks, unittest.TestCase):
    library = TRACE
    needed = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

    def test_static_tls_is_small(self):
        # Its thread-local pointer is reached without a call, at the price of a few bytes of the process's static block,
        # which keeps about 1,600 for libraries that are loaded late.
        found = re.search(r"TLS +\S+ +\S+ +\S+ +\S+ +0x([0-9a-f]+)", run("readelf", "-lW", self.library))
        self.assertIsNotNone(found)
        self.assertLessEqual(int(found.group(1), 16), 64)

    def test_size(self):
        size = os.path.getsize(self.library)
        print(f"{self.library}: {size / 1024:.1f} KiB", file=sys.stderr)
        self.assertLess(size, 100 * 1024)


class AttachLibrary(Hardening, unittest.TestCase):
    library = ATTACH  # its symbols: tests/server/attach/check_library.py


@unittest.skipUnless(EXTENSION, "the Python package is not built")
class PythonExtension(Hardening, unittest.TestCase):
    library = EXTENSION


@unittest.skipUnless(WHEELS_CLIENT, "the wheel's client is not built")
class WheelsClient(Hardening, unittest.TestCase):
    library = WHEELS_CLIENT


if __name__ == "__main__":
    unittest.main(verbosity=2)
