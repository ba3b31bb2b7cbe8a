"""What is measured. A row is a function of the context; it prints, compares, keeps its figures and cleans up.

Goals stand in the calls of compare(): they are those of the plan's page on performance.
"""

import os
import socket
import ssl
import subprocess

from rigs.process import free_ports

from . import machine, servers
from .duel import SHORT_S, Contestant, better, compare, assessed_ratio, load, meets, ratio, rounds, short_rounds, table, untimed
from .tails import at_a_rate

KIB, MIB = 1024, 1 << 20
SLICED_MAX = 256 * KIB  # larger answers are too few in a slice of 60 ms to be counted by it
BY_REFERENCE = 32 * KIB  # from there on we do not copy
FILES_A_DIRECTORY = 1000  # more would be unfair to a server of files
ROWS = {}


def row(name, about):
    def add(function):
        ROWS[name] = (about, function)
        return function

    return add


# ---- parts of rows ----


def write_paths(context, name, paths):
    file = context.dir / f"{name}.paths"
    file.write_text("".join(p + "\n" for p in paths))
    return file


def keys(count):
    return [f"d{i // FILES_A_DIRECTORY}/o{i}" for i in range(count)]


def loops(context, paths, size):
    return [
        Contestant(f"bare loop, {'epoll' if e == 'epoll' else 'io_uring'}", context.keep_running(servers.Loop(context, size, e)), paths, size)
        for e in ("epoll", "uring")
    ]


def loop_of_many(context, paths, size, count):
    """One loop more where the one answer of the others stays in the cache and our bytes do not: its answers take as much memory as our objects."""
    if size < 16 * KIB:
        return []
    ways = [("", ())]
    if BY_REFERENCE <= size <= SLICED_MAX:  # the quickest way that we know for pages of a store
        ways.append((", by reference", ("splice",)))
    return [Contestant(f"bare loop, {count} answers{told}", context.keep_running(servers.Loop(context, size, "epoll", count, *flags)), paths, size) for told, flags in ways]


def nginx_pair(context, root, paths, size):
    """nginx with both settings of tcp_nopush; nothing, loudly, where there is no nginx."""
    if servers.nginx_binary() is None:
        context.skip("nginx is not installed (tools/unpack.sh nginx): no ratio to it in this run")
        return []
    server = context.keep_running(servers.Nginx(context, root))
    return [
        Contestant("nginx, nopush off", server, paths, size),
        Contestant("nginx, nopush on", server, paths, size, port=server.nopush_port),
    ]


def settle(context, contestants, passes=3):
    """Caches are filled: every path of every contestant, in order, before anything counts."""
    for c in contestants:
        load(context, c.port, c.paths, "-c", 16, "-a", passes, "-s", c.size, pids=c.server.pids())


def errors_of(context, contestants):
    for c in contestants:
        context.errors += sum(s["errors"] for s in c.samples)


def is_memory(us, loop, many, figure, must, at_most):
    """Whether what is missed beside one answer is this memory's: the loop of many misses it beyond chance (its bound too), and beside that loop we do not."""
    _, least, most = ratio(many, loop, figure)
    if most <= 0 or meets(least if at_most else most, must, at_most):
        return False
    ours = assessed_ratio(us, many, figure, at_most)
    return ours is not None and meets(ours, must, at_most)


def beside_loop(context, key, us, loop, many, figure, label, must, at_most=False):
    """Both verdicts: beside the loop with one answer, and beside one of as many answers as we have objects. Where that one too misses
    what is wanted beside one answer, and sends as we do (a copy, or by reference), it is this memory that is in the way."""
    missed = "MISSED"
    for each in many:
        if must is not None and (us.size >= BY_REFERENCE) == each.name.endswith("by reference") and is_memory(us, loop, each, figure, must, at_most):
            missed = f"not met, nor by the loop of many ({ratio(each, loop, figure)[0]:.2f}x): this memory"
    compare(context, key, us, loop, figure, label, must=must, at_most=at_most, missed=missed)
    for one in many:
        compare(context, key, us, one, figure, label, must=must, at_most=at_most)


def report(context, name, conns, us, bare, nginx, musts, many=()):
    """The table, and the ratios to the better of each opponent. `musts`: of req/s to the loop, to nginx, of p99 to nginx."""
    everyone = [us, *bare, *many, *nginx]
    how = f" in slices of {SHORT_S * 1000:g} ms; ratios are of neighbouring slices, [bounds with 95 %]" if us.slices else ""
    print(f"  {name}: {conns} connections, {context.rounds} rounds of {context.seconds:g} s{how}")
    table(everyone)
    if us.slices:
        print(f"    without a latency, being under way at a stop: up to {max(untimed(c) for c in everyone):.2%} of a round's requests (of ours {untimed(us):.2%})")
    errors_of(context, everyone)
    key = f"{name} c={conns}"
    for c in everyone:
        context.keep(key, c.name, {f: c.median(f) for f in c.samples[0]})
    loop = better(*bare)
    beside_loop(context, key, us, loop, many, "rps", "req/s", musts.get("loop"))
    beside_loop(context, key, us, loop, many, "us_per_request", "CPU a request", musts.get("loop_cpu"), at_most=True)
    if nginx:
        rival = better(*nginx)
        compare(context, key, us, rival, "rps", "req/s", must=musts.get("nginx"))
        compare(context, key, us, rival, "us_per_request", "CPU a request", must=musts.get("nginx_cpu"), at_most=True)
        compare(context, key, us, rival, "p99_us", "p99", must=musts.get("p99"), at_most=True)
        return [us, loop, rival]
    return [us, loop]


# ---- HTTP alone ----


@row("bench-4k", "a built-in object of 4 KiB: HTTP without storage, beside the bare loop and nginx")
def bench_4k(context):
    size = 4 * KIB
    root = context.dir / "files"
    root.mkdir()
    (root / "4096").write_bytes(os.urandom(size))
    ours = write_paths(context, "bench", ["/_/bench/4096"])
    theirs = write_paths(context, "file", ["/4096"])
    server = context.keep_running(servers.Forebay(context, context.dir / "data", "--set=bench.objects=true"))
    us = Contestant("forebay", server, ours, size)
    bare, nginx = loops(context, ours, size), nginx_pair(context, root, theirs, size)
    settle(context, [us, *bare, *nginx], passes=1000)
    for conns in context.conns or (64, 16):
        for c in [us, *bare, *nginx]:
            c.samples = []
        rounds(context, [us, *bare, *nginx], conns)
        musts = {"loop": 0.85, "nginx": 1.1, "p99": 1.25 if conns == 64 else None}
        finalists = report(context, "bench-4k", conns, us, bare, nginx, musts)
        if conns == 64:
            at_a_rate(context, "bench-4k", conns, finalists, musts)


# ---- stored objects ----


def warm_get(context, name, size, count, musts):
    names = keys(count)
    root = context.dir / "files"
    for key in names:
        file = root / key
        if not file.parent.exists():
            file.parent.mkdir(parents=True)
        file.write_bytes(os.urandom(size))
    ours = write_paths(context, "ours", [f"/bench/{k}" for k in names])
    theirs = write_paths(context, "theirs", [f"/{k}" for k in names])
    hot = max(256 * MIB, 2 * size * count)
    server = context.keep_running(servers.Forebay(context, context.dir / "data", f"--set=memory.block_cache={hot}"))
    server.make_bucket("bench")
    put = load(context, server.port, ours, "-c", 16, "-a", 1, "-b", size, pids=server.pids())
    context.errors += put["errors"]
    us = Contestant("forebay", server, ours, size)
    bare, nginx, many = loops(context, ours, size), nginx_pair(context, root, theirs, size), loop_of_many(context, ours, size, count)
    everyone = [us, *bare, *many, *nginx]
    settle(context, everyone)
    asked = short_rounds if size <= SLICED_MAX else rounds
    for conns in context.conns or (64, 16):
        before = dict(server.metric("forebay_block_cache_requests_total"))
        asked(context, everyone, conns)
        report(context, name, conns, us, bare, nginx, musts, many)
        after = dict(server.metric("forebay_block_cache_requests_total"))
        said = {k.split('"')[1]: int(v - before.get(k, 0)) for k, v in after.items()}
        print(f"    read from memory {said.get('memory', 0):,} times, from disk {said.get('disk', 0):,} times; from 32 KiB on sent by reference")


@row("get-4k", "warm GETs of 10,000 stored objects of 4 KiB")
def get_4k(context):
    warm_get(context, "get-4k", 4 * KIB, 10000, {"loop": 0.8, "loop_cpu": 1.25, "nginx": machine.by_maker(1.05, amd=1.5), "nginx_cpu": 0.95})


@row("get-16k", "warm GETs of 4,000 stored objects of 16 KiB")
def get_16k(context):
    warm_get(context, "get-16k", 16 * KIB, 4000, {"loop": 0.9, "loop_cpu": 1.08, "nginx": machine.by_maker(0.95, amd=1.1), "nginx_cpu": 0.95})


@row("get-64k", "warm GETs of 1,500 stored objects of 64 KiB")
def get_64k(context):
    warm_get(context, "get-64k", 64 * KIB, 1500, {"loop": 0.9, "loop_cpu": 1.08, "nginx": 1.0, "nginx_cpu": 1.0, "p99": 1.0})


@row("get-256k", "warm GETs of 500 stored objects of 256 KiB")
def get_256k(context):
    warm_get(context, "get-256k", 256 * KIB, 500, {"loop": 0.9, "loop_cpu": 1.08, "nginx": 1.0, "nginx_cpu": 1.0})


@row("get-100k", "warm GETs of 1,000 stored objects of 100,000 bytes")
def get_100k(context):
    warm_get(context, "get-100k", 100_000, 1000, {"loop": 0.9, "loop_cpu": 1.08, "nginx": 1.0, "nginx_cpu": 1.0, "p99": 1.0})


@row("get-1m", "warm GETs of 200 stored objects of 1 MiB")
def get_1m(context):
    warm_get(context, "get-1m", MIB, 200, {"loop": 0.9, "loop_cpu": 1.08, "nginx": 0.95, "nginx_cpu": 1.0})


@row("get-10m", "warm GETs of 24 stored objects of 10 MiB")
def get_10m(context):
    warm_get(context, "get-10m", 10 * MIB, 24, {"loop": 0.9, "nginx": 0.95})


# ---- listing ----


@row("list", "ListObjectsV2: pages of 1,000 keys of a bucket of 100,000")
def list_keys(context):
    count, size = 100_000, 16
    server = context.keep_running(servers.Forebay(context, context.dir / "data"))
    server.make_bucket("bench")
    names = [f"train/class-{i % 100:03d}/sample-{i:08d}.jpg" for i in range(count)]
    filled = load(
        context, server.port, write_paths(context, "fill", [f"/bench/{k}" for k in names]), "-c", 64, "-a", 1, "-b", size, pids=server.pids()
    )
    context.errors += filled["errors"]
    page = "/bench?list-type=2&max-keys=1000&start-after="
    starts = sorted(names)[: count - 1000 : 997]
    paths = write_paths(context, "pages", [page + k.replace("/", "%2F") for k in starts])
    for conns in context.conns or (1, 16):
        us = Contestant(f"forebay, {conns} clients", server, paths, -1)
        rounds(context, [us], conns)
        table([us])
        errors_of(context, [us])
        keys_s = us.median("rps") * 1000
        goal = f"   at least 300,000: {'met' if keys_s >= 300_000 else 'MISSED'}" if conns == 1 else ""
        print(f"    {keys_s:,.0f} keys a second{goal}")
        context.keep("list", f"c={conns}", {"keys_s": keys_s})


# ---- memory ----


def hold_open(port, count, tls=None):
    """Connections that have had one answer and stay; over TLS with the context `tls`."""
    held = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", port), 10)
        if tls is not None:
            s = tls.wrap_socket(s, server_hostname="localhost")
        s.sendall(b"GET /_/livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        held.append(s)
    for s in held:
        assert s.recv(4096).startswith(b"HTTP/1.1 200"), "an idle connection got no answer"
    return held


@row("memory", "private memory: 100,000 objects with 100 idle connections; 10,000 idle connections")
def memory(context):
    count = 100_000
    flags = ("--set=memory.block_cache=0", "--set=http.idle_timeout=1h")
    server = servers.Forebay(context, context.dir / "data", *flags)
    server.make_bucket("bench")
    paths = write_paths(context, "fill", [f"/bench/{k}" for k in keys(count)])
    filled = load(context, server.port, paths, "-c", 64, "-a", 1, "-b", KIB, pids=server.pids())
    context.errors += filled["errors"]
    written = machine.rss_anon_kib(server.popen.pid) / 1024
    assert server.stop(30) == 0, "the server did not end well"

    server = context.keep_running(servers.Forebay(context, context.dir / "data", *flags))
    fresh = machine.rss_anon_kib(server.popen.pid) / 1024
    read = load(context, server.port, paths, "-c", 100, "-a", 1, "-s", KIB, pids=server.pids())
    context.errors += read["errors"]
    few = hold_open(server.port, 100)
    with_100 = machine.rss_anon_kib(server.popen.pid) / 1024
    many = hold_open(server.port, 9900)
    with_10000 = machine.rss_anon_kib(server.popen.pid) / 1024
    del few, many
    figures = {
        "just written": written,
        "restarted": fresh,
        "each read once, 100 idle connections": with_100,
        "10,000 idle connections": with_10000,
    }
    print(f"  memory: RssAnon in MiB, {count:,} objects, empty block cache")
    for what, mib in figures.items():
        goal = "" if "idle" not in what else f"   at most 60: {'met' if mib <= 60 else 'MISSED'}"
        print(f"    {what:<40} {mib:6.1f}{goal}")
    each = (with_10000 - with_100) * 1024 / 9900
    print(f"    a connection costs {each:.2f} KiB   at most 4: {'met' if each <= 4 else 'MISSED'}")
    context.keep("memory", "KiB a connection", each)
    context.keep("memory", "RssAnon MiB", figures)
    server.stop(30)
    tls_connections(context, flags)


def tls_connections(context, flags):
    """What an idle connection over TLS costs: 1,000, beside as many that came before them."""
    pair = context.dir / "cert.pem", context.dir / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-out", pair[0], "-keyout", pair[1]], check=True, capture_output=True)  # fmt: skip
    tls = ssl.create_default_context(cafile=pair[0])
    tls.check_hostname = False
    server = context.keep_running(servers.Forebay(context, context.dir / "data", *flags, f"--set=tls.cert={pair[0]}", f"--set=tls.key={pair[1]}", wait=False))
    server.wait_until(lambda: servers.answers(server.port), 30)
    first = hold_open(server.port, 1000, tls)
    before = machine.rss_anon_kib(server.popen.pid)
    more = hold_open(server.port, 1000, tls)
    each = (machine.rss_anon_kib(server.popen.pid) - before) / 1000
    del first, more
    print(f"    a connection over TLS costs {each:.2f} KiB   at most 20: {'met' if each <= 20 else 'MISSED'}")
    context.keep("memory", "KiB a connection over TLS", each)


# ---- the fast tier ----

FAR_MS, FAR_MIB_S = 20, 40


def far_remote(context, size, far_ms=FAR_MS, keys=0):
    """(remote, server with it attached as `far`); `keys` are what the remote lists below any prefix."""
    (port,) = free_ports(1)
    argv = [context.tools / "remote", port, size, far_ms, FAR_MIB_S, keys]
    remote = context.keep_running(servers.Pinned("remote", context.cores[1], argv, context.dir, port))
    # What is asked for once must be cold: nothing comes ahead of the reader.
    server = context.keep_running(servers.Forebay(context, context.dir / "data", "--set=cache.readahead=0"))
    attach = [context.binary, "bucket", "attach", "s3://far", "--endpoint", f"http://127.0.0.1:{port}", "--anonymous"]
    subprocess.run([*map(str, attach), "--endpoint-url", f"http://127.0.0.1:{server.port}"], check=True, env=context.env, stdout=subprocess.DEVNULL)
    return remote, server


@row("cold-large", "one object of 256 MiB, cold, through us beside direct, of a remote 20 ms away with 40 MiB/s a stream")
def cold_large(context):
    size = 256 * MIB
    remote, server = far_remote(context, size)
    us = Contestant("through forebay", server, None, size)
    direct = Contestant("direct", remote, None, size)
    for r in range(context.rounds):
        paths = write_paths(context, f"large-{r}", [f"/far/r{r}/large"])
        for c, pids in ((us, server.pids()), (direct, remote.pids())):
            c.samples.append(load(context, c.port, paths, "-c", 1, "-a", 1, "-s", size, pids=pids))
    print(f"  cold-large: one connection, {context.rounds} rounds, each object of {size // MIB} MiB asked for once")
    table([us, direct])
    errors_of(context, [us, direct])
    compare(context, "cold-large", us, direct, "mib_s", "throughput", must=1.5)


@row("cold-get", "cold GETs through us beside direct ones and those through a bare relay, of a remote 20 ms away with 40 MiB/s a stream")
def cold_get(context):
    size, count = 8 * MIB, 24
    remote, server = far_remote(context, size)
    bare = context.keep_running(servers.Relay(context, remote.port))
    for conns in context.conns or (1, 8):
        us = Contestant("through forebay", server, None, size)
        direct = Contestant("direct", remote, None, size)
        relay = Contestant("through a bare relay", bare, None, size)
        for r in range(context.rounds):
            each = count if conns > 1 else 4
            paths = write_paths(context, f"cold-{conns}-{r}", [f"/far/c{conns}/r{r}/o{i}" for i in range(each)])
            for c in (us, direct, relay):
                c.samples.append(load(context, c.port, paths, "-c", conns, "-a", 1, "-s", size, pids=c.server.pids()))
        print(f"  cold-get: {conns} connections, {context.rounds} rounds, each object of {size // MIB} MiB asked for once")
        table([us, direct, relay])
        errors_of(context, [us, direct, relay])
        key = f"cold-get c={conns}"
        compare(context, key, us, direct, "mib_s", "throughput", must=0.95)
        compare(context, key, relay, direct, "mib_s", "throughput of the relay")
        more, least = ((c.median("first_p50_us") - direct.median("first_p50_us")) / 1000 for c in (us, relay))
        print(f"    first byte {us.median('first_p50_us') / 1000:.2f} ms, direct {direct.median('first_p50_us') / 1000:.2f} ms: "
              f"{more:+.2f} ms   at most 1: {'met' if more <= 1 else 'MISSED'} (one day 0.3); the relay {least:+.2f} ms")
        context.keep(key, "first byte, more ms", {"median": more, "relay": least, "must": 1})
