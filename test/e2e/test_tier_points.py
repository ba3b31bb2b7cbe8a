"""T2, D7, D11, V3, V8: a server that dies as by kill -9 at a fault point (src/rt/point.h) of a cold GET, a chunk, an eviction, a prefetch, a revalidation
or a write through gives out no wrong byte afterwards, and no old version of what it acknowledged or has shown in a newer one.

The remote's own ledger decides: what each key has held, in order. A test goes from point to point over one data folder: each life looks at all keys, does
its work until it dies, and leaves what it was at to the next one. With POINTS_NTH=N (make soak) each of those of the disk below too, at the first to the Nth
time that it is passed.
"""

import collections
import hashlib
import itertools
import json
import os
import time

import pytest
from rigs.fakeremote import FakeRemote
from rigs.process import PATIENCE

import plain
from test_cold import PATIENT, attach, wait_for
from test_revalidate import setting

KIB = 1024
BUCKET = "remote"
SIZES = (3 * KIB, 40 * KIB, 300 * KIB)  # in the log, in the log and in a body of its own
CHUNK_BYTES = 512 * KIB
LARGE = 2 * CHUNK_BYTES + 777
SETTINGS = {**PATIENT, "cache.large": 1024 * KIB, "cache.chunk": CHUNK_BYTES}
ALONE = 17 * KIB * KIB  # more than a segment holds
ALONE_SETTINGS = {**PATIENT, "disk.segment_bytes": "16MiB"}
WORKS_MAX = 20
NTH = range(1, 1 + int(os.environ.get("POINTS_NTH", "1")))
SOAK = "POINTS_NTH" in os.environ
BODY = ("body.reserved", "body.written") * SOAK
LOG = ("wal.before", "wal.written", "commit.visible", "commit.answered") * SOAK
SYNCED = ("wal.synced", *LOG)
FETCH = ("fetch.begun", "fetch.landed", "fetch.proved", "fetch.kept")
CHUNK = ("chunks.entry", "chunk.begun", "chunk.landed", "chunk.proved", "chunk.kept")


def body_of(key, version, size):
    seed = hashlib.sha256(f"{key} {version}".encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


class Died(Exception):
    pass


class Book:
    """The remote, and for each key the oldest version that may still be answered: an index into its history."""

    def __init__(self, remote, start):
        self.remote = remote
        self.start = start
        self.least = collections.Counter()
        self.numbers = itertools.count()
        self.process = None
        self.mirrors = True  # nothing changes at the remote that the server could not know: it answers what is there now
        remote.put(f"/{BUCKET}", b"")

    def put(self, key, size):
        """At the remote, behind the server's back."""
        with self.remote.lock:
            self.remote.put(f"/{BUCKET}/{key}", body_of(key, next(self.numbers), size))

    def new_keys(self, count=3, size=None):
        keys = [f"k{next(self.numbers):04d}" for _ in range(count)]
        for n, key in enumerate(keys):
            self.put(key, size or SIZES[n % len(SIZES)])
        return keys

    def keys(self):
        return [path.split("/", 2)[2] for path in self.remote.history if path.count("/") == 2]

    def ask(self, method, key, body=None, **more):
        return self.answer(method, BUCKET, key, body, **more)

    def answer(self, *args, **more):
        """Whole, or the server is dead."""
        reply = plain.ask(self.process.port, *args, **more)
        if reply.whole:
            return reply
        assert self.process.popen.wait(PATIENCE) == -9
        raise Died

    def read(self, key, first=None, last=None, headers=None):
        """Whole or a range: it is a version that the remote has held, none older than one that was shown or acknowledged."""
        headers = dict(headers or {})
        if first is not None:
            headers["Range"] = f"bytes={first}-{last}"
        versions = self.remote.history[f"/{BUCKET}/{key}"]
        reply = self.ask("GET", key, headers=headers)
        if reply.status == 404:
            fits = [n for n, body in enumerate(versions) if body is None]
        else:
            assert reply.status == (200 if first is None else 206), (key, reply.status, reply.body[:300])
            fits = [n for n, body in enumerate(versions) if body is not None and reply.body == (body if first is None else body[first : last + 1])]
        fits = [n for n in fits if n >= (len(versions) - 1 if self.mirrors else self.least[key])]
        assert fits, f"{key}: status {reply.status}, {len(reply.body)} bytes of an old version, or of none"
        self.least[key] = min(fits)

    def acknowledged(self, key):
        """Of our own writes nothing older may come, and the remote has no other."""
        self.least[key] = len(self.remote.history[f"/{BUCKET}/{key}"]) - 1

    def check(self):
        for key in self.keys():
            self.read(key)

    def die(self, points, work, settings=SETTINGS, times=NTH):
        """A life for each: all is looked at, then `work` goes on until the point is passed."""
        for point, nth in itertools.product(points, times):
            flag = self.process.data_dir.parent / f"from-{next(self.numbers)}"
            self.process = self.start("node", settings=settings, env={"FOREBAY_FAULT": f"{point}:{nth}:kill", "FOREBAY_FAULT_FROM": str(flag)})
            self.check()
            flag.touch()
            try:
                for _ in range(WORKS_MAX):
                    work()
                for _ in range(10 * PATIENCE):  # what comes by itself after a while: sweeps
                    time.sleep(0.1)
                    self.check()
                raise AssertionError(f"no code passed {point} {nth} times")
            except Died:
                continue

    def end(self, settings=SETTINGS):
        """Twice: from wherever it is, and from here."""
        self.process = self.start("node", settings=settings)
        self.check()
        self.check()
        self.process.end()


@pytest.fixture
def book(start_forebay):
    with FakeRemote(writable=True) as remote:
        it = Book(remote, start_forebay)
        it.process = start_forebay("node", settings=SETTINGS)
        assert attach(it.process, BUCKET, remote.endpoint).returncode == 0
        yield it


def job(book, kind, prefix=""):
    """Begun, and waited for."""
    ask = {"kind": kind, "args": {"bucket": BUCKET, "prefix": prefix}}
    reply = book.answer("POST", "_/jobs", body=json.dumps(ask).encode())
    assert reply.status in (200, 201, 202), reply.body
    number = json.loads(reply.body)["id"]
    for _ in range(PATIENCE):
        told = json.loads(book.answer("GET", f"_/jobs/{number}", query="wait=1").body)
        if told["state"] not in ("waiting", "running"):
            return told
    raise AssertionError(f"the job {number} does not end")


def test_cold_get(book):
    book.process.end()
    book.die((*FETCH, *BODY, *LOG), lambda: [book.read(key) for key in book.new_keys()])
    book.end()


def test_chunks(book):
    """Some of it comes, then it changes at the remote, which the first chunk that is missing finds out, before a byte of it is sent, and what was kept
    of it goes."""

    def work():
        (key,) = book.new_keys(1, LARGE)
        book.read(key, 0, 9)
        book.read(key)
        (key,) = book.new_keys(1, LARGE)
        book.read(key, 0, 9)
        book.put(key, LARGE)
        book.read(key, LARGE - 9, LARGE - 1)
        book.read(key, 0, 9)

    book.mirrors = False
    book.process.end()
    book.die((*CHUNK, "chunks.ended", "chunk.swept", *BODY, *LOG), work)
    book.end()
    book.process = book.start("node", settings=SETTINGS)
    (key,) = book.new_keys(1, LARGE)
    book.read(key, 0, 9)
    wait_for(lambda: book.ask("GET", key, headers={"Range": "bytes=0-8"}).headers["x-forebay-cache"] == "hit", "the first chunk")
    book.put(key, LARGE)
    book.read(key)
    assert book.least[key] == 1  # the new one


def test_revalidation(book):
    """A time to live that is always over: what was shown once is the least that comes."""
    setting(book.process, BUCKET, "--ttl", "always")
    keys = book.new_keys()
    book.check()
    book.process.end()

    def work():
        for key in keys:
            book.put(key, SIZES[1])
            book.read(key)
            book.acknowledged(key)

    book.die(("revalidate.ended", *SYNCED, *FETCH * SOAK), work)
    book.end()


@pytest.mark.parametrize("how", ["put", "delete", "complete"])
def test_write_through(book, how):
    """What was acknowledged stays; what was under way is what the remote says."""
    keys = book.new_keys(4)

    def put(key):
        return book.ask("PUT", key, body_of(key, next(book.numbers), SIZES[next(book.numbers) % len(SIZES)]))

    def delete(key):
        if f"/{BUCKET}/{key}" not in book.remote.objects:
            assert put(key).status == 200
            book.acknowledged(key)
        return book.ask("DELETE", key)

    def complete(key):
        upload = book.ask("POST", key, query="uploads").body.split(b"<UploadId>")[1].split(b"<")[0].decode()
        etag = book.ask("PUT", key, body_of(key, next(book.numbers), SIZES[1]), query=f"partNumber=1&uploadId={upload}").headers["etag"]
        parts = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        return book.ask("POST", key, parts.encode(), query=f"uploadId={upload}")

    def work():
        for key in keys:
            reply = {"put": put, "delete": delete, "complete": complete}[how](key)
            assert reply.status in (200, 204), (reply.status, reply.body)
            book.acknowledged(key)
            book.read(key)

    book.process.end()
    book.die(("write_through.in_doubt", "write_through.sent", "write_through.kept", *SYNCED, *(BODY if how == "put" else ())), work)
    if how != "put":
        # A delete whose answer did not come, and the question what became of it.
        book.die(("write_through.sent",), lambda: [book.ask("DELETE", key) for key in keys])
        flag = book.process.data_dir.parent / "from-birth"
        flag.touch()
        book.process = book.start("node", settings=SETTINGS, env={"FOREBAY_FAULT": "fetch.gone:1:kill", "FOREBAY_FAULT_FROM": str(flag)})
        with pytest.raises(Died):
            book.check()
    book.end()


def test_prefetch(book):
    """It goes on by itself while the next life looks around."""

    def work():
        book.new_keys()
        book.new_keys(1, LARGE)
        job(book, "prefetch")

    book.process.end()
    book.die(("fetch.landed", "fetch.kept", "chunk.kept", "job.saved", *(*FETCH, *CHUNK, *BODY, *LOG) * SOAK), work)
    book.end()


def test_evict_by_hand(book):
    book.new_keys(9)
    book.new_keys(1, LARGE)
    book.process.end()

    def work():
        book.check()
        job(book, "evict")

    book.die(("evict.page", "job.saved", *SYNCED), work)
    book.new_keys(1, ALONE)
    book.die(("unlink.before", "unlink.done")[not SOAK :], work, ALONE_SETTINGS)
    book.end(ALONE_SETTINGS)


def test_evict_by_access_freq(book):
    """More comes than the budget holds."""
    settings = {**SETTINGS, "cache.budget": "8MiB", "disk.segment_bytes": "16MiB"}
    book.process.end()

    def work():
        book.new_keys(12, SIZES[2])
        job(book, "prefetch")

    book.die(("evict.chosen", "evict.dropped", *SYNCED * SOAK), work, settings, times=(1,))
    book.end(settings)
