#!/usr/bin/env bash
# sim.sh NAMES SEEDS [SEED]: runs each program of test/sim whose name matches with that many seeds, or with the one named.
. "$(dirname "$0")/lib.sh"

names=${1:?a pattern of programs, sim_* for all}
seeds=${2:?how many seeds}
only=${3:-}
tools/build.sh sim sim_tests >/dev/null
count=0
for program in build/sim/test/$names; do
    [ -x "$program" ] || continue
    if [ -n "$only" ]; then
        "$program" --seed "$only"
    else
        "$program" --seeds "$seeds"
    fi
    count=$((count + 1))
done
[ $count -gt 0 ] || die "no simulator program was built"
