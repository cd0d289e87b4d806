#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs one interop test with the environment of the real peers.
#
#   run_test.sh SCRIPT.py BIN_DIRECTORY [unittest arguments...]
#
# Exit 77: skipped, because tools/venv.sh has not made the environment, or because a program is not built.
set -euo pipefail

readonly here=$(dirname "$(realpath "$0")")
readonly repo=$(dirname "$(dirname "$here")")
readonly script=$1
JOBSCOPE_BIN=$(realpath "$2")
export JOBSCOPE_BIN
shift 2

for tool in protoc setpriv prlimit; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is missing"
    exit 77
  fi
done

export JOBSCOPE_PROTO_DIR=$repo/proto
export PYTHONPATH=$here
exec "$repo/tools/venv.sh" --run "$here/$script" "$@"
