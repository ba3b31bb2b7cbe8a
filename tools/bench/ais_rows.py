"""What the AIS API costs beside S3 on the same server: the same objects by both, loads in turn."""

from . import servers
from .duel import Contestant, compare, load, table
from .rows import KIB, MIB, errors_of, keys, row, rounds, write_paths


def by_both(context, server, size, count):
    """(by /v1, by S3): GETs of the same objects."""
    names = keys(count)
    s3 = write_paths(context, f"s3-{size}", [f"/bench/{k}" for k in names])
    ais = write_paths(context, f"ais-{size}", [f"/v1/objects/bench/{k}?provider=ais" for k in names])
    put = load(context, server.port, s3, "-c", 16, "-a", 1, "-b", size, pids=server.pids())
    context.errors += put["errors"]
    return Contestant("/v1", server, ais, size), Contestant("S3", server, s3, size)


@row("ais-get", "GETs of 4 KiB and of 100 KB by /v1/objects beside the same by S3, on one server")
def ais_get(context):
    server = context.keep_running(servers.Forebay(context, context.dir / "data", f"--set=memory.block_cache={1024 * MIB}"))
    server.make_bucket("bench")
    for name, size, count in (("4 KiB", 4 * KIB, 10000), ("100 KB", 100_000, 2000)):
        ours, theirs = by_both(context, server, size, count)
        rounds(context, [ours, theirs], 64)
        table([ours, theirs])
        errors_of(context, [ours, theirs])
        compare(context, f"ais-get {name}", ours, theirs, "rps", "req/s", must=0.93)
        compare(context, f"ais-get {name}", ours, theirs, "us_per_request", "CPU a request", must=1.08, at_most=True)


@row("ais-put", "durable PUTs of 4 KiB by /v1/objects beside the same by S3, on one server")
def ais_put(context):
    size = 4 * KIB
    server = context.keep_running(servers.Forebay(context, context.dir / "data"))
    server.make_bucket("bench")
    sides = [Contestant("/v1", server, None, size), Contestant("S3", server, None, size)]
    for r in range(context.rounds):
        for side in sides:
            path = "/v1/objects/bench/{}?provider=ais" if side.name == "/v1" else "/bench/{}"
            side.paths = write_paths(context, "puts", [path.format(f"{side.name[1:]}/r{r}/o{n}") for n in range(50000)])
            side.samples.append(load(context, side.port, side.paths, "-c", 64, "-w", context.warmup, "-b", size, pids=server.pids(), seconds=context.seconds))
    table(sides)
    errors_of(context, sides)
    compare(context, "ais-put 4 KiB", *sides, "rps", "req/s", must=0.93)
    compare(context, "ais-put 4 KiB", *sides, "us_per_request", "CPU a request", must=1.08, at_most=True)
