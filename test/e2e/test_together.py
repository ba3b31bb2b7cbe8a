"""Settings that are tried one by one elsewhere, many at once: drawn at random, under several clients, with a kill in the middle.

Each client owns its keys, so it knows what each of them holds, and reads what no client writes. TOGETHER=n: so many draws; SEED: other ones.
"""

import concurrent.futures
import http.client
import os
import random
import time

import pytest
from rigs.fakeremote import FakeRemote

import plain
from rigs.process import PATIENCE, Patience
from test_cold import PATIENT, attach
from test_disks import cli

DRAWS = int(os.environ.get("TOGETHER", "6"))
SEED = int(os.environ.get("SEED", "20261122"))
CLIENTS = 4
STEPS = 60  # of each client, before the kill and again behind it
READ_ONLY = 40  # numbered objects that no client writes, of each form
SIZES = (0, 1, 500, 4_096, 16_384, 70_000, 300_000, 1_200_000)

SETTINGS = {
    "engine": ("uring", "epoll"),
    "loops": (1, 2, 3),
    "workers": (1, 8),
    "memory.block_cache": ("0", "1MiB", "256MiB"),
    "memory.buffers": ("16MiB", "256MiB"),
    "http.buffer": ("4KiB", "16KiB"),
    "cache.budget": ("0", "4MiB", "64MiB"),
    "cache.large": ("64KiB", "1MiB", "64MiB"),
    "cache.chunk": ("64KiB", "16MiB"),
    "cache.readahead": (0, 4, 64),
    "memory.memtable": ("1MiB", "64MiB"),
    "index.interval": ("10ms", "1s"),
    "scrub.pass": ("1s", "7d"),
    "backend.connections": (1, 64),
    "log.access": ("true", "false"),
    "disk.segment_bytes": ("16MiB", "64MiB"),
}
TTLS = (None, "always", "1s", "1h")
DISKS = (1, 3)


def content(number, size):
    return random.Random(number).randbytes(size)


def numbered(form, number):
    return f"read/{form}-{number:06}", content(number, 20_000 if form == "small" else 200_000)


class Client:
    """One of several at once. `mine` is what it knows of its own keys: None is a key that is not there."""

    def __init__(self, number, seed, buckets):
        self.name, self.rng, self.buckets = f"c{number}", random.Random(seed * 100 + number), buckets
        self.mine, self.at = {}, dict.fromkeys(("small", "large"), 0)
        self.refused = 0

    def run(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        deeds = (self.put, self.put, self.read, self.read, self.part_of, self.next_in_order, self.next_in_order, self.delete, self.listing, self.copy, self.upload)
        for _ in range(STEPS):
            self.rng.choice(deeds)()
        self.connection.close()

    def ask(self, method, bucket, key="", wanted=(200,), **more):
        """As clients do, it retries when there is no room now."""
        patience = Patience(PATIENCE)
        while (reply := plain.ask(None, method, bucket, key, connection=self.connection, **more)).status == 503 and not patience.is_over():
            assert "retry-after" in reply.headers, reply
            self.refused += 1
            time.sleep(0.01)
        assert reply.status in wanted and reply.whole, f"{method} {bucket}/{key} {more.get('query', '')}: {reply.status} {reply.body[:300]!r}"
        return reply

    def some(self):
        return self.rng.choice(self.buckets), f"{self.name}/k{self.rng.randrange(8)}"

    def drawn(self):
        return self.rng.randbytes(self.rng.choice(SIZES))

    def put(self):
        at, body = self.some(), self.drawn()
        self.ask("PUT", *at, body=body)
        self.mine[at] = body

    def read(self):
        at = self.some()
        body = self.mine.get(at)
        reply = self.ask("GET", *at, wanted=(404,) if body is None else (200,))
        assert body is None or reply.body == body, f"{at}: {len(reply.body)} bytes, not the {len(body)} that were written"
        self.ask("HEAD", *at, wanted=(404,) if body is None else (200,))

    def part_of(self):
        at = self.some()
        body = self.mine.get(at)
        if not body:
            return
        first = self.rng.randrange(len(body))
        last = self.rng.randrange(first, len(body))
        reply = self.ask("GET", *at, wanted=(206,), headers={"Range": f"bytes={first}-{last}"})
        assert reply.body == body[first : last + 1], f"{at}: {first} to {last}"

    def next_in_order(self):
        """As a loader goes through shards; all start at the first one."""
        form = self.rng.choice(("small", "large"))
        for _ in range(5):
            key, body = numbered(form, self.at[form] % READ_ONLY)
            assert self.ask("GET", "remote", key).body == body, key
            self.at[form] += 1

    def delete(self):
        at = self.some()
        self.ask("DELETE", *at, wanted=(204,))
        self.mine[at] = None

    def copy(self):
        at, to = self.some(), self.some()
        if at[0] != to[0] or self.mine.get(at) is None or at == to:
            return
        self.ask("PUT", *to, headers={"x-amz-copy-source": "/".join(at)})
        self.mine[to] = self.mine[at]

    def upload(self):
        at = self.some()
        parts = [self.rng.randbytes(5 * 1024 * 1024), self.drawn()]
        begun = self.ask("POST", *at, query="uploads").body
        upload = begun.split(b"<UploadId>")[1].split(b"<")[0].decode()
        etags = [self.ask("PUT", *at, query=f"partNumber={n}&uploadId={upload}", body=part).headers["etag"] for n, part in enumerate(parts, 1)]
        rows = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>" for n, etag in enumerate(etags, 1))
        self.ask("POST", *at, query=f"uploadId={upload}", body=f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode())
        self.mine[at] = b"".join(parts)

    def listing(self):
        for bucket in self.buckets:
            page = self.ask("GET", bucket, query=f"list-type=2&prefix={self.name}/").body.decode()
            there = {key for (b, key), body in self.mine.items() if b == bucket and body is not None}
            assert {row.split("<")[0] for row in page.split("<Key>")[1:]} == there, bucket

    def all_of_it(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for at, body in self.mine.items():
            reply = self.ask("GET", *at, wanted=(404,) if body is None else (200,))
            assert body is None or reply.body == body, at
        self.listing()
        self.connection.close()


def each(clients, deed, port):
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(deed, client, port) for client in clients]:
            done.result()


@pytest.mark.parametrize("draw", range(DRAWS))
def test_many_settings_at_once(start_forebay, tmp_path, draw):
    seed = SEED + draw
    rng = random.Random(seed)
    settings = {name: rng.choice(values) for name, values in SETTINGS.items()}
    env = {"FOREBAY_TEST_INDEX_WHOLE": "0"} if rng.random() < 0.5 else {}  # an index that is proven behind the start
    disks, ttl, versioned = rng.choice(DISKS), rng.choice(TTLS), rng.random() < 0.5
    print(f"seed {seed}: {settings} {env} {disks} disks, ttl {ttl}, versions {versioned}")

    def start(*more):
        return start_forebay(settings={**PATIENT, **settings}, env=env, args=more)

    with FakeRemote(writable=True) as remote:
        remote.put("/remote", b"")
        for number in range(READ_ONLY):
            for form in ("small", "large"):
                key, body = numbered(form, number)
                remote.put(f"/remote/{key}", body)
        process = start()
        others = [str(tmp_path / f"disk{disk}") for disk in range(1, disks)]
        for disk in others:
            cli(process, "disk", "add", "--create", disk)
        assert attach(process, "remote", remote.endpoint).returncode == 0
        if ttl:
            cli(process, "bucket", "set", "s3://remote", "--ttl", ttl)
        assert plain.ask(process.port, "PUT", "native").status == 200
        if disks > 1:
            cli(process, "bucket", "set", "s3://native", "--copies", "2", "--wait")
        if versioned:
            assert plain.ask(process.port, "PUT", "native", query="versioning", body=b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>").status == 200
        clients = [Client(number, seed, ("native", "remote")) for number in range(CLIENTS)]
        each(clients, Client.run, process.port)
        process.kill()
        process = start(*others)
        each(clients, Client.all_of_it, process.port)
        each(clients, Client.run, process.port)
        each(clients, Client.all_of_it, process.port)
        print(f"{sum(client.refused for client in clients)} times 503")
        process.end()
