"""What is measured of PUTs: small durable ones beside one thread that syncs each, large ones beside fio, their MD5.

What nobody gets past on the same core and disk runs in turn with us, as the bare loop does for GETs: goals are ratios to an
opponent, and where this machine cannot reach one the row says so.
"""

import json
import subprocess

from . import machine, servers
from .disk_rows import Fio, no_fio
from .duel import Contestant, compare, load, table
from .rows import KIB, MIB, errors_of, row, write_paths

# ---- small, durable ----


class SyncLoop:
    """Not a server: one thread that appends and syncs; sampled in turn with us."""

    def __init__(self, context):
        self.context, self.samples, self.name = context, [], "one fdatasync an object"

    def sample(self, size):
        file = self.context.dir / "syncloop.data"
        argv = ["taskset", "-c", str(self.context.cores[0]), self.context.tools / "syncloop", file, str(size), str(self.context.seconds)]
        self.samples.append(json.loads(subprocess.run(argv, capture_output=True, check=True, text=True).stdout))


def both(context):
    return ",".join(map(str, context.cores))


def durable(context, size, conns, must, contestants, disk):
    """Contestants: (contestant, core of the load). All in turn; paths are new ones each time: a put over an object is another thing."""
    for r in range(context.rounds):
        disk.sample(size)
        for i, (c, core) in enumerate(contestants):
            c.paths = write_paths(context, "puts", [f"/bench/c{conns}/{i}/r{r}/o{n}" for n in range(50000)])
            if context.patient:
                machine.wait_quiet()
            c.samples.append(load(context, c.port, c.paths, "-c", conns, "-w", context.warmup, "-b", size, pids=c.server.pids(), seconds=context.seconds, core=core))
    everybody = [c for c, _ in contestants]
    us, limit = everybody[:2]
    print(f"  put-4k: {conns} connections, {context.rounds} rounds of {context.seconds:g} s; synced before each reply")
    table(everybody)
    print(f"    {disk.name}: {sorted(s['rps'] for s in disk.samples)[context.rounds // 2]:,} /s")
    errors_of(context, everybody)
    compare(context, f"put-4k c={conns}", us, disk, "rps", "req/s", must=must)
    compare(context, f"put-4k c={conns}", limit, disk, "rps", "limit")
    compare(context, f"put-4k c={conns}", us, limit, "rps", "req/s")
    compare(context, f"put-4k c={conns}", us, limit, "us_per_request", "CPU a request")
    for c in everybody[2:]:
        compare(context, f"put-4k c={conns}, {c.name}", c, disk, "rps", c.name)


@row("put-4k", "durable PUTs of 4 KiB beside one thread that syncs each, and the least that such a PUT costs")
def put_4k(context):
    size = 4 * KIB
    server = context.keep_running(servers.Forebay(context, context.dir / "data"))
    server.make_bucket("bench")
    loop = context.keep_running(servers.PutLoop(context, size))
    wide = context.keep_running(servers.Forebay(context, context.dir / "wide", "--set=loops=2", core=both(context)))
    wide.make_bucket("bench")
    for conns, must in ((64, 5), (1, 0.4)):
        if context.conns and conns not in context.conns:
            continue
        contestants = [(Contestant("forebay", server, None, size), None), (Contestant("bare loop, durable", loop, None, size), None)]
        if conns > 1:
            contestants.append((Contestant("whole machine", wide, None, size), both(context)))
        durable(context, size, conns, must, contestants, SyncLoop(context))


# ---- large ----


def md5_rates(context):
    """MiB/s of one core, 16 streams of 64 KiB: by OpenSSL one after the other, and at once in the lanes that bodies are hashed in."""
    done = subprocess.run(["taskset", "-c", str(context.cores[0]), context.tools / "md5"], capture_output=True, text=True, check=True)
    lines = [text.split() for text in done.stdout.splitlines()[1:]]
    column = lines[0].index("16")
    scalar = next(float(line[1]) for line in lines if line[0] == "openssl")
    lanes = max(float(line[column]) for line in lines[1:] if line[0] != "openssl")
    return scalar * 1e9 / MIB, lanes * 1e9 / MIB


@row("md5", "MD5 of 16 bodies at once, as PUTs are hashed, beside one core's MD5 of one stream")
def md5(context):
    pairs = [md5_rates(context) for _ in range(context.rounds)]
    shares = sorted(lanes / scalar for scalar, lanes in pairs)
    scalar, lanes = pairs[0]
    print(f"  md5: one core, 16 streams of 64 KiB, {context.rounds} rounds: {scalar:,.0f} MiB/s one after the other, {lanes:,.0f} in lanes")
    middle = shares[len(shares) // 2]
    print(f"    {'in lanes / one stream':<34} {middle:5.2f}x  [{shares[0]:.2f} .. {shares[-1]:.2f}]   at least 4: {'met' if middle >= 4 else 'MISSED'}")
    context.keep("md5", "16 streams / one", {"median": middle, "min": shares[0], "max": shares[-1], "must": 4})


def hashed(server):
    """Bytes whose MD5 was taken of a stream alone, and in lanes."""
    told = dict(server.metric("forebay_md5_bytes_total"))
    return [next(n for name, n in told.items() if f'"{how}"' in name) for how in ("alone", "lanes")]


def put_all(context, c, size, names):
    """One run: each body once, by 16 clients."""
    c.paths = write_paths(context, "puts", names)
    if context.patient:
        machine.wait_quiet()
    s = load(context, c.port, c.paths, "-c", min(16, len(names)), "-a", 1, "-b", size, pids=c.server.pids())
    s["mib_s"] = s["rps"] * size / MIB  # of what was sent
    s["s_per_gib"] = s["us_per_request"] / 1e6 * (1 << 30) / size
    c.samples.append(s)


def large(context, server, size, count, limits, scalar, lanes):
    """Contestants: us, and what nobody gets past (`limits`), in turn with fio."""
    us = Contestant(f"forebay, {size // MIB} MiB", server, None, size)
    disk = Fio(context, f"fio, new file, synced every {size // MIB} MiB", "--rw=write", "--bs=1M", "--direct=1", "--fallocate=none", "--unlink=1",
               f"--filename={context.dir}/fio.data", f"--size={size * count}", "--iodepth=16", f"--fdatasync={size // MIB}")  # fmt: skip
    before = hashed(server)
    for r in range(context.rounds):
        names = [f"/bench/{size}/r{r}/o{i}" for i in range(count)]
        disk.sample()
        for c in (us, *limits):
            put_all(context, c, size, names)
        load(context, us.port, write_paths(context, "gone", names), "-c", 16, "-a", 1, "-m", "DELETE", pids=server.pids())
    print(f"  put-large: {size // MIB} MiB, {min(16, count)} clients, {context.rounds} rounds of {count} objects")
    table([us, *limits])
    disk.say(("mib_s", "MiB/s"))
    errors_of(context, [us, *limits])
    compare(context, f"put-large {size // MIB} MiB", us, disk, "mib_s", "throughput", must=0.7)
    for limit in limits:
        compare(context, f"put-large {size // MIB} MiB, {limit.name}", limit, disk, "mib_s", "limit")
        compare(context, f"put-large {size // MIB} MiB", us, limit, "mib_s", "throughput")
        compare(context, f"put-large {size // MIB} MiB", us, limit, "s_per_gib", "CPU a GiB")
    alone, together = (now - then for now, then in zip(hashed(server), before))
    share, most = us.median("mib_s") / scalar, sorted(s["mib_s"] for s in disk.samples)[context.rounds // 2] / scalar
    print(f"    {share:.2f}x of one core's MD5 of one stream ({scalar:,.0f} MiB/s); each body's MD5 is taken, {together / (alone + together):.0%} of the bytes in lanes")
    print(f"    the disk ends that at {most:.2f}x (fio, which hashes nothing), the lanes alone at {lanes / scalar:.1f}x (row md5)")
    context.keep(f"put-large {size // MIB} MiB", "throughput / scalar MD5", {"ours": share, "fio": most, "lanes": lanes / scalar})


@row("put-large", "PUTs of 1, 16 and 100 MiB, 16 clients, beside fio writing a new file with the same syncs, and the least that one of 1 MiB costs")
def put_large(context):
    if no_fio(context):
        return
    server = context.keep_running(servers.Forebay(context, context.dir / "data"))
    server.make_bucket("bench")
    scalar, lanes = md5_rates(context)
    bare = [Contestant(name, context.keep_running(servers.LargePutLoop(context, MIB, *flags)), None, MIB)
            for name, flags in (("bare loop", ()), ("bare loop, MD5", ("md5",)))]  # fmt: skip
    for size, count, limits in ((MIB, 256, bare), (16 * MIB, 32, []), (100 * MIB, 8, [])):
        large(context, server, size, count, limits, scalar, lanes)
