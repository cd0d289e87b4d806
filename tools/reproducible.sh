#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the same sources twice, in two folders of different names, with different times, time zones and numbers of jobs, without a
# compiler cache, and compares the results byte by byte. The tracked files of the working tree are what is built.
#
#   tools/reproducible.sh                                    libjobscope.so, libjobscope_trace.so, libjobscope_attach.so
#   tools/reproducible.sh jobscope_trace jobscope_attach     those targets alone, in a minute
set -euo pipefail
cd "$(dirname "$0")/.."

targets=("$@")
((${#targets[@]})) || targets=(jobscope_shipped)
pic_deps=${JOBSCOPE_PIC_DEPS:-$(tools/pic_deps.sh --print-prefix)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build FOLDER JOBS TIMEZONE LOCALE
build() {
  mkdir -p "$1"
  git ls-files -z | xargs -0 tar -cf - | tar -xf - -C "$1"
  (
    cd "$1"
    export TZ=$3 LC_ALL=$4 CCACHE_DISABLE=1
    cmake --log-level=WARNING --preset release -DJOBSCOPE_PIC_DEPS="$pic_deps" -DJOBSCOPE_BUILD_TESTS=OFF \
      -DJOBSCOPE_BUILD_BENCH=OFF >/dev/null
    cmake --build build -j "$2" --target "${targets[@]}" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }
  )
}

# Shared libraries below FOLDER/build, with the sums of their bytes.
sums() { (cd "$1/build" && find lib shipped -name '*.so*' -type f ! -name '*.map' -exec sha256sum {} + 2>/dev/null | sort -k 2); }

began=$SECONDS
build "$work/first" "${JOBSCOPE_JOBS:-2}" UTC C
build "$work/second/of another name" 1 Asia/Tokyo C.UTF-8
sums "$work/first" >"$work/first.sums"
sums "$work/second/of another name" >"$work/second.sums"
[[ -s $work/first.sums ]] || { echo "reproducible: nothing was built" >&2; exit 1; }
if ! diff -u "$work/first.sums" "$work/second.sums"; then
  echo "reproducible: the builds differ (lines above)" >&2
  exit 1
fi
cat "$work/first.sums"
echo "reproducible: $(wc -l <"$work/first.sums") files are the same, byte by byte, after $((SECONDS - began)) s"
