#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures a preset of CMakePresets.json and builds.
. "$(dirname "$0")/lib.sh"

preset=${1:?a preset of CMakePresets.json}
shift
command -v cmake >/dev/null && command -v ninja >/dev/null || die "no cmake or ninja here: run 'make deps' first"
dir=build/$preset
[ "$preset" = rel ] && dir=build
log=$(mktemp)
cmake --preset "$preset" >"$log" 2>&1 || {
    cat "$log" >&2
    rm -f "$log"
    die "cmake --preset $preset failed; 'make deps' installs what it needs"
}
rm -f "$log"
exec ninja -C "$dir" "$@"
