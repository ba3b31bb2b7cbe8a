"""The ledger: a client outside that notes every request before it is sent and its outcome after.

A request is *acknowledged* (2xx), *refused* (an answer that says that nothing was changed) or *unknown* (no answer,
or one that does not say). After a fault resolve() reads everything: what was acknowledged is there, whole, in its
last version; what was refused changed nothing; what is unknown is wholly there or wholly absent; the listing says
the same. Each block of a body says key, write and offset, so that torn, old and swapped bytes show by themselves.
"""

import base64
import dataclasses
import hashlib
import http.client
import random
import re
import threading
import time
import xml.etree.ElementTree
import xml.sax.saxutils

from . import plain
from .process import PATIENCE, Patience

BUCKET = "storm"
BLOCK = 512
DOUBTS_MAX = 8  # of one key
PART_LEAST = 5 << 20  # S3's rule for all parts but the last
REFUSED = ("SlowDown", "ServiceUnavailable", "InsufficientStorage", "PreconditionFailed", "NoSuchUpload", "EntityTooLarge", "QuotaExceeded", "RequestTimeout")


class Lost(AssertionError):
    """What was promised does not hold."""


class Stuck(RuntimeError):
    """Nobody lost anything, but nothing goes on: no word about what was promised."""


@dataclasses.dataclass(frozen=True)
class Write:
    """One content of a key; a key that is not there has None instead."""

    number: int
    size: int


@dataclasses.dataclass
class Entry:
    acked: Write | None = None
    unknown: list = dataclasses.field(default_factory=list)

    def possible(self):
        return [self.acked, *self.unknown]


def body_of(key, write):
    """Its bytes: blocks of 512 that begin with key, write and offset, and differ in all the rest."""
    whole = b"".join(_block(key, write.number, at) for at in range(0, write.size, BLOCK))
    return whole[: write.size]


def _block(key, number, offset):
    head = b"\n%s #%d @%d " % (key.encode(), number, offset)
    filler = b"%x." % (number * 0x9E3779B97F4A7C15 + offset * 0xBF58476D1CE4E5B9 & (1 << 64) - 1)
    return (head + filler * (BLOCK // len(filler) + 1))[:BLOCK]


def describe(key, body, possible):
    """Where a wrong body is wrong, and what lies there instead."""
    said = [f"{len(body)} bytes"]
    best = min((w for w in possible if w), key=lambda w: abs(w.size - len(body)), default=None)
    if best is not None:
        want = body_of(key, best)
        at = next((i for i in range(0, min(len(want), len(body)), BLOCK) if want[i : i + BLOCK] != body[i : i + BLOCK]), None)
        if at is not None:
            said.append(f"first wrong block at {at}: {body[at : at + 60]!r} instead of {want[at : at + 60]!r}")
    return ", ".join(said)


class Ledger:
    """All keys; each belongs to one writer. `acks` counts 2xx of what changed something, `unread` reads that were answered by an error."""

    def __init__(self, writers, keys=10, bucket=BUCKET):
        self.bucket = bucket
        self.of_writer = [{f"{w}/k{n:02d}": Entry() for n in range(keys)} for w in range(writers)]
        self.buckets = [Entry(False) for _ in range(writers)]  # each makes and removes one of its own
        self.acks = self.in_doubt = self.refused = self.unread = 0
        self.kinds = {}
        self.lock = threading.Lock()
        self.numbers = 0

    def entries(self):
        return {key: entry for keys in self.of_writer for key, entry in keys.items()}

    def bucket_of(self, index):
        return f"{self.bucket}-{index}"

    def number(self):
        with self.lock:
            self.numbers += 1
            return self.numbers

    def count(self, kind, outcome):
        with self.lock:
            if outcome == "acknowledged":
                self.acks += 1
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
            else:
                self.refused += outcome == "refused"
                self.in_doubt += outcome == "unknown"

    def resolve(self, port):
        """Reads everything; then what is seen is what is known."""
        there = {}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for index, entry in enumerate(self.buckets):
            status = plain.ask(port, "HEAD", self.bucket_of(index), connection=connection).status
            if status not in (200, 404) or (status == 200) not in entry.possible():
                raise Lost(f"bucket {self.bucket_of(index)}: {status}; acknowledged {entry.acked}, in doubt {entry.unknown}")
            entry.acked, entry.unknown = status == 200, []
        for key, entry in self.entries().items():
            reply = plain.get(port, self.bucket, key, connection=connection)
            if reply.status not in (200, 404) or not reply.whole:
                raise Lost(f"{key}: {reply.status}, whole {reply.whole}, {reply.body[:300]!r}; acknowledged {entry.acked}, in doubt {entry.unknown}")
            found = self._match(key, entry, reply)
            entry.acked, entry.unknown = found, []
            if found is not None:
                there[key] = found.size
        listed = self.listing(port)
        if listed != there:
            raise Lost(f"the listing differs from what is there: {sorted(set(listed.items()) ^ set(there.items()))}")

    @staticmethod
    def _match(key, entry, reply):
        if reply.status == 404:
            if None not in entry.possible():
                raise Lost(f"{key} is gone; acknowledged {entry.acked}, in doubt {entry.unknown}")
            return None
        for write in entry.possible():
            if write is not None and write.size == len(reply.body) and body_of(key, write) == reply.body:
                return write
        raise Lost(f"{key}: {describe(key, reply.body, entry.possible())}; acknowledged {entry.acked}, in doubt {entry.unknown}")

    def listing(self, port):
        listed, token = {}, ""
        while True:
            reply = plain.ask(port, "GET", self.bucket, query="list-type=2&max-keys=7" + (f"&start-after={token}" if token else ""))
            if reply.status != 200:
                raise Lost(f"the listing answered {reply.status}: {reply.body[:300]!r}")
            page = xml.etree.ElementTree.fromstring(reply.body)
            name = page.tag.partition("}")[0] + "}" if page.tag.startswith("{") else ""
            rows = [(row.findtext(name + "Key"), int(row.findtext(name + "Size"))) for row in page.findall(name + "Contents")]
            for key, size in rows:
                if key in listed:
                    raise Lost(f"{key} is listed twice")
                listed[key] = size
            if page.findtext(name + "IsTruncated") != "true":
                return listed
            token = rows[-1][0].replace("/", "%2F")


class Writer(threading.Thread):
    """Works on its own keys until the server is gone or stop() is called: puts, overwrites, deletes (one by one and
    many at once), uploads in parts, copies, conditions, and reads in between what it knows."""

    KINDS = {"put": 60, "delete": 10, "delete-many": 4, "parts": 6, "abort": 2, "only-if-new": 4, "copy": 4, "bucket": 2, "read": 10}
    SIZES = (0, 1, 700, 16_384, 20_000, 200_000, 262_144, 262_145, 1_500_000)

    def __init__(self, port, ledger, index, seed, kinds=None, sizes=None):
        super().__init__(daemon=True)
        self.port, self.ledger, self.mine, self.index = port, ledger, ledger.of_writer[index], index
        self.rng = random.Random(seed)
        self.kinds = dict(kinds or self.KINDS)
        self.sizes = sizes or self.SIZES
        self.failed = None
        self.stopping = threading.Event()
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def stop(self):
        self.stopping.set()

    def run(self):
        try:
            while not self.stopping.is_set() and self.step():
                pass
        except Exception as error:  # shown by whoever joins
            self.failed = error
        finally:
            self.connection.close()

    def step(self):
        """One operation; False when the server is gone."""
        kind = self.rng.choices(list(self.kinds), self.kinds.values())[0]
        keys = [key for key, entry in self.mine.items() if len(entry.unknown) < DOUBTS_MAX]
        if not keys:
            return False  # retired: nothing works here any more
        key = self.rng.choice(keys)
        return getattr(self, "do_" + kind.replace("-", "_"))(key)

    def ask(self, method, key="", **more):
        return plain.ask(self.port, method, self.ledger.bucket, key, connection=self.connection, **more)

    def write(self, size=None):
        return Write(self.ledger.number(), self.rng.choice(self.sizes) if size is None else size)

    def outcome(self, kind, entry, reply, good=(200, 204)):
        """Notes what came of the last write in `entry`; False when the server is gone."""
        last = entry.unknown[-1]
        if reply.status in good and reply.whole:
            entry.acked, entry.unknown = last, []
            self.ledger.count(kind, "acknowledged")
            return True
        code = re.search(rb"<Code>(.*?)</Code>", reply.body)
        code = code.group(1).decode() if code else ""
        if reply.status == 412 or code in REFUSED:
            entry.unknown.pop()
            self.ledger.count(kind, "refused")
            return True
        self.ledger.count(kind, "unknown")
        if reply.status == 0 or not reply.whole:
            return False
        if reply.status < 500 or reply.status == 501:
            raise Lost(f"{kind}: answered {reply.status} {reply.body[:300]!r}")
        return True

    # ---- operations ----

    def do_put(self, key):
        write = self.write()
        self.mine[key].unknown.append(write)
        return self.outcome("put", self.mine[key], self.ask("PUT", key, body=body_of(key, write)))

    def do_only_if_new(self, key):
        entry, write = self.mine[key], self.write()
        sure, there = not entry.unknown, entry.acked is not None
        entry.unknown.append(write)
        reply = self.ask("PUT", key, body=body_of(key, write), headers={"If-None-Match": "*"})
        if sure and reply.status in (200, 412) and (reply.status == 412) != there:
            raise Lost(f"{key}: If-None-Match answered {reply.status} though it was {'there' if there else 'absent'}")
        return self.outcome("only-if-new", entry, reply)

    def do_copy(self, key):
        """Of a key that is known onto another: only metadata says which key the bytes name, so the copy is onto itself."""
        entry = self.mine[key]
        if entry.unknown or entry.acked is None:
            return True
        entry.unknown.append(entry.acked)
        source = {"x-amz-copy-source": f"/{self.ledger.bucket}/{key}", "x-amz-metadata-directive": "REPLACE"}
        return self.outcome("copy", entry, self.ask("PUT", key, headers=source))

    def do_bucket(self, _):
        """Makes the bucket of its own, or removes it, empty."""
        entry, name = self.ledger.buckets[self.index], self.ledger.bucket_of(self.index)
        if entry.unknown:
            return True
        entry.unknown.append(not entry.acked)
        return self.outcome("bucket", entry, plain.ask(self.port, "DELETE" if entry.acked else "PUT", name, connection=self.connection))

    def do_delete(self, key):
        self.mine[key].unknown.append(None)
        return self.outcome("delete", self.mine[key], self.ask("DELETE", key))

    def do_delete_many(self, _):
        keys = self.rng.sample(list(self.mine), min(3, len(self.mine)))
        for key in keys:
            self.mine[key].unknown.append(None)
        rows = "".join(f"<Object><Key>{xml.sax.saxutils.escape(key)}</Key></Object>" for key in keys)
        body = f"<Delete>{rows}</Delete>".encode()
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        reply = self.ask("POST", body=body, query="delete", headers={"Content-MD5": md5})
        going = True
        for key in keys:  # one answer, an outcome for each
            told = re.search(f"<Error><Key>{key}</Key>.*?</Error>".encode(), reply.body)
            of_key = plain.Reply(500, {}, told.group(0), True) if told else reply
            going = self.outcome("delete-many", self.mine[key], of_key) and going
        return going

    def do_parts(self, key):
        sizes = [self.rng.choice(self.sizes)]
        if self.rng.random() < 0.2:
            sizes.insert(0, PART_LEAST + self.rng.randrange(100_000))
        write = self.write(sum(sizes))
        upload = self.begin_upload(key)
        if upload is None:
            return False
        if upload == "":
            return True
        body, at, tags = body_of(key, write), 0, []
        for number, size in enumerate(sizes, 1):
            part = self.ask("PUT", key, body=body[at : at + size], query=f"partNumber={number}&uploadId={upload}")
            if part.status != 200:
                return part.status != 0
            tags.append(part.headers["etag"])
            at += size
        listed = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>" for n, tag in enumerate(tags, 1))
        self.mine[key].unknown.append(write)
        done = self.ask("POST", key, body=f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode(), query=f"uploadId={upload}")
        if b"<Error>" in done.body and done.status == 200:  # S3 may say so behind a head that was sent already
            done.status = 500
        return self.outcome("parts", self.mine[key], done)

    def do_abort(self, key):
        upload = self.begin_upload(key)
        if not upload:
            return upload is not None
        if self.ask("PUT", key, body=b"x" * 300_000, query=f"partNumber=1&uploadId={upload}").status == 0:
            return False
        return self.ask("DELETE", key, query=f"uploadId={upload}").status != 0

    def begin_upload(self, key):
        """Its id; "" when that was refused, None when the server is gone."""
        begun = self.ask("POST", key, query="uploads")
        if begun.status == 200 and begun.whole:
            return re.search(b"<UploadId>(.*?)</UploadId>", begun.body).group(1).decode()
        return None if begun.status == 0 or not begun.whole else ""

    def do_read(self, key):
        entry = self.mine[key]
        if entry.unknown:
            return True
        reply = self.ask("GET", key)
        if reply.status == 0:
            return False
        if reply.status == 200 and reply.whole and (entry.acked is None or reply.body != body_of(key, entry.acked)):
            raise Lost(f"{key}: read {describe(key, reply.body, [entry.acked])}; acknowledged {entry.acked}")
        if reply.status == 404 and entry.acked is not None:
            raise Lost(f"{key} is gone while the server runs; acknowledged {entry.acked}")
        if reply.status not in (200, 404, 503):  # 503: come again
            with self.ledger.lock:
                self.ledger.unread += 1
        return True


class Load:
    """All writers of a ledger at one server."""

    def __init__(self, port, ledger, rng, **options):
        self.ledger, self.rng = ledger, rng
        self.writers = [Writer(port, ledger, index, rng.random(), **options) for index in range(len(ledger.of_writer))]
        for writer in self.writers:
            writer.start()

    def wait_acks(self, count):
        """Until so many more were acknowledged, however slow the machine is, and a moment that is nobody's boundary."""
        seen, patience = self.ledger.acks, Patience()
        wanted = seen + count
        while self.ledger.acks < wanted and any(writer.is_alive() for writer in self.writers):
            if self.ledger.acks > seen:
                seen, patience = self.ledger.acks, Patience()
            if patience.is_over():
                raise Stuck(f"{seen} of {wanted} writes were acknowledged, and none in {PATIENCE} s")
            time.sleep(0.001)
        time.sleep(self.rng.uniform(0, 0.01))

    def still_going(self):
        """While the server is there nobody has an excuse to stop."""
        for writer in self.writers:
            if not writer.is_alive():
                raise writer.failed or Stuck("a writer got no answer, and the server is there")

    def stop(self):
        """They end with the operation that they are at."""
        for writer in self.writers:
            writer.stop()
        self.join()

    def join(self, timeout=PATIENCE):
        for writer in self.writers:
            writer.join(timeout)
            if writer.is_alive():
                raise Stuck("a writer hangs though the server is gone")
        for writer in self.writers:
            if writer.failed is not None:
                raise writer.failed
