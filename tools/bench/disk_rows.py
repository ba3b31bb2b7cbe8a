"""What is measured of disks: reads that are not in memory beside fio, many objects.

fio runs on the same files, with the same queue depth and O_DIRECT, in turn with us. Goals are those of the plan's page.
"""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import statistics
import subprocess
import time

from . import machine, servers
from .duel import Contestant, compare, in_turn, load, ratio, table
from .rows import KIB, MIB, errors_of, keys, row, write_paths

FEW = 10_000  # objects that "many" is held against
SECTOR = 512
OUR_LARGE_READS = 16  # that a server lets through at a time (rt/file.c); small ones 32, as fio


class Fio:
    """Not a server: fio with one job, sampled in turn with us."""

    def __init__(self, context, name, *args, core=None):
        self.context, self.name, self.args, self.samples = context, name, args, []
        self.core = context.cores[0] if core is None else core

    def once(self, seconds=None):
        """One run, of so many seconds where its arguments have no end of their own."""
        argv = ["taskset", "-c", self.core, "fio", "--name=x", "--ioengine=io_uring", "--output-format=json", *self.args]
        if seconds is not None:
            argv += ["--time_based", f"--runtime={round(seconds * 1e6)}us"]
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"fio: {done.stdout}{done.stderr}")
        job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
        side = job["read"] if job["read"]["total_ios"] else job["write"]
        took, requests = side["runtime"] / 1000, side["total_ios"]
        cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * took
        return {"requests": requests, "seconds": took, "mib": side["io_bytes"] / MIB, "cpu_s": cpu, "rps": side["iops"], "mib_s": side["bw_bytes"] / MIB,
                "us_per_request": cpu / max(requests, 1) * 1e6}  # fmt: skip

    def sample(self):
        self.samples.append(self.once())

    def say(self, *figures):
        said = ", ".join(f"{statistics.median(s[name] for s in self.samples):,.0f} {unit}" for name, unit in figures)
        print(f"    {self.name}: {said}")


def no_fio(context):
    if shutil.which("fio"):
        return False
    context.skip("fio is not installed (tools/packages.txt, [bench]): no ratio to the disk in this run")
    return True


def forget(folder):
    """What the page cache holds of these files goes: they are cold."""
    for file in pathlib.Path(folder).rglob("*"):
        if file.is_file():
            fd = os.open(file, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def device_reads(folder):
    """Reads that the device under a folder has completed."""
    device = os.stat(folder).st_dev
    stat = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    return int(stat.read_text().split()[0]) if stat.exists() else None


def written(path):
    """(offset, bytes) of the longest piece that was written: reading what is only reserved costs a disk nothing."""
    best, at = (0, 0), 0
    with open(path, "rb") as file:
        end = os.stat(path).st_size
        while at < end:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:  # nothing but holes
                break
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            best = max(best, (begin, at - begin), key=lambda piece: piece[1])
    return best


def allocated(*paths):
    return sum(os.stat(p).st_blocks * SECTOR for p in paths)


# ---- reads from the disk ----


def files_of(folder):
    """(paths, bytes of each) of segments that are written from their begin: what a random reader may ask for. Not of the last
    two: the log that is written, and the one made ahead, which a start removes."""
    ends = {p: begin + n for p in sorted(pathlib.Path(folder).glob("*.tar"))[:-2] for begin, n in [written(p)] if begin == 0}
    most = max(ends.values())
    ends = {p: end for p, end in ends.items() if 2 * end >= most}
    return list(ends), min(ends.values())


def fio_reads(context, bs, depth, files, length, core=None):
    return Fio(context, f"fio randread {bs // KIB} KiB, QD {depth}", "--rw=randread", f"--bs={bs}", "--direct=1",
               "--readonly", f"--filename={':'.join(map(str, files))}", f"--filesize={length}", "--file_service_type=random",
               f"--iodepth={depth}", core=core)  # fmt: skip


def cold_load(context, c, conns, seconds, core=None):
    """Nothing is to be warm, so there is no warm-up."""
    return load(context, c.port, c.paths, "-c", conns, "-w", 0, "-s", c.size, "-L", pids=c.server.pids(), seconds=seconds, core=core)


def everywhere(context, name, us, bs, depth, conns, cores):
    """The second line: no core is anybody's. Server with two loops, load and fio share all there are."""
    server = servers.Forebay(context, context.dir / "data", "--set=memory.block_cache=0", "--set=loops=2", core=cores)
    try:
        wide = Contestant("forebay, two loops, no core of its own", server, us.paths, us.size)
        disk = fio_reads(context, bs, depth, *files_of(context.dir / "data/native"), core=cores)
        in_turn(context, [wide, disk], lambda side, seconds, _: disk.once(seconds) if side is disk else cold_load(context, side, conns, seconds, cores))
    finally:
        server.stop(30)
    print(f"  {name}, the whole machine: server with two loops, load and fio on cores {cores} alike")
    table([wide])
    disk.say(("rps", "reads/s"), ("us_per_request", "us of CPU a read"))
    errors_of(context, [wide])
    compare(context, f"{name}, whole machine", wide, disk, "rps", "req/s")


def disk_get(context, name, size, count, bs, depth, must):
    """`depth` reads are with the disk on either side: fio's queue, and what the server lets through of four times as many
    connections. With no more connections than reads those on their way through HTTP would leave the disk idle."""
    if no_fio(context):
        return
    conns = (context.conns or [4 * depth])[0]
    server = servers.Forebay(context, context.dir / "data", "--set=memory.block_cache=0")
    try:
        us = disk_get_pinned(context, name, server, size, count, bs, depth, must, conns)
    finally:
        server.stop(30)
    everywhere(context, name, us, bs, depth, conns, ",".join(str(c) for c in context.cores))


def disk_get_pinned(context, name, server, size, count, bs, depth, must, conns):
    server.make_bucket("bench")
    paths = write_paths(context, "ours", [f"/bench/{k}" for k in keys(count)])
    put = load(context, server.port, paths, "-c", 64, "-a", 1, "-b", size, pids=server.pids())
    context.errors += put["errors"]
    files, length = files_of(context.dir / "data/native")
    us = Contestant("forebay, from the disk", server, paths, size)
    limit = Contestant("bare loop, one read each", context.keep_running(servers.LoopDisk(context, size, max(depth, OUR_LARGE_READS), length, files)), paths, size)
    disk = fio_reads(context, bs, depth, files, length)
    reads = asked = 0

    def once(side, seconds, _):
        nonlocal reads, asked
        if side is disk:
            return disk.once(seconds)
        before = device_reads(context.dir)
        sample = cold_load(context, side, conns, seconds)
        if side is us:
            reads += device_reads(context.dir) - before
            asked += sample["requests"]
        return sample

    in_turn(context, [us, limit, disk], once)
    print(f"  {name}: {conns} connections, {context.rounds} rounds of {context.seconds:g} s, no block cache; fio and the bare loop on {len(files)} files of {length // MIB:,} MiB")
    table([us, limit])
    disk.say(("rps", "reads/s"), ("mib_s", "MiB/s"), ("us_per_request", "us of CPU a read"))
    errors_of(context, [us, limit])
    compare(context, name, us, disk, "rps", "req/s", must=must)
    # What nobody gets beyond on this core: one read of the device and one send, no index, no sums.
    most = compare(context, f"{name}, the limit", limit, disk, "rps", "bare loop")
    beyond = most < must and ratio(us, limit, "rps")[0] <= 1  # what others do to the disk may put us above it: then it says nothing
    compare(context, name, us, limit, "rps", "req/s", must=0.8 if beyond else None)
    compare(context, name, us, limit, "us_per_request", "CPU a GET")
    if beyond:
        print(f"    {must:g}x of fio is beyond this core: a read and a send alone, by a loop that looks up and verifies nothing, are {most:.2f}x of it")
    told = f"   at most 1.1: {'met' if reads <= 1.1 * asked else 'MISSED'}" if size <= 16 * KIB else ""
    print(f"    {reads / asked:.2f} reads of the device for each GET (all that others read is in it){told}")
    context.keep(name, "device reads a GET", reads / asked)
    return us


@row("disk-get-4k", "GETs of 4 KiB from the disk (nothing of them in memory) beside fio on the same file")
def disk_get_4k(context):
    disk_get(context, "disk-get-4k", 4 * KIB, 50_000, 4 * KIB, 32, 0.75)


@row("disk-get-100k", "GETs of 100,000 bytes from the disk beside fio on the same file")
def disk_get_100k(context):
    disk_get(context, "disk-get-100k", 100_000, 5_000, 100 * KIB, 8, 0.9)


# ---- many objects ----


class Many:
    """A stopped disk with so many objects, of 16 bytes, of 45-byte names, made by filldisk; started and stopped again and again."""

    def __init__(self, context, dir, objects, size=16):
        self.context, self.dir, self.objects = context, dir, objects
        server = self.start()
        server.make_bucket("bench")
        server.stop(30)
        done = subprocess.run([context.tools / "filldisk", dir, str(objects), str(size)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"filldisk: {done.stdout}{done.stderr}")
        self.filled = json.loads(done.stdout)
        self.rng = random.Random(5)

    def name(self):
        n = self.rng.randrange(self.objects)
        return f"train/{n * 0x9E3779B97F4A7C15 & (1 << 64) - 1:016x}/sample-{n:010d}.jpeg"

    def names(self, count):
        return [self.name() for _ in range(count)]

    def start(self):
        return servers.Forebay(self.context, self.dir, "--set=memory.block_cache=0")

    def first_get(self):
        """(seconds from exec to the first byte of an object, the server)."""
        # Not one that the kernel gives to clients: a client that polls such a port in vain connects to itself sooner or later.
        port = self.rng.randrange(15_000, 30_000)
        path, begun = f"/bench/{self.name()}", time.monotonic()
        server = servers.Forebay(self.context, self.dir, "--set=memory.block_cache=0", port=port, wait=False)
        while True:
            status, _ = server.ask("GET", path)
            if status == 200:
                return time.monotonic() - begun, server
            if status == 404 or server.popen.poll() is not None or time.monotonic() - begun > 600:
                raise RuntimeError(f"the first GET of {path}: {status}; the log:\n{server.log()[-2000:]}")
            time.sleep(0.002)

    def private_mib(self, server):
        """After a thousand GETs and a page of a listing."""
        paths = write_paths(self.context, "some", [f"/bench/{n}" for n in self.names(1000)])
        read = load(self.context, server.port, paths, "-c", 16, "-a", 1, pids=server.pids())
        self.context.errors += read["errors"]
        assert server.ask("GET", "/bench?list-type=2")[0] == 200
        return machine.rss_anon_kib(server.popen.pid) / 1024

    def index_bytes(self):
        return allocated(self.dir / "index/data.mdb")

    def logs(self):
        return sorted((self.dir / "native").glob("log-*.tar"))


def said(context, name, value, unit, goal=None, row="objects"):
    told = f"   at most {goal:g}: {'met' if value <= goal else 'MISSED'}" if goal is not None else ""
    print(f"    {name:<60} {value:10.2f} {unit}{told}")
    context.keep(row, name, value)


def start_times(context, many, row="objects", lists=True):
    forget(many.dir)
    took, server = many.first_get()
    said(context, "start to the first GET, cold", took, "s", 1, row)
    private = many.private_mib(server)
    fresh = write_paths(context, "fresh", [f"/bench/fresh/{i:08d}" for i in range(200_000)])
    load(context, server.port, fresh, "-c", 64, "-w", 0, "-b", 4 * KIB, pids=server.pids(), seconds=context.seconds)
    server.popen.send_signal(signal.SIGKILL)
    server.popen.wait()
    forget(many.dir)
    took, server = many.first_get()
    said(context, f"the same after kill -9 under {context.seconds:g} s of durable PUTs", took, "s", 3, row)
    if lists:
        list_all(context, many, server)
    server.stop(60)
    return private


def list_all(context, many, server):
    """Every key, page by page, one client."""
    starts = ["/bench?list-type=2&max-keys=1000"]
    names = sorted(f"train/{n * 0x9E3779B97F4A7C15 & (1 << 64) - 1:016x}/sample-{n:010d}.jpeg" for n in range(min(many.objects, 1_000_000)))
    starts += ["/bench?list-type=2&max-keys=1000&start-after=" + names[i].replace("/", "%2F") for i in range(999, len(names) - 1000, 1000)]
    paths = write_paths(context, "pages", starts)
    us = [load(context, server.port, paths, "-c", 1, "-a", 1, pids=server.pids()) for _ in range(context.rounds)]
    rate = statistics.median(s["requests"] * 1000 / s["seconds"] for s in us)
    context.errors += sum(s["errors"] for s in us)
    print(f"    ListObjectsV2, {len(starts) * 1000:,} keys, one client: {rate:,.0f} keys a second   at least 300,000: {'met' if rate >= 300_000 else 'MISSED'}")
    context.keep("objects", "list, keys a second", rate)


def run_dd(logs, *more):
    begun = time.monotonic()
    for log in logs:
        subprocess.run(["dd", f"if={log}", "of=/dev/null", "bs=4M", "iflag=direct", *more], check=True, capture_output=True)
    return time.monotonic() - begun


def read_logs(logs):
    """Seconds that dd reads for: a million objects are some ninety logs, and starting as many programs that read nothing takes a tenth
    of the whole, which is not the disk's."""
    whole = run_dd(logs)
    return whole - run_dd(logs, "count=0")


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


REBUILDS, REBUILDS_S = 5, 120  # rounds at least, and seconds behind which no further one begins: of ten million one takes a minute


def rebuild_once(context, many):
    """One round: dd, then the rebuild, both of cold logs. What each took, and the CPU of the rebuild."""
    logs = many.logs()  # each time: a rebuild removes the one that was made ahead
    forget(many.dir)
    read = read_logs(logs)
    shutil.rmtree(many.dir / "index")
    forget(many.dir)
    begun, used = time.monotonic(), cpu_of_children()
    done = subprocess.run([context.binary, "disk", "rebuild", many.dir], capture_output=True, text=True, env=context.env)
    took, cpu = time.monotonic() - begun, cpu_of_children() - used
    if done.returncode != 0:
        raise RuntimeError(f"disk rebuild: {done.stdout}{done.stderr}")
    return read, took, cpu


def rebuild(context, many):
    """On all cores, as somebody would type it: nobody is served meanwhile. In turn with dd reading the same logs."""
    size, rounds, begun = allocated(*many.logs()), [], time.monotonic()
    while len(rounds) < REBUILDS and (not rounds or time.monotonic() - begun < REBUILDS_S):
        if context.patient:
            machine.wait_quiet()
        rounds.append(rebuild_once(context, many))
    each = 1e6 / many.objects
    for d, t, c in rounds:
        print(f"      dd {d:.2f} s, rebuild {t:.2f} s: {d / t:.2f}x ({t * each:.2f} us an object), {c:.2f} s of CPU ({c * each:.2f} us)")
    ratios = sorted(d / t for d, t, _ in rounds)
    d, t, c = (statistics.median(column) for column in zip(*rounds))
    x = statistics.median(ratios)
    print(f"    rebuild of a lost index: {t:.1f} s for {size / MIB:,.0f} MiB of logs, dd reads them in {d:.1f} s: {x:.2f}x  [{ratios[0]:.2f} .. {ratios[-1]:.2f}], {len(rounds)} rounds"
          f"   at least 0.5: {'met' if x >= 0.5 else 'MISSED'}")  # fmt: skip
    context.keep("objects", "rebuild / dd", x)
    context.keep("objects", "rebuild, us of CPU an object", c * each)


@row("objects", "many objects (--objects, a million): start, memory, index, listing, rebuild")
def objects(context):
    few = Many(context, context.dir / "few", FEW)
    _, server = few.first_get()
    private_few = few.private_mib(server)
    server.stop(30)
    shutil.rmtree(few.dir)
    many = Many(context, context.dir / "data", context.objects)
    print(f"  objects: {many.objects:,} of 16 bytes with names of 45, written at {many.objects / many.filled['seconds']:,.0f}/s")
    # The goal is one of ten million: the pages of a batch that are free afterwards weigh on fewer.
    said(context, "index bytes an object (the file, free pages included)", many.index_bytes() / many.objects, "B", 230 if many.objects >= 10_000_000 else None)
    private = start_times(context, many)
    said(context, f"private memory, beyond that with {FEW:,} objects", private - private_few, "MiB", 16)
    rebuild(context, many)
    shutil.rmtree(many.dir)


# ---- what deleting gives back ----


def reclaim_once(context, size, count, seconds):
    done = subprocess.run(["taskset", "-c", str(context.cores[0]), context.tools / "reclaim", str(count), context.dir, str(size), str(seconds)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"reclaim: {done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


@row("reclaim", "half of the objects deleted, 4 KiB and 300 KB: what the segments take beside what lives; p99 while it compacts")
def reclaim(context):
    for size, count in ((4 * KIB, 100_000), (300_000, 2_000)):
        name = f"{size:,} bytes"
        still = reclaim_once(context, size, count, 0)  # nobody else writes: the same each time
        said(context, f"{name}: segments / what lives, when written", still["written"], "x", None, "reclaim")
        said(context, f"{name}: the same when half is deleted and compacted", still["compacted"], "x", 1.15, "reclaim")
        said(context, f"{name}: with what is allocated ahead for the next ones", still["with_ahead"], "x", None, "reclaim")
        said(context, f"{name}: write amplification", still["amplification"], "x", None, "reclaim")
        busy = reclaim_once(context, size, count, max(round(context.seconds), 1))
        for kind in ("get", "put"):
            said(context, f"{name}: p99 of {kind.upper()} while it compacts / before", busy[f"{kind}_p99"], "x", 2, "reclaim")
