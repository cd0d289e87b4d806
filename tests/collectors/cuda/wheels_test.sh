#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The libcupti of other CUDA versions, as pip brings them: each is loaded, has records of the sizes that we read, and walks ours.
# Where a compiler and CUDA's headers are, our offsets and prototypes are compared with its header, too; those for NVML as well.
#
#   wheels_test.sh CUPTI_PROBE FOLDER [CUDA_HEADERS]      FOLDER keeps the wheels
#   ALL=1 wheels_test.sh ...                              every version from 11.7 on (200 MB)
#
# Exit 77: skipped, because the wheels are neither present nor available.
set -euo pipefail

mkdir -p "$2"
probe=$(realpath "$1") folder=$(realpath "$2") cuda_headers=${3:-}
cd "$(dirname "$0")/../../.."

# package==version, and what its cuptiGetVersion says.
wheels=(nvidia-cuda-cupti-cu11==11.8.87:18 nvidia-cuda-cupti-cu12==12.2.142:20 nvidia-cuda-cupti-cu12==12.9.79:28)
if [[ -n ${ALL:-} ]]; then
  wheels+=(nvidia-cuda-cupti-cu11==11.7.101:17 nvidia-cuda-cupti-cu12==12.0.146:18 nvidia-cuda-cupti-cu12==12.1.105:18
    nvidia-cuda-cupti-cu12==12.3.101:21 nvidia-cuda-cupti-cu12==12.4.127:22 nvidia-cuda-cupti-cu12==12.5.82:23
    nvidia-cuda-cupti-cu12==12.6.80:24 nvidia-cuda-cupti-cu12==12.8.90:26 nvidia-cuda-cupti==13.5.25:130500)
fi

# shellcheck source=tests/collectors/cuda/fetch_wheel.sh
. tests/collectors/cuda/fetch_wheel.sh
# fetch PACKAGE==VERSION: sets `unpacked`.
fetch() {
  fetch_wheel "$folder" "$1" && return
  echo "skipped"
  exit 77
}

# compiles HEADER SOURCE: what SOURCE asserts holds with the folder of HEADER.
compiles() {
  [[ -n $1 && -n $cuda_headers ]] && command -v g++ >/dev/null || return 0
  g++ -std=c++17 -fsyntax-only -DONLY_LAYOUT -I. -isystem "$(dirname "$1")" -isystem "$cuda_headers" "$2"
  echo "offsets and prototypes as in its header"
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
    compiles "$(find "$unpacked" -name cupti_activity.h | head -1)" tests/collectors/cuda/layout_test.cc
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
    *==12.0.* | *==12.1.*) grep -q '^walked 9$' <<<"$out" ;;
    *) grep -q '^walked 10$' <<<"$out" ;;
  esac
  if [[ $version -ge 18 ]]; then
    compiles "$(find "$unpacked" -name cupti_activity.h | head -1)" tests/collectors/cuda/layout_test.cc
  fi
done

fetch nvidia-nvml-dev-cu12==12.9.79
echo "== nvml.h"
compiles "$(find "$unpacked" -name nvml.h | head -1)" tests/collectors/nvml/layout_test.cc
