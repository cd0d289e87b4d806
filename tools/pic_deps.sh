#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds what Debian ships without position-independent archives (abseil, re2, protobuf-lite) from Debian's own source
# packages, so that libjobscope.so can contain them. Done once: the prefix is named after the versions and this script.
#
#   prefix=$(tools/pic_deps.sh | tail -n 1)        the last line of the output is the prefix
#   tools/pic_deps.sh --print-prefix               only prints where it is, or would be; builds nothing
#   cmake --preset release -DJOBSCOPE_PIC_DEPS=$prefix
#
# JOBSCOPE_CACHE_DIR  where prefixes are kept, for all checkouts (default: jobscope in the folder of caches, ~/.cache)
# JOBSCOPE_JOBS       parallel compilers (default: 2)
#
# gRPC, OpenSSL, c-ares and zlib are not rebuilt: Debian's archives of them are position-independent already.
set -euo pipefail

readonly script=$(realpath "$0")
readonly cache=${JOBSCOPE_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/jobscope}
readonly jobs=${JOBSCOPE_JOBS:-2}
# -fno-gnu-unique: such a symbol would be shared with other libraries of the process, hidden or not.
# Sections: the linker drops what is not used.
flags="-O2 -fPIC -fvisibility-inlines-hidden -fno-gnu-unique -ffunction-sections -fdata-sections"

say() { echo "pic_deps: $*"; }
die() { echo "pic_deps: $*" >&2; exit 1; }

# The packages whose headers our code is compiled with: the archives must be of the same source version.
readonly -A header_package=([abseil]=libabsl-dev [re2]=libre2-dev [protobuf]=libprotobuf-dev)
# unicode-data: re2's tables are generated from it.
readonly tools=(dpkg-dev g++ cmake ninja-build make python3 patch unicode-data ca-certificates)

installed() { [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null) == ?i* ]]; }

install_missing() {
  local missing=()
  local package
  for package in "${tools[@]}" "${header_package[@]}"; do
    installed "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  say "installing ${missing[*]}"
  local root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "not root and no sudo: install ${missing[*]} and run this again"
    root=(sudo)
  fi
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

source_version() { dpkg-query -W -f='${source:Version}' "${header_package[$1]}" 2>/dev/null || echo missing; }

prefix_path() {
  local hash
  hash=$({ for name in abseil re2 protobuf; do echo "$name $(source_version "$name")"; done
           dpkg --print-architecture; cat "$script"; } | sha256sum | cut -c1-12)
  echo "$cache/pic-deps-$hash"
}

# apt-get with lists, cache and sources of our own: the system's configuration is neither used up nor changed.
apt_private() {
  apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources.d" \
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root -qq "$@"
}

fetch_sources() {
  mkdir -p "$work"/{sources.d,lists/partial,cache/archives/partial}
  if [[ -f /etc/apt/sources.list.d/debian.sources ]]; then
    sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$work/sources.d/debian.sources"
  elif grep -q '^deb ' /etc/apt/sources.list 2>/dev/null; then
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$work/sources.d/debian.list"
  else
    die "no Debian archive in /etc/apt/sources.list.d/debian.sources or /etc/apt/sources.list"
  fi
  say "reading the lists of source packages"
  apt_private update
  local name version
  for name in abseil re2 protobuf; do
    version=$(source_version "$name")
    say "fetching $name $version"
    (cd "$work" && apt_private source "$name=$version" >"$work/$name.source.log" 2>&1) || {
      tail -n 5 "$work/$name.source.log" >&2
      die "the archive has no source of $name $version: bring ${header_package[$name]} up to date (apt-get upgrade)"
    }
  done
}

# The one unpacked folder of a source package.
unpacked() { find "$work" -maxdepth 1 -type d -name "$1-*" | head -n 1; }

# Runs a build step with its output in a log, which is shown only if the step fails.
logged() {
  local log=$1
  shift
  "$@" >>"$log" 2>&1 || { tail -n 40 "$log" >&2; die "failed: $* (all of it in $log)"; }
}

build_abseil() {
  logged "$work/abseil.log" cmake -G Ninja -S "$(unpacked abseil)" -B "$work/build-abseil" -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_CXX_STANDARD=17 -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX="$stage" -DCMAKE_CXX_FLAGS="$flags"
  logged "$work/abseil.log" ninja -C "$work/build-abseil" -j "$jobs" install
}

build_re2() {
  logged "$work/re2.log" make -C "$(unpacked re2)" -j "$jobs" REBUILD_TABLES=1 \
    CXXFLAGS="-std=c++17 -pthread $flags" obj/libre2.a
  cp "$(unpacked re2)/obj/libre2.a" "$stage/lib/"
}

build_protobuf() {
  logged "$work/protobuf.log" cmake -G Ninja -S "$(unpacked protobuf)" -B "$work/build-protobuf" \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_STANDARD=17 -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_BUILD_SHARED_LIBS=OFF \
    -Dprotobuf_WITH_ZLIB=OFF -DCMAKE_CXX_FLAGS="$flags"
  logged "$work/protobuf.log" ninja -C "$work/build-protobuf" -j "$jobs" libprotobuf-lite
  cp "$(find "$work/build-protobuf" -name 'libprotobuf-lite*.a' | head -n 1)" "$stage/lib/libprotobuf-lite.a"
}

# Local-exec thread-local storage is what keeps Debian's own archives out of a shared library.
check_archives() {
  local archive
  for archive in "$stage"/lib/*.a; do
    if readelf -rW "$archive" 2>/dev/null | grep -qE 'R_X86_64_TPOFF32|R_AARCH64_TLSLE_'; then
      die "$archive is not position-independent"
    fi
  done
  [[ -f $stage/lib/libabsl_base.a && -f $stage/lib/libre2.a && -f $stage/lib/libprotobuf-lite.a ]] ||
    die "an archive is missing in $stage/lib"
}

main() {
  if [[ ${1:-} == --print-prefix ]]; then
    prefix_path
    return
  fi
  (($# == 0)) || die "unknown argument '$1' (known: --print-prefix)"
  grep -qE '^VERSION_CODENAME=(bookworm|trixie)$' /etc/os-release || die "needs Debian 12 or 13; this is another system"
  install_missing

  prefix=$(prefix_path)
  if [[ ! -f $prefix/complete ]]; then
    mkdir -p "$cache"
    exec 9>"$cache/pic-deps.lock"
    flock 9  # of two builds at a time, the second finds the first one's prefix
  fi
  if [[ ! -f $prefix/complete ]]; then
    rm -rf "$cache"/pic-deps-work.*  # of builds that failed, kept for their logs
    work=$(mktemp -d "$cache/pic-deps-work.XXXXXX")
    flags+=" -ffile-prefix-map=$work=."  # the same bytes, wherever it is built
    stage=$work/stage
    mkdir -p "$stage/lib"
    fetch_sources
    for name in abseil re2 protobuf; do
      say "building $name ($jobs jobs, log $work/$name.log)"
      local began=$SECONDS
      "build_$name"
      say "built $name in $((SECONDS - began)) s"
    done
    check_archives
    # Headers come from Debian's packages; these would only be a second set of the same.
    rm -rf "$stage/include" "$stage/lib/cmake" "$stage/lib/pkgconfig"
    for name in abseil re2 protobuf; do echo "$name $(source_version "$name")"; done >"$stage/complete"
    rm -rf "$prefix"
    mv "$stage" "$prefix"
    rm -rf "$work"
  fi
  say "ready: $(du -sh "$prefix" | cut -f1) in"
  echo "$prefix"
}

work='' stage='' prefix=''
main "$@"
