#!/usr/bin/env python3
"""Real power cuts: Forebay on ext4 or xfs on a loop device on a file that forgets what was not flushed.

    tools/powercut.py --fs ext4 --cuts 40 --seed 1

A client outside keeps a ledger of PUTs, overwrites, deletes and multipart uploads. The power goes (unflushed writes
are lost, kept in part, or torn), the node is killed, the file system mounted again, and everything held against the
ledger. Half of the cuts come at any moment, with the node stopped before (SIGSTOP); the others in place of a flush, and
then the node runs on and must not acknowledge what that flush was for. Every fifth cut meets a disk on its very first
start. Protects D1, D2, D3.
Exit status 77: power cannot be cut here.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from rigs import cutdisk, forebay, ledger, plain  # noqa: E402
from rigs.process import ROOT, Ended  # noqa: E402

WRITERS = 4
SKIPPED = 77
CUTS_OF_A_DISK = 5
SPOILT_MAX = 10  # disks, with a drive that lies


def stop_dead(process):
    """SIGSTOP, and until every thread of it stands."""
    os.kill(process.popen.pid, signal.SIGSTOP)
    tasks = pathlib.Path(f"/proc/{process.popen.pid}/task")
    while any(task.joinpath("stat").read_text().rpartition(")")[2].split()[0] not in "TZX" for task in tasks.iterdir()):
        time.sleep(0.001)


def make_bucket(process, book):
    """True when it is there for certain. A cut may come in between."""
    reply = plain.ask(process.port, "PUT", book.bucket)
    assert reply.status in (0, 200), (reply.status, reply.body)
    return reply.status == 200


def way_of(cut):
    """Half of them are torn; whether the cut comes in place of a flush has a period of 3."""
    return cutdisk.WAYS[cut // 3 % 4]


class Site:
    """One disk with what a client knows of it."""

    def __init__(self, options, folder, rng):
        self.options, self.rng = options, rng
        self.disk = cutdisk.CutDisk(options.fs, folder, options.cutdisk)
        self.book = ledger.Ledger(WRITERS)
        self.made = False
        self.starts = 0

    def start(self):
        self.starts += 1
        return forebay.Forebay(self.disk.path / "node", self.disk.folder, build="rel", settings={"disk.segment_bytes": "16MiB"})

    def life(self, seed, early):
        """Started, held against the ledger, loaded, cut, mounted again. `early`: cut somewhere in its first start."""
        with self.start() as process:
            load = None
            way = way_of(seed)
            if not early:
                self.look(process)
                load = ledger.Load(process.port, self.book, self.rng)
                if self.options.lie:
                    self.disk.control("lie")
            if self.options.lie:  # about what was acknowledged: the power stays until there is some
                load.wait_acks(20)
            elif seed % 3 != 0:
                self.disk.cut_at_flush(seed, way, self.rng.randint(1, 10 if early else 120))
            self.wait_off(self.rng.uniform(0.05, 0.25 if early else self.options.seconds))
            if not self.disk.is_off():
                stop_dead(process)
                if not self.disk.is_off():
                    self.disk.cut(seed, way)
            status = process.kill()
            if status != -signal.SIGKILL and (status < 0 or not early):  # a start may be refused by a disk that fails
                raise Ended(f"the server ended by itself with {status} when the power went", status)
            if load is not None:
                load.join()
            process.check_log()
        return self.disk.back()

    def wait_off(self, seconds):
        """Until then, and a moment longer when it went off by itself: for answers that must not come."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.disk.is_off():
                time.sleep(0.1)
                return
            time.sleep(0.01)

    def look(self, process):
        process.wait_ready()
        if not self.made:
            self.made = make_bucket(process, self.book)
        self.book.resolve(process.port)

    def end(self):
        """Once more without a cut; and what lies on the disk is without a fault."""
        with self.start() as process:
            self.look(process)
            process.end()
        check = subprocess.run([forebay.binary("rel"), "disk", "check", self.disk.path / "node"], capture_output=True, text=True, env=forebay.server_env())
        if check.returncode != 0:
            raise ledger.Lost(f"forebay disk check: {check.stdout}{check.stderr}")


def one_site(options, folder, rng, seed, cuts):
    site = Site(options, folder, rng)
    cut = seed
    try:
        for cut in range(seed, seed + cuts):
            told = site.life(cut, early=cut == seed and not options.lie)
            print(f"{options.fs}, cut {cut}: {told}; {site.book.acks} acknowledged so far", flush=True)
        site.end()
    except Exception:
        if not options.lie:
            print(f"failing seed: --fs {options.fs} --seed {seed} (cut {cut}); the end of the server's log:", file=sys.stderr)
            print((site.disk.folder / "forebay.log").read_text()[-1500:], file=sys.stderr)
        if options.keep:
            shutil.copytree(site.disk.path / "node", options.keep / f"{options.fs}-{cut}", dirs_exist_ok=True)
        raise
    finally:
        site.disk.close()
    return site.book


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fs", choices=sorted(cutdisk.MAKE), default="ext4")
    parser.add_argument("--cuts", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.8, help="of load before a cut, at most")
    parser.add_argument("--lie", action="store_true", help="the drive lies about flushes: status 0 when the ledger notices")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="where a copy of the data folder goes when a cut fails")
    parser.add_argument("--cutdisk", type=pathlib.Path, default=ROOT / "build/test/cutdisk")
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build", help="where images lie; removed afterwards")
    options = parser.parse_args()
    why = cutdisk.why_not(options.cutdisk, [options.fs])
    if why is not None:
        print(f"SKIPPED: power cannot be cut here: {why}")
        return SKIPPED
    cutdisk.enter_namespace()
    acks = doubts = done = spoilt = torn = 0
    kinds = collections.Counter()
    while done < options.cuts:
        cuts = min(CUTS_OF_A_DISK, options.cuts - done)
        seed = options.seed + done
        with tempfile.TemporaryDirectory(prefix="powercut-", dir=options.dir) as folder:
            try:
                book = one_site(options, pathlib.Path(folder), random.Random(seed), seed, cuts)
            except ledger.Lost as lost:
                if not options.lie:
                    raise
                print(f"the drive lied about flushes, and the ledger noticed: {lost}")
                return 0
            except (Ended, cutdisk.Unmountable) as ended:
                if not options.lie or getattr(ended, "status", 1) < 0 or spoilt == SPOILT_MAX:
                    raise
                spoilt += 1  # refused before the ledger could look: that says nothing of the ledger
                options.seed += cuts
                print(f"the lie spoilt the disk so far that it does not start: another one. {str(ended)[-400:]}")
                continue
        done += cuts
        torn += sum(way_of(cut) == "torn" for cut in range(seed, seed + cuts))
        acks, doubts = acks + book.acks, doubts + book.in_doubt
        kinds.update(book.kinds)
    if options.lie:
        print("the drive lied about flushes, and nobody noticed")
        return 1
    each = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{options.fs}: {done} power cuts, {torn} of them torn, {acks} acknowledged ({each}), {doubts} in doubt: nothing lost, nothing torn, nothing came back")
    return 0


if __name__ == "__main__":
    sys.exit(main())
