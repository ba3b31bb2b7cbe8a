#!/usr/bin/env bash
# unpack.sh PACKAGE...: unpacks Debian packages under .tools/ without installing them, since installing
# would start their daemons. Does nothing for those that are there. What comes out runs from .tools/usr.
. "$(dirname "$0")/lib.sh"

for package; do
    [ -e ".tools/.done-$package" ] && continue
    [ "${NO_INSTALL:-0}" != 1 ] || die "NO_INSTALL=1, and .tools lacks $package"
    say "unpack: $package into .tools"
    mkdir -p .tools/deb
    chmod 777 .tools/deb # apt fetches as a user of its own
    (cd .tools/deb && apt-get -q download "$package" >log 2>&1) || {
        as_root apt-get -q update >/dev/null 2>&1 || true
        (cd .tools/deb && apt-get -q download "$package" >log 2>&1) || { cat .tools/deb/log >&2; die "cannot fetch $package"; }
    }
    dpkg -x .tools/deb/"$package"_*.deb .tools
    rm -rf .tools/deb
    touch ".tools/.done-$package"
done
