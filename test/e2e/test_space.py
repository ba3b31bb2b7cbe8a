"""F1: a full disk refuses objects in words, and reads, lists and deletes; space of deleted objects comes back; quotas."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import threading
import time

import botocore.exceptions
import pytest
from rigs import forebay
from rigs.process import PATIENCE, Patience

import plain
from conftest import boto


def ask(port, method, path, body=None, headers=None):
    """One unsigned request for "/bucket/key?query"."""
    path, _, query = path[1:].partition("?")
    bucket, _, key = path.partition("/")
    return plain.ask(port, method, bucket, key, body, headers, query)


SIZES = (1_000, 4_000, 100_000, 300_000, 1_000_000)


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a file system of that size in memory; skipped, in words, where that is not allowed."""
    mounted = []

    def mount(options):
        path = tmp_path / f"disk-{len(mounted)}"
        path.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True, text=True
        )
        if done.returncode != 0:
            pytest.skip(f"a file system of its own needs root: mount: {done.stderr.strip()}")
        mounted.append(path)
        return path.relative_to(tmp_path) / "data"

    yield mount
    for path in mounted:
        subprocess.run(["umount", "-l", str(path)], check=True)


def body(number, size):
    return (b"%08d" % number) * (size // 8)


def fill(port, most=100_000):
    """PUTs until one is refused: what was taken, and the refusal."""
    rng = random.Random(1)
    taken = {}
    for number in range(most):
        data = body(number, rng.choice(SIZES))
        answer = ask(port, "PUT", f"/bucket/key-{number}", data)
        if answer.status != 200:
            return taken, answer
        taken[f"key-{number}"] = data
    raise AssertionError("it never got full")


def wrong(port, objects):
    """Keys that do not read back as they were put."""
    bad = []
    for key, data in objects.items():
        answer = ask(port, "GET", f"/bucket/{key}")
        if answer.status != 200 or answer.body != data:
            bad.append(key)
    return bad


def until_taken(port, key):
    """Seconds until a PUT is taken again."""
    begun, patience = time.monotonic(), Patience()
    while ask(port, "PUT", f"/bucket/{key}", b"x" * 3000).status != 200:
        assert not patience.is_over(), "writes do not resume"
        time.sleep(0.1)
    return time.monotonic() - begun


def check_is_sound(process):
    process.end()
    checked = subprocess.run(
        [process.binary, "disk", "check", str(process.data_dir)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def take_all(process, inodes):
    """Another program takes the last block, or the last inode: its files."""
    others = []
    with contextlib.suppress(OSError):
        for _ in range(1000 if inodes else 1):
            others.append(process.data_dir.parent / f"another-program-{time.monotonic_ns()}")
            with open(others[-1], "wb", buffering=0) as file:
                for piece in () if inodes else (1 << 20, 4096):
                    with contextlib.suppress(OSError):
                        while file.write(bytes(piece)) == piece:
                            pass
    left = os.statvfs(process.data_dir)
    assert (left.f_ffree if inodes else left.f_bavail) == 0
    return others


def is_read_and_delete_only(port, taken, key):
    refused, patience = None, Patience()
    while refused is None or b"the disk is full" not in refused.body:  # a second until it looks again
        assert not patience.is_over(), refused.body
        refused = ask(port, "PUT", "/bucket/new", body(2, 300_000))
        if refused.status == 200:
            taken["new"] = body(2, 300_000)
        time.sleep(0.1)
    assert refused.status == 507
    assert not wrong(port, {k: taken[k] for k in list(taken)[:20]})
    assert ask(port, "GET", "/bucket?list-type=2&max-keys=10").status == 200
    assert ask(port, "DELETE", f"/bucket/{key}").status == 204
    assert ask(port, "GET", f"/bucket/{key}").status == 404
    del taken[key]


@pytest.mark.parametrize("options", ["size=160m", "size=1g,nr_inodes=52"], ids=["blocks", "inodes"])
def test_a_full_disk(start_forebay, small_disk, options):
    """Full while it serves; then killed, filled to the last block or inode by another program, and started: more than once."""
    inodes = "size=160m" not in options
    disk, settings = small_disk(options), {"disk.segment_bytes": "16MiB" if inodes else "64MiB"}
    process = start_forebay(disk, settings=settings)
    port = process.port
    assert ask(port, "PUT", "/bucket").status == 200
    taken, refused = fill(port)
    assert refused.status == 507 and b"<Code>InsufficientStorage</Code>" in refused.body
    assert (b"inodes (files) are free" if inodes else b"MiB") in refused.body
    assert len(taken) > 100 and not wrong(port, taken)
    others = []
    for key in list(taken)[:2]:
        process.kill()
        others += take_all(process, inodes)
        process = start_forebay(disk, settings=settings)
        port = process.port
        others += take_all(process, inodes)  # what the start gave back
        is_read_and_delete_only(port, taken, key)
    for key in list(taken)[::2]:
        assert ask(port, "DELETE", f"/bucket/{key}").status == 204
        del taken[key]
    if inodes:  # what it deletes in segments that live on gives no inode back
        for path in others:
            path.unlink(missing_ok=True)
    print(f"{len(taken)} objects stay; writes resumed after {until_taken(port, 'again'):.1f} s")
    assert not wrong(port, taken)
    check_is_sound(process)


def test_too_full_to_start(start_forebay, small_disk, tmp_path):
    """A new disk with 12 inodes, and one whose kept room is gone too: one sentence with the numbers, and it starts when there is room."""
    folder = tmp_path / small_disk("size=64m,nr_inodes=13")
    ran = subprocess.run([forebay.binary(), "serve", str(folder), "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode != 0 and "of the 13 inodes (files) of its file system are free" in ran.stderr and str(folder) in ran.stderr, ran.stderr


def test_a_full_disk_lets_an_attached_bucket_through(start_forebay, small_disk):
    """Another program's file takes the last block: what is cold comes from its remote, uncached; writes are refused in words."""
    origin = start_forebay("origin")
    objects = {f"cold-{n}": body(n, 200_000 if n % 3 else 2000) for n in range(20)}
    remote = boto(origin.endpoint, origin.keys())
    remote.create_bucket(Bucket="remote")
    for key, data in objects.items():
        remote.put_object(Bucket="remote", Key=key, Body=data)
    process = start_forebay(small_disk("size=200m"))
    keys = origin.keys()
    env = {**os.environ, "AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1]}
    attach = [process.binary, "bucket", "attach", "s3://remote", "--endpoint", origin.endpoint, "--store-credentials", "--endpoint-url", process.endpoint]
    attached = subprocess.run(attach, env=env, capture_output=True, text=True)
    assert attached.returncode == 0, attached.stderr
    port = process.port
    assert ask(port, "PUT", "/bucket").status == 200
    assert ask(port, "PUT", "/bucket/kept", body(1, 3000)).status == 200
    others = process.data_dir.parent / "another-program"
    with open(others, "wb", buffering=0) as file:
        for piece in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while file.write(bytes(piece)) == piece:
                    pass
    assert os.statvfs(process.data_dir).f_bavail == 0
    for key, data in objects.items():
        answer = ask(port, "GET", f"/remote/{key}")
        assert (answer.status, answer.body) == (200, data), key
    for path in ("/bucket/new", "/remote/new"):
        refused = ask(port, "PUT", path, body(2, 300_000))
        assert refused.status == 507 and b"disk is full" in refused.body, (path, refused.body)
    assert ask(port, "DELETE", "/bucket/kept").status == 204
    assert ask(port, "GET", "/bucket/kept").status == 404
    others.unlink()
    until_taken(port, "again")
    assert not {key for key, data in objects.items() if ask(port, "GET", f"/remote/{key}").body != data}
    check_is_sound(process)


def test_a_body_that_cannot_fit_is_not_asked_for(start_forebay, small_disk):
    """Without its first byte, and without 100-continue."""
    process = start_forebay(small_disk("size=160m"))
    assert ask(process.port, "PUT", "/bucket").status == 200
    answer = ask(
        process.port, "PUT", "/bucket/large", headers={"Content-Length": str(400 << 20), "Expect": "100-continue"}
    )
    assert answer.status == 507 and b"not fit" in answer.body


def test_doctor_says_what_fills_a_disk_unseen(start_forebay, small_disk):
    """Listings do not show parts of unfinished uploads."""
    process = start_forebay(small_disk("size=160m"))
    assert ask(process.port, "PUT", "/bucket").status == 200
    upload = re.search(b"<UploadId>([^<]+)", ask(process.port, "POST", "/bucket/key?uploads").body)[1].decode()
    number, status = 0, 200
    while status == 200:
        number += 1
        status = ask(process.port, "PUT", f"/bucket/key?partNumber={number}&uploadId={upload}", body(number, 8 << 20)).status
    assert status == 507 and number > 5
    done = subprocess.run([process.binary, "doctor", "--endpoint-url", process.endpoint], env=forebay.server_env(), capture_output=True, text=True, timeout=PATIENCE)
    (space,) = (line for line in done.stdout.splitlines() if " space " in line)
    assert done.returncode == 1 and space.startswith("WRONG") and f"{8 * (number - 1)}.0 MiB are in unfinished uploads" in space, done.stdout


def segment_bytes(process):
    return sum(path.stat().st_blocks * 512 for path in pathlib.Path(process.data_dir).rglob("*.tar"))


def test_deleted_objects_give_their_space_back(start_forebay):
    process = start_forebay()
    port = process.port
    assert ask(port, "PUT", "/bucket").status == 200
    objects = {f"key-{n}": body(n, SIZES[n % len(SIZES)]) for n in range(300)}
    for key, data in objects.items():
        assert ask(port, "PUT", f"/bucket/{key}", data).status == 200
    for n in range(300):
        if n % 3 != 0:
            assert ask(port, "DELETE", f"/bucket/key-{n}").status == 204
            del objects[f"key-{n}"]
    living = sum(len(data) for data in objects.values())
    # What is allocated ahead stays: a log of 16 MiB and the next one, and the last segment of bodies (64 MiB, of which holes are punched).
    patience = Patience()
    while segment_bytes(process) > living + (2 * 16 + 64 << 20) or process.metrics()['forebay_reclaimed_bytes_total{how="punch"}'] == 0:  # counted behind it
        assert not patience.is_over(), (segment_bytes(process), living)
        time.sleep(0.5)
    assert not wrong(port, objects)
    check_is_sound(process)


def refused_by_quota(call):
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call()
    assert error.value.response["Error"]["Code"] == "QuotaExceeded", error.value.response
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_quotas(start_forebay):
    process = start_forebay()
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="bucket")

    def set_quota(**members):
        answer = ask(process.port, "PATCH", "/_/buckets/bucket", json.dumps(members).encode())
        assert answer.status == 200, answer.body

    def put(key, size):
        client.put_object(Bucket="bucket", Key=key, Body=os.urandom(size))

    set_quota(quota_objects=3)
    for n in range(3):
        put(f"k{n}", 1000)
    refused_by_quota(lambda: put("k3", 1))
    put("k0", 2000)  # replacing makes it no more
    client.delete_object(Bucket="bucket", Key="k1")
    put("k3", 1)
    set_quota(quota_objects=0, quota_bytes=100_000)
    refused_by_quota(lambda: put("large", 200_000))
    upload = client.create_multipart_upload(Bucket="bucket", Key="parts")["UploadId"]
    refused_by_quota(
        lambda: client.upload_part(Bucket="bucket", Key="parts", UploadId=upload, PartNumber=1, Body=bytes(200_000))
    )
    set_quota(quota_bytes=0)
    put("large", 200_000)
    keys = [o["Key"] for o in client.list_objects_v2(Bucket="bucket")["Contents"]]
    assert keys == ["k0", "k2", "k3", "large"]


def begin_put(port, path, size):
    """A PUT whose head is taken, and whose body is asked for: the socket; None and the answer where it is refused."""
    s = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    s.sendall(
        f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode()
    )
    first = s.recv(65536)
    if first.startswith(b"HTTP/1.1 100 "):
        return s, first
    answer = first + b"".join(iter(lambda: s.recv(65536), b""))
    s.close()
    return None, answer


def end_put(s, body):
    with s:
        s.sendall(body)
        return b"".join(iter(lambda: s.recv(65536), b""))


def test_bodies_on_their_way_count_in_quotas(start_forebay):
    """Bodies that are under way at once never pass a quota together, in objects, bytes and parts; each that ends gives back what
    it had announced: committed, refused, cut off, replaced, completed."""
    process = start_forebay()
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="bucket")

    def set_quota(**members):
        answer = ask(process.port, "PATCH", "/_/buckets/bucket", json.dumps(members).encode())
        assert answer.status == 200, answer.body

    def begin(key, size):
        return begin_put(process.port, f"/bucket/{key}", size)

    set_quota(quota_objects=3)
    under_way = [begin(f"k{n}", 10) for n in range(3)]
    assert all(s for s, _ in under_way)
    none, answer = begin("k3", 10)
    assert none is None and answer.startswith(b"HTTP/1.1 403 ") and b"0 objects, older versions counted, and 3 are on their way" in answer
    under_way.pop()[0].close()  # its client is gone
    until = time.monotonic() + PATIENCE
    while (again := begin("k4", 10))[0] is None:
        assert time.monotonic() < until, again
    assert end_put(again[0], bytes(10)).startswith(b"HTTP/1.1 200 ")
    for s, _ in under_way:
        assert end_put(s, bytes(10)).startswith(b"HTTP/1.1 200 ")
    refused_by_quota(lambda: client.put_object(Bucket="bucket", Key="k5", Body=b"x"))
    two = [begin("k0", 10), begin("k0", 10)]  # both take the place of one that is there
    answers = [end_put(s, bytes(10))[:13] for s, _ in two]
    assert answers[0] == b"HTTP/1.1 200 " and answers[1] in (b"HTTP/1.1 200 ", b"HTTP/1.1 503 "), answers

    set_quota(quota_objects=0, quota_bytes=10_000)
    upload = client.create_multipart_upload(Bucket="bucket", Key="parts")["UploadId"]
    first, _ = begin(f"parts?partNumber=1&uploadId={upload}", 6_000)
    none, answer = begin("large", 6_000)
    assert none is None and b"6000 are on their way" in answer
    part = end_put(first, bytes(6_000))
    assert part.startswith(b"HTTP/1.1 200 ")
    copied, _ = begin("other", 3_000)
    refused_by_quota(lambda: client.put_object(Bucket="bucket", Key="more", Body=bytes(3_000)))
    assert end_put(copied, bytes(3_000)).startswith(b"HTTP/1.1 200 ")
    refused_by_quota(lambda: client.copy_object(Bucket="bucket", Key="copy", CopySource="bucket/other"))
    etag = client.list_parts(Bucket="bucket", Key="parts", UploadId=upload)["Parts"][0]["ETag"]
    client.complete_multipart_upload(
        Bucket="bucket", Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}
    )
    assert held(process)["bytes"] == 9_030
    client.put_object(Bucket="bucket", Key="rest", Body=bytes(970))  # all of it was given back
    refused_by_quota(lambda: client.put_object(Bucket="bucket", Key="more", Body=b"x"))


@pytest.mark.parametrize("disks", [1, 3])
def test_a_crowd_does_not_pass_a_quota(start_forebay, tmp_path, disks):
    """Sixteen clients put as fast as they can, again and again; no look at the bucket shows more than its quota, and when they
    have left it is to be filled to the last object."""
    process = start_forebay("data", args=[str(tmp_path / f"more{n}") for n in range(disks - 1)])
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="bucket")
    settings = {"quota_objects": 20, "quota_bytes": 60_000} | ({"copies": 2} if disks > 1 else {})
    assert ask(process.port, "PATCH", "/_/buckets/bucket", json.dumps(settings).encode()).status == 200
    taken, refused, wrong = [], [], []

    def crowd(who):
        rng = random.Random(who)
        for n in range(40):
            key = f"{rng.randrange(30):02}"
            if rng.random() < 0.25:
                ask(process.port, "DELETE", f"/bucket/{key}")
                continue
            status = ask(process.port, "PUT", f"/bucket/{key}", bytes(rng.randrange(5_000))).status
            (taken if status == 200 else refused if status in (403, 503) else wrong).append(status)
            has = held(process)
            if has["objects"] > 20 or has["bytes"] > 60_000:
                wrong.append(has)

    crowds = [threading.Thread(target=crowd, args=(who,)) for who in range(16)]
    for one in crowds:
        one.start()
    for one in crowds:
        one.join()
    assert not wrong and taken and refused.count(403) > 0, wrong
    for n in range(30):
        ask(process.port, "DELETE", f"/bucket/{n:02}")
    for n in range(20):
        client.put_object(Bucket="bucket", Key=f"last{n}", Body=bytes(3_000))
    refused_by_quota(lambda: client.put_object(Bucket="bucket", Key="more", Body=b""))


def held(process, bucket="bucket"):
    """What the server says that a bucket holds."""
    found = json.loads(ask(process.port, "GET", "/_/buckets").body)["buckets"]
    return next(b for b in found if b["name"] == bucket)["holds"]


@pytest.mark.parametrize("disks", [1, 3])
def test_parts_of_open_uploads_count_in_quotas(start_forebay, tmp_path, disks):
    """A part is refused before its body; what completes, aborts or replaces them gives them back; restarts and a lost index
    count the same. On several disks with two copies each part counts once."""
    more = [str(tmp_path / f"more{n}") for n in range(disks - 1)]
    process = start_forebay("data", args=more)
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="bucket")
    settings = {"quota_bytes": 12 << 20} | ({"copies": 2} if disks > 1 else {})
    answer = ask(process.port, "PATCH", "/_/buckets/bucket", json.dumps(settings).encode())
    assert answer.status == 200, answer.body

    def begin(key):
        return client.create_multipart_upload(Bucket="bucket", Key=key)["UploadId"]

    def part(key, upload, number, size):
        body = os.urandom(1000) + bytes(size - 1000)
        return client.upload_part(Bucket="bucket", Key=key, UploadId=upload, PartNumber=number, Body=body)["ETag"]

    def refused_before_its_body(key, upload, number, size):
        with socket.create_connection(("127.0.0.1", process.port), timeout=60) as s:
            s.sendall(
                f"PUT /bucket/{key}?partNumber={number}&uploadId={upload} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n"
                "Expect: 100-continue\r\nConnection: close\r\n\r\n".encode()
            )
            answer = b"".join(iter(lambda: s.recv(65536), b"")).decode()
            assert answer.startswith("HTTP/1.1 403 ") and "QuotaExceeded" in answer and "100 Continue" not in answer, answer

    one, two = begin("one"), begin("two")
    etags = [part("one", one, 1, 5 << 20)]
    part("two", two, 1, 4 << 20)
    want = {"objects": 0, "bytes": 0, "older": 0, "older_bytes": 0, "open_parts": 2, "open_bytes": 9 << 20}
    assert held(process) == want
    refused_by_quota(lambda: part("one", one, 2, 4 << 20))
    refused_by_quota(lambda: client.put_object(Bucket="bucket", Key="plain", Body=bytes(4 << 20)))
    refused_before_its_body("two", two, 2, 4 << 20)
    part("two", two, 1, 6 << 20)  # takes the place of another: 11 MiB
    etags[0] = part("one", one, 1, (5 << 20) + 7)
    want |= {"open_bytes": (11 << 20) + 7}
    for lost_index in (False, True):
        process.kill()
        if lost_index:
            shutil.rmtree(tmp_path / "data/index")
        process = start_forebay("data", args=more)
        client = boto(process.endpoint, process.keys())
        assert held(process) == want
        refused_by_quota(lambda: part("one", one, 2, 2 << 20))
    client.abort_multipart_upload(Bucket="bucket", Key="two", UploadId=two)
    want |= {"open_parts": 1, "open_bytes": (5 << 20) + 7}
    assert held(process) == want
    etags.append(part("one", one, 2, 6 << 20))  # 11 MiB and a bit: completing adds none, though the quota would not take it again
    done = [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(etags, 1)]
    client.complete_multipart_upload(Bucket="bucket", Key="one", UploadId=one, MultipartUpload={"Parts": done})
    assert held(process) == want | {"objects": 1, "bytes": (11 << 20) + 7, "open_parts": 0, "open_bytes": 0}
    refused_by_quota(lambda: part("two", begin("two"), 1, 2 << 20))
    told, _ = forebay_said("bucket", "ls", "--endpoint-url", process.endpoint)
    assert "1 objects, 11.0 MiB" in told and "in progress" not in told
    process.end()


def test_a_part_of_unknown_length_is_asked_for_again(start_forebay):
    """Chunked, no length said: its quota is asked when all of it is there, and it replaces the one of its number."""
    process = start_forebay()
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="bucket")
    assert ask(process.port, "PATCH", "/_/buckets/bucket", b'{"quota_bytes": 100000}').status == 200
    upload = client.create_multipart_upload(Bucket="bucket", Key="k")["UploadId"]

    def part(number, size):
        with socket.create_connection(("127.0.0.1", process.port), timeout=PATIENCE) as s:
            s.sendall(
                f"PUT /bucket/k?partNumber={number}&uploadId={upload} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
                f"Connection: close\r\n\r\n{size:x}\r\n".encode()
                + bytes(size)
                + b"\r\n0\r\n\r\n"
            )
            return b"".join(iter(lambda: s.recv(65536), b""))

    assert part(1, 60_000).startswith(b"HTTP/1.1 200 ")
    answer = part(2, 60_000)
    assert answer.startswith(b"HTTP/1.1 403 ") and b"QuotaExceeded" in answer, answer
    assert held(process)["open_bytes"] == 60_000
    assert part(1, 100_000).startswith(b"HTTP/1.1 200 ")
    assert part(1, 100_001).startswith(b"HTTP/1.1 403 ")
    assert held(process)["open_bytes"] == 100_000
    process.end()


def forebay_said(*args):
    done = subprocess.run([str(forebay.binary()), *args], capture_output=True, env=forebay.server_env(), timeout=PATIENCE, check=True)
    return done.stdout.decode(), done.stderr.decode()


def test_older_versions_count_in_quotas(start_forebay):
    process = start_forebay()
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="bucket")
    client.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    answer = ask(process.port, "PATCH", "/_/buckets/bucket", json.dumps({"quota_bytes": 10_000}).encode())
    assert answer.status == 200, answer.body

    def put(size):
        return client.put_object(Bucket="bucket", Key="key", Body=os.urandom(size))["VersionId"]

    ids = [put(4000), put(4000)]
    refused_by_quota(lambda: put(4000))
    process.kill()
    process = start_forebay()
    client = boto(process.endpoint, process.keys())
    refused_by_quota(lambda: put(4000))
    client.delete_object(Bucket="bucket", Key="key")  # a marker gives nothing back
    refused_by_quota(lambda: put(4000))
    client.delete_object(Bucket="bucket", Key="key", VersionId=ids[0])
    put(4000)
    refused_by_quota(lambda: put(4000))
