#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the same sources twice, in two folders of different names, with different times, time zones and numbers of jobs, without a
# compiler cache, and compares the results byte by byte. The tracked files of the working tree are what is built.
#
#   tools/reproducible.sh                                    all that is shipped: the libraries, the Python package with its
#                                                            extension, clients and libraries, and the list of components
#   tools/reproducible.sh jobscope_trace jobscope_attach     those targets alone, in a minute
set -euo pipefail
cd "$(dirname "$0")/.."

targets=("$@")
((${#targets[@]})) || targets=(jobscope_shipped jobscope_python_package sbom)
pic_deps=${JOBSCOPE_PIC_DEPS:-$(tools/pic_deps.sh --print-prefix)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

first="$work/first"
second="$work/second/of another name"
# Both at once: somebody may edit the sources while they are built.
for folder in "$first" "$second"; do
  mkdir -p "$folder"
  git ls-files -z | xargs -0 tar -cf - | tar -xf - -C "$folder"
done

# build FOLDER JOBS TIMEZONE LOCALE
build() {
  (
    cd "$1"
    export TZ=$3 LC_ALL=$4 CCACHE_DISABLE=1
    cmake --log-level=WARNING --preset release -DJOBSCOPE_PIC_DEPS="$pic_deps" -DJOBSCOPE_BUILD_TESTS=OFF \
      -DJOBSCOPE_BUILD_BENCH=OFF >/dev/null
    cmake --build build -j "$2" --target "${targets[@]}" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }
  )
}

# What is shipped of FOLDER/build, with the sums of its bytes. Maps and debug files name the folder.
sums() {
  (cd "$1/build" && mkdir -p lib shipped python/jobscope && find lib shipped python/jobscope -type f ! -name '*.map' ! -name '*.debug' \
    ! -path '*/__pycache__/*' -exec sha256sum {} + | sort -k 2)
}

began=$SECONDS
build "$first" "${JOBSCOPE_JOBS:-2}" UTC C
build "$second" 1 Asia/Tokyo C.UTF-8
sums "$first" >"$work/first.sums"
sums "$second" >"$work/second.sums"
[[ -s $work/first.sums ]] || { echo "reproducible: nothing was built" >&2; exit 1; }
if ! diff -u "$work/first.sums" "$work/second.sums"; then
  echo "reproducible: the builds differ (lines above)" >&2
  exit 1
fi
cat "$work/first.sums"
echo "reproducible: $(wc -l <"$work/first.sums") files are the same, byte by byte, after $((SECONDS - began)) s"
