#!/usr/bin/env python3
"""rooms: holds every #include and every kernel header of src/ against the order in src/ROOMS.

    rooms.py [SRC]      prints what is wrong, one line each; exit 1 if anything is

A room includes headers of itself and of the rooms above it, as "room/header.h". A room with sub-rooms (indented lines
under it in src/ROOMS) has a second level: a sub-room includes itself, the sub-rooms above it, and the public headers that
stand in the room's own folder; other rooms include only these public headers. UPWARD lists the includes that still point
upward; the list only shrinks. Only `rt` includes the headers of system calls that wait, of sockets, threads and io_uring;
EXCEPTIONS names the other files that may, and why.
"""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)

# Headers behind which the kernel is: I/O, threads, other processes.
KERNEL = re.compile(
    r"^(liburing|pthread|threads|semaphore|poll|netdb|fcntl|spawn|termios"
    r"|netinet/.*|linux/.*"
    r"|sys/(socket|epoll|eventfd|timerfd|signalfd|mman|wait|sendfile|stat|un|ioctl|syscall|file|statvfs|vfs|inotify|random))\.h$"
)

# path below src/: (headers, why)
EXCEPTIONS = {
    "base/digest.c": ({"pthread.h"}, "pthread_once around OpenSSL's digests, which no loop owns"),
    "base/lock.h": ({"pthread.h"}, "the ranked locks themselves"),
    "cli/local.c": ({"sys/stat.h"}, "walks the folders of the person who types, as cp -r does"),
    "cli/files.c": ({"fcntl.h", "sys/stat.h"}, "the same; each call is one trip to a worker"),
    "cli/files_walk.c": ({"sys/stat.h"}, "the same"),
    "cli/input.c": ({"poll.h"}, "a worker's wait for a person or a pipe that Ctrl-C ends"),
    "cli/output.c": ({"fcntl.h", "poll.h"}, "descriptors 0 to 2, before there is a loop; has the reader of a pipe gone"),
    "cli/terminal.c": ({"sys/ioctl.h"}, "how wide a terminal is"),
    "cli/settings.c": ({"sys/stat.h"}, "who can read a file of secrets, before there is a loop"),
    "cli/serve.c": ({"sys/stat.h"}, "makes the data folder before there is a runtime"),
    "cli/cluster.c": ({"sys/stat.h"}, "the file that a key is printed into is private"),
    "cli/tls.c": ({"sys/stat.h"}, "umask: a private key is private from its first byte"),
    "base/lock.h": ({"pthread.h"}, "the mutex with a rank; metrics stand above rt and need one"),
}

# (file, header) below src/: an include that points upward between sub-rooms. This list only shrinks.
UPWARD = set()


def read_rooms(src):
    return [line.split()[0] for line in (src / "ROOMS").read_text().splitlines() if line and line[0].isalpha()]


def read_sub_rooms(src):
    """{room: its sub-rooms in order}; a sub-room is a folder, or one .c file of the room's own folder."""
    found = {}
    for line in (src / "ROOMS").read_text().splitlines():
        if line.startswith(" ") and line.strip():
            name = line.split()[0]
            found.setdefault(name.split("/")[0], []).append(name)
    return found


def sub_room_of(name, subs):
    """The sub-room of a file, or None: a public header of the room."""
    if name in subs:
        return name
    parts = name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else None


def check_sub_include(name, header, subs):
    """A sentence for an include inside one room that points upward, or None."""
    mine, theirs = sub_room_of(name, subs), sub_room_of(header, subs)
    for sub in (mine, theirs):
        if sub is not None and sub not in subs:
            return f'no sub-room "{sub}" in src/ROOMS'
    if theirs is None:
        return None
    if mine is None and name.endswith(".h"):
        return f'a public header includes "{header}" of a sub-room'
    if mine is None:
        return f'"{name}" stands in no sub-room'
    if subs.index(theirs) > subs.index(mine):
        return f'sub-room {mine} includes "{header}", but {theirs} stands below it'
    return None


def edges(src):
    """Counts the includes between rooms or sub-rooms: ({(from, to): count}, how many of them point upward)."""
    rooms, subs = read_rooms(src), read_sub_rooms(src)
    count, upward = {}, 0
    for path in sorted(p for p in src.rglob("*") if p.suffix in (".c", ".h")):
        name = path.relative_to(src).as_posix()
        for match in INCLUDE.finditer(path.read_text(errors="replace")):
            kind, header = match.groups()
            if kind == "<" or not (src / header).is_file():
                continue
            a, b = ((sub_room_of(n, subs[r]) or r) if (r := n.split("/")[0]) in subs else r for n in (name, header))
            if a != b:
                count[a, b] = count.get((a, b), 0) + 1
                room = name.split("/")[0]
                if room == header.split("/")[0]:
                    upward += check_sub_include(name, header, subs.get(room, [])) is not None
                else:
                    upward += rooms.index(header.split("/")[0]) > rooms.index(room)
    return count, upward


def check_file(src, path, rooms, subs):
    """Yields a sentence for each wrong #include of one file."""
    name = path.relative_to(src).as_posix()
    room = name.split("/")[0]
    if room not in rooms:
        yield f"{name}: no room \"{room}\" in src/ROOMS"
        return
    text = path.read_text(errors="replace")
    for match in INCLUDE.finditer(text):
        where = f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
        kind, header = match.groups()
        if kind == "<":
            if room != "rt" and KERNEL.match(header) and header not in EXCEPTIONS.get(name, (set(),))[0]:
                yield f"{where}: <{header}> is for rt alone"
            continue
        if not (src / header).is_file():
            beside = path.parent / header
            yield f'{where}: "{header}" is not below src/' + (f'; write "{beside.relative_to(src)}"' if beside.is_file() else "")
            continue
        theirs = header.split("/")[0]
        if theirs not in rooms or rooms.index(theirs) > rooms.index(room):
            yield f'{where}: room {room} includes "{header}", but {theirs} stands below it'
        elif theirs == room and room in subs:
            says = check_sub_include(name, header, subs[room])
            if says and (name, header) not in UPWARD:
                yield f"{where}: {says}"
        elif theirs in subs and sub_room_of(header, subs[theirs]) is not None:
            yield f'{where}: "{header}" is not a public header of {theirs}'


def check(src):
    """(sentences, number of files read)"""
    rooms, subs = read_rooms(src), read_sub_rooms(src)
    files = sorted(p for p in src.rglob("*") if p.suffix in (".c", ".h", ".S"))
    wrong = [sentence for path in files for sentence in check_file(src, path, rooms, subs)]
    for room in rooms:
        folder = src / room
        if folder.is_dir() and any(folder.rglob("*.c")) and not (folder / "README.md").is_file():
            wrong.append(f"{room}: a room has a README.md")
    for path in files:
        if path.suffix == ".h" and "#pragma once" not in path.read_text(errors="replace"):
            wrong.append(f"{path.relative_to(src)}: no #pragma once")
    for name, header in sorted(UPWARD):
        text = (src / name).read_text() if (src / name).is_file() else ""
        if f'"{header}"' not in text:
            wrong.append(f"{name}: does not need its place in UPWARD for {header} in rooms.py")
    for name in EXCEPTIONS:
        text = (src / name).read_text() if (src / name).is_file() else ""
        for header in EXCEPTIONS[name][0]:
            if f"<{header}>" not in text:
                wrong.append(f"{name}: does not need its exception for <{header}> in rooms.py")
    return wrong, len(files)


def main():
    src = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2] / "src")
    wrong, count = check(src)
    for sentence in wrong:
        print(sentence)
    for name, header in sorted(UPWARD):
        print(f"upward, still: {name} includes {header}")
    between, upward = edges(src)
    print(f"rooms: {count} files, {len(wrong)} wrong; {len(between)} edges, {sum(between.values())} includes between rooms, {upward} upward")
    return 1 if wrong or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
