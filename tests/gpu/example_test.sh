#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The CUDA example, compiled where nvcc is: trains for a few steps where a GPU is; without one it says so, and fails.
#
# usage: example_test.sh [TRAIN_LOOP_CUDA]      without a program: skipped, because there was no nvcc
set -uo pipefail
if [[ $# -eq 0 ]]; then
  echo "SKIP: no nvcc here, so examples/train_loop.cu is not compiled"
  exit 77
fi
if ! command -v ldd >/dev/null || ldd "$1" | grep -q 'not found'; then
  echo "FAILED: $1 is not built, or lacks libraries: $(ldd "$1" 2>&1 | grep 'not found')"
  exit 1
fi
output=$(timeout 60 "$1" --listen=127.0.0.1:0 --steps=20 --size=256 2>&1)
code=$?
echo "$output"
if [[ $code -eq 0 ]]; then
  grep -q '^listening on 127.0.0.1:' <<<"$output" && grep -q '^steps 20,' <<<"$output"
  exit
fi
if [[ $code -eq 1 ]] && grep -q 'no CUDA device' <<<"$output"; then
  echo "no GPU here: it says so, and ends with 1"
  exit 0
fi
echo "FAILED: exit code $code"
exit 1
