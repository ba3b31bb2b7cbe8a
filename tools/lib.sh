# Sourced by the scripts of tools/: where the project is, how to say things, how to become root.
# shellcheck shell=bash
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
jobs=$(nproc)

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}
# The words after it, run as root: as they are, or by sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "needs root or sudo for: $*"
    fi
}
# packages_of GROUP: the names in one group of packages.txt.
packages_of() {
    grep -q "^\[$1\]" tools/packages.txt || die "no group \"$1\" in tools/packages.txt"
    awk -v want="[$1]" '/^\[/ { on = ($1 == want); next } on && $1 !~ /^#/ && NF { print $1 }' tools/packages.txt
}
