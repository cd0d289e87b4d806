#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every bench (programs named *_bench, then capture_bench.py) one after another, alone, and keeps the figures as JSON.
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

echo "==== a thousand workers"
python3 "$(dirname "$0")/scale_bench.py" "$bin" "$out/scale_bench.json"

echo "==== scopes in Python (docs/python.md)"
code=0
PYTHONPATH=$bin/../python "$(dirname "$0")/../deploy/venv.sh" --run "$(dirname "$0")/python_scope_bench.py" --json "$out/python_scope_bench.json" || code=$?
if [[ $code -ne 0 && $code -ne 77 ]]; then
  echo "bench: python_scope_bench.py failed" >&2
  exit 1
fi

echo "==== operators of PyTorch (docs/frameworks.md)"
code=0
PYTHONPATH=$bin/../python /usr/bin/python3 "$(dirname "$0")/torch_ops_bench.py" --json "$out/torch_ops_bench.json" || code=$?
if [[ $code -ne 0 && $code -ne 77 ]]; then
  echo "bench: torch_ops_bench.py failed" >&2
  exit 1
fi

echo "==== whole captures beside the stock pair (docs/benchmarks.md)"
code=0
"$(dirname "$0")/../deploy/venv.sh" --run "$(dirname "$0")/capture_bench.py" "$bin" "$out/capture_bench.json" || code=$?
if [[ $code -ne 0 && $code -ne 77 ]]; then
  echo "bench: capture_bench.py failed" >&2
  exit 1
fi
echo "bench: figures are in $out"
