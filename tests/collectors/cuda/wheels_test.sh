#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The libcupti of each CUDA version, as pip brings it: it is loaded, has records of the sizes that we read, walks ours, and survives
# calls that fail. Our offsets and prototypes are compared with its header by the compiler; those for NVML as well.
#
#   wheels_test.sh CUPTI_PROBE FOLDER      FOLDER keeps the wheels
#   ALL=1 wheels_test.sh ...               every version from 11.7 on (200 MB)
#
# Exit 77: skipped, because the wheels are neither present nor available.
set -euo pipefail

mkdir -p "$2"
probe=$(realpath "$1") folder=$(realpath "$2")
cd "$(dirname "$0")/../../.."

# package==version, and what its cuptiGetVersion says.
wheels=(nvidia-cuda-cupti-cu11==11.8.87:18 nvidia-cuda-cupti-cu12==12.2.142:20 nvidia-cuda-cupti-cu12==12.9.79:28
  nvidia-cuda-cupti==13.5.25:130500)
if [[ -n ${ALL:-} ]]; then
  wheels+=(nvidia-cuda-cupti-cu11==11.7.101:17 nvidia-cuda-cupti-cu12==12.0.146:18 nvidia-cuda-cupti-cu12==12.1.105:18
    nvidia-cuda-cupti-cu12==12.3.101:21 nvidia-cuda-cupti-cu12==12.4.127:22 nvidia-cuda-cupti-cu12==12.5.82:23
    nvidia-cuda-cupti-cu12==12.6.80:24 nvidia-cuda-cupti-cu12==12.8.90:26)
fi

# shellcheck source=tests/collectors/cuda/fetch_wheel.sh
. tests/collectors/cuda/fetch_wheel.sh
# fetch PACKAGE==VERSION: sets `unpacked`.
fetch() {
  fetch_wheel "$folder" "$1" && return
  echo "skipped"
  exit 77
}

# runtime_of PACKAGE: the wheel with the cuda.h of the same major version.
runtime_of() {
  case $1 in
    *-cu11==*) echo nvidia-cuda-runtime-cu11==11.8.89 ;;
    *-cu12==*) echo nvidia-cuda-runtime-cu12==12.9.79 ;;
    *) echo nvidia-cuda-runtime==13.5.37 ;;
  esac
}

# compare NAME PACKAGE SOURCE...: what the program SOURCE asserts of the header NAME of PACKAGE holds.
compare() {
  local name=$1 package=$2 own
  shift 2
  fetch "$package"
  own=$(dirname "$(find "$unpacked" -name "$name")")
  fetch "$(runtime_of "$package")"
  "${CXX:-c++}" -std=c++17 -I. -isystem "$own" -isystem "$(dirname "$(find "$unpacked" -name cuda.h)")" "$@" -o "$folder/layout"
  "$folder/layout"
  echo "offsets, sizes and prototypes as in its header"
}

for wheel in "${wheels[@]}"; do
  package=${wheel%:*} version=${wheel##*:}
  fetch "$package"
  library=$(find "$unpacked" -name 'libcupti.so.*' | head -1)
  echo "== $package"
  if [[ $version -ge 130300 ]]; then
    # From 13.3 on nothing works without a driver: not even the query of the version.
    out=$("$probe" --library "$library" || true)
    echo "$out"
    [[ $out == "loaded $version "* || $out == *"(cuptiGetVersion: 999)"* ]]
    compare cupti_activity.h "$package" tests/collectors/cuda/layout_test.cc collectors/cuda/records/record.cc
    continue
  fi
  # A session of each ends in a reason, where no GPU is.
  out=$("$probe" --library "$library" --walk --fail)
  echo "$out" | grep -v '^message'
  grep -q "^loaded $version " <<<"$out"
  grep -q "^session: " <<<"$out"
  # From 12.2 on it has cuptiGetErrorMessage, whose prototype is the right one if its text comes.
  [[ $version -lt 20 ]] || grep -q "^message of 35: ." <<<"$out"
  # Of 12.0 and 12.1 kernels are longer than their version's number says: those are not walked.
  case $package in
    *==12.0.* | *==12.1.*) grep -q '^walked 8$' <<<"$out" ;;
    *) grep -q '^walked 9$' <<<"$out" ;;
  esac
  if [[ $version -ge 18 ]]; then
    compare cupti_activity.h "$package" tests/collectors/cuda/layout_test.cc collectors/cuda/records/record.cc
  fi
done

echo "== nvml.h"
compare nvml.h nvidia-nvml-dev-cu12==12.9.79 tests/collectors/nvml/layout_test.cc
