"""What it costs that nothing is sent unverified: we beside the same program with the comparison of block sums taken out.

That program is made for this row alone (test/bench/unverified, CMakeLists.txt): no option of the one that people get says so.
"""

from . import disk_rows, servers
from .duel import Contestant, compare, load, rounds, table
from .rows import KIB, errors_of, keys, row, write_paths


class Unverified(servers.Forebay):
    def __init__(self, context, dir, *flags):
        whole, context.binary = context.binary, context.tools / "forebay-unverified"
        try:
            super().__init__(context, dir, *flags)
        finally:
            context.binary = whole


@row("verify", "GETs from the disk (nothing of them in memory) with block sums compared and without")
def verify(context):
    if not (context.tools / "forebay-unverified").exists():
        context.skip("forebay-unverified is not built (ninja bench_tools): what verifying costs is not measured")
        return
    for size, count, conns in ((4 * KIB, 20_000, 128), (100_000, 4_000, 32)):
        paths = write_paths(context, "ours", [f"/bench/{k}" for k in keys(count)])
        pair = []
        for name, kind in (("sums compared", servers.Forebay), ("not compared", Unverified)):
            dir = context.dir / f"{name}-{size}".replace(" ", "-")
            server = context.keep_running(kind(context, dir, "--set=memory.hot=0"))
            server.make_bucket("bench")
            put = load(context, server.port, paths, "-c", 16, "-a", 1, "-b", size, pids=server.pids())
            context.errors += put["errors"]
            disk_rows.forget(dir)
            pair.append(Contestant(name, server, paths, size))
        us, blind = pair
        rounds(context, pair, conns)
        name = f"verify {size}"
        print(f"  {name}: {conns} connections, {context.rounds} rounds of {context.seconds:g} s")
        table(pair)
        errors_of(context, pair)
        compare(context, name, us, blind, "rps", "req/s", must=0.97)
        compare(context, name, us, blind, "us_per_request", "CPU a request")
        context.end_servers()
