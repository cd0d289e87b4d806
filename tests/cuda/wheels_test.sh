#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The libcupti of two more majors, as pip brings them: each is loaded, and walks our records.
#
#   wheels_test.sh CUPTI_PROBE FOLDER      FOLDER keeps the wheels
#
# Exit 77: skipped, because the wheels are not there and cannot be had.
set -euo pipefail

readonly probe=$1
readonly folder=$2
mkdir -p "$folder"

for package in nvidia-cuda-cupti-cu11 nvidia-cuda-cupti-cu12; do
  unpacked=$folder/$package
  if [[ ! -d $unpacked ]]; then
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --timeout 10 --retries 1 \
         --dest "$folder" "$package" >"$folder/pip.log" 2>&1; then
      echo "skipped: $package cannot be had: $(tail -1 "$folder/pip.log")"
      exit 77
    fi
    wheel=$(find "$folder" -name "${package//-/_}-*.whl" | head -1)
    python3 -m zipfile -e "$wheel" "$unpacked.partial"
    mv "$unpacked.partial" "$unpacked"
  fi
  library=$(find "$unpacked" -name 'libcupti.so.*' | head -1)
  echo "== $package"
  out=$("$probe" --library "$library" --walk)
  echo "$out"
  case $package in
    *cu11) grep -qE '^loaded 1[3-8] ' <<<"$out" ;;
    *cu12) grep -qE '^loaded (19|2[0-9]) ' <<<"$out" ;;
  esac
  grep -qE '^walked 9$' <<<"$out"
done
