#!/usr/bin/env python3
"""make plug: pulls the plug under a training job, and looks what is left.

Digits are read from a remote bucket through Forebay, checkpoints are written to a bucket of its own, and the power goes in
the middle: ext4 on a drive that forgets, tears and reorders what was not flushed (root), or else kill -9. Three times.
Everything that was acknowledged must be there. What is said stays in build/plug.log.
"""

import argparse
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from powercut import stop_dead  # noqa: E402
from rigs import cutdisk, forebay, ledger, plain, training  # noqa: E402
from rigs.process import ROOT, Ended  # noqa: E402

CUTS = 3
ACKS = 20  # that come before each of them at least
SPOILT_MAX = 10  # disks, with a drive that lies


class Plug:
    """The drive, its power, and what stands on it."""

    def __init__(self, folder, binary):
        self.folder, self.disk = folder, None
        if cutdisk.why_not(binary, ["ext4"]) is None:
            self.disk = cutdisk.CutDisk("ext4", folder, binary, size=2 << 30)

    def node(self):
        return (self.disk.path if self.disk else self.folder) / "node"

    def pull(self, process, seed):
        if self.disk:
            stop_dead(process)
            self.disk.cut(seed, "torn")
        process.kill_alive()

    def back(self):
        return self.disk.back() if self.disk else "killed"

    def what(self):
        return "power cut" if self.disk else "kill -9"

    def close(self):
        if self.disk:
            self.disk.close()


def start(plug, folder):
    begun = time.monotonic()
    process = forebay.Forebay(plug.node(), folder, build="rel", settings={"disk.segment_bytes": "64MiB"}).wait_ready()
    return process, time.monotonic() - begun


def life(options, seed, folder, remote, say):
    """One disk: the job, CUTS times without power, and what is left in the end; says so, and returns the sentence."""
    rng = random.Random(seed)
    book = ledger.Ledger(writers=3, keys=12, bucket="checkpoints")
    samples = 0
    plug, process = Plug(folder, options.cutdisk), None
    try:
        for n in range(CUTS):
            process, took = start(plug, folder)
            if n == 0:
                training.attach(process, remote)
                assert plain.ask(process.port, "PUT", book.bucket).status == 200
            book.resolve(process.port)
            say(f"up in {took:.2f} s; training from {len(remote.objects):,} samples, writing checkpoints")
            job = training.Job(process, remote, book, rng)
            if options.lie:
                plug.disk.control("lie")
            time.sleep(options.seconds)
            job.load.wait_acks(ACKS)
            job.still_going()
            plug.pull(process, seed + n)
            samples += job.gone()
            told = plug.back()
            say(f"{plug.what()} {n + 1} in the middle of it: {told}; {samples:,} samples read, {book.acks:,} writes acknowledged, "
                f"{book.in_doubt} without an answer")  # fmt: skip
        process, took = start(plug, folder)
        book.resolve(process.port)
        kept = sum(entry.acked is not None for entry in book.entries().values())
        again = training.read_all(process, remote)
        process.end()
        check = subprocess.run([forebay.binary("rel"), "disk", "check", plug.node()], capture_output=True, text=True, env=forebay.server_env())
        if check.returncode != 0:
            raise ledger.Lost(f"forebay disk check: {check.stdout}{check.stderr}")
        say(f"up in {took:.2f} s; `forebay disk check` finds no fault")
    finally:
        if process is not None:
            process.kill()
        plug.close()
    return (f"plug: nothing lost: after {CUTS} {plug.what()}s all {book.acks:,} acknowledged writes hold ({kept} checkpoints are there, whole), "
            f"and {again:,} samples read back byte for byte.")  # fmt: skip


def lies(options, folder, remote, say):
    """The checker, checked: 0 when the ledger notices what a drive lost that only said that it flushed."""
    for n in range(SPOILT_MAX):
        try:
            life(options, options.seed + n * CUTS, folder / str(n), remote, say)
        except ledger.Lost as lost:
            say(f"LOST: {lost}")
            say("plug: the drive lied about flushes, and the ledger noticed.")
            return 0
        except (Ended, cutdisk.Unmountable) as ended:
            if getattr(ended, "status", 1) < 0:
                raise
            say(f"the lie spoilt the disk so far that it does not start, which says nothing of the ledger: another one. {str(ended)[-400:]}")
            continue
        say("plug: the drive lied about flushes, and nobody noticed.")
        return 1
    say(f"plug: the drive lied about flushes, and of {SPOILT_MAX} disks none started again.")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3, help="of training before each cut")
    parser.add_argument("--lie", action="store_true", help="the drive lies about flushes: status 0 when the ledger notices (77: no power can be cut here)")
    parser.add_argument("--cutdisk", type=pathlib.Path, default=ROOT / "build/test/cutdisk")
    options = parser.parse_args()
    (ROOT / "build").mkdir(exist_ok=True)
    why = cutdisk.why_not(options.cutdisk, ["ext4"])
    if options.lie and why is not None:
        print(f"SKIPPED: no drive can lie here: {why}")
        return 77
    say = training.Log(ROOT / ("build/plug-lie.log" if options.lie else "build/plug.log"))
    if why is None:
        cutdisk.enter_namespace()
        say("disk: ext4 on a drive that forgets what was not flushed; the power is cut for real")
    else:
        say(f"disk: NO REAL POWER CUT ({why}); the server is killed (kill -9) instead")
    with tempfile.TemporaryDirectory(prefix="plug-", dir=ROOT / "build") as name:
        folder = pathlib.Path(name)
        with training.Remote(folder / "remote") as remote:
            remote.wait_ready().fill()
            say(f"remote: SeaweedFS with {len(remote.objects):,} samples")
            if options.lie:
                return lies(options, folder, remote, say)
            try:
                say(life(options, options.seed, folder, remote, say))
            except (ledger.Lost, ledger.Stuck) as lost:
                say(f"LOST: {lost}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
