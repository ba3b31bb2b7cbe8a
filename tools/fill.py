#!/usr/bin/env python3
"""make fill: fills the disk under a training job, twice: somebody else's file takes what is free, then our own objects do.

Writes must be refused with a sentence that says why, before their bodies; reads (also cold ones of the remote bucket),
listings and deletes must go on; and when there is space again writes must be taken again without a restart. Everything
acknowledged must be there. Root, for a file system of its own. What is said stays in build/fill.log.
"""

import argparse
import http.client
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from rigs import cutdisk, forebay, ledger, plain, training  # noqa: E402
from rigs.process import ROOT  # noqa: E402

SIZE = 700 << 20
BIG = 8 << 20
BACK_SECONDS = 10  # promise F1


def refused(port, bucket, key, size=BIG):
    """(sentence or None, were bytes of the body asked for) of a PUT that waits for 100-continue."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("PUT", f"/{bucket}/{key}")
    connection.putheader("Content-Length", str(size))
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    head = connection.sock.recv(1 << 16)
    if head.startswith(b"HTTP/1.1 100"):
        connection.send(b"\0" * size)
        reply = connection.getresponse()
        status, body, asked = reply.status, reply.read(), True
    else:
        while b"</Error>" not in head and (more := connection.sock.recv(1 << 16)):
            head += more
        status, body, asked = int(head[9:12]), head, False
    connection.close()
    if status == 200:
        return None, asked
    message = re.search(rb"<Message>(.*?)</Message>", body, re.DOTALL)
    return f"{status}: {message.group(1).decode() if message else body[:200]}", asked


def fill_with_a_file(folder):
    """All that is free, down to the last block."""
    path = folder / "another-program"
    with open(path, "wb", buffering=0) as file:
        for piece in (1 << 20, 4096, 1):
            try:
                while file.write(b"\0" * piece) == piece:
                    pass
            except OSError:
                pass
    return path


class Scene:
    def __init__(self, say, disk, process, remote, book):
        self.say, self.disk, self.process, self.remote, self.book = say, disk, process, remote, book
        self.port = process.port
        self.unread = sorted(remote.objects)

    def check(self, good, what):
        if not good:
            raise ledger.Lost(what)

    def look(self):
        """What must go on on a full disk, one request of each."""
        sentence, asked = refused(self.port, self.book.bucket, "refused")
        self.check(sentence is not None, "a PUT of 8 MiB was taken though the disk is full")
        self.check("the disk is full" in sentence, f"the refusal does not say why: {sentence}")
        self.check(not asked, "the body was asked for before the PUT was refused")
        self.check(plain.get(self.port, self.book.bucket, "kept").body == KEPT, "an object cannot be read on a full disk")
        for key in self.unread[:20]:
            reply = plain.get(self.port, training.BUCKET, key)
            self.check(reply.status == 200 and reply.body == self.remote.objects[key], f"cold {key} on a full disk: {reply.status}")
        del self.unread[:20]
        self.check(plain.ask(self.port, "GET", self.book.bucket, query="list-type=2").status == 200, "a full disk cannot be listed")
        gone = plain.ask(self.port, "DELETE", self.book.bucket, "to-delete")
        self.check(gone.status == 204, f"DELETE on a full disk: {gone.status} {gone.body[:300]!r}")
        self.check(plain.get(self.port, self.book.bucket, "to-delete").status == 404, "a deleted object is still there")
        return sentence

    def until_taken(self):
        """Seconds until a PUT is taken again."""
        begun = time.monotonic()
        while True:
            sentence, _ = refused(self.port, self.book.bucket, "after")
            if sentence is None:
                return time.monotonic() - begun
            self.check(time.monotonic() - begun < BACK_SECONDS, f"{BACK_SECONDS} s after there is space again: {sentence}")
            time.sleep(0.2)


KEPT = random.Random(1).randbytes(300_000)


def put(port, bucket, key, body):
    reply = plain.ask(port, "PUT", bucket, key, body=body)
    assert reply.status == 200, (reply.status, reply.body)


def by_somebody_else(scene, rng):
    put(scene.port, scene.book.bucket, "kept", KEPT)
    put(scene.port, scene.book.bucket, "to-delete", KEPT)
    job = training.Job(scene.process, scene.remote, scene.book, rng)
    time.sleep(1)
    file = fill_with_a_file(scene.disk.path)
    scene.say(f"full: somebody else's file took the last {file.stat().st_size >> 20} MiB")
    time.sleep(2)
    sentence = scene.look()
    job.still_going()
    file.unlink()
    took = scene.until_taken()
    job.still_going()
    read = job.stop()
    scene.say(f"refused: \"{sentence}\"")
    scene.say(f"reads, cold reads, listings and deletes went on ({read:,} samples meanwhile); {took:.1f} s after the file was gone writes were taken again")


def by_ourselves(scene):
    put(scene.port, scene.book.bucket, "to-delete", KEPT)
    body, count = random.Random(2).randbytes(BIG), 0
    while plain.ask(scene.port, "PUT", scene.book.bucket, f"fill/{count:04d}", body=body).status == 200:
        count += 1
    scene.check(count > 10, f"only {count} objects of 8 MiB fit on an empty disk of {SIZE >> 20} MiB")
    sentence = scene.look()
    scene.say(f"full: {count} objects of 8 MiB took the rest; refused: \"{sentence}\"")
    for n in range(0, count, 2):
        gone = plain.ask(scene.port, "DELETE", scene.book.bucket, f"fill/{n:04d}")
        scene.check(gone.status == 204, f"DELETE on a full disk: {gone.status} {gone.body[:300]!r}")
    took = scene.until_taken()
    scene.say(f"every other one deleted: {took:.1f} s later writes were taken again")
    for n in range(1, count, 2):
        scene.check(plain.get(scene.port, scene.book.bucket, f"fill/{n:04d}").body == body, f"fill/{n:04d} is not whole")
        plain.ask(scene.port, "DELETE", scene.book.bucket, f"fill/{n:04d}")


def run(say, disk, folder, rng):
    book = ledger.Ledger(writers=3, keys=8, bucket="checkpoints")
    settings = {"disk.segment_bytes": "64MiB", "index.map_size": "1GiB"}
    with training.Remote(folder / "remote") as remote:
        remote.wait_ready().fill()
        with forebay.Forebay(disk.path / "node", folder, build="rel", settings=settings) as process:
            training.attach(process.wait_ready(), remote)
            assert plain.ask(process.port, "PUT", book.bucket).status == 200
            say(f"up: {SIZE >> 20} MiB of ext4; training from {len(remote.objects):,} samples, writing checkpoints")
            scene = Scene(say, disk, process, remote, book)
            by_somebody_else(scene, rng)
            by_ourselves(scene)
            for key in ("kept", "after"):
                plain.ask(process.port, "DELETE", book.bucket, key)
            book.resolve(process.port)
            process.end()
        with forebay.Forebay(disk.path / "node", folder, build="rel", settings=settings) as again:
            book.resolve(again.wait_ready().port)
            again.end()
    check = subprocess.run([forebay.binary("rel"), "disk", "check", disk.path / "node"], capture_output=True, text=True, env=forebay.server_env())
    if check.returncode != 0:
        raise ledger.Lost(f"forebay disk check: {check.stdout}{check.stderr}")
    return book


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--cutdisk", type=pathlib.Path, default=ROOT / "build/test/cutdisk")
    options = parser.parse_args()
    say = training.Log(ROOT / "build/fill.log")
    why = cutdisk.why_not(options.cutdisk, ["ext4"])
    if why is not None:
        say(f"SKIPPED: there is no disk to fill: {why}")
        return 77
    cutdisk.enter_namespace()
    with tempfile.TemporaryDirectory(prefix="fill-", dir=ROOT / "build") as name:
        folder = pathlib.Path(name)
        disk = cutdisk.CutDisk("ext4", folder, options.cutdisk, size=SIZE)
        try:
            book = run(say, disk, folder, random.Random(options.seed))
        except (ledger.Lost, ledger.Stuck) as lost:
            say(f"FAILED: {lost}")
            return 1
        finally:
            disk.close()
    say(f"fill: nothing lost: writes were refused while the disk was full and taken again by themselves; all {book.acks:,} acknowledged writes hold, "
        "also after a restart.")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
