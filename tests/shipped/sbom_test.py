# SPDX-License-Identifier: Apache-2.0
"""Tests the bill of materials of this build: the linked components, in the versions of Debian's database."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SBOM = os.environ["JOBSCOPE_TEST_SBOM"]
BUILD = os.environ["JOBSCOPE_TEST_BUILD"]
# The last two where a wheel was built.
PARTS = [os.path.join(BUILD, path) for path in ("shipped/libjobscope.so", "shipped/libjobscope_trace.so.0", "shipped/libjobscope_attach.so")]
PARTS += filter(os.path.exists, (os.path.join(BUILD, path) for path in ("portable/capture", "python/jobscope/_native.abi3.so")))
WITH_GRPC = {"libjobscope.so", "capture"}
# The packages that contain Debian's archives, and the source packages of those that are compiled again.
BINARY_PACKAGES = ("libgrpc-dev", "libgrpc++-dev", "libssl-dev", "libc-ares-dev", "zlib1g-dev")
SOURCE_PACKAGES = {"abseil": "libabsl-dev", "protobuf": "libprotobuf-dev", "re2": "libre2-dev"}


def dpkg_version(package, field):
    return subprocess.run(["dpkg-query", "-W", f"-f=${{{field}}}", package], check=True, capture_output=True, text=True).stdout


class SbomTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.texts = []
            for name in ("first", "second"):
                path = os.path.join(folder, name)
                subprocess.run([sys.executable, "-B", SBOM, BUILD, path], check=True)
                with open(path, "rb") as file:
                    cls.texts.append(file.read())
        cls.bom = json.loads(cls.texts[0])
        cls.components = {component["name"]: component for component in cls.bom["components"]}

    def test_the_same_build_gives_the_same_bytes(self):
        self.assertEqual(*self.texts)

    def test_holds_what_is_linked_in_with_its_version(self):
        for package in BINARY_PACKAGES:
            self.assertEqual(self.components[package]["version"], dpkg_version(package, "Version"), package)
        for source, package in SOURCE_PACKAGES.items():
            self.assertEqual(self.components[source]["version"], dpkg_version(package, "source:Version"), source)

    def test_another_version_of_a_package_is_linked(self):
        """Debian's archives have the dates of their source packages, so a fixed one may be older than the last build."""
        versions = "linked_packages.txt"
        with open(os.path.join(BUILD, versions), encoding="utf-8") as file:
            linked = dict(line.split() for line in file)
        for package in (*BINARY_PACKAGES, *SOURCE_PACKAGES.values()):
            self.assertEqual(linked[package], dpkg_version(package, "Version"))
        for program in ("shipped/libjobscope.so", "bin/capture", "portable/capture"):
            query = subprocess.run(["ninja", "-C", BUILD, "-t", "query", program], capture_output=True, text=True, check=True).stdout
            self.assertIn(f"| {versions}\n", query.partition("outputs:")[0], program)

    def test_a_package_that_was_upgraded_since_the_build_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("CMakeCache.txt", "linked_packages.txt"):
                shutil.copy(os.path.join(BUILD, name), folder)
            path = os.path.join(folder, "linked_packages.txt")
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("libssl-dev 3", "libssl-dev 2"))
            done = subprocess.run([sys.executable, "-B", SBOM, folder], capture_output=True, text=True, check=False)
            self.assertIn("sbom: libssl-dev is 3", done.stderr)
            self.assertEqual(done.returncode, 1)

    def test_hashes_are_those_of_the_files(self):
        for path in PARTS:
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            self.assertEqual(self.components[os.path.basename(path)]["hashes"], [{"alg": "SHA-256", "content": digest}], path)

    def test_server_and_client_depend_on_grpc(self):
        needs = {entry["ref"]: entry["dependsOn"] for entry in self.bom["dependencies"]}
        for name in map(os.path.basename, PARTS):
            holds_grpc = any("libgrpc" in needed for needed in needs[self.components[name]["bom-ref"]])
            self.assertEqual(holds_grpc, name in WITH_GRPC, name)


if __name__ == "__main__":
    unittest.main()
