#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs two training programs on loopback and captures both: what `make demo` runs.
#
# usage: examples/demo.sh BIN_DIRECTORY LOGDIR
#
# Exits with 0 only if both workers served, both were captured, and both traces hold steps. Always stops the workers.
set -euo pipefail
bin=${1:?usage: demo.sh BIN_DIRECTORY LOGDIR}
logdir=${2:?usage: demo.sh BIN_DIRECTORY LOGDIR}

scratch=$(mktemp -d)
pids=()
stop_workers() {
  if [[ ${#pids[@]} -gt 0 ]]; then
    kill -TERM "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
  fi
  rm -rf "$scratch"
}
trap stop_workers EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

die() {
  echo "demo: $*" >&2
  exit 1
}

# Starts one worker. Its output goes through a pipe, so that waiting for its address needs no polling. Appends to pids,
# outputs, addresses.
outputs=()
addresses=()
start_worker() {
  local pipe=$scratch/worker${#pids[@]} line output
  mkfifo "$pipe"
  # Workers write one audit line per request; here they would stand between the lines of the client.
  JOBSCOPE_LOG_LEVEL=error "$bin/train_loop" --listen=127.0.0.1:0 "$@" >"$pipe" &
  pids+=($!)
  exec {output}<"$pipe"
  read -r -t 20 line <&"$output" || die "a worker ended, or was silent for 20 s, before it served"
  [[ $line == "listening on "* ]] || die "a worker said '$line' where its address was due"
  outputs+=("$output")
  addresses+=("${line#listening on }")
}

echo "demo: two workers; the second one waits 10 ms longer for its input"
start_worker
start_worker --slow_ms=10

# Lists the workers. This also gives the clocks of workers that are milliseconds old the 100 ms that they need before a
# capture.
check=("$bin/capture" check "--service_addr=${addresses[0]},${addresses[1]}")
echo "demo: ${check[*]}"
"${check[@]}" || die "capture check failed with exit code $?"

capture=("$bin/capture" "--service_addr=${addresses[0]},${addresses[1]}" --duration_ms=2000 "--logdir=$logdir")
echo "demo: ${capture[*]}"
mkdir -p "$logdir"
"${capture[@]}" || die "capture failed with exit code $?"

run=
for manifest in "$logdir"/plugins/profile/*/capture.json; do
  if [[ -e $manifest && (-z $run || $manifest -nt $run/capture.json) ]]; then run=$(dirname "$manifest"); fi
done
[[ -n $run ]] || die "capture left no finished run under $logdir/plugins/profile"

echo
echo "demo: the run is in $run"
"$bin/jobscope" report "$run" "--html=$run/report.html" >"$scratch/report" || die "jobscope report failed with exit code $?"
grep -q '^VERDICT  ' "$scratch/report" || die "the report has no verdict"

echo
echo "demo: what the workers measured themselves"
for i in "${!pids[@]}"; do
  kill -TERM "${pids[i]}"
  read -r -t 20 line <&"${outputs[i]}" || die "worker ${addresses[i]} did not end in 20 s"
  echo "${addresses[i]}: $line"
  wait "${pids[i]}" || die "worker ${addresses[i]} ended with exit code $?"
done
pids=()

cat <<END

Open it:
  jobscope     $run/report.html
  XProf        pip install xprof && xprof --logdir=$logdir --port=8791
               then http://localhost:8791 : Overview, Input Pipeline, Trace Viewer
  TensorBoard  pip install tensorboard tensorboard-plugin-profile && tensorboard --logdir=$logdir
  Perfetto     examples/to_perfetto.py $run
               then drop the files it writes on https://ui.perfetto.dev (needs xprof from PyPI)
END

echo
echo "demo: jobscope report $run"
sed '/^$/,$d' "$scratch/report"
