#!/usr/bin/env python3
"""Measures Forebay beside what else serves bytes on this machine: `make bench`, `make bench ROW=get-4k`.

Each row starts the servers on one core and the load on another, in a network namespace of its own, asks them in turn
for several rounds, and prints medians and ratios: the median of those of each round, with least and most; of get-* up
to 256 KiB the median of those of neighbouring slices of 60 ms, with its bounds of 95 %, and the ratio of all slices
together. An opponent that is not installed is skipped and said. Exit status 1: an answer was wrong, or a row failed;
goals missed are only said.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from bench import ais_rows, batch_rows, cli_rows, disk_rows, job_rows, machine, memory_rows, more_rows, put_rows, python_rows, s3_rows, servers, tier_rows, train_rows, verify_rows  # noqa: E402, F401: these add their rows
from bench.rows import ROWS  # noqa: E402
from rigs.process import ROOT  # noqa: E402


class Context:
    """What every row needs: how long, where, which binaries; what it has found."""

    def __init__(self, options, dir):
        self.rounds, self.seconds, self.warmup = options.rounds, options.seconds, options.warmup
        self.conns, self.engine, self.patient = options.conns, options.engine, not options.now
        self.cores, self.read, self.objects = options.cores, options.read, options.objects
        self.binary = options.build / "forebay"
        self.tools = options.build / "bench"
        self.root, self.dir = dir, dir
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "FOREBAY_"))}
        self.running, self.skipped, self.failed, self.results = [], [], [], {}
        self.errors, self.engines = 0, set()

    def begin(self, name):
        self.dir = self.root / name
        self.dir.mkdir()

    def keep_running(self, server):
        """Until the row is over."""
        self.running.append(server)
        return server

    def end_servers(self):
        while self.running:
            self.running.pop().stop()

    def end(self):
        while self.running:  # one that does not end well leaves the others to be ended
            try:
                self.end_servers()
            except Exception as error:  # noqa: BLE001
                self.fail(f"{self.dir.name}: a server did not end: {error!r}")
        shutil.rmtree(self.dir)

    def fail(self, what):
        print(f"  FAILED: {what}")
        self.failed.append(what)

    def keep(self, row, name, figures):
        self.results.setdefault(row, {})[name] = figures

    def skip(self, why):
        print(f"  SKIPPED: {why}")
        if why not in self.skipped:
            self.skipped.append(why)


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("row", nargs="*", help="rows to measure; all unless given")
    p.add_argument("--list", action="store_true", help="says what rows there are")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all figures, for machines")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=3, help="of each run (3)")
    p.add_argument("--warmup", type=float, default=0.5, help="seconds before each run that do not count (0.5)")
    p.add_argument("--conns", type=int, action="append", help="connections, instead of a row's own")
    p.add_argument("--cores", default="0,1", help="of the server and of the client (0,1)")
    p.add_argument("--engine", default="auto", choices=("auto", "uring", "epoll"), help="ours")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder with forebay and bench/ (build)")
    p.add_argument("--dir", type=pathlib.Path, default=ROOT / "build", help="where data goes; removed afterwards (build)")
    p.add_argument("--read", action="store_true", help="the client copies bodies out instead of dropping them in the kernel")
    p.add_argument("--objects", type=int, default=1_000_000, help="of the row `objects`; 10,000,000 take 40 GB (1,000,000)")
    p.add_argument("--now", action="store_true", help="do not wait for a quiet machine before each run")
    p.add_argument("--favour", action="store_true", help="take CPU from other sessions (root): for hosts that are never quiet")
    options = p.parse_args(argv)
    options.cores = [int(c) for c in options.cores.split(",")]
    unknown = [r for r in options.row if r not in ROWS]
    if unknown:
        p.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return options


def versions(options):
    ours = subprocess.run([options.build / "forebay", "version"], capture_output=True, text=True, check=True)
    return {
        "forebay": ours.stdout.splitlines()[0],
        "engine": options.engine,
        "nginx": servers.nginx_version() or "not installed",
    }


def measure_all(context, names):
    """One row after the other; one that fails is told, and the next one is measured."""
    for name in names:
        about, measure = ROWS[name]
        print(f"\n{name}: {about}")
        context.begin(name)
        try:
            try:
                measure(context)
            finally:
                context.end()
        except Exception as error:  # noqa: BLE001
            traceback.print_exc(file=sys.stdout)
            context.fail(f"{name}: {error!r}")


def main(argv):
    options = parse(argv)
    if options.list:
        for name, (about, _) in ROWS.items():
            print(f"{name:<11} {about}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers, loads and data go with us
    sys.stdout.reconfigure(line_buffering=True)
    if options.favour:
        os.setsid()
        machine.favour("self")
        servers.Pinned.favoured = True
    header = machine.header(machine.enter_namespace(), options.dir, options.cores, versions(options))
    machine.raise_limits()
    for name, value in header.items():
        print(f"{name + ':':<9} {value}")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir) as dir:
        context = Context(options, pathlib.Path(dir))
        try:
            measure_all(context, options.row or ROWS)
        finally:
            header["engine"] = f"{options.engine} ({', '.join(sorted(context.engines)) or 'none ran'})"
            if options.json:
                told = {"header": header, "skipped": context.skipped, "failed": context.failed, "rows": context.results}
                options.json.write_text(json.dumps(told, indent=1) + "\n")
    print(f"\nengine: {header['engine']}")
    for why in context.skipped:
        print(f"SKIPPED: {why}")
    for what in context.failed:
        print(f"FAILED: {what}")
    if context.errors:
        print(f"{context.errors} answers were wrong")
    return 1 if context.errors or context.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
