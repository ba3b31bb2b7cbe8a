#!/usr/bin/env bash
# venv.sh NAME...: brings the Python environment up to tools/requirements-NAME.txt, once for each state of
# that file. It lies in .venv and sees Debian's torch, numpy, scikit-learn and Pillow; the rest is pinned
# from PyPI, with pip's own settings. NAME "old" goes to .venv-old: clients from before a change of defaults.
. "$(dirname "$0")/lib.sh"

python=/usr/bin/python3 # Debian's: its packages are built for it, whatever else is first on PATH

for name; do
    file=tools/requirements-$name.txt dir=.venv
    [ -r "$file" ] || die "no such file: $file"
    [ "$name" = old ] && dir=.venv-old
    stamp=$dir/.done-$name
    cmp -s "$file" "$stamp" && continue
    [ "${NO_INSTALL:-0}" != 1 ] || die "NO_INSTALL=1, and $dir does not hold what $file asks for"
    say "venv: $file into $dir"
    [ -x $dir/bin/pip ] || { rm -rf $dir && $python -m venv --system-site-packages $dir; }
    log=$(mktemp)
    $dir/bin/pip install --disable-pip-version-check --no-input -r "$file" >"$log" 2>&1 || {
        cat "$log" >&2
        rm -f "$log"
        die "pip could not install what $file asks for"
    }
    rm -f "$log"
    cp "$file" "$stamp"
done
