#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Programs of another revision against those of this tree, both ways.
#
#   tests/compat/run.sh BUILD_DIR REVISION    (make compat COMPAT_REVISION=...)
#
# Builds `capture` and the test's worker of REVISION once, into BUILD_DIR/compat/REVISION.
set -euo pipefail
build=$(realpath "$1")
root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
revision=$(git -C "$root" rev-parse --short=12 "$2^{commit}")
old=$build/compat/$revision
if [ ! -x "$old/build/bin/capture" ] || [ ! -x "$old/build/tests/clock_worker" ]; then
  mkdir -p "$old/source"
  git -C "$root" archive "$revision" | tar -x -C "$old/source"
  launcher=()
  if command -v ccache > /dev/null; then
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  (cd "$old/source" && cmake --log-level=WARNING --preset release -B "$old/build" "${launcher[@]}")
  cmake --build "$old/build" -j "${JOBS:-2}" --target capture clock_worker
fi
exec python3 "$root/tests/compat/versions_test.py" "$build" "$old/build"
