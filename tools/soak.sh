#!/usr/bin/env bash
# soak.sh SEEDS: what takes longer than `make check` has time for: simulator seeds, kill -9 storms and power cuts of real
# file systems with a ledger, kills at the fault points of the tier, a minute of each fuzz target. Goes on after a failure; the last line says what failed. Logs stay in build/soak.
. "$(dirname "$0")/lib.sh"

seeds=${1:?how many seeds of the simulator}
kills=${KILLS:-100}
acks=${ACKS:-50000} # promise D1
cuts=${CUTS:-40}
logs=$root/build/soak
failed=()
mkdir -p "$logs"

# stage NAME COMMAND...: its last line is shown, all of it is kept. 77 is a skip, and is said.
stage() {
    local name=$1 begun=$SECONDS status=0
    shift
    "$@" >"$logs/$name.log" 2>&1 || status=$?
    say "$name: $(tail -n 1 "$logs/$name.log") ($((SECONDS - begun)) s)"
    if [ $status != 0 ] && [ $status != 77 ]; then
        failed+=("$name")
        tail -n 30 "$logs/$name.log"
    fi
}
storm() {
    KILLS=$kills ACKS=$acks LOAD_ACKS=1100 .venv/bin/python -m pytest -c test/pytest.ini --rootdir "$root" -q -s --basetemp "$root/build/soak/tmp" \
        test/e2e/test_durability.py -k kills
}

points() {
    POINTS_NTH=3 .venv/bin/python -m pytest -c test/pytest.ini --rootdir "$root" -q --basetemp "$root/build/soak/tmp-points" test/e2e/test_tier_points.py
}

model() { # `make check` has one seed
    local seed
    for seed in $(seq "$RANDOM" 1000003 9000000); do FOREBAY_SEED=$seed build/dev/test/test_s3_model || return; done
}

rot() { # bits and swapped blocks over segments and, few at a time, over the index; each other file in each way
    ROT=40 STATE_FILES=all .venv/bin/python -m pytest -c test/pytest.ini --rootdir "$root" -q -s --basetemp "$root/build/soak/tmp" \
        test/e2e/test_rot.py test/e2e/test_state_files.py
}

tools/deps.sh build python demo check
tools/venv.sh check
tools/build.sh rel forebay powercut >"$logs/build.log" 2>&1 || { tail -n 40 "$logs/build.log"; die "the build failed"; }
tools/build.sh sim sim_tests >"$logs/build-sim.log" 2>&1 || { tail -n 40 "$logs/build-sim.log"; die "the build failed"; }
stage storm storm
stage rot rot
tools/build.sh dev forebay test_s3_model >"$logs/build-dev.log" 2>&1 || { tail -n 40 "$logs/build-dev.log"; die "the build failed"; }
stage points points
stage model model
for fs in ext4 xfs; do
    stage "cuts-$fs" .venv/bin/python tools/powercut.py --fs $fs --cuts "$cuts"
done
stage fuzz tools/fuzz.sh "${FUZZ_SECONDS:-60}"
stage plug .venv/bin/python tools/plug.py
stage fill .venv/bin/python tools/fill.py
for program in build/sim/test/sim_*; do
    [ -x "$program" ] && stage "$(basename "$program")" "$program" --seeds "$seeds"
done
[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}; logs are in build/soak"
say "soak: $seeds seeds of each simulation, $kills kills and more until $acks acknowledgements, $cuts power cuts on each file system: nothing lost; logs are in build/soak"
