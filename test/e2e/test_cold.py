"""The fast tier: a remote bucket attached, read cold once and locally after; and every way a remote can fail.

V5: one fetch for all who wait. D7: a cold GET that fails caches nothing and never looks whole. I6: what came is
checked against what the remote said of it.
"""

import base64
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import re
import stat
import subprocess
import time

import pytest
from botocore.exceptions import ClientError
from rigs import forebay
from rigs.process import PATIENCE, Patience, free_ports

import plain
from conftest import REMOTE_KEYS, boto

MIB = 1024 * 1024
# Few tries, and all the time that a remote on a busy machine may need.
PATIENT = {"backend.timeout": "2m", "backend.connect_timeout": "2m", "backend.retries": 2, "backend.retry_time": "2m"}
# Short waits, for a remote that does not answer at all.
HASTY = {"backend.timeout": "2s", "backend.retries": 2, "backend.retry_time": "3s"}


def attach(process, bucket, endpoint, *more, keys=REMOTE_KEYS):
    """`forebay bucket attach`, with the remote's keys in the AWS chain and our server by FOREBAY_ENDPOINT."""
    env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint, "AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1]})
    command = [process.binary, "bucket", "attach", f"s3://{bucket}", "--endpoint", endpoint, "--store-credentials", *more]
    return subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture
def make_tier(start_forebay, cloud, remote_s3, remote_bucket):
    def make(settings):
        process = start_forebay(settings=settings)
        done = attach(process, remote_bucket, cloud.endpoint)
        assert done.returncode == 0, done.stdout + done.stderr
        cloud.forget()
        return process, cloud, remote_bucket

    return make


@pytest.fixture
def tier(make_tier):
    """(server, proxy, bucket) with the bucket attached; counted from zero."""
    return make_tier(PATIENT)


@pytest.fixture
def hasty_tier(make_tier):
    """The same; the server times out soon."""
    return make_tier(HASTY)


def begin_get(port, bucket, key):
    """A GET whose answer is read by the test: (connection, reply with its head read)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", f"/{bucket}/{key}")
    return connection, connection.getresponse()


def get_of_hasty(process, bucket, key):
    """Once a remote that is as slow as the machine has answered within the two seconds; until then it says that it did not."""
    replies = []

    def answered():
        replies[:] = [plain.get(process.port, bucket, key)]
        assert replies[0].status >= 500 or not replies[0].whole or replies[0].status == 200, replies
        return replies[0].status == 200 and replies[0].whole

    wait_for(answered, "an answer in time")
    return replies[0]


def wait_for(condition, what, timeout=PATIENCE):
    patience = Patience(timeout)
    while not condition():
        assert not patience.is_over(), f"{what}: not after {timeout} s"
        time.sleep(0.05)


# ---- as it should go ----


@pytest.mark.parametrize("size", [0, 1, 16_384, 100_000, 5 * MIB + 3])
def test_cold_once_then_local(tier, remote_s3, size):
    process, cloud, bucket = tier
    body = os.urandom(size)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=body, ContentType="image/png", Metadata={"a": "b"})
    for number in range(3):
        reply = plain.get(process.port, bucket, "k")
        assert reply.status == 200 and reply.body == body
        assert reply.headers["content-type"] == "image/png" and reply.headers["x-amz-meta-a"] == "b"
        assert cloud.requests() == 1, f"read {number + 1}"
    assert cloud.object_bytes() == size
    assert plain.ask(process.port, "HEAD", bucket, "k").headers["content-length"] == str(size)


def test_the_copy_survives_a_restart(tier, remote_s3, start_forebay):
    process, cloud, bucket = tier
    body = os.urandom(300_000)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=body)
    assert plain.get(process.port, bucket, "k").body == body
    process.end()
    again = start_forebay(settings=PATIENT)
    assert plain.get(again.port, bucket, "k").body == body
    assert cloud.requests() == 1


def test_two_hundred_readers_make_one_fetch(tier, remote_s3):
    """V5."""
    process, cloud, bucket = tier
    body = os.urandom(3 * MIB)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=body)
    cloud.settings(latency_ms=300, mib_s=3)
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        replies = list(pool.map(lambda _: plain.get(process.port, bucket, "k"), range(200)))
    assert all(reply.status == 200 and reply.body == body for reply in replies)
    assert cloud.requests() == 1 and cloud.object_bytes() == len(body)


def test_it_streams_while_it_stores(tier, remote_s3):
    """D10: the first bytes leave before the last have come."""
    process, cloud, bucket = tier
    body = os.urandom(4 * MIB)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=body)
    cloud.rule("stall", op="GetObject", after=2 * MIB)
    connection, reply = begin_get(process.port, bucket, "k")
    first = reply.read(MIB)
    cloud.wait_held()
    cloud.release()
    assert first + reply.read() == body
    connection.close()


def test_a_range_of_a_cold_object(tier, remote_s3):
    process, cloud, bucket = tier
    body = os.urandom(2 * MIB)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=body)
    for first, last in ((MIB + 5, MIB + 104), (0, 9), (2 * MIB - 10, 2 * MIB - 1)):
        reply = plain.get(process.port, bucket, "k", headers={"Range": f"bytes={first}-{last}"})
        assert reply.status == 206 and reply.body == body[first : last + 1]
        assert reply.headers["content-range"] == f"bytes {first}-{last}/{len(body)}"
    assert plain.get(process.port, bucket, "k").body == body


def test_a_rate_of_the_remote(make_tier, remote_s3):
    """Slower than it gives: in virtual time and with readers before others test_endpoint.c has it; here, that the option works."""
    process, cloud, bucket = make_tier({**PATIENT, "backend.rate": "2MiB"})
    body = os.urandom(2 * MIB)
    for key in ("a", "b"):
        remote_s3.put_object(Bucket=bucket, Key=key, Body=body)
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert all(reply.body == body for reply in pool.map(lambda key: plain.get(process.port, bucket, key), "ab"))
    assert time.monotonic() - begun > 1  # two seconds less the last pieces


def test_listing_shows_the_remote(tier, remote_s3):
    process, cloud, bucket = tier
    for n in range(25):
        remote_s3.put_object(Bucket=bucket, Key=f"dir{n % 3}/k{n:02d}", Body=b"x" * n)
    client = boto(process.endpoint, process.keys())
    remote = {row["Key"]: (row["Size"], row["ETag"]) for row in remote_s3.list_objects_v2(Bucket=bucket)["Contents"]}
    pages = list(client.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 7}))
    assert {row["Key"]: (row["Size"], row["ETag"]) for page in pages for row in page["Contents"]} == remote
    assert [p["Prefix"] for p in client.list_objects_v2(Bucket=bucket, Delimiter="/")["CommonPrefixes"]] == ["dir0/", "dir1/", "dir2/"]
    assert bucket in [row["Name"] for row in client.list_buckets()["Buckets"]]


def test_writes_go_through(tier, remote_s3):
    process, cloud, bucket = tier
    client = boto(process.endpoint, process.keys())
    for body in (os.urandom(100_000), b"second"):
        client.put_object(Bucket=bucket, Key="k", Body=body, Metadata={"a": "b"})
        there = remote_s3.get_object(Bucket=bucket, Key="k")
        assert there["Body"].read() == body and there["Metadata"] == {"a": "b"}
        assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == body
    client.delete_object(Bucket=bucket, Key="k")
    for each in (client, remote_s3):
        with pytest.raises(ClientError) as error:
            each.get_object(Bucket=bucket, Key="k")
        assert error.value.response["Error"]["Code"] == "NoSuchKey"


def test_multipart_goes_through_call_by_call(tier, remote_s3):
    process, cloud, bucket = tier
    client = boto(process.endpoint, process.keys())
    parts = [os.urandom(5 * MIB), b"tail"]
    upload = client.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    etags = [client.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=n, Body=part)["ETag"] for n, part in enumerate(parts, 1)]
    client.complete_multipart_upload(
        Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": n, "ETag": e} for n, e in enumerate(etags, 1)]}
    )
    assert remote_s3.get_object(Bucket=bucket, Key="m")["Body"].read() == b"".join(parts)
    assert client.get_object(Bucket=bucket, Key="m")["Body"].read() == b"".join(parts)
    upload = client.create_multipart_upload(Bucket=bucket, Key="gone")["UploadId"]
    client.abort_multipart_upload(Bucket=bucket, Key="gone", UploadId=upload)
    assert "Uploads" not in remote_s3.list_multipart_uploads(Bucket=bucket)


def test_beyond_the_budget_it_passes_through(start_forebay, cloud, remote_s3, remote_bucket):
    """Without space a cold GET goes by, whole, and is counted."""
    process = start_forebay(settings={**PATIENT, "cache.budget": "1MiB"})
    assert attach(process, remote_bucket, cloud.endpoint).returncode == 0
    body = os.urandom(2 * MIB)
    remote_s3.put_object(Bucket=remote_bucket, Key="big", Body=body)
    remote_s3.put_object(Bucket=remote_bucket, Key="small", Body=b"small")
    asked = 0
    for _ in range(2):
        assert plain.get(process.port, remote_bucket, "big").body == body
        assert cloud.requests() > asked
        asked = cloud.requests()
    for _ in range(2):
        assert plain.get(process.port, remote_bucket, "small").body == b"small"
    assert cloud.requests() == asked + 1
    bypassed = [value for name, value in process.metrics().items() if name.startswith("forebay_cache_requests_total") and "bypass" in name]
    assert sum(bypassed) == 2


# ---- attaching ----


def test_attach_refuses_a_taken_name(tier, remote_s3):
    process, cloud, bucket = tier
    taken = attach(process, bucket, cloud.endpoint)
    assert taken.returncode == 1 and "--as" in taken.stderr, taken
    assert attach(process, bucket, cloud.endpoint, "--as", "other-name").returncode == 0
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"body")
    assert plain.get(process.port, "other-name", "k").body == b"body"
    with pytest.raises(ClientError) as error:
        boto(process.endpoint, process.keys()).create_bucket(Bucket="other-name")
    assert error.value.response["Error"]["Code"] in ("BucketAlreadyExists", "BucketAlreadyOwnedByYou")


def test_a_dry_run_of_attach_and_set_says_it_and_changes_nothing(start_forebay, cloud, remote_bucket):
    process = start_forebay(settings=PATIENT)

    def buckets():
        return json.loads(process.get("/_/buckets")[1])["buckets"]

    would = attach(process, remote_bucket, cloud.endpoint, "--dry-run")
    assert would.returncode == 0 and would.stdout.startswith(f"would attach s3://{remote_bucket}"), would
    assert attach(process, remote_bucket, cloud.endpoint, "-n", keys=(REMOTE_KEYS[0], "wrong")).returncode == 4
    assert attach(process, "no-such-bucket-there", cloud.endpoint, "-n").returncode == 3
    assert buckets() == [] and stored_sets(process) == []
    assert attach(process, remote_bucket, cloud.endpoint).returncode == 0
    assert attach(process, remote_bucket, cloud.endpoint, "-n").returncode == 1  # the name is taken by now

    def set_it(*flags):
        env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint})
        return subprocess.run([str(process.binary), "bucket", "set", f"s3://{remote_bucket}", *flags], env=env, capture_output=True, text=True)

    before = buckets()
    would = set_it("--ttl", "10m", "--cache-budget", "1GiB", "-n", "--json")
    assert would.returncode == 0 and json.loads(would.stdout)["ttl_ms"] == 600_000, would
    assert set_it("--ttl", "10m", "-n").stdout == f"would set s3://{remote_bucket}\n"
    assert set_it("--copies", "2", "--dry-run").returncode == 2  # it is attached: what would fail fails
    assert buckets() == before
    assert set_it("--ttl", "10m").returncode == 0 and buckets() != before


def test_attach_with_wrong_keys_or_no_bucket_says_so(start_forebay, cloud, remote_bucket):
    process = start_forebay(settings=PATIENT)
    denied = attach(process, remote_bucket, cloud.endpoint, keys=(REMOTE_KEYS[0], "wrong"))
    assert denied.returncode == 4 and remote_bucket in denied.stderr, denied
    missing = attach(process, "no-such-bucket-there", cloud.endpoint)
    assert missing.returncode == 3 and "no-such-bucket-there" in missing.stderr, missing
    (port,) = free_ports(1)
    denied = attach(process, remote_bucket, f"http://127.0.0.1:{port}")
    assert denied.returncode == 5, denied
    assert boto(process.endpoint, process.keys()).list_buckets()["Buckets"] == []


def stored_sets(process):
    return sorted((process.data_dir / ".forebay").rglob("secrets/*"))


def nowhere_on_disk(process, *secrets):
    """None of them stands in any file below the data folder or beside it, in the clear or as hex."""
    forms = [form for s in secrets for form in (s.encode(), s.encode().hex().encode(), base64.b64encode(s.encode())[:-4])]
    files = [p for p in process.data_dir.parent.rglob("*") if p.is_file()]
    assert files
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # one that the server has replaced meanwhile
            data = path.read_bytes()
            assert not any(form in data for form in forms), path


def test_stored_keys_are_sealed(tier, start_forebay, remote_s3):
    """S10: sealed under the node's key in 0600 files, nowhere in the clear; a new key seals them again; a restart opens them."""
    process, cloud, bucket = tier
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"hello")
    assert plain.get(process.port, bucket, "k").body == b"hello"
    one, key = stored_sets(process)[0], process.data_dir / ".forebay/node/secrets.key"
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in (one, key))
    before = one.read_bytes(), key.read_bytes()
    nowhere_on_disk(process, *REMOTE_KEYS)
    done = subprocess.run([process.binary, "secrets", "rotate", "--endpoint-url", process.endpoint], capture_output=True, text=True)
    assert done.returncode == 0 and '"sealed":1' in done.stdout.replace(" ", ""), done.stdout + done.stderr
    assert one.read_bytes() != before[0] and key.read_bytes() != before[1] and len(key.read_bytes()) == 65
    assert REMOTE_KEYS[1] not in str(process.metrics())
    process.end()
    again = start_forebay(settings=PATIENT)
    remote_s3.put_object(Bucket=bucket, Key="k2", Body=b"hello again")
    assert plain.get(again.port, bucket, "k2").body == b"hello again"
    nowhere_on_disk(again, *REMOTE_KEYS)


def test_several_accounts_on_one_node(start_forebay, fake):
    """Each bucket asks its endpoint with its own keys, after a restart too."""
    seen = {}

    def note(request):
        seen[request.path] = request.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
        request.send(200, {"ETag": '"0cc175b9c0f1b6a831c399e269772661"'}, b"a")

    for bucket in ("one", "two"):
        fake.put(f"/{bucket}", b"")
        for key in "kl":
            fake.on("GET", f"/{bucket}/{key}", note)
    process = start_forebay(settings=PATIENT)
    for bucket in ("one", "two"):
        assert attach(process, bucket, fake.endpoint, keys=(f"key-of-{bucket}", "secret" * 5)).returncode == 0
    for bucket in ("one", "two"):
        assert plain.get(process.port, bucket, "k").body == b"a"
    process.end()
    process = start_forebay(settings=PATIENT)
    for bucket in ("two", "one"):
        assert plain.get(process.port, bucket, "l").body == b"a"
    assert seen == {f"/{bucket}/{key}": f"key-of-{bucket}" for bucket in ("one", "two") for key in "kl"}


def test_keys_stored_in_the_clear_are_sealed_at_the_start(tier, start_forebay, remote_s3):
    """As earlier versions, and a restore from a backup, leave them."""
    process, cloud, bucket = tier
    process.end()
    one = stored_sets(process)[0]
    one.write_text(f"[default]\naws_access_key_id = {REMOTE_KEYS[0]}\naws_secret_access_key = {REMOTE_KEYS[1]}\n")
    again = start_forebay(settings=PATIENT)
    nowhere_on_disk(again, *REMOTE_KEYS)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"hello")
    assert plain.get(again.port, bucket, "k").body == b"hello"


def test_a_key_of_secrets_that_stands_elsewhere(tier, start_forebay, remote_s3, tmp_path):
    """`secrets.key_file`: without it the disk alone opens nothing; its bucket says why, the others are served."""
    process, cloud, bucket = tier
    process.end()
    key = tmp_path / "key-elsewhere"
    inside = process.data_dir / ".forebay/node/secrets.key"
    key.write_text("ab" * 32 + "\n" + inside.read_text())  # the old one opens until all is sealed again
    key.chmod(0o600)
    inside.unlink()
    settings = {**PATIENT, "secrets.key_file": key}
    again = start_forebay(settings=settings)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"hello")
    assert plain.get(again.port, bucket, "k").body == b"hello" and not inside.exists()
    again.end()
    key.write_text("ab" * 32 + "\n")
    again = start_forebay(settings=settings)
    remote_s3.put_object(Bucket=bucket, Key="k2", Body=b"hello")
    assert plain.get(again.port, bucket, "k2").body == b"hello"
    again.end()
    key.write_text("cd" * 32 + "\n")
    again = start_forebay(settings=settings)
    reply = plain.get(again.port, bucket, "k3")
    assert reply.status in (403, 502, 503) and plain.get(again.port, bucket, "k").body == b"hello"
    assert "do not open" in again.log()


# ---- remotes that fail ----

SIZE = 2 * MIB


@pytest.mark.parametrize(
    "fault, more",
    [
        ("stall", {"after": 700_000}),
        ("stall", {"after": 0}),
        ("reset", {"after": 0}),
        ("reset", {"after": 700_000}),
        ("reset", {"after": SIZE - 1}),
        ("cut", {"after": 0}),
        ("cut", {"after": 700_000}),
        ("longer", {}),
        ("shorter", {}),
        ("flip", {"after": 0}),
        ("flip", {"after": SIZE - 1}),
        ("flip", {"after": 1_234_567}),
        ("error", {"status": 503}),
        ("error", {"status": 500}),
        ("error", {"status": 403}),
        ("refuse", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(str(v) for v in value.values()) or "always",
)
def test_a_remote_that_keeps_failing(make_tier, remote_s3, fault, more):
    """D7, I6: a clear error or a broken connection, nothing cached; and all is well once the remote is."""
    hasty = fault in ("stall", "longer")
    process, cloud, bucket = make_tier(HASTY if hasty else PATIENT)
    body = os.urandom(SIZE)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=body)
    cloud.rule(fault, op="GetObject", **more)
    begun = time.monotonic()
    reply = plain.get(process.port, bucket, "k", timeout=2 * PATIENCE)
    assert time.monotonic() - begun < PATIENCE, "it waits for a remote that says nothing"
    # A transfer that makes headway each time may be resumed to its end; nothing else may look whole.
    headway = fault in ("stall", "reset", "cut") and more["after"] > 0
    if reply.status == 200 and reply.whole:
        assert headway and reply.body == body, f"{fault}: looked whole"
        return
    if fault != "flip":
        assert body.startswith(reply.body) or reply.status >= 400, "bytes that the remote never had"
    if reply.whole:
        assert reply.status >= 500 or reply.status == 403
        assert b"<Code>" in reply.body and b"<Message>" in reply.body
    cloud.behave()
    cloud.forget()
    assert (get_of_hasty(process, bucket, "k") if hasty else plain.get(process.port, bucket, "k")).body == body
    asked = cloud.requests()
    assert asked == 1 or (hasty and asked > 1), "what failed had been kept"
    assert plain.get(process.port, bucket, "k").body == body
    assert cloud.requests() == asked


@pytest.mark.parametrize("fault", ["stall", "reset", "cut"])
def test_a_transfer_that_breaks_once_goes_on_where_it_broke(make_tier, remote_s3, fault):
    process, cloud, bucket = make_tier({**PATIENT, "backend.timeout": "2s", "backend.retries": 100} if fault == "stall" else PATIENT)
    body = os.urandom(SIZE)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=body)
    cloud.rule(fault, op="GetObject", after=MIB, times=1)
    reply = plain.get(process.port, bucket, "k")
    assert reply.status == 200 and reply.whole and reply.body == body
    asked = cloud.requests()
    assert asked == 2 or (fault == "stall" and asked > 2)  # to a server in a hurry a busy remote stalls more than once
    assert cloud.object_bytes() < SIZE + asked * 128 * 1024, "it started again"
    assert plain.get(process.port, bucket, "k").body == body and cloud.requests() == asked


def test_an_error_that_passes_is_tried_again(tier, remote_s3):
    process, cloud, bucket = tier
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"body")
    cloud.rule("error", op="GetObject", status=503, times=1)
    assert plain.get(process.port, bucket, "k").body == b"body"
    assert cloud.requests() == 2


def test_changed_in_the_middle_of_a_broken_transfer(tier, remote_s3):
    """Half of one version and half of the next is no object (V3)."""
    process, cloud, bucket = tier
    first, second = os.urandom(SIZE), os.urandom(SIZE)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=first)
    cloud.rule("reset", op="GetObject", after=MIB, times=1, hold=True)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        reading = pool.submit(plain.get, process.port, bucket, "k")
        cloud.wait_held()
        remote_s3.put_object(Bucket=bucket, Key="k", Body=second)
        cloud.release()
        reply = reading.result()
    assert not (reply.whole and reply.status == 200) or reply.body in (first, second)
    assert plain.get(process.port, bucket, "k").body == second


def test_a_missing_key_is_asked_and_not_kept(tier, remote_s3):
    process, cloud, bucket = tier
    reply = plain.get(process.port, bucket, "k")
    assert reply.status == 404 and b"NoSuchKey" in reply.body
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"now")
    assert plain.get(process.port, bucket, "k").body == b"now"


def test_the_remote_is_gone(tier, remote_s3):
    """What is here is served; what is not is a 5xx, not a 404; a listing shows what is here and says so."""
    process, cloud, bucket = tier
    for key in ("here", "not"):
        remote_s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert plain.get(process.port, bucket, "here").body == b"here"
    cloud.stop()
    assert plain.get(process.port, bucket, "here").body == b"here"
    reply = plain.get(process.port, bucket, "not")
    assert reply.status in (502, 503, 504), reply
    put = plain.ask(process.port, "PUT", bucket, "new", body=b"new")
    assert put.status >= 500
    listing = plain.ask(process.port, "GET", bucket, query="list-type=2")
    assert listing.status == 200 and b"<Key>here</Key>" in listing.body and b"<Key>not</Key>" not in listing.body
    assert listing.headers["x-forebay-stale"] == "backend-down"


def test_what_a_forebay_in_front_of_a_forebay_lists(tier, remote_s3, start_forebay):
    """The names of a remote that lists only what it has here are no more than that."""
    process, cloud, bucket = tier
    for key in ("here", "not"):
        remote_s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    before = start_forebay("before", settings=PATIENT)
    assert attach(before, bucket, process.endpoint, keys=process.keys()).returncode == 0
    assert plain.get(process.port, bucket, "here").body == b"here"
    listing = plain.ask(before.port, "GET", bucket, query="list-type=2")
    assert b"<Key>not</Key>" in listing.body and "x-forebay-stale" not in listing.headers
    cloud.stop()
    assert plain.get(process.port, bucket, "here").body == b"here"  # on the disk by now
    listing = plain.ask(before.port, "GET", bucket, query="list-type=2")
    assert b"<Key>here</Key>" in listing.body and b"<Key>not</Key>" not in listing.body
    assert listing.headers["x-forebay-stale"] == "backend-down"


def test_a_listing_without_the_remote_is_told_and_deletes_nothing(tier, remote_s3, tmp_path):
    """What is not in it may well be at the remote."""
    process, cloud, bucket = tier
    copy = tmp_path / "copy"
    copy.mkdir()
    for key in ("here", "not"):
        remote_s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
        (copy / key).write_text(key)
    assert plain.get(process.port, bucket, "here").body == b"here"

    def cli(*args, status):
        env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint, "HOME": str(tmp_path)})
        done = subprocess.run([process.binary, *args], env=env, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode in status, done.stdout + done.stderr
        return done

    def doctor(*status):
        (remote,) = (line for line in cli("doctor", status=status).stdout.splitlines() if " remote " in line)
        return remote

    place, note = f"s3://{bucket}", f"note: the remote of s3://{bucket} does not respond"
    assert note not in cli("ls", place, status=(0,)).stderr
    assert re.fullmatch(rf"ok +remote +s3://{bucket} answers", doctor(0, 1))  # 1: this machine has little space left
    cloud.stop()
    assert plain.get(process.port, bucket, "here").body == b"here"  # on the disk by now
    listed = cli("ls", place, status=(0,))
    assert "here" in listed.stdout and " not" not in listed.stdout and listed.stderr.count(note) == 1
    synced = cli("sync", place, str(copy), "--delete", "--yes", status=(1,))
    assert "nothing is deleted: 1 " in synced.stderr and sorted(path.name for path in copy.iterdir()) == ["here", "not"]
    remote = doctor(1)
    assert remote.startswith("WRONG") and f"s3://{bucket}: the remote does not respond" in remote


def test_a_listing_without_the_remote_is_done_in_part(tier, remote_s3, tmp_path):
    """The remote answers all but a listing: what follows one is of what is kept, says so by its exit code, and removes nothing unasked."""
    process, cloud, bucket = tier
    for key in ("here", "not"):
        remote_s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for _ in range(2):  # on disk once a second reader has it
        assert plain.get(process.port, bucket, "here").body == b"here"

    def cli(*args, ends=(1,)):
        env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint, "HOME": str(tmp_path)})
        done = subprocess.run([process.binary, *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode in ends and f"note: the remote of s3://{bucket} does not respond" in done.stderr, done.stdout + done.stderr
        return done

    cloud.rule("error", op="ListObjects", status=500)
    place, kept = f"s3://{bucket}", ["here"]
    for verb in (("cp", "-r", "-q"), ("sync",), ("mv", "-r")):
        folder = tmp_path / verb[0]
        folder.mkdir()
        done = cli(*verb, place, str(folder))
        assert [path.name for path in folder.iterdir()] == kept, verb
    assert "copied, but the source is still there" in done.stderr
    for sides in ((place, str(folder)), (str(folder), place)):
        assert "0 differ, 1 are the same" in cli("diff", *sides).stderr
    assert cli("cat", f"{place}/*e*").stdout == "here"
    assert cli("find", place, "-o", "name", ends=(0,)).stdout == f"{place}/here\n"
    for unasked in (("rm", "-r", place), ("rb", "--force", "--remote", "--yes", place)):
        assert "nothing is deleted" in cli(*unasked).stderr
    assert {entry["Key"] for entry in remote_s3.list_objects_v2(Bucket=bucket)["Contents"]} == {"here", "not"}
    cli("rm", "-r", "--yes", place, ends=(1, 5))  # 5: the remote is left alone by now


def test_a_put_that_the_remote_refuses_changes_nothing(tier, remote_s3):
    process, cloud, bucket = tier
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    assert plain.get(process.port, bucket, "k").body == b"old"
    cloud.rule("error", op="PutObject", status=403)
    assert plain.ask(process.port, "PUT", bucket, "k", body=b"new").status >= 400
    cloud.behave()
    assert plain.get(process.port, bucket, "k").body == b"old"
    assert remote_s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"old"


def test_a_put_without_an_answer_is_not_served_from_memory_of_the_old(hasty_tier, remote_s3):
    """The in-doubt record: when the outcome of a write is unknown, the remote is asked."""
    process, cloud, bucket = hasty_tier
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    assert get_of_hasty(process, bucket, "k").body == b"old"
    cloud.rule("slow", op="PutObject", ms=3_600_000)  # it arrives there; its answer never comes back
    assert plain.ask(process.port, "PUT", bucket, "k", body=b"new").status >= 500
    cloud.wait_held()  # the remote has answered: there, it has happened
    cloud.behave()
    assert remote_s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new"
    assert get_of_hasty(process, bucket, "k").body == b"new"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_refusal_does_not_resolve_an_earlier_in_doubt_put(hasty_tier, remote_s3, method):
    process, cloud, bucket = hasty_tier
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    assert get_of_hasty(process, bucket, "k").body == b"old"
    cloud.rule("slow", op="PutObject", ms=3_600_000)
    assert plain.ask(process.port, "PUT", bucket, "k", body=b"new").status >= 500
    cloud.wait_held()
    cloud.behave()
    cloud.rule("error", op={"PUT": "PutObject", "DELETE": "DeleteObject"}[method], status=403)
    assert plain.ask(process.port, method, bucket, "k", body=b"refused" if method == "PUT" else None).status >= 400
    cloud.behave()
    assert get_of_hasty(process, bucket, "k").body == b"new"


# ---- clients that go ----


def test_the_only_reader_goes_away(tier, remote_s3):
    """Nothing is left behind: no connection to the remote, no half of an object; the next reader gets all."""
    process, cloud, bucket = tier
    body = os.urandom(4 * MIB)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=body)
    cloud.rule("stall", op="GetObject", after=2 * MIB, times=1)
    connection, reply = begin_get(process.port, bucket, "k")
    assert reply.read(100_000) == body[:100_000]
    cloud.wait_held()
    reply.close()
    connection.close()
    cloud.release()
    wait_for(lambda: cloud.stats()["open"] <= 2, "the fetch ends or is aborted")
    assert plain.get(process.port, bucket, "k").body == body
    assert cloud.requests() <= 2


def test_one_reader_goes_and_one_stays(tier, remote_s3):
    process, cloud, bucket = tier
    body = os.urandom(3 * MIB)
    remote_s3.put_object(Bucket=bucket, Key="k", Body=body)
    cloud.rule("stall", op="GetObject", after=2 * MIB, times=1)
    readers = [begin_get(process.port, bucket, "k") for _ in range(2)]
    for _, reply in readers:
        assert reply.read(50_000) == body[:50_000]
    (leaver, first), (stays, second) = readers
    first.close()
    leaver.close()
    cloud.wait_held()
    cloud.release()
    assert second.read() == body[50_000:]
    stays.close()
    assert cloud.requests() == 1


# ---- remotes that are odd: answers no SeaweedFS gives ----


@pytest.fixture
def odd(start_forebay, fake):
    """(server, fake remote) with its bucket "odd" attached."""
    fake.on("HEAD", "/odd", lambda r: r.send(200, {}, b""))
    process = start_forebay(settings=PATIENT)
    done = attach(process, "odd", fake.endpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    return process, fake


def test_without_an_etag_that_says_anything(odd):
    """I6: an ETag that is no MD5 is no proof of damage: served, kept, counted as unverified."""
    process, fake = odd
    fake.put("/odd/k", b"body", ETag='"not-an-md5"')
    for _ in range(2):
        assert plain.get(process.port, "odd", "k").body == b"body"
    assert fake.seen["GET /odd/k"] == 1
    assert sum(v for n, v in process.metrics().items() if n.startswith("forebay_backend_unverified_total")) == 1


def test_a_checksum_header_that_does_not_fit(odd):
    process, fake = odd
    fake.put("/odd/k", b"body" * 10_000, ETag='"not-an-md5"', x_amz_checksum_crc32="AAAAAA==", x_amz_checksum_type="FULL_OBJECT")
    for number in (1, 2):
        reply = plain.get(process.port, "odd", "k")
        assert not (reply.status == 200 and reply.whole)
    assert fake.seen["GET /odd/k"] >= 2


def test_an_encrypted_object_has_an_etag_that_is_no_md5(odd):
    process, fake = odd
    fake.put("/odd/k", b"body", ETag='"0123456789abcdef0123456789abcdef"', x_amz_server_side_encryption="aws:kms")
    assert plain.get(process.port, "odd", "k").body == b"body"


@pytest.fixture(params=["kept", "passed through"])
def cold(request, start_forebay, fake):
    """(server, fake remote, metric, kept) with its bucket "odd" attached, and with room in the cache or without."""
    fake.on("HEAD", "/odd", lambda r: r.send(200, {}, b""))
    process = start_forebay(settings={**PATIENT, **({} if request.param == "kept" else {"cache.budget": "64KiB"})})
    done = attach(process, "odd", fake.endpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    return process, fake, lambda: sum(v for n, v in process.metrics().items() if n.startswith("forebay_backend_unverified_total")), request.param == "kept"


def etag(body):
    return f'"{hashlib.md5(body).hexdigest()}"'


@pytest.mark.parametrize("size", [100_000, 200_000, 3 * MIB, 9 * MIB])
def test_wrong_bytes_never_look_complete(cold, size):
    """I6, D7: whole objects, and ranges of those small enough: the end of the answer waits for the MD5 of the whole."""
    process, fake, unverified, kept = cold
    right = os.urandom(size)
    flipped = right[: size // 2] + bytes([right[size // 2] ^ 1]) + right[size // 2 + 1 :]
    fake.put("/odd/right", right, ETag=etag(right))
    small = size <= (8 * MIB if kept else 256 * 1024)
    for number, (body, claimed) in enumerate([(flipped, etag(right)), (right[:-20_000], etag(right)), (right + b"more", etag(right)), (b"", etag(right))]):
        key = f"wrong{number}"
        fake.put(f"/odd/{key}", body, ETag=claimed)
        reply = plain.get(process.port, "odd", key)
        assert not (reply.status == 200 and reply.whole), (number, reply.status)
        if len(body) < 70_000:
            continue
        for first, last in ((0, 0), (10, 99), (60_000, 70_000), (len(body) // 2 - 5, len(body) // 2 + 5)):
            reply = plain.get(process.port, "odd", key, headers={"Range": f"bytes={first}-{last}"})
            assert small and not (reply.status == 206 and reply.whole) or not small and reply.headers["x-forebay-unverified"] == "range", (number, first, reply.status)
    assert (unverified() > 0) != small
    counted = unverified()
    reply = plain.get(process.port, "odd", "right", headers={"Range": f"bytes=10-{size - 30_000}"})
    assert reply.status == 206 and reply.whole and reply.body == right[10 : size - 29_999]
    assert ("x-forebay-unverified" in reply.headers) != small and (unverified() > counted) != small
    reply = plain.get(process.port, "odd", "right")
    assert reply.whole and reply.body == right and "x-forebay-unverified" not in reply.headers


def test_what_cannot_be_verified_says_so(cold):
    process, fake, unverified, _ = cold
    body = os.urandom(300_000)
    for number, headers in enumerate([{}, {"Range": "bytes=5-99"}, {"Range": "bytes=290000-299999"}]):
        fake.put(f"/odd/{number}", body, ETag='"0123456789abcdef0123456789abcdef-7"')
        reply = plain.get(process.port, "odd", str(number), headers=headers)
        assert reply.whole and reply.headers["x-forebay-unverified"] == "no-checksum"
        assert unverified() == number + 1


def test_a_redirect_to_another_host_is_not_followed(odd, fake):
    """S8: credentials never follow a redirect."""
    process, fake = odd
    other = type(fake)()
    with other:
        other.put("/odd/k", b"stolen")
        fake.on("GET", "/odd/k", lambda r: r.send(307, {"Location": f"{other.endpoint}/odd/k"}, b""))
        reply = plain.get(process.port, "odd", "k")
        assert reply.status >= 500 and b"stolen" not in reply.body
        assert not other.seen


def test_answers_that_are_no_http(odd):
    process, fake = odd
    for number, words in enumerate([b"\x00\xff" * 100, b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000]):
        fake.on("GET", f"/odd/{number}", lambda r, words=words: (r.raw(words), r.reset()))
        reply = plain.get(process.port, "odd", str(number))
        assert reply.status >= 500 and reply.whole, words[:30]


def test_a_part_that_nobody_asked_for(odd):
    """A length that no answer can have, a range of other bytes than come, a part as the whole: refused, and the node lives."""
    process, fake = odd
    for number, (length, of) in enumerate([(5, 2**64 - 2), (5, 2**63), (4, 5), (6, 6), (5, 6)]):
        headers = {"ETag": '"x-1"', "Content-Range": f"bytes 0-4/{of}"}
        for method in ("GET", "HEAD"):
            fake.on(method, f"/odd/{number}", lambda r, headers=headers, length=length: r.send(206, headers, b"hello!"[:length]))
        assert plain.ask(process.port, "HEAD", "odd", str(number)).status in (200, 503)
        assert plain.get(process.port, "odd", str(number)).status == 503, (length, of)


def test_headers_that_cannot_be_kept(odd):
    """Said before the first byte, and not as the client's mistake."""
    process, fake = odd
    for number, headers in enumerate([{f"x_amz_meta_k{n}": "v" * 1000 for n in range(9)}, {"Content_Type": "t" * 20_000}]):
        fake.put(f"/odd/{number}", b"body" * 10_000, **headers)
        reply = plain.get(process.port, "odd", str(number))
        assert reply.status == 503 and reply.whole and b"at most 8192" in reply.body
        assert plain.ask(process.port, "HEAD", "odd", str(number)).status == 503


def test_more_than_a_body_can_have_passes_through(odd):
    """Without a strong ETag an object is not kept in chunks; beyond the largest body it is read all the same."""
    process, fake = odd
    fake.on("GET", "/odd/k", lambda r: (r.send(200, {"ETag": 'W/"x"'}, b"x" * 100_000, length=5 * 1024 * MIB + 1), r.reset()))
    reply = plain.get(process.port, "odd", "k")
    assert reply.status == 200 and reply.headers["content-length"] == str(5 * 1024 * MIB + 1) and not reply.whole


def test_a_listing_that_is_no_xml(odd):
    """The remote counts as down: what is here, which is nothing, under a header that says so."""
    process, fake = odd
    for words in (b"<ListBucketResult><Contents>", b"", b"<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult/>", b"not xml at all"):
        fake.on("GET", "/odd", lambda r, words=words: r.send(200, {}, words))
        reply = plain.ask(process.port, "GET", "odd", query="list-type=2")
        assert reply.status >= 500 or reply.headers.get("x-forebay-stale") == "backend-down", words


def page_of(names, token=None):
    rows = "".join(f"<Contents><Key>{n}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>" for n in names)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return f"<ListBucketResult><IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}{rows}</ListBucketResult>".encode()


def test_a_listing_goes_on_behind_empty_pages(odd):
    """A client that compares lists must not take the rest for deleted."""
    process, fake = odd
    pages = {None: ([], "1"), "1": ([], "2"), "2": (["k"], None)}
    fake.on("GET", "/odd", lambda r: r.send(200, {}, page_of(*pages[r.query.get("continuation-token")])))
    reply = plain.ask(process.port, "GET", "odd", query="list-type=2")
    assert reply.status == 200 and b"<Key>k</Key>" in reply.body


@pytest.mark.parametrize("query", ["list-type=2", "", "versions"])
@pytest.mark.parametrize("stale", [None, "1", "2"])
def test_a_listing_says_that_a_page_of_it_was_stale(odd, query, stale):
    """The remote is a Forebay whose own is down, and one of its pages may lack names: an empty one, too."""
    process, fake = odd
    pages = {None: ([], "1"), "1": ([], "2"), "2": (["k"], None)}

    def answer(request):
        token = request.query.get("continuation-token")
        request.send(200, {"x-forebay-stale": "backend-down"} if stale and token == stale else {}, page_of(*pages[token]))

    fake.on("GET", "/odd", answer)
    reply = plain.ask(process.port, "GET", "odd", query=query)
    assert reply.status == 200 and b"<Key>k</Key>" in reply.body
    assert reply.headers.get("x-forebay-stale") == ("backend-down" if stale else None)


class Lister:
    """A remote of `names`, which takes PUT and DELETE, and a client that lists it through us two names a page, over one connection."""

    def __init__(self, process, fake, names):
        self.names, self.asked = set(names), []
        fake.on("GET", "/odd", self.answer)
        self.connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=PATIENCE)
        self.fake = fake

    def answer(self, request):
        after = request.query.get("continuation-token") or request.query.get("start-after", "")
        rest = sorted(n for n in self.names if n > after)
        self.asked.append(after)
        request.send(200, {}, page_of(rest[:2], rest[1] if len(rest) > 2 else None))

    def ask(self, method, key="", query=""):
        self.connection.request(method, f"/odd/{key}{query}")
        reply = self.connection.getresponse()
        return reply.status, reply.read()

    def page(self, after):
        status, body = self.ask("GET", query=f"?list-type=2&max-keys=2&start-after={after}")
        assert status == 200, body
        return re.findall("<Key>([^<]*)</Key>", body.decode())

    def wait_asked(self, after):
        wait_for(lambda: after in self.asked, f"a question for the page behind {after}")


def test_a_listing_prefetches_the_next_page(odd):
    """All names once; and pages that were asked for before the client did are among them."""
    process, fake = odd
    names = [f"n{n:03d}" for n in range(81)]
    lister, seen = Lister(process, fake, names), []
    while len(seen) < len(names):
        after = seen[-1] if seen else ""
        page = lister.page(after)
        assert page == names[len(seen) : len(seen) + 2]
        seen += page
        if len(seen) == 2:
            assert lister.asked == [""]  # who looks at one page pays for one
        elif len(seen) == 4:
            lister.wait_asked("n003")
    assert process.metrics()['forebay_list_prefetch_total{result="used"}'] >= 1
    twice = len(lister.asked) - len(set(lister.asked))  # only what came too late to be used: a page is kept a second
    wait_for(lambda: process.metrics()['forebay_list_prefetch_total{result="dropped"}'] >= twice, f"{twice} pages that were not used")


def test_the_next_page_is_asked_for_while_one_still_arrives(odd):
    """As soon as it has said how the list goes on."""
    process, fake = odd
    names = [f"n{n:03d}" for n in range(9)]
    lister, early = Lister(process, fake, names), []

    def answer(request):
        whole = page_of(names[2:4], "n003")
        if request.query.get("start-after") != "n001":
            return lister.answer(request)
        half = whole.index(b"</Contents>") + len("</Contents>")
        request.send(200, {}, whole[:half], length=len(whole))
        request.wfile.flush()
        end = time.monotonic() + PATIENCE
        while "n003" not in lister.asked and time.monotonic() < end:
            time.sleep(0.01)
        early.append("n003" in lister.asked)
        request.raw(whole[half:])

    fake.on("GET", "/odd", answer)
    assert [lister.page(after) for after in ("", "n001", "n003", "n005", "n007")] == [names[0:2], names[2:4], names[4:6], names[6:8], names[8:]]
    assert early == [True]


def test_a_page_that_went_on_otherwise_at_the_second_try(odd):
    """What was asked for by the token of an answer that broke off has no place behind the whole one."""
    process, fake = odd
    names = [f"n{n:03d}" for n in range(9)]
    lister = Lister(process, fake, names)

    def answer(request):
        if request.query.get("start-after") != "n001" or "n005" in lister.asked:
            return lister.answer(request)
        request.send(200, {}, page_of(names[2:6], "n005")[:-30], length=9999)
        request.wfile.flush()
        lister.wait_asked("n005")
        request.reset()

    fake.on("GET", "/odd", answer)
    assert [lister.page(after) for after in ("", "n001", "n003", "n005")] == [names[0:2], names[2:4], names[4:6], names[6:8]]


def test_a_remote_that_knows_no_tokens(odd):
    """It says one and takes none: the same page again is discarded."""
    process, fake = odd
    names = [f"n{n:03d}" for n in range(9)]
    lister = Lister(process, fake, names)

    def answer(request):
        request.query.pop("continuation-token", None)
        lister.answer(request)

    fake.on("GET", "/odd", answer)
    assert [lister.page(after) for after in ("", "n001", "n003", "n005", "n007")] == [names[0:2], names[2:4], names[4:6], names[6:8], names[8:]]


@pytest.mark.parametrize("method, key, then", [("PUT", "n004a", ["n004", "n004a"]), ("DELETE", "n004", ["n005", "n006"])])
def test_a_prefetched_page_does_not_hide_a_write(odd, method, key, then):
    process, fake = odd
    lister = Lister(process, fake, [f"n{n:03d}" for n in range(9)])

    def put(request):
        lister.names.add(key)
        request.send(200, {"ETag": '"d41d8cd98f00b204e9800998ecf8427e"'}, b"")

    def delete(request):
        lister.names.discard(key)
        request.send(204, {}, b"")

    fake.on("PUT", f"/odd/{key}", put)
    fake.on("DELETE", f"/odd/{key}", delete)
    assert [lister.page(after) for after in ("", "n001")] == [["n000", "n001"], ["n002", "n003"]]
    lister.wait_asked("n003")
    assert lister.ask(method, key)[0] in (200, 204)
    assert lister.page("n003") == then


@pytest.mark.parametrize("names, after", [(["a", "b"], "b"), ([], None)])
def test_a_listing_that_goes_round_ends(odd, names, after):
    """A job that works on a prefix would never end."""
    process, fake = odd
    fake.on("GET", "/odd", lambda r: r.send(200, {}, page_of(names, "again")))
    if after:
        assert plain.ask(process.port, "GET", "odd", query="list-type=2").status == 200
    reply = plain.ask(process.port, "GET", "odd", query=f"list-type=2&start-after={after}" if after else "list-type=2")
    assert reply.status == 503 and b"go on" in reply.body, reply.body


def test_a_job_over_a_listing_that_goes_round_ends(odd):
    """Three pages, one after the other for ever, whatever they are asked for."""
    process, fake = odd
    pages = {"": "ab", "b": "cd", "d": "ef", "f": "ab"}
    fake.on("GET", "/odd", lambda r: r.send(200, {}, page_of(pages[r.query.get("start-after", "")], "more")))
    for name in "abcdef":
        fake.put(f"/odd/{name}", b"x")
    done = plain.ask(process.port, "POST", "_/jobs", body=b'{"kind": "prefetch", "args": {"bucket": "odd", "prefix": ""}}')
    job = json.loads(done.body)["id"]
    told = {}

    def ended():
        told.update(json.loads(plain.ask(process.port, "GET", f"_/jobs/{job}", query="wait=1").body))
        return told["state"] not in ("waiting", "running", "idle")

    wait_for(ended, "the end of the job")
    assert told["state"] == "failed" and "comes back to" in told["reason"] and told["objects"] >= 6


# ---- a backend that is down, or has too much to do ----


def test_a_dead_backend_is_left_alone_and_asked_again(tier, remote_s3):
    """Misses fail at once, what is here is served with a header that says so, and the first answer ends it."""
    process, cloud, bucket = tier
    remote_s3.put_object(Bucket=bucket, Key="here", Body=b"x" * 1000)
    remote_s3.put_object(Bucket=bucket, Key="there", Body=b"y" * 1000)
    here = lambda: plain.get(process.port, bucket, "here")  # noqa: E731
    assert here().status == 200 and "x-forebay-stale" not in here().headers
    cloud.rule("error", op="GetObject", status=500)
    log = process.log_path
    wait_for(
        lambda: plain.get(process.port, bucket, "there").status >= 500 and "does not answer: misses fail at once" in log.read_text(),
        "the breaker",
    )
    refused_fast = 0

    def fifty_were_refused_at_once():
        nonlocal refused_fast
        assert here().status == 200 and here().headers["x-forebay-stale"] == "backend-down"
        assert plain.ask(process.port, "HEAD", bucket, "here").headers["x-forebay-stale"] == "backend-down"
        before = cloud.requests()
        reply = plain.get(process.port, bucket, "there")
        assert reply.status in (500, 502, 503)
        asked = cloud.requests() - before  # each of the loops may try now and then
        assert asked <= 1 + PATIENT["backend.retries"]
        refused_fast += asked == 0 and b"is asked again in" in reply.body
        return refused_fast >= 50

    wait_for(fifty_were_refused_at_once, "fifty misses that were not asked")
    cloud.behave()
    wait_for(lambda: plain.get(process.port, bucket, "there").status == 200, "the backend's return")
    assert "the backend answers again" in log.read_text()
    assert here().status == 200 and "x-forebay-stale" not in here().headers


def test_a_storm_of_slow_down_is_weathered(tier, remote_s3):
    """503 SlowDown to a burst: fewer at once, each is repeated, everybody gets his bytes."""
    process, cloud, bucket = tier
    for n in range(40):
        remote_s3.put_object(Bucket=bucket, Key=f"k{n}", Body=b"z" * 5000)
    cloud.rule("error", op="GetObject", status=503, times=20)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda n: plain.get(process.port, bucket, f"k{n}").status, range(40)))
    wait_for(lambda: "wants fewer transfers at once" in process.log_path.read_text(), "a word in the log")
    late = [n for n, status in enumerate(replies) if status != 200]
    assert len(late) < 20  # two tries more each, in a storm of twenty
    assert all(plain.get(process.port, bucket, f"k{n}").status == 200 for n in late)
