#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzzer, or those named, for some time over its corpus; 0 seconds: over its corpus only. Stops at the first crash; the
# input that caused it is then in FUZZER_DIRECTORY/crashes/.
#
# usage: tests/tooling/fuzz.sh FUZZER_DIRECTORY SECONDS_EACH [NAME...]
#
# A fuzzer is a program named <name>_fuzzer; its corpus, if there is one, is tests/fuzz/corpus/<name>/. New inputs go to
# FUZZER_DIRECTORY/corpus/<name>/, not into the tree; what was reached, and "<runs> <seconds>", to FUZZER_DIRECTORY/coverage/
# (fuzz_coverage.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
fuzzers=${1:?usage: fuzz.sh FUZZER_DIRECTORY SECONDS_EACH [NAME...]}
seconds=${2:?usage: fuzz.sh FUZZER_DIRECTORY SECONDS_EACH [NAME...]}
shift 2
shopt -s nullglob
found=("$fuzzers"/*_fuzzer)
if [[ $# -gt 0 ]]; then
  found=("$@")
  found=("${found[@]/#/$fuzzers/}")
  found=("${found[@]/%/_fuzzer}")
fi
if [[ ${#found[@]} -eq 0 ]]; then
  echo "fuzz: no *_fuzzer in $fuzzers" >&2
  exit 1
fi
if [[ -w /dev/shm ]]; then export TMPDIR=${TMPDIR:-/dev/shm}; fi  # some write files
limit=-max_total_time=$seconds
if [[ $seconds -eq 0 ]]; then limit=-runs=0; fi
for fuzzer in "${found[@]}"; do
  name=$(basename "$fuzzer" _fuzzer)
  grown=$fuzzers/corpus/$name
  mkdir -p "$grown" "$fuzzers/crashes" "$fuzzers/coverage"
  corpora=("$grown")
  if [[ -d tests/fuzz/corpus/$name ]]; then corpora+=("tests/fuzz/corpus/$name"); fi
  echo "==== $name for $seconds s"
  stats=$fuzzers/coverage/$name.stats
  rm -f "$stats"
  began=$SECONDS
  LLVM_PROFILE_FILE=$fuzzers/coverage/$name.profraw \
    "$fuzzer" "$limit" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$fuzzers/crashes/$name-" "${corpora[@]}" 2>&1 |
    tee "$fuzzers/coverage/$name.log" | grep -vE '^#[0-9]+\s+(NEW|REDUCE|pulse)'
  echo "$(awk '/^stat::number_of_executed_units:/ { print $2 }' "$fuzzers/coverage/$name.log") $((SECONDS - began))" >"$stats"
done
echo "fuzz: ${#found[@]} fuzzers, no crash"
