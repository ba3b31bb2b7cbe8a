#!/usr/bin/env bash
# lint.sh [--format]: clang-format and clang-tidy over our own C files; with --format only the former.
. "$(dirname "$0")/lib.sh"

mapfile -t files < <(git ls-files '*.c' '*.h' ':!third_party')
[ ${#files[@]} -gt 0 ] || die "git knows no C file here"
tools/deps.sh check >/dev/null
clang-format --dry-run -Werror "${files[@]}"
say "format: ${#files[@]} files"
[ "${1:-}" != --format ] || exit 0

tools/deps.sh build lint
cmake --preset clang >/dev/null
mapfile -t sources < <(git ls-files 'src/*.c')
printf '%s\0' "${sources[@]}" | xargs -0 -n 8 -P "$jobs" clang-tidy --quiet -p build/clang
say "tidy: ${#sources[@]} files"
