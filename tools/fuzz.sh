#!/usr/bin/env bash
# fuzz.sh SECONDS [NAME]: fuzzes each target of test/fuzz (or one) for that long, from its corpus. New inputs
# stay in build/fuzz/corpus; a crash is written to build/fuzz/crashes and ends the run with its report. An input that takes
# 5 minutes is one: less may be a machine that stood still.
. "$(dirname "$0")/lib.sh"

seconds=${1:?seconds for each target}
only=${2:-}
mkdir -p build/fuzz/crashes
tools/build.sh fuzz fuzzers >build/fuzz.log 2>&1 || {
    cat build/fuzz.log >&2
    die "the fuzz targets did not build"
}
passed=0 failed=0

fuzz_one() {
    local name=$1
    local found=build/fuzz/corpus/$name seed=test/fuzz/corpus/$name log=build/fuzz/$name.log
    mkdir -p "$found"
    [ -d "$seed" ] || { say "fuzz: $name has no corpus at $seed"; return 1; }
    if build/fuzz/test/fuzz_"$name" -max_total_time="$seconds" -timeout=300 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix=build/fuzz/crashes/"$name"- "$found" "$seed" >"$log" 2>&1; then
        say "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, no crash"
    else
        cat "$log"
        say "fuzz: $name FAILED; the input is in build/fuzz/crashes"
        return 1
    fi
}
for program in build/fuzz/test/fuzz_*; do
    [ -x "$program" ] || continue
    name=${program##*/fuzz_}
    [ -z "$only" ] || [ "$name" = "$only" ] || continue
    fuzz_one "$name" &
    pids[$!]=$name
    # As many at a time as there are cores.
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do sleep 0.1; done
done
for pid in "${!pids[@]}"; do
    if wait "$pid"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
say "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
