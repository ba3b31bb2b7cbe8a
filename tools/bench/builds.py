#!/usr/bin/env python3
"""CPU microseconds a request of several builds in turn: what a compiler's option, or a change of the sources, is worth.

    builds.py FOLDER FOLDER... [--row get-4k]... [--seconds 15] [--starts 3]

A folder holds `forebay`; the load generator is that of the first (bench/httpload). All servers run on one core, each with a load of its own on
another; one load at a time runs, for --slice-ms, and the others stand still (SIGSTOP): so what the host does meanwhile meets all builds alike.
Ratios are those of a slice to the first folder's in the same turn: their median, between which bounds it lies with 95 % (drawn anew 400 times), and
the median of each start: where the kernel puts a process's pages is part of what is measured. Name the first folder again at the end: what it
comes to beside itself is the noise.
"""

import argparse
import configparser
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from bench import machine, servers  # noqa: E402
from bench.duel import Load, bounds, load, shuffled  # noqa: E402
from bench.rows import KIB, MIB, keys, write_paths  # noqa: E402
from bench.signing import signed_lines  # noqa: E402
from rigs.process import ROOT  # noqa: E402

# name: (connections, bytes, objects, flags of the server)
ROWS = {
    "put-4k": (64, 4 * KIB, 350_000, ()),  # each once: a put over an object is another thing
    "get-4k": (64, 4 * KIB, 10_000, ()),
    "get-16k": (64, 16 * KIB, 4_000, ()),
    "get-1m": (64, MIB, 100, ()),
    "signed-4k": (64, 4 * KIB, 10_000, ()),
    "disk-get-4k": (128, 4 * KIB, 20_000, ("--set=memory.block_cache=0",)),
}


def signed(server, paths):
    file = configparser.ConfigParser()
    file.read(server.dir / ".forebay/credentials")
    user = file[file.sections()[0]]
    return signed_lines(user["aws_access_key_id"], user["aws_secret_access_key"], f"127.0.0.1:{server.port}", paths)


def start(context, folder, row):
    """A server that is filled, with its load."""
    conns, size, count, flags = ROWS[row]
    home = pathlib.Path(tempfile.mkdtemp(dir=context.dir))
    own = types.SimpleNamespace(**{**vars(context), "dir": home, "binary": folder / "forebay"})
    server = servers.Forebay(own, home / "data", f"--set=memory.block_cache={512 * MIB}", *flags)
    server.make_bucket("bench")
    paths = write_paths(own, "paths", [f"/bench/{k}" for k in keys(count)])
    if row == "put-4k":
        return Load(own, server, paths, "-c", conns, "-a", 1, "-b", size)
    load(own, server.port, paths, "-c", 16, "-a", 1, "-b", size, pids=server.pids())
    if row == "signed-4k":
        paths = write_paths(own, "paths", signed(server, [f"/bench/{k}" for k in keys(count)]))
    load(own, server.port, paths, "-c", 16, "-a", 2, "-s", size, pids=server.pids())
    return Load(own, server, paths, "-c", conns, "-d", 3600, "-s", size)


def measure(context, options, row):
    """(slices of each folder in each start, in how many turns each folder answered nothing, how many answers were wrong); a slice is a pair
    as of Load.run()."""
    starts, stood, errors, rng = [], [0] * len(options.folder), 0, random.Random(1)
    for _ in range(options.starts):
        with tempfile.TemporaryDirectory(prefix="builds-", dir=options.dir) as dir:
            context.dir, loads = pathlib.Path(dir), []
            try:
                for folder in options.folder:
                    loads.append(start(context, folder.resolve(), row))
                slices = [[] for _ in loads]
                end = time.monotonic() + options.seconds / options.starts
                while time.monotonic() < end:
                    one = {i: loads[i].run(options.slice_ms / 1000) for i in shuffled(rng, len(loads))}
                    for i, (_, rps) in one.items():
                        stood[i] += rps == 0
                    if all(us > 0 and rps > 0 for us, rps in one.values()):  # no answer, no CPU an answer: the turn is told of
                        for i, each in one.items():
                            slices[i].append(each)
                errors += sum(each.errors() for each in loads)
            finally:
                for each in loads:
                    each.stop()
        starts.append(slices)
    return starts, stood, errors


def say(options, row, starts, stood):
    print(f"  {row}: {ROWS[row][0]} connections, {sum(len(slices[0]) for slices in starts)} slices of {options.slice_ms:g} ms each, {len(starts)} starts")
    if any(stood):
        print(f"    turns left out, as these answered nothing in them: {', '.join(f'{n} {folder.name}' for n, folder in zip(stood, options.folder) if n)}")
    if not any(slices[0] for slices in starts):
        return print("    NOT ASSESSED: no turn in which all answered")
    for i, folder in enumerate(options.folder):
        us, rps = zip(*(one for slices in starts for one in slices[i]))
        low, middle, high = statistics.quantiles(us, n=4)
        told = ""
        if i > 0:
            ratios = [[a / b for (a, _), (b, _) in zip(slices[i], slices[0])] for slices in starts]
            every = [r for each in ratios for r in each]
            least, most = bounds(every)
            told = f"   {statistics.median(every):.3f}x [{least:.3f} .. {most:.3f}], starts {' '.join(f'{statistics.median(each):.3f}' for each in ratios)}"
        print(f"    {folder.name:<14} {middle:8.2f} us [{low:.2f} .. {high:.2f}], {statistics.median(rps):9,.0f}/s{told}")


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", nargs="+", type=pathlib.Path)
    p.add_argument("--row", action="append", choices=list(ROWS), help="all unless given")
    p.add_argument("--seconds", type=float, default=15, help="of each row (15)")
    p.add_argument("--starts", type=int, default=3, help="of the servers; the seconds are shared out (3)")
    p.add_argument("--slice-ms", type=float, default=60)
    p.add_argument("--cores", default="0,1", help="of the servers and of the load (0,1)")
    p.add_argument("--engine", default="auto", choices=("auto", "uring", "epoll"))
    p.add_argument("--dir", type=pathlib.Path, default=ROOT / "build", help="where data goes; removed afterwards (build)")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all slices, for machines")
    return p.parse_args(argv)


def main(argv):
    options = parse(argv)
    machine.enter_namespace()
    machine.raise_limits()
    sys.stdout.reconfigure(line_buffering=True)
    context = types.SimpleNamespace(
        cores=[int(c) for c in options.cores.split(",")], engine=options.engine, engines=set(), tools=options.folder[0].resolve() / "bench",
        env={k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "FOREBAY_"))},
    )  # fmt: skip
    kept, wrong = {}, 0
    for row in options.row or ROWS:
        starts, stood, errors = measure(context, options, row)
        say(options, row, starts, stood)
        kept[row], wrong = starts, wrong + errors
    if options.json:
        options.json.write_text(json.dumps({"folders": [str(f) for f in options.folder], "rows": kept}) + "\n")
    if wrong:
        print(f"{wrong} answers were wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
