#!/usr/bin/env bash
# clients.sh: makes .clients, the environments of the clients that test/clients runs. What cannot be made is noted with its
# reason (.clients/NAME.missing), and its tests are skipped with that, loudly; nothing here fails for one of them.
. "$(dirname "$0")/lib.sh"

out=.clients
mkdir -p $out/bin
out=$PWD/$out

# make_one NAME INPUT COMMAND...: once for each state of INPUT; the last words of a failure are its reason.
make_one() {
    local name=$1 input=$2 log
    shift 2
    cmp -s "$input" "$out/$name.ready" && return
    [ "${NO_INSTALL:-0}" != 1 ] || { echo "NO_INSTALL=1" >"$out/$name.missing"; return; }
    say "clients: $name"
    log=$(mktemp)
    rm -f "$out/$name.ready" "$out/$name.missing"
    if (set -e; "$@") >"$log" 2>&1; then
        cp "$input" "$out/$name.ready"
    else
        { grep -iE 'error|not found|cannot|forbidden|needs' "$log" | tail -n 1 || tail -n 1 "$log"; } | cut -c1-300 >"$out/$name.missing"
        [ -s "$out/$name.missing" ] || tail -n 1 "$log" >"$out/$name.missing"
        say "    NOT MADE: $name: $(cat "$out/$name.missing")"
    fi
    rm -f "$log"
}

need_tool() { command -v "$1" >/dev/null || { echo "$1 is not installed: cannot be made"; exit 1; }; }

make_venv() {
    [ -x "$out/venv/bin/pip" ] || /usr/bin/python3 -m venv --system-site-packages "$out/venv"
}
# A line of the requirements by itself, so that one that does not install takes none of the others along.
pip_one() {
    make_venv
    "$out/venv/bin/pip" install --disable-pip-version-check --no-input -c tools/requirements-clients.txt "$1"
}
pip_streaming() {
    make_venv
    "$out/venv/bin/pip" install --disable-pip-version-check --no-input --no-deps -r tools/requirements-streaming.txt
    "$out/venv/bin/pip" install --disable-pip-version-check --no-input -c tools/requirements-clients.txt -r tools/requirements-streaming-deps.txt
}
make_js() {
    need_tool npm
    mkdir -p "$out/js"
    cp test/clients/js/package.json test/clients/js/sdk.mjs "$out/js/"
    npm --prefix "$out/js" install --no-audit --no-fund --no-package-lock
}
make_go() { # NAME FOLDER PACKAGE
    need_tool go
    (cd "test/clients/go/$2" && GOFLAGS="-mod=readonly -modcacherw" GOPATH="$out/gopath" GOCACHE="$out/gocache" go build -o "$out/bin/$1" "$3")
}

# All at once where that works; else one by one, to find out which does not.
pip_all() {
    make_venv
    "$out/venv/bin/pip" install --disable-pip-version-check --no-input -r tools/requirements-clients.txt
}
make_one python tools/requirements-clients.txt pip_all
rm -f "$out/python.missing"
for line in $(grep -v '^#' tools/requirements-clients.txt); do
    one=$(mktemp)
    echo "$line" >"$one"
    make_one "${line%%==*}" "$one" pip_one "$line"
    rm -f "$one"
done
make_one mosaicml-streaming tools/requirements-streaming.txt pip_streaming
make_one js test/clients/js/package.json make_js
make_one go-sdk test/clients/go/sdk/main.go make_go go-sdk sdk .
make_one s5cmd test/clients/go/s5cmd/go.mod make_go s5cmd s5cmd github.com/peak/s5cmd/v2
make_one rclone test/clients/go/rclone/go.mod make_go rclone rclone .
cmp -s test/clients/js/sdk.mjs "$out/js/sdk.mjs" || cp test/clients/js/sdk.mjs "$out/js/" 2>/dev/null || true
