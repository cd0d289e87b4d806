#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every bench one after another, alone, and keeps the figures as JSON. Those of an earlier run are removed before each bench: it
# may leave none, where its peers are not installed.
#
# usage: bench/run.sh BIN_DIRECTORY OUT_DIRECTORY [--scale] [--write]
#   --scale   also 10,000 addresses (if kernel.pid_max is at least 65,536), and 250 processes with 750 dead addresses
#   --write   puts the tables into docs/benchmarks.md
set -euo pipefail
usage="usage: run.sh BIN_DIRECTORY OUT_DIRECTORY [--scale] [--write]"
bin=${1:?$usage}
out=${2:?$usage}
scale=''
write=''
for flag in "${@:3}"; do
  case $flag in
    --scale) scale=1 ;;
    --write) write=1 ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
done
mkdir -p "$out"
here=$(dirname "$0")
shopt -s nullglob
benches=("$bin"/*_bench)
if [[ ${#benches[@]} -eq 0 ]]; then
  echo "bench: no *_bench in $bin" >&2
  exit 1
fi
(cd "$here" && python3 -B -c 'import figures; print("bench:", figures.machine())')
for bench in "${benches[@]}"; do
  name=$(basename "$bench")
  echo "==== $name"
  rm -f "$out/$name.json"
  "$bench" --benchmark_repetitions=9 --benchmark_report_aggregates_only=false --benchmark_out="$out/$name.json" \
    --benchmark_out_format=json
done
rm -f "$out/embed_cost.json"
if [[ -e $bin/../shipped/libjobscope.so ]]; then
  echo "==== cost of the library for a process (docs/embedding.md)"
  "$bin/embed_cost" "$bin/../shipped/libjobscope.so" | tee "$out/embed_cost.json"
fi

# scale NAME FLAG...: one capture of many addresses; exit code 77 means that the machine's limits do not allow it.
scale() {
  local code=0
  rm -f "$out/$1.json"
  python3 -B "$here/scale_bench.py" "$bin" "$out/$1.json" "${@:2}" || code=$?
  if [[ $code -ne 0 && $code -ne 77 ]]; then
    echo "bench: scale_bench.py failed" >&2
    exit 1
  fi
}
echo "==== a thousand workers"
scale scale_bench
if [[ $scale ]]; then
  scale scale_10000 --workers=9960 --processes=8 --runs=5
  scale scale_processes --workers=1000 --dead=750 --real --events_per_second=1
fi

# python_bench TITLE COMMAND... FILE: runs a bench written in Python, which writes FILE; exit code 77 means that its peers are not
# installed.
python_bench() {
  echo "==== $1"
  shift
  local code=0
  rm -f "${!#}"
  PYTHONPATH=$bin/../python "$@" || code=$?
  if [[ $code -ne 0 && $code -ne 77 ]]; then
    echo "bench: $* failed" >&2
    exit 1
  fi
}
venv=("$here/../tools/venv.sh" --run)
python_bench "scopes in Python (docs/python.md)" \
  "${venv[@]}" "$here/python_scope_bench.py" --json "$out/python_scope_bench.json"
python_bench "Python's functions (docs/python.md)" \
  python3 "$here/python_tracer_bench.py" --rounds 5 --steps 30 --threads 8 --json "$out/python_tracer_bench.json"
python_bench "waits for the GIL (docs/python.md)" \
  "${venv[@]}" "$here/python_lock_bench.py" --captures 5 --imports jax --json "$out/python_lock_bench.json"
python_bench "operators of PyTorch (docs/frameworks.md)" \
  /usr/bin/python3 "$here/torch_ops_bench.py" --json "$out/torch_ops_bench.json"
python_bench "collectors, Python and JAX (docs/benchmarks.md)" \
  "${venv[@]}" "$here/collector_cost_bench.py" --only python,jax --json "$out/collector_cost_bench.json"
python_bench "collectors, PyTorch (docs/benchmarks.md)" \
  /usr/bin/python3 "$here/collector_cost_bench.py" --only torch --json "$out/torch_collector_cost_bench.json"
python_bench "steps of JAX and TensorFlow (docs/benchmarks.md)" \
  "${venv[@]}" "$here/framework_step_bench.py" --json "$out/framework_step_bench.json"
python_bench "steps of PyTorch (docs/benchmarks.md)" \
  /usr/bin/python3 "$here/framework_step_bench.py" --json "$out/torch_step_bench.json"
python_bench "opening the report in Chromium (docs/report.md)" \
  python3 "$here/report_page_bench.py" "$bin/jobscope" "$bin/../tests/made_runs" --json "$out/report_page_bench.json"
python_bench "whole captures beside the stock pair (docs/benchmarks.md)" \
  "${venv[@]}" "$here/capture_bench.py" "$bin" "$out/capture_bench.json"
if [[ $write ]]; then
  python3 -B "$here/tables.py" "$out"
fi
echo "bench: figures are in $out"
