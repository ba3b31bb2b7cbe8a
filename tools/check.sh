#!/usr/bin/env bash
# check.sh [STAGE...]: installs what the tests need, builds, and runs everything that is tested; or just the
# stages named. Each stage says how long it took and what it counted; failures are shown whole,
# and again in a line each at the end, where a log that was cut still has them. The last line is "N passed,
# N failed". Logs stay in build/check.
# With all stages, later builds are made behind the end-to-end tests, which leave half of the machine unused.
. "$(dirname "$0")/lib.sh"

STAGES="house e2e units threads clang sim corpora fuzz guard"
FUZZ_SECONDS=${FUZZ_SECONDS:-5} # for each target

# What build_ahead makes, in this order; the words are those of the stages.
AHEAD=("dev forebay" "rel forebay libforebay powercut httpload" "dev all tests" "tsan thread_tests" "clang forebay" "sim sim_tests" "fuzz fuzzers")

logs=$root/build/check
passed=0 failed=0
ahead= # process of build_ahead
rm -rf "$logs/ahead"
mkdir -p "$logs/ahead"
: >"$logs/failures"

# build_ahead: whatever else runs goes first. A build that fails is made again, and told, by the stage that wants it.
build_ahead() {
    local step
    for step in "${AHEAD[@]}"; do
        # shellcheck disable=SC2086
        nice -n 19 tools/build.sh $step >"$logs/ahead/log" 2>&1 && touch "$logs/ahead/$step"
    done
}
# is_made PRESET TARGET...: waits for what build_ahead is at; false when the stage is to build it itself.
is_made() {
    while [ ! -e "$logs/ahead/$*" ] && [ -n "$ahead" ] && kill -0 "$ahead" 2>/dev/null; do sleep 0.2; done
    [ -e "$logs/ahead/$*" ]
}
# build PRESET TARGET...: warnings are errors; what the compiler says is shown when it fails.
build() {
    local log=$logs/build-$1.log
    is_made "$@" && return
    tools/build.sh "$@" >"$log" 2>&1 || {
        grep -E -A12 'error|FAILED|Error' "$log" | head -120
        say "    the build \"$1\" failed; all of it: $log"
        return 1
    }
}
# ctest_of PRESET LABEL [MORE]: runs the tests with that label.
ctest_of() {
    local dir=build/$1 label=$2
    shift 2
    ctest --test-dir "$dir" -L "^$label\$" -j "$jobs" --output-junit "$logs/junit.xml" \
        --test-output-size-passed 100000 --test-output-size-failed 400000 "$@" >"$logs/ctest-$label.log" 2>&1 || true
    count "$logs/junit.xml"
}
# pytest_of LANES ARGUMENT...: so many processes side by side; where there is more than one, each takes the next file (test/e2e/lanes.py).
pytest_of() {
    local lanes=$1 lane results=() claims lanes_running=()
    shift
    rm -rf "$logs/tmp" "$logs"/junit-*.xml
    mkdir -p "$logs/tmp"
    claims=$(mktemp -d "$logs/tmp/claims.XXXXXX")
    for lane in $(seq "$lanes"); do
        results+=("$logs/junit-$lane.xml")
        if [ "$lanes" -gt 1 ]; then export LANE_CLAIMS=$claims; fi
        .venv/bin/python -m pytest -c test/pytest.ini --rootdir "$root" --junit-xml="$logs/junit-$lane.xml" -q --basetemp "$logs/tmp/$lane" "$@" >"$logs/pytest-$lane.log" 2>&1 &
        lanes_running+=($!)
    done
    wait "${lanes_running[@]}" || true
    unset LANE_CLAIMS
    for lane in $(seq "$lanes"); do
        [ -e "$logs/junit-$lane.xml" ] || cat "$logs/pytest-$lane.log"
    done
    count "${results[@]}"
}
# count JUNIT...: adds their tests to the stage's; the files are taken, so that a next one cannot be mistaken for them.
count() {
    local out last file
    for file; do
        [ -e "$file" ] || { stage_failed=$((stage_failed + 1)); say "    the runner left no result"; return; }
    done
    out=$(python3 tools/tally.py "$@") || { stage_failed=$((stage_failed + 1)); say "    the result cannot be read: $*"; return; }
    last=$(tail -n 1 <<<"$out")
    sed '$d' <<<"$out"
    sed -n "s/^==== FAILED /    $stage: /p" <<<"$out" >>"$logs/failures" # the stage that the loop below is at
    rm -f "$@"
    stage_passed=$((stage_passed + ${last% *})) stage_failed=$((stage_failed + ${last#* }))
}

stage_house() { pytest_of 1 test/house; }
stage_units() { build dev all tests && ctest_of dev unit; }
stage_corpora() { build dev tests && ctest_of dev fuzz; }
stage_threads() { build tsan thread_tests && ctest_of tsan threads; }
stage_clang() { # the second compiler, optimised, warnings are errors: the program it makes must at least start
    build clang forebay && build/clang/forebay version >/dev/null && stage_passed=1
}
stage_sim() { build sim sim_tests && ctest_of sim sim; }
stage_fuzz() {
    local log=$logs/fuzz.log last
    is_made fuzz fuzzers || true # else it builds them itself
    tools/fuzz.sh "$FUZZ_SECONDS" >"$log" 2>&1 || cat "$log"
    last=$(tail -n 1 "$log")
    [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]] || return 1
    stage_passed=${BASH_REMATCH[1]} stage_failed=${BASH_REMATCH[2]}
}
stage_e2e() { build dev forebay && build rel forebay libforebay powercut httpload && pytest_of "$jobs" test/e2e; }

stage_guard() { # instructions a request; says what they were held against
    build rel forebay || return 1
    python3 tools/bench/guard.py >"$logs/guard.log" 2>&1 || { cat "$logs/guard.log"; return 1; }
    grep -hE '^(assessed|NOT ASSESSED):' "$logs/guard.log" | sed 's/^/    /'
    stage_passed=1
}

stage_clients() { # not among those that run by themselves: `make check-clients`
    tools/deps.sh clients
    tools/clients.sh
    build rel forebay && FOREBAY_BIN=$root/build/forebay pytest_of 1 test/clients -p no:cacheprovider -W default
    tools/s3tests.sh
    grep -h 'CLIENT NOT TESTED' "$logs/pytest-1.log" | sed 's/^ *[^ ]*: *UserWarning: */    /' | sort -u || true
}

run_stage() {
    local begun=$SECONDS
    stage_passed=0 stage_failed=0
    say "== $1"
    "stage_$1" || stage_failed=$((stage_failed + 1))
    [ "$stage_failed" = 0 ] || grep -q "^    $1: " "$logs/failures" || echo "    $1: see above, and build/check" >>"$logs/failures"
    [ $((stage_passed + stage_failed)) -gt 0 ] || { say "    nothing was run, and that is a failure"; stage_failed=1; }
    say "   $1: $stage_passed passed, $stage_failed failed, $((SECONDS - begun)) s"
    passed=$((passed + stage_passed)) failed=$((failed + stage_failed))
}

tools/deps.sh build python demo check guard
tools/venv.sh check old
tools/unpack.sh prometheus
command -v etcd >/dev/null || tools/unpack.sh etcd-server
if [ $# = 0 ]; then
    build_ahead &
    ahead=$!
    trap 'kill "$ahead" 2>/dev/null || true' EXIT
fi
for stage in ${*:-$STAGES}; do
    [[ " $STAGES clients " = *" $stage "* ]] || die "no stage \"$stage\"; there are: $STAGES"
    run_stage "$stage"
done
say "check took $SECONDS s; logs are in build/check"
[ ! -s "$logs/failures" ] || { say "== what failed, in a line each"; cat "$logs/failures"; }
say "$passed passed, $failed failed"
[ $failed = 0 ]
