# SPDX-License-Identifier: Apache-2.0
"""Builds a wheel; CMake builds the native files.

`pip install ./python` (or `pip wheel ./python`), from a checkout, builds the native files in the checkout's build/. With
JOBSCOPE_BUILD_DIR=DIR, absolute or relative to the checkout, it takes those of that build tree and builds nothing.
"""
import os
import shutil
import subprocess
import sysconfig

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from setuptools.errors import SetupError

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GIVEN = os.environ.get("JOBSCOPE_BUILD_DIR")
BUILD = os.path.normpath(os.path.join(REPOSITORY, GIVEN or "build"))  # pip runs this elsewhere
PACKAGE = os.path.join(BUILD, "python", "jobscope")
NATIVE = (
    "_native.abi3.so",
    "bin/capture",
    "lib/libjobscope.so",
    "lib/libjobscope_attach.so",
    "lib/libjobscope_trace.so.0",
)
# Nothing is written beside the sources.
SCRATCH = os.path.join(BUILD, "python", "wheel")

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise SetupError(
        "jobscope: not for free-threaded Python: its extension uses the stable ABI, which those builds do not have, and its "
        "tables are guarded by the GIL. Use the ordinary build of this version."
    )


def run(*command):
    try:
        done = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupError(
            f"jobscope: {error}. The native files need Debian 12's packages: run `tools/install_deps.sh build test`, as root, "
            "and try again; or build them elsewhere (`make shipped`, then the target jobscope_python_package) and name that "
            "build tree in JOBSCOPE_BUILD_DIR."
        ) from error
    return done.stdout


def build_native():
    """Puts all of NATIVE into PACKAGE, in their variants for workers."""
    if not GIVEN:
        run("tools/pic_deps.sh")
        prefix = run("tools/pic_deps.sh", "--print-prefix").strip()
        run("cmake", "--preset", "release", f"-DJOBSCOPE_PIC_DEPS={prefix}", "--log-level=WARNING")
        run("cmake", "--build", BUILD, "--parallel", "2", "--target", "jobscope_python_package")
    missing = [name for name in NATIVE if not os.path.isfile(os.path.join(PACKAGE, name))]
    if missing:
        raise SetupError(
            f"jobscope: {PACKAGE} lacks {', '.join(missing)}: build the target jobscope_python_package in {BUILD}"
        )
    with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
        settings = dict(line.rstrip("\n").split("=", 1) for line in cache if "=" in line and line[0] not in "#/")
    if not settings.get("JOBSCOPE_PIC_DEPS:PATH") or settings.get("JOBSCOPE_SANITIZE:STRING"):
        raise SetupError(
            f"jobscope: the libjobscope.so of {BUILD} is one for development, over Debian's shared gRPC, and crashes inside "
            "TensorFlow: configure with -DJOBSCOPE_PIC_DEPS, as `make shipped` does"
        )


class BuildWithNative(build_py):
    """Copies Python files, and the native ones beside them."""

    def run(self):
        super().run()
        build_native()
        for name in NATIVE:
            target = os.path.join(self.build_lib, "jobscope", name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(os.path.join(PACKAGE, name), target)  # keeps its permissions


class StableAbiWheel(bdist_wheel):
    """Tags one wheel for CPython 3.10 and all later ones."""

    def get_tag(self):
        return ("cp310", "abi3", super().get_tag()[2])


class NativeDistribution(Distribution):
    """Marks the wheel as containing machine code, so that it goes into platlib and the tag names the platform."""

    def has_ext_modules(self):
        return True


os.makedirs(SCRATCH, exist_ok=True)
setup(
    distclass=NativeDistribution,
    cmdclass={"build_py": BuildWithNative, "bdist_wheel": StableAbiWheel},
    options={"build": {"build_base": SCRATCH}, "egg_info": {"egg_base": SCRATCH}},
)
