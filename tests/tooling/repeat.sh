#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the suite of `make test` again and again, shuffled, beside a core that is kept busy: a test that needs a calm machine
# fails here. Prints a line per run, the tests that failed with their output, and a summary.
#
# usage: tests/tooling/repeat.sh [RUNS] [CTEST_ARGUMENT...]      (default: 30; the tree is built, `make test` does that)
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
runs=${1:-30}
shift || true
if ! [[ $runs =~ ^[1-9][0-9]*$ ]]; then
  echo "repeat: '$runs' is no number of runs" >&2
  exit 2
fi
log=$(mktemp)
# The busy core: at the tests' own priority, and gone with this script.
(while :; do :; done) &
busy=$!
trap 'kill "$busy" 2>/dev/null; rm -f "$log"' EXIT

failed=0
for ((run = 1; run <= runs; ++run)); do
  start=$SECONDS
  if ctest --preset release -LE 'long|interop' --schedule-random --output-on-failure "$@" >"$log" 2>&1; then
    verdict=passed
  else
    verdict=FAILED
    failed=$((failed + 1))
    sed -n '/^The following tests FAILED/,$p' "$log"
    # What the failed ones printed.
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed )' "$log" | tail -n 200
  fi
  echo "repeat: run $run of $runs: $verdict after $((SECONDS - start)) s"
done
echo "repeat: $((runs - failed)) of $runs runs without a failure"
[[ $failed -eq 0 ]]
