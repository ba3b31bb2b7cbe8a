#!/usr/bin/env bash
# demo_cluster.sh: builds, and shows a cluster of three nodes with one etcd on this machine.
. "$(dirname "$0")/lib.sh"

tools/deps.sh build python
tools/unpack.sh etcd-server
say "build: build/forebay"
mkdir -p build
tools/build.sh rel forebay >build/demo-build.log 2>&1 || {
    tail -n 40 build/demo-build.log >&2
    die "the build failed; all of it: build/demo-build.log"
}
exec python3 demo/cluster.py "$@"
