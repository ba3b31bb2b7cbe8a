"""What happens where the index does not fit into memory: a control group with half of what it takes.

Everything else of the two sides is the same: the same objects on the same disk, none of them in memory.
"""

import shutil
import struct
import time

from . import disk_rows, machine, servers
from .duel import Contestant, compare, table
from .rows import KIB, MIB, errors_of, row, write_paths

OBJECTS = 1_250_000  # their index takes some 190 MB: half of it is what a server wants at least
PAGE = 4096


def live_bytes(data_mdb):
    """Of the pages that trees of an LMDB file have: what is free was written once, but nobody looks there."""
    with open(data_mdb, "rb") as file:
        metas = [file.read(PAGE) for _ in range(2)]
        newest = max(metas, key=lambda page: struct.unpack_from("<Q", page, 144)[0])  # behind the page's head: the meta; its transaction
        assert struct.unpack_from("<I", newest, 16)[0] == 0xBEEFC0DE, "data.mdb is not LMDB's"
        file.seek(PAGE * struct.unpack_from("<Q", newest, 128)[0])  # the root of the tree of trees: one leaf
        root = file.read(PAGE)
    count, pages = struct.unpack_from("<H", root, 12)[0] // 2 - 8, 0
    for place in struct.unpack_from(f"<{count}H", root, 16):
        key = struct.unpack_from("<H", root, place + 6)[0]
        pages += sum(struct.unpack_from("<3Q", root, place + 8 + key + 8))  # branches, leaves, overflows
    return pages * PAGE


WARM_S, PROVE_S, NAMES = 3, 120, 100_000


@row("index-cold", "GETs of 4 KiB from the disk: an index that is twice the memory beside one that is resident")
def index_cold(context):
    size, conns = 4 * KIB, (context.conns or [32])[0]
    many = disk_rows.Many(context, context.dir / "data", OBJECTS, size)
    limit = live_bytes(many.dir / "index/data.mdb") // 2
    try:
        group = machine.Group("index", limit)
    except OSError as error:
        context.skip(f"no control group may be made here ({error}): an index larger than memory is not measured")
        return
    tight, ample = Side(context, many, "index twice the memory", group), Side(context, many, "index in memory", None)
    try:
        for _ in range(context.rounds):
            if context.patient:
                machine.wait_quiet()
            for side in (tight, ample):
                side.sample(conns)
    finally:
        context.end_servers()
        group.stop()
        shutil.rmtree(many.dir)
    assess(context, tight, ample, conns, limit)


class Side(Contestant):
    """One disk, two servers in turn: what one of them has in the page cache would be the other's gain, so it goes between them."""

    def __init__(self, context, many, name, group):
        self.context, self.many, self.group = context, many, group
        super().__init__(name, None, None, 4 * KIB, port=1)
        self.reads = self.asked = 0
        self.first = []  # while the index is read behind the start

    def ask(self, conns, seconds):
        """Names that nobody asked for before: the generator draws from its file in the same order each time."""
        self.paths = write_paths(self.context, "ours", [f"/bench/{n}" for n in self.many.names(NAMES)])
        return disk_rows.cold_load(self.context, self, conns, seconds)

    def sample(self, conns):
        disk_rows.forget(self.many.dir)
        self.server = servers.Forebay(self.context, self.many.dir, "--set=memory.block_cache=0", group=self.group)
        self.port = self.server.port
        try:
            self.warm(conns)
            before = disk_rows.device_reads(self.context.dir)
            self.samples.append(self.ask(conns, self.context.seconds))
            self.reads += disk_rows.device_reads(self.context.dir) - before
            self.asked += self.samples[-1]["requests"]
        finally:
            assert self.server.stop(30) == 0, "the server did not end well"

    def proven(self):
        return any('"proven"' in name and value for name, value in self.server.metric("forebay_disk_index"))

    def warm(self, conns):
        """Until all of the index was read once, as it is behind every start, and as much of it is in memory as has room."""
        end = time.monotonic() + PROVE_S
        self.first.append(self.ask(conns, WARM_S))
        while not self.proven():
            assert time.monotonic() < end, "the index is not proven"
            self.context.errors += self.ask(conns, 1)["errors"]
        self.context.errors += self.first[-1]["errors"] + self.ask(conns, 1)["errors"]


def assess(context, tight, ample, conns, limit):
    name = f"index-cold c={conns}"
    print(f"  {name}: {OBJECTS:,} objects of 4 KiB, an index of {2 * limit / MIB:,.0f} MiB; a memory of {limit / MIB:,.0f} MiB for all beside as much as there is")
    table([tight, ample])
    errors_of(context, [tight, ample])
    compare(context, name, tight, ample, "rps", "req/s", must=0.5)
    compare(context, name, tight, ample, "us_per_request", "CPU a GET")
    compare(context, name, tight, ample, "p99_us", "p99")
    tight.samples, ample.samples = tight.first, ample.first
    compare(context, f"{name}, behind the start", tight, ample, "rps", f"first {WARM_S} s, index being read")
    for side in (tight, ample):
        each = side.reads / max(side.asked, 1)
        print(f"    {side.name}: {each:.2f} reads of the device for each GET (all that others read is in it)")
        context.keep(name, f"device reads a GET, {side.name}", each)
    if tight.reads < 1.25 * tight.asked or ample.reads > 1.15 * ample.asked:
        print("    WRONG: the sides are not what they are called")
        context.errors += 1
