#!/usr/bin/env python3
"""Counts the instructions and system calls that a request costs the server, and compares them with tools/bench/guard.json: `make bench-guard`.

    guard.py [--update] [--base COMMIT] [--limit PERCENT] [--json FILE] [ROW...]

The server runs under callgrind on one core with the epoll engine; one client asks for one thing at a time. What the kernel does is not
counted, but for how often it is called. Counts repeat within a percent whatever else the machine does, as long as the compiler, the libraries and
what the CPU can do are the same: they stand beside the figures, and where they differ nothing is judged. Then --base COMMIT tells: it builds that
commit here and compares with it. --update writes the figures of this program as the new baseline.

Exit status 1: a row costs more than the limit (5 %) above the baseline; the functions that grew are named.
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
FLAGS = ("--engine", "epoll", "--set", "index.map_size=67108864", "--set", "turn_limit=1m", "--set", "log.level=error")
FUNCTIONS = 40  # of each row are kept in the baseline
KEYS = 20
CLOCK = "clock_gettime"  # a system call under valgrind alone
PIECES = 3
QUIET = 60_000  # instructions a second of a server that has nothing to do
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Server(Process):
    """Under callgrind, which counts only when it is told to."""

    def __init__(self, binary, dir, *flags):
        (self.port,) = free_ports(1)
        self.dir, self.out, self.parts, self.idle = dir, dir / "callgrind", 0, QUIET
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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body)
        reply = connection.getresponse()
        return reply.status, reply.read()

    def tell(self, *what):
        done = subprocess.run(["vgdb", f"--pid={self.popen.pid}", *what], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"vgdb {what}: {done.stdout}{done.stderr}")

    def count(self, run):
        """What run() costs: {function: instructions}, system calls, seconds."""
        self.tell("zero")
        begun = time.monotonic()
        run()
        took = time.monotonic() - begun
        self.parts += 1
        self.tell("dump")
        functions, calls = read_dump(pathlib.Path(f"{self.out}.{self.parts}"))
        return functions, calls, took

    def secrets(self):
        file = configparser.ConfigParser()
        file.read(self.dir / "data/.forebay/credentials")
        user = file[file.sections()[0]]
        return user["aws_access_key_id"], user["aws_secret_access_key"]


def read_dump(path):
    """Costs of each function itself, what it calls left out: ({name: instructions}, system calls)."""
    names, functions, calls = {}, {}, 0
    function, skip = "?", False
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("fn="):
            number, _, name = line[3:].partition(" ")
            if name:
                names[number] = name
            function = names.get(number, number)
        elif line.startswith("calls="):
            skip = True  # the next line is what the call cost
        elif line.startswith("cfn="):
            number, _, name = line[4:].partition(" ")
            if name:
                names[number] = name
        elif line and (line[0].isdigit() or line[0] in "+-*"):
            if not skip:
                costs = line.split()[1:]
                functions[function] = functions.get(function, 0) + int(costs[0])
                if len(costs) > 1 and not function.startswith(CLOCK):
                    calls += int(costs[1])
            skip = False
    return {re.sub(r"'\d+$", "", name): n for name, n in functions.items()}, calls


# ---- the client ----


class Client:
    """One connection; requests are ready-made bytes, answers are checked."""

    def __init__(self, port):
        self.socket = socket.socket()
        self.socket.settimeout(60)
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
    "delete": (300, 60, lambda c, s, n: deletes(c, "put", n)),
    "disk-get-4k": (300, 60, lambda c, s, n: gets(c, 4096)),
}
FROM_DISK = ("disk-get-4k",)
TOLD = ("get-1m",)  # not judged: what a socket does not take at once costs a fiber, and how often that is depends on the machine


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
    """Waits until what follows a fill is over (commits, counts); instructions a second of a server that only waits."""
    end = time.monotonic() + 20
    while True:
        functions, _, took = server.count(lambda: time.sleep(0.3))
        idle = sum(functions.values()) / took
        server.idle = min(server.idle, idle)
        if idle < QUIET or time.monotonic() > end:
            return


def measure_row(server, client, name):
    """The cheapest of PIECES runs: what a timer or another fiber adds now and then is in one of them, not in all."""
    count, before, make = ROWS[name]
    requests = make(client, server, count + before)
    for i in range(before):
        client.send(*requests[i % len(requests)])
    settle(server)
    best = None
    for piece in range(PIECES):
        numbers = range(before + count * piece // PIECES, before + count * (piece + 1) // PIECES)

        def run(numbers=numbers):
            for i in numbers:
                client.send(*requests[i % len(requests)])

        functions, calls, took = server.count(run)
        each = (sum(functions.values()) - server.idle * took) / len(numbers)
        if best is None or each < best[0]:
            best = each, calls / len(numbers), {f: n / len(numbers) for f, n in functions.items()}
    total, calls, functions = best
    largest = sorted(functions.items(), key=lambda f: -f[1])[:FUNCTIONS]
    return {
        "instructions": round(total),
        "system_calls": round(calls, 2),
        "functions": {f: round(n) for f, n in largest if n >= 0.002 * total},
    }


def measure(binary, wanted):
    """All rows of one program."""
    rows = {}
    with tempfile.TemporaryDirectory(prefix="guard-", dir=ROOT / "build") as dir:
        for which, some, flags in (("warm", [r for r in ROWS if r not in FROM_DISK], ()), ("disk", FROM_DISK, ("--set", "memory.hot=0"))):
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
    done = subprocess.run(argv, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip().split("\n")[0]


def environment(build):
    """Whatever makes counts differ though the sources are the same."""
    cache = (build / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_C_COMPILER:[A-Z]+=(.*)$", cache, re.MULTILINE).group(1)
    flags = set(re.search(r"^(?:flags|Features)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE).group(1).split())
    packages = ("libssl3", "liblmdb0", "libc6", "libxxhash-dev", "libexpat1")
    versions = {p: said("dpkg-query", "-W", "-f", "${Version}", p) for p in packages}
    return {
        "machine": platform.machine(),
        "compiler": said(compiler, "--version"),
        "valgrind": said("valgrind", "--version"),
        "cpu": " ".join(sorted(flags & {"avx2", "bmi2", "sha_ni", "aes", "pclmulqdq", "sse4_2", "movbe"})),
        **versions,
    }


# ---- the verdict ----


def change(now, before):
    return (now / before - 1) * 100 if before else 0.0


def grown(row, base):
    """Functions by how much more they cost, at most five: what made the row dearer."""
    every = set(row["functions"]) | set(base["functions"])
    more = sorted(((row["functions"].get(f, 0) - base["functions"].get(f, 0), f) for f in every), reverse=True)
    return [(n, f) for n, f in more[:5] if n > 0.005 * base["instructions"]]


def too_much(name, row, old, limit):
    # Calls vary with how bytes fall into buffers and with who waits for whom: only what is plainly more is a fault.
    calls = old["system_calls"] * 1.5 + 1 + 60 * PIECES / ROWS[name][0]
    return name not in TOLD and (change(row["instructions"], old["instructions"]) > limit or row["system_calls"] > calls)


def again(binary, rows, base, limit):
    """What seems too much is counted once more: a regression is there both times."""
    doubtful = [name for name, row in rows.items() if name in base and too_much(name, row, base[name], limit)]
    for name, row in measure(binary, doubtful).items():
        rows[name] = min(rows[name], row, key=lambda r: r["instructions"])
        rows[name]["system_calls"] = min(rows[name]["system_calls"], row["system_calls"])


def judge(rows, base, limit):
    """Prints the table; the names of rows that are dearer than allowed."""
    wrong = []
    print(f"{'row':<16} {'instructions':>13} {'before':>10} {'':>8}   {'calls':>6} {'before':>7}")
    for name, row in rows.items():
        old = base.get(name)
        if old is None:
            print(f"{name:<16} {row['instructions']:>13,} {'new':>10} {'':>8}   {row['system_calls']:>6.2f}")
            continue
        more = change(row["instructions"], old["instructions"])
        bad = too_much(name, row, old, limit)
        print(f"{name:<16} {row['instructions']:>13,} {old['instructions']:>10,} {more:>+7.1f}%   {row['system_calls']:>6.2f} {old['system_calls']:>7.2f}{'   TOO MUCH' if bad else ''}")
        if bad:
            wrong.append(name)
            for n, function in grown(row, old):
                print(f"{'':<18}+{n:,} in {function}")
        elif more < -limit:
            print(f"{'':<18}cheaper: UPDATE=1 keeps it so")
    return wrong


def build_base(commit):
    """The program of another commit, built below build/."""
    dir = ROOT / "build/guard-base"
    if dir.exists():
        subprocess.run(["git", "worktree", "remove", "--force", dir], cwd=ROOT, check=False, capture_output=True)
        shutil.rmtree(dir, ignore_errors=True)
    subprocess.run(["git", "worktree", "add", "--detach", dir, commit], cwd=ROOT, check=True, capture_output=True)
    try:
        subprocess.run(["cmake", "--preset", "rel"], cwd=dir, check=True, capture_output=True)
        subprocess.run(["ninja", "-C", "build", "forebay"], cwd=dir, check=True, capture_output=True)
        kept = ROOT / "build/guard-base-forebay"
        shutil.copy2(dir / "build/forebay", kept)
        return kept
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", dir], cwd=ROOT, check=False, capture_output=True)


def main(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("row", nargs="*", help=f"of {', '.join(ROWS)}; all unless given")
    p.add_argument("--update", action="store_true", help="write the baseline")
    p.add_argument("--base", metavar="COMMIT", help="build that commit and compare with it, instead of the baseline")
    p.add_argument("--limit", type=float, default=LIMIT, metavar="PERCENT")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder with the program (build)")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    options = p.parse_args(argv)
    wanted = options.row or list(ROWS)
    if unknown := [r for r in wanted if r not in ROWS]:
        p.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    here = environment(options.build)
    rows = measure(options.build / "forebay", wanted)
    if options.json:
        options.json.write_text(json.dumps({"environment": here, "rows": rows}, indent=1) + "\n")
    if options.update:
        old = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"rows": {}}
        judge(rows, old["rows"], options.limit)
        kept = old["rows"] if old.get("environment") == here else {}
        BASELINE.write_text(json.dumps({"environment": here, "rows": {**kept, **rows}}, indent=1) + "\n")
        print(f"{BASELINE.relative_to(ROOT)} has the figures of this program now")
        return 0
    if options.base:
        base = {"environment": here, "rows": measure(build_base(options.base), wanted)}
    else:
        base = json.loads(BASELINE.read_text())
    differs = {k: v for k, v in here.items() if base["environment"].get(k) != v}
    if not differs:
        again(options.build / "forebay", rows, base["rows"], options.limit)
    wrong = judge(rows, base["rows"], options.limit)
    if differs:
        for key, value in differs.items():
            print(f"NOT JUDGED: {key} is \"{value}\" here, the baseline was taken with \"{base['environment'].get(key)}\"")
        print("make bench-guard BASE=main compares with another commit, built here")
        return 0
    if wrong:
        print(f"dearer than allowed: {', '.join(wrong)}; if that is wanted: make bench-guard UPDATE=1, and say why in the commit")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
