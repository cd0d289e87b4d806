# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# To be sourced: NVIDIA's wheels from PyPI, unpacked and kept.

# fetch_wheel FOLDER PACKAGE==VERSION: sets `unpacked`. Fails with the reason if it is unavailable.
fetch_wheel() {
  local folder=$1 package=$2
  unpacked=$folder/${package/==/-}
  [[ -d $unpacked ]] && return
  rm -rf "$unpacked.partial"
  if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --timeout 10 --retries 1 \
       --dest "$unpacked.partial" "$package" >"$folder/pip.log" 2>&1; then
    echo "$package is unavailable: $(tail -1 "$folder/pip.log")"
    return 1
  fi
  python3 -m zipfile -e "$unpacked.partial"/*.whl "$unpacked.partial"
  rm "$unpacked.partial"/*.whl
  mv "$unpacked.partial" "$unpacked"
}
