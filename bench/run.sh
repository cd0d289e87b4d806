#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every bench (programs named *_bench, then capture_bench.py) one after another, alone, and keeps the figures as
# JSON.
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
  "$bench" --benchmark_repetitions=5 --benchmark_report_aggregates_only=false --benchmark_out="$out/$name.json" --benchmark_out_format=json
done

echo "==== a thousand workers"
python3 "$(dirname "$0")/scale_bench.py" "$bin" "$out/scale_bench.json"

# python_bench TITLE COMMAND...: runs a bench written in Python; exit code 77 means that its peers are not installed.
python_bench() {
  echo "==== $1"
  shift
  local code=0
  PYTHONPATH=$bin/../python "$@" || code=$?
  if [[ $code -ne 0 && $code -ne 77 ]]; then
    echo "bench: $* failed" >&2
    exit 1
  fi
}
here=$(dirname "$0")
venv=("$here/../tools/venv.sh" --run)
python_bench "scopes in Python (docs/python.md)" \
  "${venv[@]}" "$here/python_scope_bench.py" --json "$out/python_scope_bench.json"
python_bench "Python's functions (docs/python.md)" \
  python3 "$here/python_tracer_bench.py" --rounds 5 --steps 30 --threads 8 --json "$out/python_tracer_bench.json"
python_bench "waits for the GIL (docs/python.md)" \
  "${venv[@]}" "$here/python_lock_bench.py" --captures 5 --imports jax --json "$out/python_lock_bench.json"
python_bench "operators of PyTorch (docs/frameworks.md)" \
  /usr/bin/python3 "$here/torch_ops_bench.py" --json "$out/torch_ops_bench.json"
python_bench "opening the report in Chromium (docs/report.md)" \
  python3 "$here/report_page_bench.py" "$bin/jobscope" "$bin/../tests/made_runs" --json "$out/report_page_bench.json"
python_bench "whole captures beside the stock pair (docs/benchmarks.md)" \
  "${venv[@]}" "$here/capture_bench.py" "$bin" "$out/capture_bench.json"
echo "bench: figures are in $out"
