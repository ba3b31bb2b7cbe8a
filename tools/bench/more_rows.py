"""Rows beside wrk, TLS, tails, sets larger than memory, SeaweedFS, starts."""

import configparser
import os
import shutil
import subprocess

from rigs import seaweed
from rigs.process import ROOT

from . import disk_rows, machine, servers
from .duel import Contestant, compare, load, ratio, rounds, table, wrk_load
from .rows import KIB, MIB, errors_of, keys, loops, nginx_pair, row, settle, write_paths
from .signing import signed_lines
from .tails import at_a_rate


def write_files(root, names, size):
    for key in names:
        file = root / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(size))


def filled(context, size, count, *flags):
    """(server, our file of paths): so many objects of a size in the bucket `bench`."""
    server = servers.Forebay(context, context.dir / "data", f"--set=memory.block_cache={max(256 * MIB, 2 * size * count)}", *flags)
    server.make_bucket("bench")
    ours = write_paths(context, f"ours-{size}", [f"/bench/{k}" for k in keys(count)])
    put = load(context, server.port, ours, "-c", 16, "-a", 1, "-b", size, pids=server.pids())
    context.errors += put["errors"]
    return server, ours


def no_tool(context, name, what):
    if shutil.which(name):
        return False
    context.skip(f"{name} is not installed (tools/packages.txt, [bench]): {what}")
    return True


# ---- our generator beside another one ----


def beside_wrk(context, name, c, conns, scheme="http"):
    """httpload and wrk ask the same server in turn: which of them would be the limit?"""
    mine = Contestant("httpload", c.server, c.paths, c.size, flags=c.flags)
    theirs = Contestant("wrk", c.server, c.paths, c.size)
    for _ in range(context.rounds):
        mine.samples.append(load(context, c.port, c.paths, "-c", conns, "-w", context.warmup, "-s", c.size, *c.flags, pids=c.server.pids(), seconds=context.seconds))
        theirs.samples.append(wrk_load(context, theirs, conns, scheme))
    table([mine, theirs])
    errors_of(context, [mine, theirs])
    compare(context, f"{name}, client", mine, theirs, "rps", "req/s", must=0.95)
    for one in (mine, theirs):
        c_us = one.median("client_cpu_s") / max(one.median("requests"), 1) * 1e6
        print(f"    {one.name}: {c_us:.2f} us of its own CPU a request")
        context.keep(f"{name}, client", f"{one.name}, us a request", c_us)


@row("client", "httpload beside wrk on one server: does the client limit what is measured?")
def client(context):
    size = 4 * KIB
    if no_tool(context, "wrk", "httpload stands alone"):
        return
    server, ours = filled(context, size, 10000)
    us = Contestant("forebay", context.keep_running(server), ours, size)
    settle(context, [us])
    beside_wrk(context, "4 KiB", us, 64)


# ---- too much ----


@row("overload", "PUTs of 64 KiB by 16, 48 and 160 clients at http.requests=16, who come again at once: what is left of the peak rate")
def overload(context):
    size, places = 64 * KIB, 16
    server = context.keep_running(servers.Forebay(context, context.dir / "data", f"--set=http.requests={places}"))
    server.make_bucket("bench")
    paths = write_paths(context, "ours", [f"/bench/{k}" for k in keys(200)])
    one, three, ten = (
        Contestant(f"{times}x: {times * places} clients", server, paths, 0, flags=("-B", "-b", size, "-c", times * places)) for times in (1, 3, 10)
    )
    rounds(context, [one, three, ten], places)
    table([one, three, ten])
    errors_of(context, [one, three, ten])
    for many in (three, ten):
        compare(context, "overload", many, one, "rps", f"goodput, {many.name[: many.name.index('x') + 1]}", must=0.8)
        compare(context, "overload", many, one, "p99_us", "p99")
        refused, served = (sum(s[figure] for s in many.samples) for figure in ("refused", "requests"))
        print(f"    {refused:,} refused beside {served:,} served")


# ---- TLS ----


@row("tls", "GETs of 4 KiB and 1 MiB over TLS 1.3 beside nginx with the same OpenSSL; httpload held against wrk")
def tls(context):
    if servers.nginx_binary() is None:
        context.skip("nginx is not installed (tools/unpack.sh nginx): nobody beside us over TLS")
        return
    pair = context.dir / "cert.pem", context.dir / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-out", pair[0], "-keyout", pair[1]], check=True, capture_output=True)  # fmt: skip
    for size, count in ((4 * KIB, 2000), (MIB, 64)):
        server, ours = filled(context, size, count)
        server.stop(30)
        server = servers.Forebay(context, context.dir / "data", f"--set=memory.block_cache={2 * size * count + 256 * MIB}", f"--set=tls.cert={pair[0]}", f"--set=tls.key={pair[1]}", wait=False)
        root = context.dir / f"files-{size}"
        write_files(root, keys(count), size)
        nginx = servers.Nginx(context, root, tls=pair)
        name = f"tls {size // KIB} KiB"
        try:
            server.wait_until(lambda: servers.answers(server.port), 30)
            us = Contestant("forebay", server, ours, size, flags=["-T"])
            rival = Contestant("nginx", nginx, write_paths(context, "theirs", [f"/{k}" for k in keys(count)]), size, port=nginx.tls_port, flags=["-T"])
            for c in (us, rival):  # caches
                load(context, c.port, c.paths, "-c", 16, "-a", 3, "-s", size, "-T", pids=c.server.pids())
            rounds(context, [us, rival], 16)
            print(f"  {name}: 16 connections, {context.rounds} rounds; the generator decrypts too: from 1 MiB on it may be the limit, and CPU says more")
            table([us, rival])
            errors_of(context, [us, rival])
            large = size >= MIB
            compare(context, name, us, rival, "rps", "req/s", must=1.0 if large else None)
            compare(context, name, us, rival, "us_per_request", "CPU a request", must=1.0 if large else None, at_most=True)
            if not large and not no_tool(context, "wrk", "httpload over TLS stands alone"):
                beside_wrk(context, name, us, 16, "https")
        finally:
            server.stop(30)
            nginx.stop()
        shutil.rmtree(context.dir / "data")
        shutil.rmtree(context.dir / "nginx")


# ---- tails ----


def tail_of(context, size, conns=16):
    count = min(2000, 128 * MIB // size)
    server, ours = filled(context, size, count)
    context.keep_running(server)
    root = context.dir / f"files-{size}"
    write_files(root, keys(count), size)
    us = Contestant("forebay", server, ours, size)
    nginx = nginx_pair(context, root, write_paths(context, "theirs", [f"/{k}" for k in keys(count)]), size)[:1]  # nopush stalls
    bare = loops(context, ours, size)[:1]
    settle(context, [us, *nginx, *bare])
    at_a_rate(context, f"tail {size}", conns, [us, *nginx, *bare], {"p99": 1.0 if size >= 64 * KIB else None})
    context.end_servers()
    shutil.rmtree(context.dir / "data")
    if nginx:
        shutil.rmtree(context.dir / "nginx")


@row("tail", "p99 and p99.9 of GETs of 4 KiB to 256 KiB at 70 % of the slower one's peak, beside nginx without tcp_nopush and the bare loop; what met a stall of the host is left out")
def tail(context):
    for size in (4 * KIB, 64 * KIB, 100_000, 256 * KIB):
        tail_of(context, size)


# ---- more than fits into memory ----


@row("cold-nginx", "GETs of 4 KiB and 100 KB of a set four times the memory: a control group for each server, nginx with threads")
def cold_nginx(context):
    if servers.nginx_binary() is None:
        context.skip("nginx is not installed (tools/unpack.sh nginx): nobody beside us")
        return
    for size, count, limit, conns_of in ((4 * KIB, 120_000, 128 * MIB, (32, 128)), (100_000, 10_000, 256 * MIB, (32,))):
        groups = []
        try:
            groups = [machine.Group("us", limit), machine.Group("nginx", limit)]
        except OSError as error:
            context.skip(f"no control group may be made here ({error}): sets larger than memory are not measured")
            return
        root = context.dir / f"files-{size}"
        write_files(root, keys(count), size)
        server = servers.Forebay(context, context.dir / "data", group=groups[0])  # all memory as it divides it by itself
        server.make_bucket("bench")
        ours = write_paths(context, "ours", [f"/bench/{k}" for k in keys(count)])
        nginx = servers.Nginx(context, root, cold=groups[1])
        try:
            put = load(context, server.port, ours, "-c", 32, "-a", 1, "-b", size, pids=server.pids())
            context.errors += put["errors"]
            us = Contestant("forebay", server, ours, size)
            rival = Contestant("nginx, aio threads", nginx, write_paths(context, "theirs", [f"/{k}" for k in keys(count)]), size)
            files, length = disk_rows.files_of(context.dir / "data/native")
            reads = 32 if size < 65536 else disk_rows.OUR_LARGE_READS
            bare = context.keep_running(servers.LoopDisk(context, size, reads, length, files))
            limit_of = Contestant("bare loop, one read each", bare, ours, size)
            disk_rows.forget(context.dir)
            for conns in context.conns or conns_of:
                us.samples, rival.samples, limit_of.samples = [], [], []
                rounds(context, [us, rival, limit_of], conns)
                name = f"cold-nginx {size} c={conns}"
                print(f"  {name}: {count:,} objects, {size * count // MIB:,} MiB, of which each server has {limit // MIB} MiB of memory")
                table([us, rival, limit_of])
                errors_of(context, [us, rival, limit_of])
                must = {4 * KIB: 2.0 if conns < 128 else 3.0}.get(size, 1.0)
                compare(context, name, us, rival, "rps", "req/s", must=must)
                most = compare(context, f"{name}, the limit", limit_of, rival, "rps", "bare loop")
                beyond = most < must and ratio(us, limit_of, "rps")[0] <= 1.1  # what memory holds may put us above it
                compare(context, name, us, limit_of, "rps", "req/s", must=0.8 if beyond else None)
                if beyond:
                    print(f"    {must:g}x of nginx is beyond this core: a read and a send alone, by a loop that looks up and verifies nothing, are {most:.2f}x of it")
                elif most:
                    print(f"    {must:g}x of nginx is {must / most:.2f}x of a read and a send alone, by a loop that looks up and verifies nothing")
                compare(context, name, us, rival, "us_per_request", "CPU a request", must=0.7 if size > 65536 else None, at_most=True)
        finally:
            server.stop(30)
            nginx.stop()
            for g in groups:
                g.stop()
        shutil.rmtree(context.dir / "data")
        shutil.rmtree(context.dir / "nginx")
        shutil.rmtree(root)


# ---- another store ----


class Weed(seaweed.Seaweed):
    """SeaweedFS in one process, on the server's core."""

    def __init__(self, context):
        super().__init__(context.dir / "weed")
        for task in os.listdir(f"/proc/{self.popen.pid}/task"):
            os.sched_setaffinity(int(task), {context.cores[0]})
        self.wait_ready()

    def pids(self):
        return [self.popen.pid]


@row("seaweed", "signed GETs and PUTs of 4 KiB and 100 KB beside SeaweedFS, which does not sync")
def seaweedfs(context):
    if not (ROOT / ".venv/bin/weed").exists():
        context.skip("SeaweedFS is not installed (tools/venv.sh check): no store beside us")
        return
    for size, count in ((4 * KIB, 2000), (100_000, 500)):
        server = servers.Forebay(context, context.dir / "data", f"--set=memory.block_cache={256 * MIB}")
        weed = Weed(context)
        try:
            pair = [(server, "forebay", s3_keys(context.dir / "data")), (weed, "SeaweedFS", (seaweed.ACCESS_KEY, seaweed.SECRET_KEY))]
            getters, putters = [], []
            for one, name, (key_id, secret) in pair:
                host = f"127.0.0.1:{one.port}"
                bucket = write_paths(context, f"{name}-bucket", signed_lines(key_id, secret, host, ["/bench"], "PUT", "UNSIGNED-PAYLOAD"))
                load(context, one.port, bucket, "-c", 1, "-a", 1, "-m", "PUT", pids=one.pids())
                paths = [f"/bench/{k}" for k in keys(count)]
                lines = list(signed_lines(key_id, secret, host, paths, "PUT", "UNSIGNED-PAYLOAD"))
                putters.append(Contestant(name, one, write_paths(context, f"{name}-put", lines), size))
                getters.append(Contestant(name, one, write_paths(context, f"{name}-get", signed_lines(key_id, secret, host, paths)), size))
            for c in putters:
                for _ in range(context.rounds):
                    c.samples.append(load(context, c.port, c.paths, "-c", 16, "-a", 1, "-b", size, pids=c.server.pids()))
            settle(context, getters, passes=2)
            rounds(context, getters, 16)
            for what, (us, rival) in (("put", putters), ("get", getters)):
                key = f"seaweed {what} {size}"
                print(f"  {key}: 16 connections; PUTs: ours are synced before the reply, SeaweedFS's are not" if what == "put" else f"  {key}: 16 connections")
                table([us, rival])
                errors_of(context, [us, rival])
                compare(context, key, us, rival, "rps", "req/s")
                compare(context, key, us, rival, "us_per_request", "CPU a request", at_most=True)
        finally:
            server.stop(30)
            weed.kill()
        shutil.rmtree(context.dir / "data")
        shutil.rmtree(context.dir / "weed")


def s3_keys(data):
    file = configparser.ConfigParser()
    file.read(data / ".forebay/credentials")
    user = file[file.sections()[0]]
    return user["aws_access_key_id"], user["aws_secret_access_key"]


# ---- starts ----


@row("start", "from exec to the first GET, with --objects objects: cold, and after kill -9 under durable PUTs")
def start(context):
    many = disk_rows.Many(context, context.dir / "data", context.objects)
    disk_rows.start_times(context, many, row="start", lists=False)
    shutil.rmtree(many.dir)
