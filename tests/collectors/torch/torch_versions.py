#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tests with one version of PyPI's after the other: what docs/frameworks.md says of versions comes from here.

usage: torch_versions.py BUILD [VERSION...]      with the shipped library in BUILD (make torch-versions)

Each version is installed (2 to 6 GB), tested and removed again. Prints a table; exit 1 if a test failed.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = ["2.0.1", "2.1.2", "2.4.1", "2.6.0", "2.9.1", "2.12.1", "2.14.1"]
TESTS = ["torch_test.py", "torch_suite.py"]


def test_environment(build):
    """What ctest sets for these tests."""
    listed = subprocess.run(
        ["ctest", "--show-only=json-v1", "-R", "^framework_torch$"], cwd=build, stdout=subprocess.PIPE, check=True
    )
    (test,) = json.loads(listed.stdout)["tests"]
    properties = {one["name"]: one["value"] for one in test["properties"]}
    return dict(line.split("=", 1) for line in properties["ENVIRONMENT"])


def run(python, test, environment):
    """(passed, skipped, what it said)"""
    done = subprocess.run(
        [python, "-B", os.path.join(HERE, test)], env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, check=False,
    )  # fmt: skip
    count = re.search(r"Ran (\d+) tests?", done.stdout)
    result = "skipped" if done.returncode == 77 else f"{count.group(1) if count else '?'} passed"
    if done.returncode not in (0, 77):
        result = "FAILED"
    return result, done.stdout


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    environment = test_environment(sys.argv[1])
    failed = False
    print("| PyTorch |", " | ".join(TESTS), "|")
    print("|" + " --- |" * (len(TESTS) + 1))
    for version in sys.argv[2:] or VERSIONS:
        folder = tempfile.mkdtemp(prefix=f"torch-{version}-")
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            python = os.path.join(folder, "bin", "python")
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", f"torch=={version}", "numpy<2"], check=True
            )
            results = []
            for test in TESTS:
                result, said = run(python, test, environment)
                results.append(result)
                if result == "FAILED":
                    failed = True
                    print(said, file=sys.stderr)
            print(f"| {version} |", " | ".join(results), "|", flush=True)
        finally:
            shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
