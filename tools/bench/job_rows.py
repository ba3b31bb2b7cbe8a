"""Tails of GETs while a disk's own work goes on, beside the same server without.

Two servers with the same objects; one has the job. Each stands still (SIGSTOP) while the other is asked, so the job takes nothing from
the calm one. Jobs go at their default rates; a slice counts when the job's counter moved within it, and is taken again else.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time

from . import servers
from .duel import Contestant, compare, in_turn, load, table
from .rows import KIB, MIB, errors_of, keys, row, settle, write_paths

CONNS = 16
TRIES, PATIENCE_S = 20, 15
SETS = {4 * KIB: 12_000, 100_000: 3_000}  # objects
OFTEN = {4 * KIB: 2_000, 100_000: 500}  # of them, where they are in memory
JUNK, JUNK_SIZE = 100_000, 4 * KIB  # what dies for the compaction


def forebay(context, server, *argv):
    done = subprocess.run([str(context.binary), *argv, "--endpoint-url", f"http://127.0.0.1:{server.port}"], capture_output=True, text=True, env=context.env)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stdout}{done.stderr}")
    return done.stdout


class Job:
    """What runs on one of the two: how it is kept at work, and which counter tells how many bytes it has read or written."""

    disks, junk = 1, 0

    def __init__(self, context, dirs):
        self.context, self.dirs = context, dirs

    def bytes_of(self, server):
        return sum(value for name, value in server.metric(self.counter.partition("{")[0]) if name == self.counter)


class Scrub(Job):
    name, counter = "scrub", "forebay_scrub_bytes_total"

    def keep_on(self, server):
        disks = json.loads(forebay(self.context, server, "disk", "scrub", "status", "--json"))["disks"]
        if not all(d["state"] == "running" and d["asked"] for d in disks):  # behind a restart it goes on as if nobody had asked: over days
            forebay(self.context, server, "disk", "scrub", "start")


class Drain(Job):
    """One of two disks, and when it is empty back again."""

    name, counter, disks = "drain", 'forebay_disk_appended_bytes_total{by="user"}', 2
    drained = False

    def keep_on(self, server):
        if json.loads(forebay(self.context, server, "disk", "ls", "--json"))["converged"]:
            forebay(self.context, server, "disk", "drain", *(["--undo"] if self.drained else ["--no-wait"]), str(self.dirs[1]))
            self.drained = not self.drained


class Compaction(Job):
    """Of some objects six in ten are written over, at random so that every log keeps some, and again when what died is compacted."""

    name, counter, junk = "compaction", 'forebay_disk_appended_bytes_total{by="compaction"}', JUNK
    begun, rng = False, random.Random(7)

    def keep_on(self, server):
        before, begun = self.bytes_of(server), time.monotonic()
        while self.bytes_of(server) == before:  # it goes on batch by batch, a log each second
            if time.monotonic() - begun > (PATIENCE_S if self.begun else 0):
                over = write_paths(self.context, "over", [f"/bench/junk/{k}" for k in self.rng.sample(keys(JUNK), JUNK * 6 // 10)])
                done = load(self.context, server.port, over, "-c", 64, "-a", 1, "-b", JUNK_SIZE, pids=server.pids())
                self.context.errors += done["errors"]
                begun, self.begun = time.monotonic(), True
            time.sleep(0.02)


def filled(context, job, dirs):
    """Its disks, written; nobody serves them afterwards."""
    for dir in dirs[1:]:
        dir.mkdir()
    server = servers.Forebay(context, dirs[0], *[str(d) for d in dirs[1:]])
    server.make_bucket("bench")
    for prefix, size, count in [*((s, s, n) for s, n in SETS.items()), *([("junk", JUNK_SIZE, job.junk)] if job.junk else [])]:
        paths = write_paths(context, "fill", [f"/bench/{prefix}/{k}" for k in keys(count)])
        put = load(context, server.port, paths, "-c", 32, "-a", 1, "-b", size, pids=server.pids())
        context.errors += put["errors"]
    assert server.stop(30) == 0, "the server did not end well"


def stand_still(server, yes):
    for pid in server.pids():
        os.kill(pid, signal.SIGSTOP if yes else signal.SIGCONT)


def beside(context, job, calm, busy, name):
    done, took = 0, 0.0

    def run(side, seconds, warmup):
        return load(context, side.port, side.paths, "-c", CONNS, "-w", warmup, "-s", side.size, "-L", pids=side.server.pids(), seconds=seconds)

    def while_it_works(seconds, warmup):
        nonlocal done, took
        for _ in range(TRIES):
            job.keep_on(busy.server)
            before = job.bytes_of(busy.server)
            sample = run(busy, seconds, warmup)
            since = job.bytes_of(busy.server) - before
            if since > 0:
                done, took = done + since, took + seconds + warmup
                return sample
        raise RuntimeError(f"the {job.name} was not at work: of {TRIES} slices none had it move {job.counter}")

    def once(side, seconds, warmup):
        stand_still(side.server, False)
        try:
            return while_it_works(seconds, warmup) if side is busy else run(side, seconds, warmup)
        finally:
            stand_still(side.server, True)

    calm.samples, busy.samples = [], []
    try:
        for side in (calm, busy):
            stand_still(side.server, True)
        in_turn(context, [busy, calm], once)
    finally:
        for side in (calm, busy):
            stand_still(side.server, False)
    rate = done / took
    print(f"  {name}: {CONNS} connections, {context.rounds} rounds of {context.seconds:g} s; the job did {rate / MIB:,.0f} MiB/s meanwhile")
    table([busy, calm])
    errors_of(context, [busy, calm])
    compare(context, name, busy, calm, "p99_us", "p99", must=2, at_most=True)
    compare(context, name, busy, calm, "rps", "req/s")
    context.keep(name, "bytes a second of the job", rate)


KINDS = (Scrub, Drain, Compaction)


@row("jobs", "p99 of GETs of 4 KiB and 100 KB, from memory and from the disk, while a scrub, a drain, a compaction goes on / without")
def jobs(context):
    for kind in KINDS:
        sides = {side: [context.dir / f"{side}-{i}" for i in range(kind.disks)] for side in ("calm", "busy")}
        job = kind(context, sides["busy"])
        for dirs in sides.values():
            filled(context, job, dirs)
        for place, hot in (("memory", 256 * MIB), ("disk", 0)):
            pair = [context.keep_running(servers.Forebay(context, dirs[0], *[str(d) for d in dirs[1:]], f"--set=memory.block_cache={hot}")) for dirs in sides.values()]
            for size, count in (OFTEN if hot else SETS).items():
                paths = write_paths(context, "ours", [f"/bench/{size}/{k}" for k in keys(count)])
                calm, busy = (Contestant(name, server, paths, size) for name, server in zip(("without", f"while a {job.name} goes on"), pair))
                if hot:
                    settle(context, [calm, busy])
                beside(context, job, calm, busy, f"jobs {job.name}, {size} bytes, {place}")
            context.end_servers()
        for dir in (d for dirs in sides.values() for d in dirs):
            shutil.rmtree(dir)
