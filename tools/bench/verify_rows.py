"""What it costs that nothing is sent unverified: we beside the same program with the comparison of block sums taken out.

That program is made for this row alone (test/bench/unverified, CMakeLists.txt): no option of the one that people get says so.
"""

import shutil
import statistics
import subprocess
import time

from . import disk_rows, servers
from .duel import SHORT_S, Load, bounds, load
from .rows import KIB, keys, row, write_paths


class Unverified(servers.Forebay):
    def __init__(self, context, dir, *flags):
        whole, context.binary = context.binary, context.tools / "forebay-unverified"
        try:
            super().__init__(context, dir, *flags)
        finally:
            context.binary = whole


def in_slices(context, size, paths, conns, turn):
    """[(microseconds of CPU a request, requests a second) of each slice] of both, in turn: what the disk gives changes by a fifth within
    a second. One program beside itself was 0.6x to 1.2x from start to start at 100 KB, hence four of them."""
    loads = []
    try:
        for i in (0, 1) if turn < 2 else (1, 0):
            dir = context.dir / f"disk-{(i + turn) % 2}"
            disk_rows.forget(dir)
            server = (servers.Forebay, Unverified)[i](context, dir, "--set=memory.block_cache=0")
            loads.insert(i, Load(context, server, paths, "-c", conns, "-d", 3600, "-s", size))
        slices, end, n = ([], []), time.monotonic() + context.rounds * context.seconds / 2, 0
        while time.monotonic() < end:
            order = (0, 1) if n % 2 else (1, 0)
            for i in order:
                slices[i].append(loads[i].run(SHORT_S))
            n += 1
        context.errors += sum(each.errors() for each in loads)
    finally:
        for each in loads:
            each.stop()
    return slices


def assess(context, name, halves, figure, label, must, at_most=False):
    """The median of the starts, each of which is the median of the ratios of neighbouring slices; bounds are of all slices together."""
    pick = (lambda one: one[0]) if figure == "cpu" else (lambda one: one[1])
    each = [[pick(a) / pick(b) for a, b in zip(*half) if pick(b) > 0 and (pick(a) > 0 or figure == "rps")] for half in halves]
    starts = [statistics.median(half) for half in each]
    middle, (low, high) = statistics.median(starts), bounds([one for half in each for one in half])
    met = middle <= must if at_most else middle >= must
    print(f"    {label + ' / not compared':<34} {middle:5.3f}x  [{low:.3f} .. {high:.3f}] with 95 %   {'at most' if at_most else 'at least'} {must:g}: {'met' if met else 'MISSED'}"
          f"   (starts: {', '.join(f'{one:.3f}' for one in starts)})")  # fmt: skip
    context.keep(name, f"{label} / not compared", {"median": middle, "min": low, "max": high, "must": must})


@row("verify", "GETs from the disk (nothing of them in memory) with block sums compared and without")
def verify(context):
    if not (context.tools / "forebay-unverified").exists():
        context.skip("forebay-unverified is not built (ninja bench_tools): what verifying costs is not measured")
        return
    for size, count, conns in ((4 * KIB, 20_000, 128), (100_000, 4_000, 32)):
        paths = write_paths(context, "ours", [f"/bench/{k}" for k in keys(count)])
        for i in range(2):
            server = context.keep_running(servers.Forebay(context, context.dir / f"disk-{i}"))
            server.make_bucket("bench")
            put = load(context, server.port, paths, "-c", 16, "-a", 1, "-b", size, pids=server.pids())
            context.errors += put["errors"]
        context.end_servers()
        halves = [in_slices(context, size, paths, conns, turn) for turn in range(4)]  # each disk served by either program, which begins first or second
        name = f"verify {size}"
        print(f"  {name}: {conns} connections, {sum(len(half[0]) for half in halves)} slices of {SHORT_S * 1000:g} ms each, in turn; four starts: each disk under either, who began first or second")
        for i, side in enumerate(("sums compared", "not compared")):
            us, rps = (statistics.median(one[k] for half in halves for one in half[i]) for k in range(2))
            print(f"    {side}: {rps:,.0f} req/s, {us:.2f} us of CPU a request")
            context.keep(name, side, {"rps": rps, "us_per_request": us})
        assess(context, name, halves, "rps", "req/s", 0.97)
        assess(context, name, halves, "cpu", "CPU a request", 1.03, at_most=True)
        for i in range(2):
            shutil.rmtree(context.dir / f"disk-{i}")
    what_sums_cost(context)


def what_sums_cost(context):
    """What of it is the memory's: who touches bytes that the disk's DMA has brought pays for it, the sum or the copy behind it."""
    told = subprocess.run(["taskset", "-c", str(context.cores[0]), context.tools / "sums"], capture_output=True, text=True, check=True).stdout
    print("".join(f"    {line}\n" for line in told.splitlines()), end="")
