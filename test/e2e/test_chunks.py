"""Large objects of an attached bucket: chunks of them, fetched in parallel, each kept and evicted by itself.

V5: one fetch of a chunk for all who wait. V3, D7: chunks of two versions are never mixed, kills included.
"""

import collections
import concurrent.futures
import hashlib
import json
import random
import shutil
import socket
import subprocess
import tarfile
import threading

import pytest
from rigs import forebay as forebay_rig
from rigs.fakeremote import FakeRemote
from rigs.process import PATIENCE

import plain
from test_cold import PATIENT, attach, wait_for

KIB = 1024
CHUNK = 512 * KIB
SMALL = {**PATIENT, "cache.large": "1MiB", "cache.chunk": "512KiB"}
BUCKET = "remote"
SIZE = 7 * CHUNK + 12_345


def body_of(name, size=SIZE):
    return random.Random(name).randbytes(size)


class Remote(FakeRemote):
    """Notes the ranges of GETs (None: the whole object); those from `held` on wait for go()."""

    def __init__(self):
        super().__init__()
        self.ranges = []
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = 0
        self.most = 0
        self.held = lambda first: True
        super().put(f"/{BUCKET}", b"")

    def put(self, name, body, **headers):
        super().put(f"/{BUCKET}/{name}", body, **headers)
        self.on("GET", f"/{BUCKET}/{name}", self._get)

    def _get(self, request):
        asked = request.headers.get("Range")
        first = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else None
        with self.lock:
            self.ranges.append(first)
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        if first is not None and self.held(first):
            self.gate.wait(PATIENCE)
        with self.lock:
            self.waiting -= 1
        try:
            request._object(self)
        except OSError:
            pass  # a whole answer that is not wanted

    def asked(self):
        """How often each chunk was asked for, since last time."""
        with self.lock:
            ranges, self.ranges = self.ranges, []
        return dict(collections.Counter(None if first is None else first // CHUNK for first in ranges))


@pytest.fixture
def remote():
    with Remote() as fake:
        yield fake
        fake.gate.set()


def start(start_forebay, remote, name="node", **settings):
    process = start_forebay(name, settings={**SMALL, **settings})
    done = attach(process, BUCKET, remote.endpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    return process


@pytest.fixture
def tier(start_forebay, remote):
    remote.put("k", body_of("k"))
    return start(start_forebay, remote), remote


def part(process, first, last, key="k"):
    reply = plain.get(process.port, BUCKET, key, headers={"Range": f"bytes={first}-{last}"})
    assert reply.status == 206 and len(reply.body) == last - first + 1
    return reply


def whole(process, key="k", name=None):
    reply = plain.get(process.port, BUCKET, key)
    assert reply.status == 200, reply.body
    assert reply.body == body_of(name or key)
    return reply


def metric(process, name):
    return sum(value for key, value in process.metrics().items() if key.split("{")[0] == name)


def stat(process):
    return json.loads(process.get("/_/stat")[1])


def forebay(process, *args):
    done = subprocess.run([str(process.binary), *args], env=forebay_rig.server_env({"FOREBAY_ENDPOINT": process.endpoint}), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- what is fetched ----


def test_a_whole_read_fetches_each_chunk_once(tier):
    process, remote = tier
    assert whole(process).headers["x-forebay-cache"] == "miss"
    assert remote.asked() == {None: 1, **{n: 1 for n in range(8)}}
    for _ in range(2):
        assert whole(process).headers["x-forebay-cache"] == "hit"
    assert remote.asked() == {}


def test_a_footer_costs_one_chunk(tier):
    process, remote = tier
    reply = part(process, SIZE - KIB, SIZE - 1)
    assert reply.body == body_of("k")[-KIB:] and reply.headers["content-range"] == f"bytes {SIZE - KIB}-{SIZE - 1}/{SIZE}"
    assert remote.asked() == {None: 1, 7: 1}  # what it is, then the chunk
    assert part(process, SIZE - 2 * KIB, SIZE - 1).headers["x-forebay-cache"] == "hit"
    suffix = plain.get(process.port, BUCKET, "k", headers={"Range": "bytes=-100"})
    assert suffix.status == 206 and suffix.body == body_of("k")[-100:]
    assert part(process, 3, 5).body == body_of("k")[3:6]
    assert remote.asked() == {0: 1}
    # The rest when all is wanted; what is here is not asked for again.
    assert whole(process).headers["x-forebay-cache"] in ("hit", "coalesced")  # the first chunk may still be on its way
    assert remote.asked() == {n: 1 for n in range(1, 7)}


def test_a_footer_of_100_gb_moves_one_chunk(start_forebay, remote):
    """With the default sizes. The object is generated zeros."""
    size, sent = 100 * 10**9, []

    def sparse(request):
        first, _, last = request.headers.get("Range", f"bytes=0-{size - 1}").removeprefix("bytes=").partition("-")
        first, last = int(first), min(int(last), size - 1)
        head = {"ETag": '"sparse-6400"', "Content-Range": f"bytes {first}-{last}/{size}"}
        sent.append((request.headers.get("Range"), last - first + 1))  # before the answer: the next question may come at once
        request.send(206 if "Range" in request.headers else 200, head if "Range" in request.headers else {"ETag": head["ETag"]}, b"", length=last - first + 1)
        try:
            for at in range(first, last + 1, 1024 * KIB):
                request.wfile.write(bytes(min(1024 * KIB, last + 1 - at)))
        except OSError:
            request.close_connection = True  # all of it was not wanted

    remote.put("sparse", b"")
    remote.on("GET", f"/{BUCKET}/sparse", sparse)
    process = start_forebay(settings=PATIENT)
    assert attach(process, BUCKET, remote.endpoint).returncode == 0
    for _ in range(2):
        reply = part(process, size - 64 * KIB, size - 1, "sparse")
        assert reply.body == bytes(64 * KIB) and reply.headers["content-range"].endswith(f"/{size}")
    chunk = 16 * 1024 * KIB
    assert sent == [(None, size), (f"bytes={size // chunk * chunk}-{size - 1}", size % chunk)]
    assert metric(process, "forebay_backend_bytes_total") == size % chunk
    assert stat(process)["disk"]["cached_bytes"] < size % chunk + 1024 * KIB


def test_ranges_across_chunks(tier):
    process, remote = tier
    body = body_of("k")
    for first, last in ((CHUNK - 1, CHUNK), (2 * CHUNK - 7, 5 * CHUNK + 7), (CHUNK, 2 * CHUNK - 1), (SIZE - 1, SIZE - 1), (0, 0)):
        assert part(process, first, last).body == body[first : last + 1]
    assert remote.asked() == {None: 1, **{n: 1 for n in (0, 1, 2, 3, 4, 5, 7)}}


def test_head_and_lists_say_the_whole_size(tier):
    process, remote = tier
    part(process, 0, 0)
    remote.asked()
    head = plain.ask(process.port, "HEAD", BUCKET, "k")
    assert head.status == 200 and head.headers["content-length"] == str(SIZE)
    assert head.headers["etag"] == f'"{hashlib.md5(body_of("k")).hexdigest()}"' and remote.asked() == {}
    remote.on("GET", f"/{BUCKET}", lambda request: request.send(500, {}, b""))
    listed = plain.ask(process.port, "GET", BUCKET)
    assert f"<Size>{SIZE}</Size>".encode() in listed.body


def test_two_hundred_readers_fetch_each_chunk_once(tier):
    process, remote = tier
    remote.gate.clear()
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        readers = [pool.submit(part, process, 5 * CHUNK + n, 5 * CHUNK + n + 99) for n in range(200)]
        wait_for(lambda: remote.waiting == 1, "the fetch")
        remote.gate.set()
        body = body_of("k")
        for n, reader in enumerate(readers):
            assert reader.result().body == body[5 * CHUNK + n : 5 * CHUNK + n + 100]
    asked = remote.asked()
    assert asked.pop(None) <= 200 and asked == {5: 1}


def test_several_at_once_and_not_all(tier):
    """A window of eight goes ahead of the reader, of this object all but the first two are needed to fill it."""
    process, remote = tier
    remote.put("long", body_of("long", 20 * CHUNK))
    remote.gate.clear()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        reader = pool.submit(plain.get, process.port, BUCKET, "long")
        wait_for(lambda: remote.waiting == 8, "eight chunks at once")
        assert remote.most == 8
        remote.gate.set()
        assert reader.result().body == body_of("long", 20 * CHUNK)
    assert remote.asked() == {None: 1, **{n: 1 for n in range(20)}}


def test_a_slow_reader_bounds_what_is_fetched(tier):
    process, remote = tier
    remote.put("long", body_of("long", 60 * CHUNK))
    with socket.create_connection(("127.0.0.1", process.port)) as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
        reader.sendall(f"GET /{BUCKET}/long HTTP/1.1\r\nHost: 127.0.0.1:{process.port}\r\n\r\n".encode())
        got = len(reader.recv(1000))
        while got < CHUNK + KIB:  # the first is whole: it is kept when the reader leaves
            got += len(reader.recv(64 * KIB))
        wait_for(lambda: len(remote.ranges) >= 9 and remote.waiting == 0, "the window")
        fetched = max(first for first in remote.ranges if first is not None) // CHUNK
        assert fetched < 30  # sockets hold some megabytes, the window is four
    assert part(process, 0, 9, "long").body == body_of("long", 60 * CHUNK)[:10] and remote.ranges.count(0) == 1


def test_a_reader_that_leaves_ends_what_only_it_wanted(tier):
    process, remote = tier
    remote.gate.clear()
    with socket.create_connection(("127.0.0.1", process.port)) as reader:
        reader.sendall(f"GET /{BUCKET}/k HTTP/1.1\r\nHost: 127.0.0.1:{process.port}\r\n\r\n".encode())
        wait_for(lambda: remote.waiting >= 7, "the chunks")
    remote.gate.set()
    whole(process)
    whole(process)


def test_what_breaks_is_taken_up_again(start_forebay, cloud, remote_s3, remote_bucket):
    process = start_forebay(settings=SMALL)
    assert attach(process, remote_bucket, cloud.endpoint).returncode == 0
    remote_s3.put_object(Bucket=remote_bucket, Key="k", Body=body_of("k"))
    cloud.forget()
    cloud.rule("reset", op="GetObject", after=100_000, times=4)
    reply = plain.get(process.port, remote_bucket, "k")
    assert reply.status == 200 and reply.body == body_of("k")
    assert plain.get(process.port, remote_bucket, "k").body == body_of("k")
    cloud.rule("reset", op="GetObject", after=100_000)
    assert plain.get(process.port, remote_bucket, "k").body == body_of("k")  # all of it is here


def test_a_small_one_is_kept_whole(tier):
    process, remote = tier
    remote.put("small", body_of("small", 2 * CHUNK))
    assert plain.get(process.port, BUCKET, "small").body == body_of("small", 2 * CHUNK)
    assert remote.asked() == {None: 1}


def test_without_a_strong_etag_it_is_kept_whole(tier):
    process, remote = tier
    for name, etag in (("none", None), ("weak", 'W/"abc"')):
        remote.put(name, body_of(name), ETag=etag)
        whole(process, name)
        whole(process, name)
    assert set(remote.asked()) == {None}


@pytest.mark.parametrize("age", [-100, -10, 0, 1, 2, None])
@pytest.mark.parametrize("etag", ["a time and a length", "MD5"])
@pytest.mark.parametrize("size", [300 * KIB, SIZE])
def test_an_etag_of_a_time_and_a_length(tier, size, etag, age):
    """It tells versions apart once its second is over: until then nothing is kept of it. A time far in the remote's future is not its clock's."""
    process, remote = tier
    body = body_of("young", size)
    said = {"Last-Modified": "Thu, 01 Jan 2026 00:02:10 GMT"}
    if etag != "MD5":
        said["ETag"] = f'"6955b90a-{len(body):x}"'
    FakeRemote.put(remote, f"/{BUCKET}/young", body, **said)

    def answer(request):
        request.date_time_string = lambda timestamp=None: "" if age is None else "Thu, 01 Jan 2026 00:{:02}:{:02} GMT".format(*divmod(130 + age, 60))
        remote._get(request)

    remote.on("GET", f"/{BUCKET}/young", answer)
    for _ in range(2):
        assert plain.get(process.port, BUCKET, "young").body == body
    newer = body_of("newer", size)
    FakeRemote.put(remote, f"/{BUCKET}/young", newer, **said)
    passes = etag != "MD5" and age in (-10, 0, 1)
    reply = plain.get(process.port, BUCKET, "young")
    assert reply.body == (newer if passes else body) and reply.headers["x-forebay-cache"] == ("bypass" if passes else "hit")


def test_one_that_breaks_and_is_rewritten_within_its_second(tier):
    """The same length, the same ETag: the beginning of one is not gone on with by the other's rest."""
    process, remote = tier
    old, new = body_of("young", 2 * CHUNK), body_of("newer", 2 * CHUNK)
    said = {"Last-Modified": "Thu, 01 Jan 2026 00:00:10 GMT", "ETag": '"6955b90a-100000"'}
    FakeRemote.put(remote, f"/{BUCKET}/young", old, **said)

    def breaks(request):
        request.date_time_string = lambda timestamp=None: "Thu, 01 Jan 2026 00:00:10 GMT"
        FakeRemote.put(remote, f"/{BUCKET}/young", new, **said)
        remote.on("GET", f"/{BUCKET}/young", remote._get)
        request.send(200, said, old[:CHUNK], length=len(old))
        request.reset()

    remote.on("GET", f"/{BUCKET}/young", breaks)
    reply = plain.get(process.port, BUCKET, "young")
    assert not reply.whole and old.startswith(reply.body)
    assert plain.get(process.port, BUCKET, "young").body == new


def test_a_very_long_key_is_kept_whole(tier):
    process, remote = tier
    for length, chunks in ((982, True), (983, False)):
        key = "x" * length
        remote.put(key, body_of("long key"))
        whole(process, key, "long key")
        whole(process, key, "long key")
        assert (len(remote.asked()) > 1) == chunks


def test_how_much_of_it_is_here(tier):
    process, remote = tier
    part(process, SIZE - KIB, SIZE - 1)
    part(process, 0, 0)
    wait_for(lambda: chunks_here(process) == 3, "the rest of the first chunk, which its reader did not wait for")
    told = json.loads(forebay(process, "stat", "-v", "--json", f"s3://{BUCKET}/k"))
    here = told.get("here", told)
    assert here["size"] == SIZE and here["chunks"] == 8 and here["chunks_here"] == 2 and here["present_bytes"] == CHUNK + 12_345


# ---- other versions ----


def test_another_version_at_the_remote_is_not_mixed_in(tier):
    """No notice comes; the first missing chunk detects it. Nothing was sent yet: the reader gets the new version."""
    process, remote = tier
    part(process, 0, 9)
    remote.put("k", body_of("new"))
    assert part(process, 0, 9).body == body_of("k")[:10]  # as of when it was kept: no time to live
    reply = part(process, 5 * CHUNK, 5 * CHUNK + 9)
    assert reply.body == body_of("new")[5 * CHUNK : 5 * CHUNK + 10]
    assert part(process, 0, 9).body == body_of("new")[:10]
    whole(process, name="new")


def kept(process, remote, first, last, key="k"):
    """These chunks are here, and nothing is on its way."""
    part(process, first * CHUNK, (last + 1) * CHUNK - 1, key)
    wait_for(lambda: chunks_here(process) == 1 + last + 1 - first, "the chunks")
    remote.asked()
    remote.seen.clear()


@pytest.mark.parametrize("chunks, here", [(8, 0), (8, 6), (30, 0), (30, 20)])
def test_a_whole_read_finds_another_version_before_its_first_byte(tier, chunks, here):
    """Whichever chunk is the first that is missing, and whether or not it is within the window: no byte of the old version goes out."""
    process, remote = tier
    size = (chunks - 1) * CHUNK + 777
    remote.put("long", body_of("long", size))
    kept(process, remote, 0, here, "long")
    remote.put("long", body_of("new", size))
    assert plain.get(process.port, BUCKET, "long", headers={"Range": f"bytes={here * CHUNK}-{here * CHUNK + 9}"}).body == body_of("long", size)[here * CHUNK : here * CHUNK + 10]
    reply = plain.get(process.port, BUCKET, "long")
    assert reply.whole and reply.status == 200 and reply.body == body_of("new", size)
    assert reply.headers["etag"] == f'"{hashlib.md5(reply.body).hexdigest()}"'


@pytest.mark.parametrize("here", [0, 20])
def test_a_whole_read_of_one_that_is_gone(tier, here):
    process, remote = tier
    remote.put("long", body_of("long", 30 * CHUNK))
    kept(process, remote, 0, here, "long")
    del remote.objects[f"/{BUCKET}/long"]
    reply = plain.get(process.port, BUCKET, "long")
    assert reply.whole and reply.status == 404


def test_what_is_missing_is_asked_for_once(tier):
    """Checking the version costs no request, except where the first that is missing is beyond the window: a HEAD. Nor where nothing is missing."""
    process, remote = tier
    kept(process, remote, 0, 0)
    assert whole(process).headers["x-forebay-cache"] == "hit"  # of the first byte
    assert remote.asked() == {n: 1 for n in range(1, 8)} and remote.seen[f"HEAD /{BUCKET}/k"] == 0
    remote.put("long", body_of("long", 30 * CHUNK))
    part(process, 0, 20 * CHUNK - 1, "long")
    wait_for(lambda: chunks_here(process) == 9 + 21, "the chunks")
    remote.asked()
    assert part(process, 5, 20 * CHUNK - 1, "long").headers["x-forebay-cache"] == "hit"
    assert remote.asked() == {} and remote.seen[f"HEAD /{BUCKET}/long"] == 0
    whole_of_it = plain.get(process.port, BUCKET, "long")
    assert whole_of_it.body == body_of("long", 30 * CHUNK)
    assert remote.asked() == {n: 1 for n in range(20, 30)} and remote.seen[f"HEAD /{BUCKET}/long"] == 1


def test_the_first_byte_waits_for_one_answer_only(tier):
    """That of the first missing chunk: those behind it may take as long as they like."""
    process, remote = tier
    kept(process, remote, 0, 0)
    remote.held = lambda first: first >= 2 * CHUNK
    remote.gate.clear()
    with socket.create_connection(("127.0.0.1", process.port)) as reader:
        reader.settimeout(PATIENCE)
        reader.sendall(f"GET /{BUCKET}/k HTTP/1.1\r\nHost: 127.0.0.1:{process.port}\r\nConnection: close\r\n\r\n".encode())
        got = b""
        while len(got) < CHUNK + 2 * KIB:
            got += reader.recv(64 * KIB)
        assert got.startswith(b"HTTP/1.1 200")
        wait_for(lambda: remote.waiting == 6, "the others to be asked for")
        remote.gate.set()
        while more := reader.recv(64 * KIB):
            got += more
    assert got.endswith(body_of("k"))


@pytest.mark.parametrize("here", [0, 20])
def test_a_remote_that_fails_is_an_error_before_the_first_byte(tier, here):
    """No answer that breaks off behind what is kept. What is wholly here is served on."""
    process, remote = tier
    remote.put("long", body_of("long", 30 * CHUNK))
    kept(process, remote, 0, here, "long")
    for method in ("GET", "HEAD"):
        remote.on(method, f"/{BUCKET}/long", lambda request: request.send(500, {}, b""))
    reply = plain.get(process.port, BUCKET, "long")
    assert reply.whole and reply.status == 503 and b"<Error>" in reply.body
    assert part(process, 0, (here + 1) * CHUNK - 1, "long").headers["x-forebay-cache"] == "hit"
    for method in ("GET", "HEAD"):
        remote.handlers.pop((method, f"/{BUCKET}/long"))
    remote.put("long", body_of("long", 30 * CHUNK))
    wait_for(lambda: plain.get(process.port, BUCKET, "long").body == body_of("long", 30 * CHUNK), "the remote to be asked again")


def until_it_breaks(reader):
    """What still comes."""
    got = b""
    try:
        while more := reader.recv(1024 * KIB):
            got += more
    except ConnectionResetError:
        pass
    return got


@pytest.mark.parametrize("status", [200, 500])
def test_one_question_for_all_who_wait(tier, status):
    """The HEAD for a chunk beyond the window; what it ends with holds for all, a failure too."""
    process, remote = tier
    body = body_of("long", 30 * CHUNK)
    remote.put("long", body)
    kept(process, remote, 0, 20, "long")
    asked, gate = threading.Event(), threading.Event()

    def held(request):
        asked.set()
        assert gate.wait(PATIENCE)
        request.send(status, remote.objects[f"/{BUCKET}/long"][1], b"", length=len(body))

    remote.on("HEAD", f"/{BUCKET}/long", held)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        readers = [pool.submit(plain.get, process.port, BUCKET, "long") for _ in range(10)]
        assert asked.wait(PATIENCE)
        wait_for(lambda: process.metrics()['forebay_connections{state="active"}'] >= 11, "all readers, and who looks")
        gate.set()
        replies = [reader.result() for reader in readers]
    assert {reply.status for reply in replies} == {200 if status == 200 else 503}
    assert all(reply.body == body for reply in replies) == (status == 200)
    tries = 1 if status == 200 else 3
    assert tries <= remote.seen[f"HEAD /{BUCKET}/long"] <= 3 * tries  # who came late to wait asks for all who came later still


@pytest.mark.parametrize("status", [403, 405, 501])
def test_a_remote_that_refuses_questions(tier, status):
    """Of one that is beyond the window it is not asked then."""
    process, remote = tier
    body = body_of("long", 30 * CHUNK)
    remote.put("long", body)
    kept(process, remote, 0, 20, "long")
    remote.on("HEAD", f"/{BUCKET}/long", lambda request: request.send(status, {}, b""))
    assert plain.get(process.port, BUCKET, "long").body == body


def test_one_that_is_replaced_between_two_chunks_breaks(tier):
    """Bytes of the old version are out: what comes is its beginning, cut. The next answer is the new one."""
    process, remote = tier
    remote.held = lambda first: first >= 3 * CHUNK
    remote.gate.clear()
    with socket.create_connection(("127.0.0.1", process.port)) as reader:
        reader.settimeout(PATIENCE)
        reader.sendall(f"GET /{BUCKET}/k HTTP/1.1\r\nHost: 127.0.0.1:{process.port}\r\n\r\n".encode())
        got = b""
        while len(got) < 2 * CHUNK:
            got += reader.recv(64 * KIB)
        wait_for(lambda: remote.waiting == 5, "the others to be asked for")
        remote.put("k", body_of("new"))
        remote.gate.set()
        got += until_it_breaks(reader)
    body = got.partition(b"\r\n\r\n")[2]
    assert 2 * CHUNK - KIB < len(body) <= 3 * CHUNK and body_of("k").startswith(body)
    whole(process, name="new")


def test_chunks_that_are_not_kept_and_cannot_be_had_otherwise(start_forebay, remote):
    """Their version ends here while they come, and the remote fails from then on: their slow reader has all of what came."""
    chunk = 16 * 1024 * KIB  # more than what lies in sockets
    body, most = body_of("k", 2 * chunk), chunk - 4 * KIB
    arrived, gate = threading.Semaphore(0), threading.Event()

    def held_back(request):
        if gate.is_set():
            return request.send(500, {}, b"")
        if "Range" not in request.headers:
            return request._object(remote)
        first = int(request.headers["Range"].removeprefix("bytes=").partition("-")[0])
        head = {**remote.objects[f"/{BUCKET}/k"][1], "Content-Range": f"bytes {first}-{first + chunk - 1}/{2 * chunk}"}
        request.send(206, head, body[first : first + most], length=chunk)
        arrived.release()
        gate.wait(PATIENCE)
        request.raw(body[first + most : first + chunk])

    remote.put("k", body)
    remote.on("GET", f"/{BUCKET}/k", held_back)
    process = start(start_forebay, remote, **{"cache.large": chunk, "cache.chunk": chunk, "backend.retries": 1})
    with socket.create_connection(("127.0.0.1", process.port)) as reader:
        reader.settimeout(PATIENCE)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
        reader.sendall(f"GET /{BUCKET}/k HTTP/1.1\r\nHost: 127.0.0.1:{process.port}\r\n\r\n".encode())
        got = bytearray(reader.recv(KIB))
        for _ in range(2):
            assert arrived.acquire(timeout=PATIENCE)
        forebay(process, "evict", f"s3://{BUCKET}/k")
        gate.set()
        wait_for(lambda: process.log().count("was written while it was fetched") >= 2, "both chunks to be aborted")
        while len(got) - got.find(b"\r\n\r\n") - 4 < len(body):
            got += reader.recv(64 * KIB) or pytest.fail(f"cut after {len(got)} bytes")
    assert got.partition(b"\r\n\r\n")[2] == body


def test_one_that_is_gone_at_the_remote(tier):
    process, remote = tier
    part(process, 0, 9)
    del remote.objects[f"/{BUCKET}/k"]
    assert plain.get(process.port, BUCKET, "k", headers={"Range": f"bytes={CHUNK}-{CHUNK}"}).status == 404
    assert plain.get(process.port, BUCKET, "k").status == 404


def test_one_that_shrank_at_a_remote_that_looks_at_the_range_first(tier):
    """Its 416 says as well as a 412 that what is kept is not the remote's any more."""
    process, remote = tier
    part(process, 0, 9)
    wait_for(lambda: chunks_here(process) == 2, "what is kept: the object's row, and the chunk")
    remote.put("k", body_of("short", CHUNK))

    def answer(request):
        if "Range" in request.headers and int(request.headers["Range"].removeprefix("bytes=").partition("-")[0]) >= CHUNK:
            return request.send(416, {"Content-Range": f"bytes */{CHUNK}"}, b"<Error><Code>InvalidRange</Code></Error>")
        return request._object(remote)

    remote.on("GET", f"/{BUCKET}/k", answer)
    reply = plain.get(process.port, BUCKET, "k")
    assert reply.status == 200 and reply.body == body_of("short", CHUNK)
    assert plain.get(process.port, BUCKET, "k", headers={"Range": f"bytes={CHUNK}-{CHUNK}"}).status == 416


def test_a_remote_that_ignores_conditions_is_found_out(tier):
    process, remote = tier
    part(process, 0, 9)
    new = body_of("new")

    def careless(request):
        first, _, last = request.headers.get("Range", f"bytes=0-{SIZE - 1}").removeprefix("bytes=").partition("-")
        first, last = int(first), int(last)
        etag = {"ETag": f'"{hashlib.md5(new).hexdigest()}"'}
        if "Range" not in request.headers:
            return request.send(200, etag, new)
        return request.send(206, {**etag, "Content-Range": f"bytes {first}-{last}/{SIZE}"}, new[first : last + 1])

    remote.on("GET", f"/{BUCKET}/k", careless)
    assert part(process, 2 * CHUNK, 2 * CHUNK + 9).body == new[2 * CHUNK : 2 * CHUNK + 10]
    assert part(process, 0, 9).body == new[:10]


def test_times_to_live_and_the_latest_take_all_chunks_along(tier):
    process, remote = tier
    whole(process)
    remote.put("k", body_of("new"))
    whole(process)
    assert plain.get(process.port, BUCKET, "k", headers={"x-forebay-latest": "1"}).body == body_of("new")
    forebay(process, "bucket", "set", f"s3://{BUCKET}", "--ttl", "always")
    remote.asked()
    whole(process, name="new")
    assert remote.asked() == {}
    remote.put("k", body_of("third"))
    whole(process, name="third")
    wait_for(lambda: chunks_here(process) == 9, "what the old versions left to go")


def chunks_here(process):
    return stat(process)["disk"]["objects"]


def test_writes_and_deletes_take_all_chunks_along(start_forebay, cloud, remote_s3, remote_bucket):
    process = start_forebay(settings=SMALL)
    assert attach(process, remote_bucket, cloud.endpoint).returncode == 0
    remote_s3.put_object(Bucket=remote_bucket, Key="k", Body=body_of("k"))
    get = lambda: plain.get(process.port, remote_bucket, "k")  # noqa: E731
    assert get().body == body_of("k")
    wait_for(lambda: chunks_here(process) == 9, "what is kept")
    assert plain.ask(process.port, "PUT", remote_bucket, "k", b"tiny").status == 200
    assert get().body == b"tiny"
    wait_for(lambda: chunks_here(process) == 1, "the chunks to go")
    remote_s3.put_object(Bucket=remote_bucket, Key="k2", Body=body_of("k2"))
    assert plain.get(process.port, remote_bucket, "k2").body == body_of("k2")
    assert plain.ask(process.port, "DELETE", remote_bucket, "k2").status == 204
    assert plain.get(process.port, remote_bucket, "k2").status == 404
    wait_for(lambda: chunks_here(process) == 1, "the chunks to go")


# ---- space ----


def test_chunks_survive_a_restart(tier, start_forebay):
    process, remote = tier
    whole(process)
    process.end()
    remote.asked()
    process = start_forebay("node", settings=SMALL)
    whole(process)
    assert remote.asked() == {}
    # What was kept in chunks of one size goes on so.
    process.end()
    process = start_forebay("node", settings={**SMALL, "cache.chunk": "1MiB"})
    whole(process)
    assert remote.asked() == {}


def tool(process, *args):
    """A verb for stopped disks."""
    done = subprocess.run([str(process.binary), "disk", *map(str, args)], env=forebay_rig.server_env(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_chunks_after_a_lost_index(tier, start_forebay, tmp_path):
    """They are objects of the disk like others: checked, made again from the logs, and in no archive of what is the node's own."""
    process, remote = tier
    whole(process)
    process.end()
    tool(process, "check", process.data_dir)
    shutil.rmtree(process.data_dir / "index")
    assert tool(process, "rebuild", process.data_dir).startswith("9 objects")  # the row that stands for it, and eight chunks
    tool(process, "check", process.data_dir)
    tool(process, "export", process.data_dir, tmp_path / "out.tar")
    with tarfile.open(tmp_path / "out.tar") as archive:
        assert not [name for name in archive.getnames() if not name.startswith(".forebay/")]
    remote.asked()
    process = start_forebay("node", settings=SMALL)
    whole(process)
    assert remote.asked() == {}


def test_chunks_on_two_disks(start_forebay, remote, tmp_path):
    """They lie here and there. Restarted, and when one disk is lost: each byte is right, and no more than was lost is fetched."""
    one, two = tmp_path / "one", tmp_path / "two"
    names = [f"k{number}" for number in range(4)]
    for name in names:
        remote.put(name, body_of(name))
    process = start_forebay("one", args=[str(two)], settings=SMALL)
    assert attach(process, BUCKET, remote.endpoint).returncode == 0
    for name in names:
        whole(process, name)
    kept = lambda: [disk["objects"] for disk in json.loads(forebay(process, "disk", "ls", "--json"))["disks"]]  # noqa: E731
    wait_for(lambda: sum(kept()) == 9 * len(names), "all of them to be counted")
    assert min(kept()) > 0, kept()
    process.end()
    remote.asked()
    process = start_forebay("one", args=[str(two)], settings=SMALL)
    for name in names:
        whole(process, name)
    assert remote.asked() == {}
    process.end()
    for folder in (one, two):
        tool(process, "check", folder)
    process = start_forebay("one", args=["--without", str(two)], settings=SMALL)
    forebay(process, "disk", "remove", str(two), "--force")  # its chunks are at the remote
    for name in names:
        whole(process, name)
    assert 0 < sum(remote.asked().values()) <= 10 * len(names)  # a whole one that turns out to be large is asked for as such, too
    for name in names:
        whole(process, name)
    assert remote.asked() == {}


def test_evicted_by_hand_with_all_chunks(tier):
    process, remote = tier
    whole(process)
    wait_for(lambda: chunks_here(process) == 9, "the last chunk, which its reader has before the disk has it")
    forebay(process, "evict", f"s3://{BUCKET}/k")
    wait_for(lambda: chunks_here(process) == 0, "all of them to go")
    remote.asked()
    whole(process)
    assert remote.asked() == {None: 1, **{n: 1 for n in range(8)}}


def test_a_removed_bucket_takes_its_chunks_along(tier):
    process, _ = tier
    whole(process)
    wait_for(lambda: chunks_here(process) == 9, "all to be kept")
    assert plain.ask(process.port, "DELETE", BUCKET).status == 204
    wait_for(lambda: chunks_here(process) == 0, "its chunks to go")


def test_prefetch_fetches_the_missing_chunks(tier):
    process, remote = tier
    part(process, 3 * CHUNK, 3 * CHUNK)
    remote.asked()
    forebay(process, "prefetch", f"s3://{BUCKET}/k")
    assert remote.asked() == {n: 1 for n in range(8) if n != 3}
    whole(process)
    assert remote.asked() == {}


def test_a_full_cache_gives_up_single_chunks(start_forebay, remote):
    """The budget holds half of them; what is read again and again stays."""
    names = [f"k{number}" for number in range(4)]
    for name in names:
        remote.put(name, body_of(name))
    process = start(start_forebay, remote, **{"cache.budget": "8MiB"})
    for _ in range(6):
        for name in names:
            whole(process, name)
            part(process, 0, 9, names[0])
    assert metric(process, "forebay_cache_evicted_total") >= 0
    assert stat(process)["disk"]["cached_bytes"] <= 9 * 1024 * KIB
    remote.asked()
    part(process, 0, 9, names[0])
    assert remote.asked() == {}
