#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the suite of `make test` again and again, shuffled, beside a core that is kept busy: a test that needs a calm machine
# fails here. Prints a line per run with the share of its time in which some process waited for a processor, the tests that failed
# with their output, and a summary.
#
# usage: [BUSY_LOOPS=N] tests/tooling/repeat.sh [RUNS] [CTEST_ARGUMENT...]
#
# RUNS is 30 without an argument. The tree is built: `make test` does that. BUSY_LOOPS is 1, or 0 where other work keeps a core busy.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
runs=${1:-30}
shift || true
if ! [[ $runs =~ ^[1-9][0-9]*$ ]]; then
  echo "repeat: '$runs' is not a number of runs" >&2
  exit 2
fi
log=$(mktemp)
# The busy core: at the tests' own priority, and gone with this script.
busy=()
for ((i = 0; i < ${BUSY_LOOPS:-1}; ++i)); do
  (while :; do :; done) &
  busy+=($!)
done
trap 'kill "${busy[@]}" 2>/dev/null; rm -f "$log"' EXIT

# How long some process has waited for a processor, in us; 0 where the kernel keeps no accounts.
waited_us() { sed -nE 's/^some .*total=([0-9]+)$/\1/p' /proc/pressure/cpu 2>/dev/null || echo 0; }

failed=0
for ((run = 1; run <= runs; ++run)); do
  start=$SECONDS
  waited=$(waited_us)
  if ctest --preset release -LE 'long|interop' --schedule-random --output-on-failure "$@" >"$log" 2>&1; then
    verdict=passed
  else
    verdict=FAILED
    failed=$((failed + 1))
    sed -n '/^The following tests FAILED/,$p' "$log"
    # What the failed ones printed.
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed )' "$log" | tail -n 200
  fi
  echo "repeat: run $run of $runs: $verdict after $((SECONDS - start)) s, processors were short in" \
    "$((($(waited_us) - waited) / 10000 / (SECONDS - start + 1))) % of it"
done
echo "repeat: $((runs - failed)) of $runs runs without a failure"
[[ $failed -eq 0 ]]
