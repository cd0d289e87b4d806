#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Everything that `make lint` checks, over the tracked files. Prints one line per check, all faults, and a summary.
#
# usage: tests/tooling/lint.sh LINT_BUILD      a build tree configured with the preset `lint`
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
lint_build=${1:?usage: lint.sh LINT_BUILD}
passed=0
failed=0

# check NAME command...: runs it, counts it, shows its output only when it fails.
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    passed=$((passed + 1))
    echo "lint: $name: ok"
  else
    failed=$((failed + 1))
    printf '%s\n' "$output"
    echo "lint: $name: FAILED"
  fi
}

mapfile -t sources < <(git ls-files '*.cc' '*.h' '*.c')
if [[ ${#sources[@]} -eq 0 ]]; then
  echo "lint: git lists no sources here" >&2
  exit 2
fi
mapfile -t python < <(git ls-files '*.py')
# Shell scripts by name, or by their first line.
mapfile -t shell < <(git ls-files '*.sh'; git grep -lIE '^#!.*\b(ba)?sh$' -- ':!*.sh')
mapfile -t licensed < <(git ls-files '*.cc' '*.h' '*.c' '*.proto' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' Makefile .ci/run)

# finds_nothing command...: whether this grep has read all of its files and found no line. An error (2) is not that.
finds_nothing() {
  "$@"
  [[ $? -eq 1 ]]
}
every_file_has_a_licence() {
  local without
  without=$(grep -L 'SPDX-License-Identifier: Apache-2.0' "${licensed[@]}")
  [[ $? -lt 2 && -z $without ]] && return
  sed '/./s/$/: no SPDX line/' <<<"$without"
  return 1
}
no_loose_ends() { finds_nothing grep -nE "\b(TO""DO|FIX""ME)\b" "${sources[@]}" "${python[@]}" "${shell[@]}"; }
# clang-format leaves comments alone.
lines_fit() { LC_ALL=C.UTF-8 finds_nothing grep -nE '^.{101}' "${sources[@]}"; }
python_compiles() { PYTHONPYCACHEPREFIX=$(mktemp -d) python3 -m py_compile "${python[@]}" && pyflakes3 "${python[@]}"; }

for script in tests/tooling/check_*.py; do
  [[ $script == *_test.py ]] || check "$(basename "$script" .py)" python3 -B "$script"
done
check "licence lines" every_file_has_a_licence
check "loose ends" no_loose_ends
check "lines of at most 100 columns" lines_fit
check "clang-format of ${#sources[@]} files" clang-format --dry-run -Werror "${sources[@]}"
check "shellcheck of ${#shell[@]} scripts" shellcheck "${shell[@]}"
check "Python, ${#python[@]} files" python_compiles
# Last: it takes minutes when nothing is cached, and tells so itself.
if python3 tests/tooling/clang_tidy.py "$lint_build"; then
  passed=$((passed + 1))
  echo "lint: clang-tidy: ok"
else
  failed=$((failed + 1))
  echo "lint: clang-tidy: FAILED"
fi

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
