#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Creates .venv/interop, the Python environment with the real peers (TensorFlow, JAX, XProf, grpcio, py-spy) for the
# tests with label `interop`. Runs once per content of tests/interop/requirements.txt and Python version; downloads about 700 MB.
#
#   tools/venv.sh                  the last line of the output is the environment's python
#   tools/venv.sh --run FILE...    runs a script in the environment; exit code 77 ("skipped" to ctest) without one
#
# JOBSCOPE_VENV=torch  creates .venv/torch with PyPI's PyTorch (tests/collectors/torch/torch_requirements.txt)
#                      instead: downloads 2.5 GB, takes 5.4 GB
# JOBSCOPE_VENV=lint   creates .venv/lint with PyPI's clang-tidy (tests/tooling/lint_requirements.txt) instead
# JOBSCOPE_PYTHON      the interpreter to use, 3.11 to 3.13 (default: the first suitable one)
set -euo pipefail

readonly repo=$(dirname "$(dirname "$(realpath "$0")")")
readonly name=${JOBSCOPE_VENV:-interop}
case $name in
  interop) readonly requirements=$repo/tests/interop/requirements.txt ;;
  lint) readonly requirements=$repo/tests/tooling/lint_requirements.txt ;;
  torch) readonly requirements=$repo/tests/collectors/torch/torch_requirements.txt ;;
  *) echo "venv: JOBSCOPE_VENV is '$name' (known: interop, lint, torch)" >&2; exit 2 ;;
esac
readonly venv=$repo/.venv/$name
readonly wanted=$(sha256sum <"$requirements" | cut -c1-16)

say() { echo "venv: $*"; }
die() { echo "venv: $*" >&2; exit 1; }

usable() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null
}

find_python() {
  local candidate
  for candidate in ${JOBSCOPE_PYTHON:-} python3.11 python3.12 python3.13 python3 /usr/bin/python3; do
    if usable "$candidate"; then
      # The interpreter itself, not a launcher that selects one by folder.
      "$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))'
      return
    fi
  done
  die "no Python 3.11 to 3.13 with venv and ensurepip: apt-get install python3-venv, or set JOBSCOPE_PYTHON"
}

current() { [[ $(cat "$venv/requirements.sha256" 2>/dev/null) == "$wanted" && -x $venv/bin/python ]]; }

main() {
  case ${1:-} in
    --run)
      if ! current; then
        say "skipped: no current environment in $venv; tools/venv.sh makes it"
        exit 77
      fi
      shift
      exec "$venv/bin/python" -B "$@"
      ;;
    "")
      mkdir -p "$repo/.venv"
      exec 9>"$repo/.venv/$name.lock"
      flock 9
      if ! current; then
        local python
        python=$(find_python)
        say "making $venv with $python"
        rm -rf "$venv"
        "$python" -m venv "$venv"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir -r "$requirements"
        echo "$wanted" >"$venv/requirements.sha256"
      fi
      ;;
    *)
      die "unknown argument '$1' (known: --run)"
      ;;
  esac
  echo "$venv/bin/python"
}

main "$@"
