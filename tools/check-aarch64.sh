#!/usr/bin/env bash
# check-aarch64.sh: builds base, wire, the context switch and system calls made by hand for aarch64 and runs their unit tests under qemu-user.
# The libraries of that architecture are unpacked under build/aarch64, with package lists of their own: this
# machine's packages stay as they are.
. "$(dirname "$0")/lib.sh"

tools/deps.sh build aarch64
sysroot=$root/build/aarch64/sysroot
build=$root/build/aarch64/build

unpack_libraries() {
    local apt=$root/build/aarch64/apt
    local options=(-o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$apt/state" -o Dir::Cache="$apt/cache"
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none)
    local packages="libssl-dev libssl3 libxxhash-dev libxxhash0 libexpat1-dev libexpat1 libjansson-dev libjansson4
        liburing-dev liburing2 liblmdb-dev liblmdb0"
    say "aarch64: libraries into build/aarch64/sysroot"
    rm -rf "$apt" "$sysroot"
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/deb" "$sysroot"
    apt-get -qq "${options[@]}" update
    # shellcheck disable=SC2086
    (cd "$apt/deb" && apt-get -qq "${options[@]}" download $packages)
    for deb in "$apt"/deb/*.deb; do dpkg -x "$deb" "$sysroot"; done
    touch "$sysroot/.done"
}

[ -e "$sysroot/.done" ] || unpack_libraries
export FB_SYSROOT=$sysroot
export PKG_CONFIG_SYSROOT_DIR=$sysroot PKG_CONFIG_LIBDIR=$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig:$sysroot/usr/share/pkgconfig
cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake" -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS_DEBUG="-O1 -g" -DFB_TEST_HOOKS=ON >"$root/build/aarch64/cmake.log" 2>&1 || { cat "$root/build/aarch64/cmake.log"; die "cmake failed"; }
tests=()
for source in test/unit/base/test_*.c test/unit/wire/test_*.c test/unit/rt/test_switch*.c test/unit/rt/test_syscall.c test/unit/rt/test_fiber.c; do
    case $source in *test_metrics_mt.c) continue ;; esac # qemu-user makes up /proc/self/stat
    [ -e "$source" ] && tests+=("$(basename "$source" .c)")
done
[ ${#tests[@]} -gt 0 ] || die "no test to run"
ninja -C "$build" "${tests[@]}" >"$root/build/aarch64/ninja.log" 2>&1 || { tail -n 60 "$root/build/aarch64/ninja.log"; die "the build failed"; }
pattern=$(printf '%s|' "${tests[@]}")
ctest --test-dir "$build" -R "/(${pattern%|})\$" -j "$jobs" --timeout 600 --output-junit "$root/build/aarch64/junit.xml" \
    --test-output-size-passed 100000 --test-output-size-failed 400000 >/dev/null 2>&1 || true
out=$(python3 tools/tally.py "$root/build/aarch64/junit.xml")
sed '$d' <<<"$out"
read -r passed failed <<<"$(tail -n 1 <<<"$out")"
say "aarch64: ${tests[*]}"
say "$passed passed, $failed failed"
[ "$failed" = 0 ]
