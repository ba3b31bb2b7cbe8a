#!/usr/bin/env bash
# sim.sh SEEDS [SEED]: runs each program of test/sim with that many seeds, or with the one named.
. "$(dirname "$0")/lib.sh"

seeds=${1:?how many seeds}
only=${2:-}
tools/build.sh sim sim_tests >/dev/null
count=0
for program in build/sim/test/sim_*; do
    [ -x "$program" ] || continue
    if [ -n "$only" ]; then
        "$program" --seed "$only"
    else
        "$program" --seeds "$seeds"
    fi
    count=$((count + 1))
done
[ $count -gt 0 ] || die "no simulator program was built"
