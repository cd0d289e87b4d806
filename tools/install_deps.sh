#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages (12 or 13) that a part of this project needs.
#
#   tools/install_deps.sh [build] [test] [lint] [interop] [bench] [clang]      (default: build)
#
# First asks dpkg what is missing, so a run with nothing to do takes milliseconds and uses no network. Needs root or
# sudo only if something is missing.
set -euo pipefail

# Needed to configure and build all targets, including GoogleTest and Google Benchmark, so that one build tree serves
# `make demo`, `make test` and `make bench` (0.5 MB more to download). libzstd-dev: Debian 13's libcrypto.a needs it.
build=(
  g++ cmake ninja-build pkg-config ccache python3
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
  libspdlog-dev libcli11-dev nlohmann-json3-dev libprotozero-dev zlib1g-dev libssl-dev libzstd-dev
  libgtest-dev libgmock-dev libbenchmark-dev libjs-chart.js
)
# Needed to run the tests: readers of ELF files, the checkers; Python's headers for the Python package, and environments
# to try its wheel; dpkg-dev and unicode-data for the position-independent dependencies of libjobscope.so, which are
# built from Debian's source packages; openssl for certificates; jsonschema (0.1 MB) for the schemas of the report.
test=(openssl binutils python3 python3-dev python3-venv python3-jsonschema iproute2 procps dpkg-dev patch xz-utils make unicode-data ca-certificates)
lint=(clang clang-format python3-venv shellcheck python3 pyflakes3 git)
# Debian's PyTorch (48 MB to download) for the tests of its operators: PyPI's is a hundred times larger.
# Chromium without a window (98 MB to download) and a font for the report's HTML.
interop=(python3 python3-venv ca-certificates python3-torch chromium-headless-shell fonts-dejavu-core)
bench=(python3 procps libtorch-dev)
# Sanitizers and fuzzers, for the clang builds.
clang=(clang libclang-rt-dev llvm)

if [[ $# -eq 0 ]]; then set -- build; fi
wanted=()
for group in "$@"; do
  case "$group" in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    lint) wanted+=("${lint[@]}") ;;
    interop) wanted+=("${interop[@]}") ;;
    bench) wanted+=("${bench[@]}") ;;
    clang) wanted+=("${clang[@]}") ;;
    *)
      echo "install_deps: unknown group '$group' (build, test, lint, interop, bench, clang)" >&2
      exit 2
      ;;
  esac
done

# list_missing: prints the packages of "$@" that dpkg does not list as installed.
list_missing() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null |
    awk '$1 ~ /^.i/ { print $2 }') || true
  comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

mapfile -t missing < <(list_missing "${wanted[@]}")
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps: not root and no sudo. As root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install_deps: installing for '$*': ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
"${apt[@]}" update >/dev/null </dev/null
"${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null |
  grep -E '^(Setting up|E:|W:)' | sed 's/^/  /' || true

mapfile -t missing < <(list_missing "${wanted[@]}")
if [[ ${#missing[@]} -ne 0 ]]; then
  echo "install_deps: apt-get did not install: ${missing[*]} (run it by hand to see why)" >&2
  exit 1
fi
