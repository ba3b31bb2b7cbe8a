#!/usr/bin/env bash
# clean-room.sh [COMMAND...]: what a new user sees. Makes a bare Debian in build/clean-room, clones the last commit
# into the home of an ordinary user who has git, make and sudo, and runs `make demo` and `make check` there (or the
# commands given). Sources, proxies, certificates and pip's settings come from the machine it runs on; nothing else.
#
# Needs root. It works in mount and process namespaces of its own: when it ends, however it ends, no mount and no
# process is left. KEEP=1 leaves the tree for a look.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || exec sudo --preserve-env=KEEP "$0" "$@"
if [ "${CLEAN_ROOM_INSIDE:-}" != 1 ]; then
    tools/deps.sh clean-room
    CLEAN_ROOM_INSIDE=1 exec unshare --mount --pid --fork --kill-child --propagation private "$0" "$@"
fi

[ $# -gt 0 ] || set -- "make demo" "make check"
room=$root/build/clean-room/root
log=$root/build/clean-room/log
home=/home/newcomer

mkdir -p "$root/build/clean-room"
exec 9>"$root/build/clean-room/lock"
flock -n 9 || die "another clean room is at work in build/clean-room"

# The mirror and the release that this machine uses itself.
mirror() {
    apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
        awk -v want="$1" '$2 == want { print $1; exit }'
}
bare_debian() {
    local codename uri
    codename=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
    uri=$(mirror "$codename")
    [ -n "$uri" ] || die "apt names no mirror for $codename: run 'apt-get update' first"
    rm -rf "$room"
    mkdir -p "$room"
    say "clean room: a bare $codename in build/clean-room"
    debootstrap --variant=minbase "$codename" "$room" "$uri" >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "debootstrap failed"; }
}
# copy PATH...: what is there, to the same place in the room.
copy() {
    local path
    for path; do
        [ -e "$path" ] || continue
        mkdir -p "$room$(dirname "$path")"
        rm -rf "${room:?}$path"
        cp -a "$path" "$room$path"
    done
}
settings_of_this_machine() {
    copy /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/xdg/pip /usr/local/share/ca-certificates \
        /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/keyrings /etc/apt/trusted.gpg.d /etc/apt/auth.conf.d
    cp -an /usr/share/keyrings/. "$room/usr/share/keyrings/"
    apt-config dump | grep -E '^Acquire::(http|https|Retries|Check|AllowInsecure|AllowWeak|AllowDowngrade)' >"$room/etc/apt/apt.conf.d/90clean-room" || true
}
mounts() {
    mount -t proc proc "$room/proc"
    mount -t sysfs -o ro sysfs "$room/sys"
    mount --rbind /dev "$room/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$room/dev/shm"
}
in_room() { chroot "$room" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }
newcomer() {
    say "clean room: git, make, sudo, and a user"
    {
        in_room apt-get -q update
        in_room env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends git make sudo ca-certificates
        in_room useradd --create-home --shell /bin/bash newcomer
        printf 'newcomer ALL=(ALL) NOPASSWD: ALL\n' >"$room/etc/sudoers.d/newcomer"
        git clone -q --no-hardlinks "$root" "$room$home/forebay"
        in_room chown -R newcomer: $home/forebay
    } >>"$log" 2>&1 || { tail -n 20 "$log" >&2; die "the room cannot be furnished"; }
}
# Proxies and pip's settings reach the user as the environment they are here; find-links is this machine's own luck.
as_newcomer() {
    local keep=()
    mapfile -t keep < <(env | grep -iE '^(https?_proxy|no_proxy|PIP_[A-Z_]*)=' | grep -v '^PIP_FIND_LINKS=')
    in_room sudo -u newcomer env -i HOME=$home USER=newcomer TERM="${TERM:-dumb}" LC_ALL=C.UTF-8 \
        PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "${keep[@]}" bash -c "cd ~/forebay && $1"
}

bare_debian
settings_of_this_machine
mounts
newcomer
failed=0
for command; do
    say "clean room: \$ $command"
    begun=$SECONDS
    as_newcomer "$command" || { failed=1; say "clean room: FAILED: $command"; }
    say "clean room: $((SECONDS - begun)) s"
done
if [ "${KEEP:-}" != 1 ]; then
    umount -R "$room/dev/shm" "$room/dev" "$room/sys" "$room/proc" 2>/dev/null || umount -l -R "$room/dev" "$room/sys" "$room/proc"
    if findmnt -rn -o TARGET | grep -q "^$room/"; then die "something is still mounted under $room"; fi
    rm -rf --one-file-system "$room"
fi
exit $failed
