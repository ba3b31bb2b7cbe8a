#!/usr/bin/env bash
# demo.sh: installs what the demo needs, builds, and runs it. All it leaves is packages, .venv and build/.
. "$(dirname "$0")/lib.sh"

tools/deps.sh build python demo
tools/venv.sh demo
say "build: build/forebay"
mkdir -p build
tools/build.sh rel forebay >build/demo-build.log 2>&1 || {
    tail -n 40 build/demo-build.log >&2
    die "the build failed; all of it: build/demo-build.log"
}
exec .venv/bin/python demo/demo.py "$@"
