#!/usr/bin/env bash
# soak.sh SEEDS [PART...]: what takes longer than `make check` has time for: kill -9 storms and power cuts of real file systems
# with a ledger, rot, kills at the fault points of the tier, a minute of each fuzz target, simulator seeds. `list` names the parts.
#
# Parts that are named run. Without names all run that have not passed yet on this tree with these settings: what was broken off goes on
# where it was, a simulator at the seed where it was (FRESH=1: from the beginning). It goes on after a failure. At the end there is a line
# for each part: verdict, seconds, what it said last. Logs and build/soak/results stay.
. "$(dirname "$0")/lib.sh"

seeds=${1:?how many seeds of the simulator}
shift
kills=${KILLS:-100}
acks=${ACKS:-50000} # promise D1
cuts=${CUTS:-40}
fuzz_seconds=${FUZZ_SECONDS:-60}
from=${FROM:-1} # the first seed: others than the session before had
logs=$root/build/soak
results=$logs/results # state, part, verdict, seconds, last line; tabs between; the latest line of a part counts
mkdir -p "$logs"
touch "$results"

tests() { # SUBFOLDER ARGUMENT...: each part has a folder of its own
    local folder=$1
    shift
    .venv/bin/python -m pytest -c test/pytest.ini --rootdir "$root" -q --basetemp "$logs/tmp-$folder" "$@"
}
storm() { KILLS=$kills ACKS=$acks LOAD_ACKS=1100 tests storm -s test/e2e/test_durability.py -k kills; }
model() { # `make check` has one seed
    local seed
    for seed in $(seq "$RANDOM" 1000003 9000000); do FOREBAY_SEED=$seed build/dev/test/test_s3_model || return; done
}
flips() { # bits, blocks of zeros and cut ends over logs, index and state files of killed disks: of one, and of one of three with two copies
    FOREBAY_ROUNDS=${ROUNDS:-300} FOREBAY_SEED=$from build/dev/test/test_suspects test_rounds_of_damage &&
        FOREBAY_ROUNDS=${ROUNDS:-300} FOREBAY_SEED=$from build/dev/test/test_flips_copies test_rounds_of_damage &&
        FLIPS=40 SEED=$from tests flips test/e2e/test_flips.py
}
points() { POINTS_NTH=3 tests points test/e2e/test_tier_points.py; }
rot() { # bits and swapped blocks over segments and, few at a time, over the index; each other file in each way
    ROT=40 STATE_FILES=all tests rot -s test/e2e/test_rot.py test/e2e/test_state_files.py
}
together() { TOGETHER=${TOGETHER:-200} SEED=${SEED:-$from} tests together test/e2e/test_together.py; } # settings drawn at random
cuts() { .venv/bin/python tools/powercut.py --fs "$1" --cuts "$cuts"; }

# Names of simulators are those of their sources, so that the list needs no build. In one seed of twelve sim_store_space compacts segments
# of cached bodies: as many of these once more.
simulators=$(cd test/sim && printf '%s\n' sim_*.c | sed 's/\.c$//')
all="storm rot flips points model together cuts-ext4 cuts-xfs fuzz plug fill $(tr '\n' ' ' <<<"$simulators") sim_store_space-8"

# PART PROGRAM FROM STEP: in pieces, so that what was broken off goes on where it was.
simulate() {
    local kept=$logs/$1.seeds program=build/sim/test/$2 first=$3 step=$4 whose="" count=0 failed=0 piece
    [ "${FRESH:-}" != "" ] || [ ! -f "$kept" ] || read -r whose count failed <"$kept"
    [ "$whose" = "$state" ] && [ "$count" -lt "$seeds" ] || count=0 failed=0
    while [ "$count" -lt "$seeds" ]; do
        piece=$((seeds - count < 100 ? seeds - count : 100))
        "$program" --from $((first + count * step)) --step "$step" --seeds "$piece" || failed=$((failed + 1))
        count=$((count + piece))
        say "$state $count $failed" >"$kept"
    done
    say "seeds $first to $((first + (count - 1) * step)): $count run, $failed pieces of them failed"
    [ "$failed" = 0 ]
}

run_part() {
    case $1 in
    storm | rot | flips | points | model | together) "$1" ;;
    cuts-*) cuts "${1#cuts-}" ;;
    fuzz) tools/fuzz.sh "$fuzz_seconds" ;;
    plug | fill) .venv/bin/python "tools/$1.py" ;;
    sim_store_space-8) simulate "$1" sim_store_space $((8 + from / 12 * 12)) 12 ;;
    sim_*) simulate "$1" "$1" "$from" 1 ;;
    esac
}
builds_of() { # what must be built for a part: preset and targets
    case $1 in
    points | model | together | flips) say "dev forebay test_s3_model test_suspects test_flips_copies" ;;
    storm | rot | cuts-* | plug | fill) say "rel forebay powercut" ;;
    sim_*) say "sim sim_tests" ;;
    esac
}

built=" "
build() {
    local preset targets
    read -r preset targets <<<"$(builds_of "$1")"
    [[ -n $preset && $built != *" $preset "* ]] || return 0
    # shellcheck disable=SC2086
    tools/build.sh "$preset" $targets >"$logs/build-$preset.log" 2>&1 || { tail -n 40 "$logs/build-$preset.log"; die "the build failed"; }
    built="$built$preset "
}

# The tree and the settings. Without git there is nothing to tell trees apart by: all of it runs.
state=$( { git rev-parse HEAD && git diff HEAD && git ls-files -o --exclude-standard; } 2>/dev/null |
    { cat; printf '%s ' "$seeds" "$from" "$kills" "$acks" "$cuts" "$fuzz_seconds"; } | sha256sum | cut -c1-16)
git rev-parse HEAD >/dev/null 2>&1 || FRESH=1

last_line() { { grep -E "^seeds |[0-9]+ (passed|failed)" "$1" || cat "$1"; } | tail -n 1 | tr '\t' ' ' | cut -c1-160; }
verdict_of() { awk -F'\t' -v s="$state" -v p="$1" '$1 == s && $2 == p { v = $3 } END { print v }' "$results"; }
do_part() { # a status of 77 is a skip
    local name=$1 begun=$SECONDS status=0 verdict=passed
    build "$name"
    begun=$SECONDS
    run_part "$name" >"$logs/$name.log" 2>&1 || status=$?
    case $status in
    0) ;;
    77) verdict=skipped ;;
    *) verdict=FAILED && tail -n 30 "$logs/$name.log" ;;
    esac
    printf '%s\t%s\t%s\t%s\t%s\n' "$state" "$name" "$verdict" $((SECONDS - begun)) "$(last_line "$logs/$name.log")" >>"$results"
    say "$name: $verdict after $((SECONDS - begun)) s"
}
table() {
    local name
    for name in "$@"; do
        awk -F'\t' -v s="$state" -v p="$name" '$1 == s && $2 == p { l = sprintf("%-20s %-8s %6d s  %s", p, $3, $4, $5) }
            END { print l != "" ? l : sprintf("%-20s not run", p) }' "$results"
    done
}

if [ "${1:-}" = list ]; then
    # shellcheck disable=SC2086
    table $all
    exit 0
fi
for name in "$@"; do
    [[ " $all " == *" $name "* ]] || die "no part \"$name\"; there are: $all"
done
tools/deps.sh build python demo check
tools/venv.sh check
if [ $# -gt 0 ]; then
    parts=$*
    for name in "$@"; do do_part "$name"; done
else
    parts=$all
    for name in $all; do
        if [ "${FRESH:-}" = "" ] && [ "$(verdict_of "$name")" = passed ]; then
            say "$name: passed before, on this tree"
        else
            do_part "$name"
        fi
    done
fi
say ""
# shellcheck disable=SC2086
table $parts | tee "$logs/summary"
! grep -q " FAILED " "$logs/summary" || die "parts failed; logs are in build/soak"
