#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every bench (programs named *_bench) one after another, alone, and keeps the figures as JSON.
#
# usage: bench/run.sh BIN_DIRECTORY OUT_DIRECTORY
set -euo pipefail
bin=${1:?usage: run.sh BIN_DIRECTORY OUT_DIRECTORY}
out=${2:?usage: run.sh BIN_DIRECTORY OUT_DIRECTORY}
mkdir -p "$out"
shopt -s nullglob
benches=("$bin"/*_bench)
if [[ ${#benches[@]} -eq 0 ]]; then
  echo "bench: no *_bench in $bin" >&2
  exit 1
fi
echo "bench: $(nproc) cores, $(sed -n 's/^model name\t*: //p' /proc/cpuinfo | head -1), load $(cut -d' ' -f1 /proc/loadavg)"
for bench in "${benches[@]}"; do
  name=$(basename "$bench")
  echo "==== $name"
  "$bench" --benchmark_out="$out/$name.json" --benchmark_out_format=json
done
echo "bench: figures are in $out"
