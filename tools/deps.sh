#!/usr/bin/env bash
# deps.sh GROUP...: installs the Debian packages of these groups of tools/packages.txt, if any are missing.
# With NO_INSTALL=1 it installs nothing, lists what is missing, and fails if something is.
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || set -- build
if [ ! -f /etc/debian_version ]; then
    [ "${NO_INSTALL:-0}" = 1 ] || die "this is no Debian: install what stands in tools/packages.txt by hand, then use NO_INSTALL=1"
    say "deps: no Debian, and NO_INSTALL=1: what is installed is not looked at"
    exit 0
fi

want=$(for group; do packages_of "$group"; done | sort -u)
# shellcheck disable=SC2086
have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $want 2>/dev/null | awk '$1 == "installed" { print $2 }' | sort -u || true)
missing=$(comm -23 <(printf '%s\n' "$want") <(printf '%s\n' "$have") | xargs)

if [ -z "$missing" ]; then
    say "deps: $(printf '%s\n' "$want" | wc -l) packages for $*: all there"
    exit 0
fi
if [ "${NO_INSTALL:-0}" = 1 ]; then
    die "NO_INSTALL=1, and these packages are missing: $missing"
fi
say "deps: installing for $*: $missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
    as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        die "failed: $*"
    }
}
quietly apt-get -q update
# shellcheck disable=SC2086
quietly apt-get -q install -y --no-install-recommends $missing
say "deps: done"
