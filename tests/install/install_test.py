# SPDX-License-Identifier: Apache-2.0
"""Installs the build into a prefix, moves it, and builds a project of somebody else's against it.

  install_test.py BUILD_DIRECTORY SOURCE_DIRECTORY
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import documents

FOLDER = os.path.dirname(os.path.abspath(__file__))
# A project of somebody's who has read docs/embedding.md.
READER = """
cmake_minimum_required(VERSION 3.16)
project(reader LANGUAGES C CXX)
add_executable(train {source})
{example}
target_compile_options(train PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
"""
BUILD = ""
SOURCE = ""
# What recording must not drag in: not even looked for by the package's configuration.
FORBIDDEN = ("gRPC", "Protobuf", "protobuf", "absl")


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout[-4000:]}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="jobscope-install-")
        run("cmake", "--install", BUILD, "--prefix", f"{cls.folder}/first")
        # A prefix is moved, packed, unpacked elsewhere: nothing in it may remember where it was.
        cls.prefix = f"{cls.folder}/moved"
        os.rename(f"{cls.folder}/first", cls.prefix)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def _build(self, project):
        """The folder of its build."""
        build = tempfile.mkdtemp(dir=self.folder)
        run(
            "cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON" for package in FORBIDDEN),
        )  # fmt: skip
        run("cmake", "--build", build)
        return build

    def test_make_shipped_builds_all_that_is_installed(self):
        """In a fresh tree: installing builds nothing, and ends half done where a file is missing."""
        recipe = pathlib.Path(f"{SOURCE}/Makefile").read_text(encoding="utf-8").partition("\nshipped:")[2]
        targets = re.search(r"--target ([\w ]+)\n", recipe)[1].split()
        if run("ninja", "-C", BUILD, "-t", "targets", "all").find("\njobscope_shipped:") < 0:
            self.skipTest("configured without JOBSCOPE_PIC_DEPS")
        built = set()
        for tool in ("inputs", "query"):
            built |= {line.strip(" |") for line in run("ninja", "-C", BUILD, "-t", tool, *targets).splitlines()}
        installed, scripts = set(), [os.path.join(BUILD, "cmake_install.cmake")]
        for script in scripts:  # each names those of its folders
            text = pathlib.Path(script).read_text(encoding="utf-8")
            scripts += re.findall(r'include\("([^"]+)"\)', text)
            for files in re.findall(r"TYPE (?:SHARED_LIBRARY|EXECUTABLE) FILES([^)]+)", text):
                installed |= {os.path.realpath(file) for file in re.findall(r'"([^"]+)"', files)}
        self.assertGreater(len(installed), 3)
        self.assertEqual({os.path.relpath(file, os.path.realpath(BUILD)) for file in installed} - built, set())

    def test_recording_needs_the_recorder_only(self):
        program = f"{self._build(f'{FOLDER}/outside')}/outside"
        needed = set(re.findall(r"NEEDED.*\[(.+?)\.so", run("readelf", "-dW", program)))
        self.assertLessEqual(needed, {"libjobscope_trace", "libc", "libstdc++", "libm", "libgcc_s"})
        self.assertIn("libjobscope_trace", needed)
        self.assertEqual(run(program), "recorded\n")

    def test_serving_and_capturing(self):
        project = tempfile.mkdtemp(dir=self.folder)
        example = documents.block("docs/embedding.md", "cmake", "find_package(jobscope").text
        with open(f"{project}/CMakeLists.txt", "w", encoding="utf-8") as file:
            file.write(READER.format(source=f"{FOLDER}/outside/serve.cc", example=example))
        output = run(f"{self._build(project)}/train", f"{self.folder}/logdir")
        self.assertRegex(output, r"^served at 127\.0\.0\.1:\d+\n$")
        runs = os.listdir(f"{self.folder}/logdir/plugins/profile")
        self.assertEqual(len(runs), 1)

    def test_as_a_part_of_another_project(self):
        build = f"{self.folder}/part"
        run("cmake", "-S", f"{FOLDER}/outside", "-B", build, f"-DJOBSCOPE_SOURCE={SOURCE}", "-DCMAKE_BUILD_TYPE=Debug")
        commands = pathlib.Path(f"{build}/compile_commands.json").read_text(encoding="utf-8")
        # Our warnings are no errors there, and nothing is built but what the project links.
        self.assertIn("-Wextra", commands)
        self.assertNotIn("_test.cc", commands)
        self.assertNotIn("/client/", commands)
        run("cmake", "--build", build)
        self.assertEqual(run(f"{build}/outside"), "recorded\n")
        ours = [entry["command"] for entry in json.loads(commands) if not entry["file"].startswith(FOLDER)]
        self.assertGreater(len(ours), 50)
        self.assertFalse([command for command in ours if "-Werror" in command])
        self.assertFalse(os.path.exists(f"{build}/jobscope/bin"))

    def test_headers_and_protos_are_complete(self):
        for tree, installed in (("include/jobscope", "include/jobscope"), ("proto", "share/jobscope/proto")):
            wanted = {
                os.path.relpath(os.path.join(folder, name), f"{SOURCE}/{tree}")
                for folder, _, names in os.walk(f"{SOURCE}/{tree}")
                for name in names
                if name.endswith((".h", ".proto"))
            }
            self.assertTrue(wanted)
            for name in wanted:
                self.assertTrue(os.path.isfile(f"{self.prefix}/{installed}/{name}"), name)

    def test_programs_run(self):
        self.assertIn("--service_addr", run(f"{self.prefix}/bin/capture", "--help"))

    def test_nothing_remembers_the_build(self):
        for folder, _, names in os.walk(self.prefix):
            for name in names:
                if not name.endswith((".cmake", ".h", ".proto")):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                self.assertNotIn(BUILD, text, name)
                self.assertNotIn(f"{self.folder}/first", text, name)


if __name__ == "__main__":
    BUILD, SOURCE = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
