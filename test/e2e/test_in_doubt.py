"""D11, V8: an in-doubt write (its answer never came): the remote is asked by a HEAD, and where it has that very version
still no byte is fetched; where it does not answer no request waits for it twice; and what is in doubt is never shown unasked, whatever is written while the remote is asked. D7: who reads
while it is written has the version that he began, whole.
"""

import concurrent.futures
import errno
import http.client
import itertools
import random
import socket
import subprocess
import threading

import pytest
from rigs.fakeremote import FakeRemote
from rigs.faults import WRITE, DiskFaults
from rigs.forebay import server_env
from rigs.process import PATIENCE

import plain
from test_cold import PATIENT, attach, wait_for

KIB = 1024
BUCKET = "remote"
PATH = f"/{BUCKET}/k"
SETTINGS = {**PATIENT, "backend.retries": 1, "cache.large": "1MiB", "cache.chunk": "512KiB"}
SIZES = {"whole": 300 * KIB, "chunks": 3 * 512 * KIB}


def body_of(name, size=SIZES["whole"]):
    return random.Random(name).randbytes(size)


class Remote(FakeRemote):
    """Each version is a second younger than the one before. A PUT is taken, or lost; its answer comes, or never."""

    def __init__(self):
        super().__init__(writable=True)
        self.seconds = itertools.count()
        super().put(f"/{BUCKET}", b"")

    def put(self, path, body, **headers):
        headers.setdefault("Last_Modified", f"Thu, 01 Jan 2026 00:00:{next(self.seconds):02} GMT")
        super().put(path, body, **{"x-amz-meta-a": "1", **headers})

    def break_puts(self, taken, **headers):
        def answer(request):
            if taken:
                self.put(PATH, request.body, **headers)
            request.reset()

        self.on("PUT", PATH, answer)

    def asked(self):
        """HEADs and GETs since last time."""
        with self.lock:
            counts = self.seen[f"HEAD {PATH}"], self.seen[f"GET {PATH}"]
            self.seen.clear()
        return counts


@pytest.fixture
def remote():
    with Remote() as fake:
        yield fake


def start(start_forebay, remote, settings, **more):
    process = start_forebay("node", settings=settings, **more)
    done = attach(process, BUCKET, remote.endpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    return process


@pytest.fixture
def node(start_forebay, remote):
    return start(start_forebay, remote, SETTINGS)


@pytest.fixture
def whole(start_forebay, remote):
    """Keeps nothing in chunks."""
    return start(start_forebay, remote, {**SETTINGS, "cache.large": "64MiB"})


def get(process):
    """Once the remote is asked again, which it is not while it is thought to be down."""
    wait_for(lambda: plain.ask(process.port, "HEAD", BUCKET, "none").status == 404, "the remote to be asked")
    return plain.get(process.port, BUCKET, "k")


def keep(process, remote, body, **headers):
    remote.put(PATH, body, **headers)
    assert plain.get(process.port, BUCKET, "k").body == body
    wait_for(lambda: plain.get(process.port, BUCKET, "k").headers["x-forebay-cache"] == "hit", "it to be kept")
    remote.asked()


def write(process, body):
    """The outcome is unknown."""
    assert plain.ask(process.port, "PUT", BUCKET, "k", body).status >= 500


@pytest.mark.parametrize("kind", SIZES)
def test_an_in_doubt_version_that_the_remote_still_has_is_not_fetched(node, remote, start_forebay, kind):
    old = body_of("old", SIZES[kind])
    keep(node, remote, old)
    for _ in range(2):
        remote.break_puts(taken=False)
        write(node, b"new")
        remote.asked()
        reply = get(node)
        assert reply.body == old and reply.headers["x-forebay-cache"] == "hit" and reply.headers["x-amz-meta-a"] == "1"
        assert remote.asked() == (1, 0)
        assert get(node).body == old and remote.asked() == (0, 0)
    node.end()
    process = start_forebay("node", settings=SETTINGS)
    assert get(process).body == old and remote.asked() == (0, 0)


@pytest.mark.parametrize("kind", SIZES)
def test_the_in_doubt_mark_survives_a_kill(node, remote, start_forebay, kind):
    """Behind the question and before its end is durable, too."""
    old = body_of("old", SIZES[kind])
    keep(node, remote, old)
    remote.break_puts(taken=False)
    write(node, b"new")
    node.kill()
    process = start_forebay("node", settings=SETTINGS, env={"FOREBAY_FAULT": "in_doubt.asked:1:kill"})
    assert not get(process).whole and process.popen.wait(PATIENCE) == -9
    remote.put(PATH, b"newest")
    process = start_forebay("node", settings=SETTINGS)
    assert get(process).body == b"newest"


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("what", ["another body", "other metadata", "a later time"])
def test_an_in_doubt_write_that_the_remote_applied_is_shown(node, remote, kind, what):
    """Bytes that are the same do not make it the same version."""
    old = body_of("old", SIZES[kind])
    keep(node, remote, old)
    then = remote.objects[PATH][1]["Last-Modified"]
    more = {"x-amz-meta-a": "2", "Last_Modified": then} if what == "other metadata" else {}
    remote.break_puts(taken=True, **more)
    body = body_of("new", SIZES[kind]) if what == "another body" else old
    write(node, body)
    remote.asked()
    for _ in range(2):
        reply = get(node)
        assert reply.body == body
        assert reply.headers["x-amz-meta-a"] == ("2" if more else "1")
        assert (reply.headers["last-modified"] != then) == (what != "other metadata")
    heads, gets = remote.asked()
    assert heads == 1 and gets >= 1


def test_an_etag_that_tells_a_time_and_a_length(node, remote):
    """As of some gateways: of two versions of one second and length it says nothing."""
    old, new = body_of("old"), body_of("new")
    said = {"ETag": '"69b4c5e0-4b000"', "Last_Modified": "Thu, 01 Jan 2026 00:00:07 GMT"}
    keep(node, remote, old, **said)
    remote.break_puts(taken=True, **said)
    write(node, new)
    remote.asked()
    assert get(node).body == new
    assert remote.asked()[1] == 1


def test_a_delete_that_nobody_answered(node, remote):
    for taken in (False, True):
        keep(node, remote, body_of("old"))

        def answer(request):
            if taken:
                remote.delete(PATH)
            request.reset()

        remote.on("DELETE", PATH, answer)
        assert plain.ask(node.port, "DELETE", BUCKET, "k").status >= 500
        remote.asked()
        reply = get(node)
        assert (reply.status, remote.asked()) == ((404, (1, 1)) if taken else (200, (1, 0)))


def test_a_bucket_that_is_not_there_deletes_nothing(node, remote):
    """A HEAD's 404 does not say which of the two is gone, the object or the bucket (or the way to it)."""
    old = body_of("old")
    keep(node, remote, old)
    remote.break_puts(taken=False)
    write(node, b"new")
    wait_for(lambda: plain.ask(node.port, "HEAD", BUCKET, "none").status == 404, "the remote to be asked")
    gone = b"<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>"
    for method in ("HEAD", "GET"):
        remote.on(method, PATH, lambda request: request.send(404, {"Content-Type": "application/xml"}, gone))
    assert plain.get(node.port, BUCKET, "k").status == 503
    for method in ("HEAD", "GET"):
        remote.handlers.pop((method, PATH))
    remote.asked()
    assert get(node).body == old and remote.asked() == (1, 0)


def test_a_small_one_is_fetched(node, remote):
    """It comes as quickly as a word about it."""
    keep(node, remote, b"old")
    remote.break_puts(taken=False)
    write(node, b"new")
    remote.asked()
    assert get(node).body == b"old" and remote.asked() == (0, 1)


def without_length(request, headers):
    request.send_response(200)
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()


TOO_LITTLE = {
    "refused": lambda request, headers: request.send(405, headers, b""),
    "denied": lambda request, headers: request.send(403, headers, b""),
    "no HEADs": lambda request, headers: request.send(501, headers, b""),
    "no length": without_length,
    "no time": lambda request, headers: request.send(200, {**headers, "Last-Modified": ""}, b"", length=SIZES["whole"]),
    "no ETag": lambda request, headers: request.send(200, {**headers, "ETag": ""}, b"", length=SIZES["whole"]),
}


@pytest.mark.parametrize("answer", TOO_LITTLE)
def test_a_remote_that_says_too_little(node, remote, answer):
    old = body_of("old")
    keep(node, remote, old)
    remote.break_puts(taken=False)
    write(node, b"new")
    headers = dict(remote.objects[PATH][1])
    remote.on("HEAD", PATH, lambda request: TOO_LITTLE[answer](request, headers))
    remote.asked()
    assert get(node).body == old and remote.asked() == (1, 1)


@pytest.mark.parametrize("status", [0, 500, 503])
def test_a_remote_in_trouble_is_not_asked_twice(node, remote, status):
    """The reader waits as long as for any remote that does not answer, and no longer."""
    old = body_of("old")
    keep(node, remote, old)
    remote.break_puts(taken=False)
    write(node, b"new")
    wait_for(lambda: plain.ask(node.port, "HEAD", BUCKET, "none").status == 404, "the remote to be asked")
    remote.on("HEAD", PATH, lambda request: request.send(status, {}, b"") if status else request.reset())
    remote.asked()
    assert plain.get(node.port, BUCKET, "k").status == 503
    heads, gets = remote.asked()
    assert heads >= 1 and gets == 0
    remote.handlers.pop(("HEAD", PATH))
    assert get(node).body == old and remote.asked() == (1, 0)


PAIRS = {"x-amz-meta-a": "1", "x-amz-meta-b": "2"}


@pytest.mark.parametrize("then", ["nothing", "the same once more", "another body", "other metadata", "an ETag of its own"])
def test_what_was_written_through_here(node, remote, then):
    """Its time is ours and not the remote's, but its ETag is the MD5 of its bytes: with the same metadata that is all of it."""
    old, new = body_of("written"), body_of("another")
    known = {"x-amz-meta-b": "2"}
    if then == "an ETag of its own":
        known |= {"ETag": '"0123456789abcdef0123456789abcdef"', "x-amz-server-side-encryption": "aws:kms"}

    def take(request):
        remote.put(PATH, request.body, **known)
        request.send(200, {"ETag": remote.objects[PATH][1]["ETag"]}, b"")

    remote.on("PUT", PATH, take)
    assert plain.ask(node.port, "PUT", BUCKET, "k", old, headers=PAIRS).status == 200
    assert get(node).body == old and remote.asked() == (0, 0)
    if then == "other metadata":
        known["x-amz-meta-b"] = "3"
    remote.break_puts(taken=then not in ("nothing", "an ETag of its own"), **known)
    assert plain.ask(node.port, "PUT", BUCKET, "k", new if then == "another body" else old, headers=PAIRS).status >= 500
    remote.asked()
    reply = get(node)
    assert reply.body == (new if then == "another body" else old) and reply.headers["x-amz-meta-b"] == known["x-amz-meta-b"]
    assert remote.asked() == (1, int(then not in ("nothing", "the same once more")))


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("kind", SIZES)
def test_a_write_while_the_remote_is_asked(node, remote, kind, answered):
    """The HEAD says that nothing has changed, and comes in behind a write that has changed it: that write stays in doubt."""
    old, new = body_of("old", SIZES[kind]), body_of("new", SIZES[kind])
    keep(node, remote, old)
    remote.break_puts(taken=False)
    write(node, b"lost")
    asked, gate = threading.Event(), threading.Event()

    def held(request):
        _, headers = remote.objects[PATH]
        asked.set()
        assert gate.wait(PATIENCE)
        request.send(200, headers, b"", length=len(old))

    remote.on("HEAD", PATH, held)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        reader = pool.submit(get, node)
        assert asked.wait(PATIENCE)
        remote.handlers.pop(("HEAD", PATH))
        if answered:
            remote.handlers.pop(("PUT", PATH))
            assert plain.ask(node.port, "PUT", BUCKET, "k", new).status == 200
        else:
            remote.break_puts(taken=True)
            write(node, new)
        gate.set()
        assert reader.result().body in (old, new)
    for _ in range(2):
        assert get(node).body == new


class Halves:
    """The first GETs of the object: half of it, and the other half once `gate` is set. Of an empty one the head waits."""

    def __init__(self, remote, body):
        self.half, self.gate = threading.Event(), threading.Event()
        self.remote, self.body = remote, body
        remote.on("GET", PATH, self.answer)

    def answer(self, request):
        self.remote.handlers.pop(("GET", PATH), None)
        _, headers = self.remote.objects[PATH]
        if self.body:
            request.send(200, headers, self.body[: len(self.body) // 2], length=len(self.body))
        self.half.set()
        assert self.gate.wait(PATIENCE)
        if self.body:
            request.raw(self.body[len(self.body) // 2 :])
        else:
            request.send(200, headers, b"")


OVERTAKING = {
    "a PUT": lambda process: plain.ask(process.port, "PUT", BUCKET, "k", b"new").status == 200,
    "a lost PUT": lambda process: plain.ask(process.port, "PUT", BUCKET, "k", b"new").status >= 500,
    "a DELETE": lambda process: plain.ask(process.port, "DELETE", BUCKET, "k").status == 204,
}


def begin_slowly(process):
    """A GET by a client that takes little: (connection, reply, its first KiB)."""
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=PATIENCE)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
    connection.sock.settimeout(PATIENCE)
    connection.sock.connect(("127.0.0.1", process.port))
    connection.request("GET", PATH)
    reply = connection.getresponse()
    return connection, reply, reply.read(KIB)


SLOW_SIZE = 16 * 1024 * KIB  # more than what lies in sockets


@pytest.mark.parametrize("how", OVERTAKING)
def test_a_slow_reader_that_a_write_overtakes(whole, remote, how):
    """What he reads is never kept, and comes whole all the same."""
    body = body_of("old", SLOW_SIZE)
    remote.put(PATH, body)
    halves = Halves(remote, body)
    connection, reply, first = begin_slowly(whole)
    assert halves.half.wait(PATIENCE)
    if how == "a lost PUT":
        remote.break_puts(taken=False)
    assert OVERTAKING[how](whole)
    halves.gate.set()
    wait_for(lambda: "was written while it was fetched" in whole.log(), "the fetch to be aborted")
    now = {"a PUT": (200, b"new"), "a lost PUT": (200, body), "a DELETE": (404, None)}[how]
    for read in (False, True):  # what others get beside him, and afterwards
        other = get(whole)
        assert (other.status, other.body if other.status == 200 else None) == now
        if not read:
            assert first + reply.read() == body
    connection.close()


def reclaimed(process):
    return sum(value for name, value in process.metrics().items() if name.startswith("forebay_reclaimed_bytes_total"))


def test_a_slow_reader_of_what_is_evicted(whole, remote):
    """It was whole here, and is given back before he comes to it: the rest is the remote's, of the same version."""
    body = body_of("old", SLOW_SIZE)
    remote.put(PATH, body)
    connection, reply, first = begin_slowly(whole)
    wait_for(lambda: plain.get(whole.port, BUCKET, "k").headers["x-forebay-cache"] == "hit", "it to be kept")
    before = reclaimed(whole)
    done = subprocess.run([str(whole.binary), "evict", f"s3://{BUCKET}/k"], env=server_env({"FOREBAY_ENDPOINT": whole.endpoint}), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(lambda: reclaimed(whole) >= before + SLOW_SIZE, "its place to be given back")
    assert first + reply.read() == body
    connection.close()


class HalvesOfChunks:
    """The same of GETs of ranges, until `gate` is set."""

    def __init__(self, remote, body):
        self.half, self.gate = threading.Event(), threading.Event()
        self.remote, self.body = remote, body
        remote.on("GET", PATH, self.answer)

    def answer(self, request):
        if "Range" not in request.headers or self.gate.is_set():
            return request._object(self.remote)
        first, last = (int(end) for end in request.headers["Range"].removeprefix("bytes=").split("-"))
        part = self.body[first : last + 1]
        head = {**self.remote.objects[PATH][1], "Content-Range": f"bytes {first}-{last}/{len(self.body)}"}
        request.send(206, head, part[: len(part) // 2], length=len(part))
        self.half.set()
        assert self.gate.wait(PATIENCE)
        request.raw(part[len(part) // 2 :])


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_while_it_comes(start_forebay, remote, tmp_path, error, kind):
    """What cannot be kept is read on at the remote."""
    faults = DiskFaults(tmp_path / "faults")
    large = {"whole": {"cache.large": "64MiB"}, "chunks": {"cache.large": str(SLOW_SIZE), "cache.chunk": str(SLOW_SIZE)}}
    process = start(start_forebay, remote, {**SETTINGS, **large[kind]}, env=faults.env)
    body = body_of("old", SLOW_SIZE if kind == "whole" else 2 * SLOW_SIZE)
    remote.put(PATH, body)
    halves = (Halves if kind == "whole" else HalvesOfChunks)(remote, body)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        reader = pool.submit(plain.get, process.port, BUCKET, "k")
        assert halves.half.wait(PATIENCE)
        faults.break_(WRITE, error=error)
        halves.gate.set()
        reply = reader.result()
    faults.mend()
    assert reply.status == 200 and reply.whole and reply.body == body
    assert kind == "chunks" or remote.asked() == (0, 2)


def test_the_end_of_what_comes_from_a_remote_without_etags_in_parts(whole, remote):
    """It does not wait for what is before it, and no bytes of another answer are before it. Up to 8 MiB it would: those are proved whole."""
    body = body_of("k", 9 * 1024 * KIB)
    remote.put(PATH, body)
    gate = threading.Event()

    def answer(request):
        headers = dict(remote.objects[PATH][1])
        if "Range" in request.headers:
            first, last = (int(end) for end in request.headers["Range"].removeprefix("bytes=").split("-"))
            headers.pop("ETag")
            return request.send(206, {**headers, "Content-Range": f"bytes {first}-{last}/{len(body)}"}, body[first : last + 1])
        request.send(200, headers, body[: len(body) // 2], length=len(body))
        assert gate.wait(PATIENCE)
        return request.raw(body[len(body) // 2 :])

    remote.on("GET", PATH, answer)
    try:
        reply = plain.get(whole.port, BUCKET, "k", headers={"Range": f"bytes={len(body) - KIB}-"})
        assert reply.status == 206 and reply.body == body[-KIB:]
    finally:
        gate.set()


@pytest.mark.parametrize("all_came", [False, True])
def test_a_stop_beside_a_slow_reader_that_a_write_overtook(whole, remote, all_came):
    """Neither he nor the remote is waited for."""
    body = body_of("old", SLOW_SIZE)
    remote.put(PATH, body)
    halves = Halves(remote, body)
    connection, reply, first = begin_slowly(whole)
    assert halves.half.wait(PATIENCE)
    assert plain.ask(whole.port, "PUT", BUCKET, "k", b"new").status == 200
    if all_came:
        halves.gate.set()
        wait_for(lambda: "was written while it was fetched" in whole.log(), "the fetch to be aborted")
    assert get(whole).body == b"new"
    whole.end()
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        assert first + reply.read() == body
    halves.gate.set()
    connection.close()


@pytest.mark.parametrize("size", [0, 1, 300 * KIB, 3 * 1024 * KIB])
def test_many_readers_that_a_write_overtakes(whole, remote, size):
    body = body_of("old", size)
    remote.put(PATH, body)
    halves = Halves(remote, body)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        readers = [pool.submit(plain.get, whole.port, BUCKET, "k") for _ in range(16)]
        assert halves.half.wait(PATIENCE)
        assert plain.ask(whole.port, "PUT", BUCKET, "k", b"new").status == 200
        halves.gate.set()
        replies = [reader.result() for reader in readers]
    assert all(reply.status == 200 and reply.body in (body, b"new") for reply in replies)
    assert get(whole).body == b"new"


@pytest.mark.parametrize("kind", SIZES)
def test_writes_that_follow_each_other(node, remote, kind):
    """Each time the remote is asked another write comes, and its outcome is unknown: the answer is the remote's, not kept."""
    old = body_of("old", SIZES[kind])
    keep(node, remote, old)
    remote.break_puts(taken=False)
    write(node, b"lost")

    def overtaken(request):
        _, headers = remote.objects[PATH]
        write(node, b"lost too")
        request.send(200, headers, b"", length=len(old))

    remote.on("HEAD", PATH, overtaken)
    remote.asked()
    reply = get(node)
    assert (reply.status, reply.body, remote.asked()) == (200, old, (1, 1))
    remote.handlers.pop(("HEAD", PATH))
    assert get(node).body == old and remote.asked() == (1, 0)


def test_on_two_disks(start_forebay, remote, tmp_path):
    """Each is asked about on the disk that has it."""
    process = start_forebay("one", args=[str(tmp_path / "two")], settings=SETTINGS)
    assert attach(process, BUCKET, remote.endpoint).returncode == 0
    keys = [f"k{number}" for number in range(8)]
    for key in keys:
        remote.put(f"/{BUCKET}/{key}", body_of(key))
        assert plain.get(process.port, BUCKET, key).body == body_of(key)
        wait_for(lambda: plain.get(process.port, BUCKET, key).headers["x-forebay-cache"] == "hit", "it to be kept")  # noqa: B023
        remote.on("PUT", f"/{BUCKET}/{key}", lambda request: request.reset())
        assert plain.ask(process.port, "PUT", BUCKET, key, b"new").status >= 500
    wait_for(lambda: plain.ask(process.port, "HEAD", BUCKET, "none").status == 404, "the remote to be asked")
    remote.seen.clear()
    for _ in range(2):
        for key in keys:
            assert plain.get(process.port, BUCKET, key).body == body_of(key)
    assert all(remote.seen[f"HEAD /{BUCKET}/{key}"] == 1 and remote.seen[f"GET /{BUCKET}/{key}"] == 0 for key in keys), remote.seen


def test_what_was_not_sent_is_not_in_doubt(start_forebay):
    """A remote that refuses the connection has not got the request: what is kept stays as it is, and is served."""
    with Remote() as remote:
        handler = remote.server.RequestHandlerClass
        remote.server.RequestHandlerClass = type("Closing", (handler,), {"protocol_version": "HTTP/1.0"})  # no connection is kept
        process = start(start_forebay, remote, SETTINGS)
        keep(process, remote, body_of("kept"))
    for method, body in (("DELETE", None), ("PUT", b"new"), ("DELETE", None)):
        assert plain.ask(process.port, method, BUCKET, "k", body).status >= 500
        reply = plain.get(process.port, BUCKET, "k")
        assert (reply.status, reply.body, reply.headers["x-forebay-cache"]) == (200, body_of("kept"), "hit"), method
