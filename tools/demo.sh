#!/usr/bin/env bash
# demo.sh: installs what the demo needs, builds, and runs it. All it leaves is packages, .venv and build/.
. "$(dirname "$0")/lib.sh"

tools/deps.sh build python demo
tools/venv.sh demo
say "build: build/forebay and the Python package"
mkdir -p build
tools/build.sh rel forebay libforebay >build/demo-build.log 2>&1 || {
    tail -n 40 build/demo-build.log >&2
    die "the build failed; all of it: build/demo-build.log"
}
wheel=$(python3 python/build_backend.py build/wheel)
rm -rf build/site
python3 -m zipfile -e "$wheel" build/site
PYTHONPATH=build/site exec .venv/bin/python demo/demo.py "$@"
