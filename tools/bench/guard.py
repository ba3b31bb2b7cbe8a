#!/usr/bin/env python3
"""Counts the instructions and system calls that a request costs the server, and compares them with tools/bench/guard.json: `make bench-guard`.

    guard.py [--update] [--base COMMIT] [--limit PERCENT] [--json FILE] [ROW...]

The server runs under callgrind on one core with the epoll engine; one client asks for one thing at a time. What the kernel does is not
counted, but for how often it is called. What our own code costs is counted apart from what its libraries do: it depends on the compiler and the
headers, not on a library's version, and the CPU that a program sees under valgrind is the same on every x86-64 with AVX2. So the baseline holds
wherever those agree; where a library is of another version, our own part keeps its limit and only the sum of both gets a wider one. Where they do
not agree, the commit that wrote the baseline is built here and takes its place. --base COMMIT compares with any other; --update writes a baseline.

Of system calls, those that move data or ask the disk for something are assessed kind by kind, and closely: how often one is asked for, a request, is
the program's affair alone. How often threads wait for each other is the machine's: that is told, and of rows that write not assessed.

Exit status 1: a row costs more than the limit (5 %) above the baseline; the functions that grew are named. The last line says what was assessed.
"""

import argparse
import configparser
import http.client
import json
import os
import pathlib
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree as tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from bench.signing import signed_lines  # noqa: E402
from rigs.process import Process, free_ports  # noqa: E402

BASELINE = ROOT / "tools/bench/guard.json"
LIMIT = 5.0  # percent
WIDE = 25.0  # of ours and the libraries' together, where a library is of another version
FLAGS = ("--engine", "epoll", "--set", "index.map_size=67108864", "--set", "turn_limit=1m", "--set", "log.level=error", "--set", "http.idle_timeout=1h",
         "--set", "unsafe.core_dumps=true")  # or the process is undumpable, and vgdb of an ordinary user cannot attach to it
FUNCTIONS = 40  # of each row are kept in the baseline
KEYS = 20
CLOCK = "clock_gettime"  # a system call under valgrind alone
PIECES = 3
MORE_IO = 1.05  # times as many of a kind of IO a request, and
SLACK = 0.2  # more
RECOUNTS = 3
IO = re.compile(
    "send|sendto|sendmsg|sendfile|recv|recvfrom|recvmsg|syscall|p?readv?2?|p?writev?2?|fdatasync|fsync|syncfs|sync_file_range|msync|"
    "io_submit|open|openat|openat2|creat|close|mmap|munmap|mremap|madvise|fallocate|posix_fallocate|fadvise|posix_fadvise|ftruncate|copy_file_range|"
    "lseek|fstat|fstatat|statx?|rename|renameat2?|unlink|unlinkat|link|linkat|mkdir|mkdirat|fcntl|ioctl"
)  # functions of libc, that are a system call each
OURS = ("socket_try_recv", "socket_try_sendv", "sendable_send")  # rt/socket.c and rt/sendable.c: receipts, sends, sends by reference. Their system calls are inlined
WAITS = ("read", "write")  # of an eventfd: who wakes whom
AHEAD = ("write_zeros", "rt_write")  # who calls what: room for later writes, a pwrite() each, as many as the disk has leisure for
PATIENCE = 300  # seconds for any answer: the machine may stand still meanwhile
TELL_PATIENCE = 60  # seconds for vgdb to reach a server that waits in a system call
STALLED = 0.1
QUIET = 60_000  # instructions a second of a server that has nothing to do
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Server(Process):
    """Under callgrind, which counts only when it is told to."""

    def __init__(self, binary, dir, *flags):
        (self.port,) = free_ports(1)
        self.binary, self.dir, self.out, self.parts, self.idle = str(binary), dir, dir / "callgrind", 0, [QUIET, 0]
        dir.mkdir()
        # GLIBC_TUNABLES: the same memcpy() on every machine.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "FOREBAY_"))}
        env["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-ERMS,-FSRM,-AVX_Fast_Unaligned_Load"
        argv = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-systime=nsec", f"--callgrind-out-file={self.out}",
                binary, "serve", dir / "data", "--listen", f"127.0.0.1:{self.port}", *FLAGS, *flags]  # fmt: skip
        core = max(os.sched_getaffinity(0))
        super().__init__("forebay", ["taskset", "-c", str(core), *argv], dir, env=env)
        self.wait_until(lambda: self.ready(), 120)
        self.tell("instrumentation on")

    def ready(self):
        try:
            return self.ask("GET", "/_/readyz")[0] == 200
        except OSError:
            return False

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path, body)
        reply = connection.getresponse()
        return reply.status, reply.read()

    def tell(self, *what):
        try:
            done = subprocess.run(["vgdb", f"--pid={self.popen.pid}", *what], capture_output=True, text=True, timeout=TELL_PATIENCE)
        except subprocess.TimeoutExpired:
            raise RuntimeError(
                f"vgdb {' '.join(what)}: no answer of process {self.popen.pid} in {TELL_PATIENCE} s; vgdb wakes a sleeping server by ptrace: "
                "is /proc/sys/kernel/yama/ptrace_scope 0, and the process dumpable (unsafe.core_dumps)?"
            ) from None
        if done.returncode != 0:
            raise RuntimeError(f"vgdb {what}: {done.stdout}{done.stderr}")

    def count(self, run):
        """What run() costs: {function: instructions} of ours, the same of libraries, system calls, {kind: calls} of IO, seconds."""
        self.tell("zero")
        begun = time.monotonic()
        run()
        took = time.monotonic() - begun
        self.parts += 1
        self.tell("dump")
        return *read_dump(pathlib.Path(f"{self.out}.{self.parts}"), self.binary), took

    def secrets(self):
        file = configparser.ConfigParser()
        file.read(self.dir / "data/.forebay/credentials")
        user = file[file.sections()[0]]
        return user["aws_access_key_id"], user["aws_secret_access_key"]


def read_dump(path, binary):
    """Costs of each function itself, what it calls left out: ({name: instructions} of the binary, the same of libraries, system calls, {kind: calls} of IO).

    What callgrind says of system calls (sysCount) goes to the thread that runs when one ends, and in a thread that sleeps it outlives "zero": a rough
    sum. How often a function was called is exact, whichever thread called it: IO is counted by that."""
    objects, names, ours, others, calls, io = {}, {}, {}, {}, 0, {}
    object, callee, asked, function, skip = "", "", "?", "?", False

    def named(table, text):  # "(3) name" the first time, then "(3)"
        number, _, name = text.partition(" ")
        if name:
            table[number] = name
        return table.get(number, number)

    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("ob="):
            object = named(objects, line[3:])
        elif line.startswith("cob="):
            callee = named(objects, line[4:])
        elif line.startswith("fn="):
            function = re.sub(r"'\d+$", "", named(names, line[3:]))
        elif line.startswith("cfn="):
            asked = named(names, line[4:])
        elif line.startswith("calls="):
            kind, n = io_kind(function, asked, callee or object, binary)
            if kind:
                io[kind] = io.get(kind, 0) + n * int(line[6:].split()[0])
            callee, skip = "", True  # the next line is what the call cost
        elif line and (line[0].isdigit() or line[0] in "+-*"):
            if not skip:
                costs = line.split()[1:]
                name, into = (function, ours) if object == binary else (f"{pathlib.Path(object).name}: {function}", others)
                into[name] = into.get(name, 0) + int(costs[0])
                if len(costs) > 1 and not function.startswith(CLOCK):
                    calls += int(costs[1])
            skip = False
    if not ours:
        raise RuntimeError(f"{path}: no instruction of {binary} among {len(objects)} files; nothing would be assessed")
    return ours, others, calls, io


def io_kind(caller, function, object, binary):
    """(what a call of it is counted as, how often); ("", 0) when it is no IO."""
    name = re.sub(r"'\d+$", "", function)
    if object == binary and name in OURS:
        return name, 1
    if object == binary:
        return ("pwrite", -1) if (caller.split(".")[0], name) == AHEAD else ("", 0)
    if not re.match(r"lib(c|pthread)[.-]", pathlib.Path(object).name):
        return "", 0
    name = re.sub(r"(64)?(_nocancel)?(@.*)?$", "", name.removeprefix("__GI_").lstrip("_"))
    return (name, 1) if IO.fullmatch(name) and name not in WAITS else ("", 0)


# ---- the client ----


class Client:
    """One connection; requests are ready-made bytes, answers are checked."""

    def __init__(self, port):
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)  # answers fit: no second send because we are late
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host = f"127.0.0.1:{port}"

    def request(self, method, path, body=b"", headers=()):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", *headers]
        if body or method in ("PUT", "POST"):
            lines.append(f"Content-Length: {len(body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def send(self, request, status, length=None):
        self.socket.sendall(request)
        got = b""
        while b"\r\n\r\n" not in got:
            more = self.socket.recv(65536)
            assert more, f"closed after {got[:200]!r}"
            got += more
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d" % status), (request[:200], head[:400])
        found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        whole = int(found.group(1)) if found and not request.startswith(b"HEAD") and status != 204 else 0
        have = len(body)
        while have < whole:
            more = self.socket.recv(1 << 20)
            assert more, "a body cut short"
            have += len(more)
        assert length is None or (whole or int(found.group(1))) == length, head


# ---- rows: (name, requests, server) -> a list of requests with what each must answer ----


def names(size):
    return [f"/bench/s{size}/o{i:04d}" for i in range(KEYS)]


def gets(client, size, method="GET", status=200, length=None, headers=()):
    return [(client.request(method, path, headers=headers), status, size if length is None else length) for path in names(size)]


def signed(client, server):
    for line in signed_lines(*server.secrets(), client.host, names(4096)):
        path, *headers = line.split("\t")
        yield client.request("GET", path, headers=headers), 200, 4096


def part_requests(client, server, count):
    status, body = server.ask("POST", "/bench/upload?uploads")
    assert status == 200, body
    upload = urllib.parse.quote(tree.fromstring(body).find(f"{NAMESPACE}UploadId").text)
    body = os.urandom(256 * 1024)
    return [(client.request("PUT", f"/bench/upload?partNumber={n + 1}&uploadId={upload}", body), 200, 0) for n in range(count)]


def puts(client, prefix, count):
    body = os.urandom(4096)
    return [(client.request("PUT", f"/bench/{prefix}/o{i:05d}", body), 200, 0) for i in range(count)]


def deletes(client, prefix, count):
    """Of objects that are there, whichever rows were asked for."""
    for request in puts(client, prefix, count):
        client.send(*request)
    return [(client.request("DELETE", f"/bench/{prefix}/o{i:05d}"), 204, None) for i in range(count)]


# name: (requests that count, rounds before, makes them)
ROWS = {
    "get-4k": (400, 60, lambda c, s, n: gets(c, 4096)),
    "get-4k-signed": (400, 60, lambda c, s, n: list(signed(c, s))),
    "get-100k": (200, 60, lambda c, s, n: gets(c, 100_000)),
    "get-1m": (100, 60, lambda c, s, n: gets(c, 1 << 20)),
    "head": (400, 60, lambda c, s, n: gets(c, 4096, "HEAD")),
    "get-range": (400, 60, lambda c, s, n: gets(c, 100_000, status=206, length=4096, headers=("Range: bytes=1000-5095",))),
    "get-404": (400, 60, lambda c, s, n: [(c.request("GET", f"/bench/none/o{i}"), 404, None) for i in range(KEYS)]),
    "list-1000": (6, 2, lambda c, s, n: [(c.request("GET", "/bench?list-type=2&prefix=list/"), 200, None)]),
    "put-4k": (300, 60, lambda c, s, n: puts(c, "put", n)),
    "put-part": (15, 4, lambda c, s, n: part_requests(c, s, n)),
    "delete": (300, 60, lambda c, s, n: deletes(c, "gone", n)),
    "disk-get-4k": (300, 60, lambda c, s, n: gets(c, 4096)),
}
FROM_DISK = ("disk-get-4k",)
WRITES = ("put-4k", "put-part", "delete")  # their calls as a whole are told only: how often threads of the disk wait for each other and for it is the machine's affair
TOLD = ("get-1m",)  # not assessed: what a socket does not take at once costs a fiber, and how often that is depends on the machine


def fill(server, listed):
    client = Client(server.port)
    assert server.ask("PUT", "/bench")[0] == 200
    for size in (4096, 100_000, 1 << 20):
        for path in names(size):
            client.send(client.request("PUT", path, os.urandom(size)), 200)
    for i in range(listed):
        client.send(client.request("PUT", f"/bench/list/class-{i % 10}/sample-{i:06d}.jpg", b"x" * 16), 200)
    return client


def settle(server):
    """Waits until what follows a fill is over (commits, counts); keeps what a server that only waits costs a second, ours and its libraries."""
    end = time.monotonic() + 20
    while True:
        ours, others, _, _, took = server.count(lambda: time.sleep(0.3))
        idle = [sum(ours.values()) / took, sum(others.values()) / took]
        server.idle = min(server.idle, idle, key=sum)
        if sum(idle) < QUIET or time.monotonic() > end:
            return


def less_idle(parts, idle, took):
    """What ours and libraries cost without what a waiting server does in that time, which is a hundredth; ([ours, libraries], False). Where it would be
    much of it, the machine stood still and no timer fired: nothing is taken off, and True."""
    costs, off = [sum(part.values()) for part in parts], [n * took for n in idle]
    stalled = sum(off) > STALLED * sum(costs)
    return (costs if stalled else [cost - n for cost, n in zip(costs, off)]), stalled


def fewer(a, b):
    """Of each kind of IO the lower count; what one of them lacks happened by chance."""
    return {kind: min(n, b[kind]) for kind, n in a.items() if kind in b}


def measure_row(server, client, name):
    """The cheapest of PIECES runs, since what a timer or another fiber adds now and then is in one of them, not in all. Of IO
    all of them: a PUT has two ways to its sync, and takes now this, now that."""
    count, before, make = ROWS[name]
    requests = make(client, server, count + before)
    for i in range(before):
        client.send(*requests[i % len(requests)])
    settle(server)
    best, fewest, asked = None, None, {}
    for piece in range(PIECES):
        numbers = range(before + count * piece // PIECES, before + count * (piece + 1) // PIECES)

        def run(numbers=numbers):
            for i in numbers:
                client.send(*requests[i % len(requests)])

        ours, others, calls, io, took = server.count(run)
        each, stalled = less_idle((ours, others), server.idle, took)
        each = [n / len(numbers) for n in each]
        if best is None or (stalled, sum(each)) < best[0]:
            best = (stalled, sum(each)), each, {f: n / len(numbers) for f, n in (ours | others).items()}
        asked = {kind: asked.get(kind, 0) + io.get(kind, 0) for kind in asked | io}
        fewest = calls / len(numbers) if fewest is None else min(fewest, calls / len(numbers))
    _, each, functions = best
    largest = sorted(functions.items(), key=lambda f: -f[1])[:FUNCTIONS]
    return {
        "ours": round(each[0]),
        "libraries": round(each[1]),
        "system_calls": round(fewest, 2),
        "io": {kind: round(n / count, 2) for kind, n in sorted(asked.items()) if n >= 0.01 * count},
        "functions": {f: round(n) for f, n in largest if n >= 0.002 * sum(each)},
    }


def measure(binary, wanted):
    """All rows of one program."""
    rows = {}
    with tempfile.TemporaryDirectory(prefix="guard-", dir=ROOT / "build") as dir:
        for which, some, flags in (("warm", [r for r in ROWS if r not in FROM_DISK], ()), ("disk", FROM_DISK, ("--set", "memory.block_cache=0"))):
            some = [r for r in some if r in wanted]
            if not some:
                continue
            server = Server(binary, pathlib.Path(dir) / which, *flags)
            try:
                client = fill(server, 1000 if "list-1000" in some else 0)
                for name in some:
                    rows[name] = measure_row(server, client, name)
            finally:
                server.stop(60)
    return rows


# ---- what figures depend on ----


def said(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return (done.stdout + done.stderr).strip().split("\n")[0]


def environment(build):
    """What makes counts of our own code differ though the sources are the same."""
    cache = (build / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_C_COMPILER:[A-Z]+=(.*)$", cache, re.MULTILINE).group(1)
    flags = set(re.search(r"^(?:flags|Features)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE).group(1).split())
    version = said(compiler, "--version")
    kind = "clang" if "clang" in version else "gcc"
    return {
        "machine": platform.machine(),
        "compiler": f"{kind} {re.search(r'[0-9]+[.][0-9.]+', version).group()}",  # a packager's number changes no code
        "valgrind": said("valgrind", "--version"),
        "cpu": " ".join(sorted(flags & {"avx", "avx2", "bmi2"})),  # valgrind shows the rest alike everywhere
        "libxxhash-dev": package("libxxhash-dev"),  # inlined
    }


def package(name):
    return said("dpkg-query", "-W", "-f", "${Version}", name)


def libraries():
    return {p: package(p) for p in ("libssl3", "liblmdb0", "libc6", "libexpat1")}


def differing(here, there):
    return [f'{key} is "{value}" here, "{there.get(key)}" there' for key, value in here.items() if there.get(key) != value]


# ---- the verdict ----


def change(now, before):
    return (now / before - 1) * 100 if before else 0.0


def both(row):
    return row["ours"] + row["libraries"]


def grown(row, base):
    """Functions by how much more they cost, at most five: what made the row dearer."""
    every = set(row["functions"]) | set(base["functions"])
    more = sorted(((row["functions"].get(f, 0) - base["functions"].get(f, 0), f) for f in every), reverse=True)
    return [(n, f) for n, f in more[:5] if n > 0.005 * both(base)]


def too_much(name, row, old, limit, wide):
    """What of the row is dearer than allowed, in words; none when nothing is."""
    if name in TOLD:
        return []
    calls = old["system_calls"] * 1.5 + 1 + 60 * PIECES / ROWS[name][0]  # who waits for whom varies: only what is plainly more is a fault
    found = {
        "ours": change(row["ours"], old["ours"]) > limit,
        "with libraries": change(both(row), both(old)) > wide,
        "calls": row["system_calls"] > calls and name not in WRITES,
    }
    return [what for what, is_so in found.items() if is_so] + more_io(name, row["io"], old["io"])


def more_io(name, now, before):
    """Kinds of IO that a request asks for more often; a timer that looks at four files is chance."""
    slack = SLACK + 4 / ROWS[name][0]
    return [f"{kind} {n:g}, was {before.get(kind, 0):g}" for kind, n in now.items() if n > MORE_IO * before.get(kind, 0) + slack]


def cheaper(rows, more):
    """Of two counts of each row the lower: what comes from without is in one of them."""
    for name, row in more.items():
        calls = min(rows[name]["system_calls"], row["system_calls"])
        rows[name] = min(rows[name], row, key=both) | {"system_calls": calls, "io": fewer(rows[name]["io"], row["io"])}


def again(binary, rows, base, limit, wide):
    """What seems too much is counted again: a regression is there every time."""
    for _ in range(RECOUNTS):
        if not (much := [name for name, row in rows.items() if name in base and too_much(name, row, base[name], limit, wide)]):
            break
        cheaper(rows, measure(binary, much))


def assess(rows, base, limit, wide):
    """Prints the table; the names of rows that are dearer than allowed."""
    wrong = []
    print(f"{'row':<14} {'ours':>9} {'before':>9} {'':>7}  {'libraries':>9} {'before':>9} {'':>7}  {'calls':>6} {'before':>6}")
    for name, row in rows.items():
        line = f"{name:<14} {row['ours']:>9,} %9s %7s  {row['libraries']:>9,} %9s %7s  {row['system_calls']:>6.2f}"
        old = base.get(name)
        if old is None:
            print(line % ("new", "", "", ""))
            continue
        more = change(row["ours"], old["ours"])
        faults = too_much(name, row, old, limit, wide)
        told = (f"{old['ours']:,}", f"{more:+.1f}%", f"{old['libraries']:,}", f"{change(row['libraries'], old['libraries']):+.1f}%")
        print(f"{line % told} {old['system_calls']:>6.2f}{'   TOO MUCH: ' + ', '.join(faults) if faults else ''}")
        if faults:
            wrong.append(name)
            for n, function in grown(row, old):
                print(f"{'':<18}+{n:,} in {function}")
        elif more < -limit:
            print(f"{'':<18}cheaper: UPDATE=1 keeps it so")
    return wrong


# ---- what to compare with ----


def git(*argv):
    done = subprocess.run(["git", "-C", str(ROOT), *argv], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def stand_in():
    """(the commit that wrote the baseline, ""), to be built here where its figures do not hold; or ("", why there is none to compare with)."""
    path = str(BASELINE.relative_to(ROOT))
    commit = git("log", "-1", "--format=%H", "--", path)  # of a shallow history it may be its first, which is the best there is
    if not commit:
        return "", f"no commit here holds {path}"
    if commit == git("rev-parse", "HEAD") and not git("status", "--porcelain", "--", "src", "cmake", "CMakeLists.txt"):
        shallow = git("rev-parse", "--is-shallow-repository") == "true"
        return "", "the history here begins with this commit" if shallow else f"this commit itself wrote {path}"
    return commit, ""


def build_base(commit):
    """The program of another commit, built below build/ and kept there."""
    found = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    if not found:
        sys.exit(f'guard.py: there is no commit "{commit}" here')
    dir, kept = ROOT / "build/guard-base", ROOT / "build/guard-base-forebay"
    shutil.rmtree(dir, ignore_errors=True)
    dir.mkdir(parents=True)
    print(f"building {commit[:12]} to compare with", flush=True)
    for step in (f"git -C {ROOT} archive {found} | tar -x", "cmake --preset rel", "ninja -C build forebay"):
        done = subprocess.run(["bash", "-o", "pipefail", "-c", step], cwd=dir, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stdout[-4000:]}{done.stderr[-4000:]}guard.py: {commit} cannot be built here: {step} ended with {done.returncode}")
    shutil.copy2(dir / "build/forebay", kept)
    shutil.rmtree(dir)
    return kept


def known_base(options, here, libs):
    """(the rows to compare with, limit of ours and libraries together, what they are), or (None, 0, why there are none)."""
    base = json.loads(BASELINE.read_text())
    other = differing(here, base["environment"])
    commit = options.base
    if not commit and other:
        for line in other:
            print(f"the baseline does not hold here: {line}")
        commit, why = stand_in()
        if not commit:
            return None, 0, f"{other[0]}; and {why}"
    if commit:
        return measure(build_base(commit), options.row), options.limit, f"commit {commit[:12]}, built here"
    other = differing(libs, base["libraries"])
    wide = max(WIDE, options.limit) if other else options.limit
    return base["rows"], wide, "the baseline" + (f"; libraries within {wide:g} %, since {', '.join(other)}" if other else "")


def main(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("row", nargs="*", help=f"of {', '.join(ROWS)}; all unless given")
    p.add_argument("--update", action="store_true", help="write the baseline")
    p.add_argument("--base", metavar="COMMIT", help="build that commit and compare with it, instead of the baseline")
    p.add_argument("--limit", type=float, default=LIMIT, metavar="PERCENT", help=f"that a row may be dearer ({LIMIT:g})")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder with the program (build)")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = p.parse_args(argv)
    options.row = options.row or list(ROWS)
    if unknown := [r for r in options.row if r not in ROWS]:
        p.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    here, libs = environment(options.build), libraries()
    rows = measure(options.build / "forebay", options.row)
    if options.update:
        old = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
        cheaper(rows, measure(options.build / "forebay", options.row))  # what is written must not hide a regression
        assess(rows, old.get("rows", {}), options.limit, options.limit)
        kept = old["rows"] if old.get("environment") == here and old.get("libraries") == libs else {}
        BASELINE.write_text(json.dumps({"environment": here, "libraries": libs, "rows": {r: row for r, row in {**kept, **rows}.items() if r in ROWS}}, indent=1) + "\n")
        print(f"{BASELINE.relative_to(ROOT)} has the figures of this program now")
        return 0
    base, wide, what = known_base(options, here, libs)
    if base is not None:
        again(options.build / "forebay", rows, base, options.limit, wide)
    wrong = assess(rows, base or {}, options.limit, wide)
    if options.json:
        options.json.write_text(json.dumps({"environment": here, "libraries": libs, "rows": rows}, indent=1) + "\n")
    if base is None:
        print(f"NOT ASSESSED: {what}. make bench-guard BASE=COMMIT compares with another commit, built here")
        return 0
    if wrong:
        print(f"dearer than allowed: {', '.join(wrong)}; if that is wanted: make bench-guard UPDATE=1, and say why in the commit")
    if new := [name for name in rows if name not in base]:
        print(f"not in the baseline: {', '.join(new)}; make bench-guard UPDATE=1 ROW={new[0]}")
    if gone := [name for name in base if name not in ROWS]:
        print(f"in the baseline, but no longer a row: {', '.join(gone)}; make bench-guard UPDATE=1 takes it out")
    assessed = [name for name in rows if name in base and name not in TOLD]
    print(f"assessed: {len(assessed)} rows against {what}; {len(wrong)} dearer than allowed")
    return 1 if wrong or new or gone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
