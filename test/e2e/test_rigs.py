"""The rigs themselves: a proxy that counts wrongly, or a fault that does not happen, would prove anything."""

import concurrent.futures
import hashlib
import os
import random
import socket
import time

import pytest
from botocore.exceptions import ClientError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError
from botocore.exceptions import ConnectionClosedError
from rigs import ledger, process
from rigs.process import PATIENCE, Patience

from conftest import REMOTE_KEYS, boto

BODY = os.urandom(300_000)


@pytest.fixture
def through(cloud, remote_s3, remote_bucket):
    """(boto3 through the proxy, bucket) with one object, key "k"; counted from zero."""
    remote_s3.put_object(Bucket=remote_bucket, Key="k", Body=BODY)
    cloud.forget()
    return boto(cloud.endpoint, REMOTE_KEYS), remote_bucket


def impatient(cloud):
    """For what never comes."""
    return boto(cloud.endpoint, REMOTE_KEYS, read_timeout=1)


def read(client, bucket, key="k"):
    return client.get_object(Bucket=bucket, Key=key)["Body"].read()


def test_bytes_and_signatures_pass(cloud, through):
    client, bucket = through
    assert read(client, bucket) == BODY
    client.put_object(Bucket=bucket, Key="new", Body=BODY)
    assert client.head_object(Bucket=bucket, Key="new")["ContentLength"] == len(BODY)
    assert {o["Key"] for o in client.list_objects_v2(Bucket=bucket)["Contents"]} == {"k", "new"}
    client.delete_object(Bucket=bucket, Key="new")
    stats = cloud.stats()
    assert stats["requests"] == {"GetObject": 1, "PutObject": 1, "HeadObject": 1, "ListObjects": 1, "DeleteObject": 1}
    assert stats["bytes_out"]["GetObject"] == len(BODY)
    assert stats["bytes_in"]["PutObject"] >= len(BODY)


def test_multipart_is_counted_call_by_call(cloud, through):
    client, bucket = through
    upload = client.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    part = client.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=BODY)
    client.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    assert cloud.stats()["requests"] == {"CreateMultipartUpload": 1, "UploadPart": 1, "CompleteMultipartUpload": 1}


def test_wrong_key_is_refused_by_the_remote(cloud, through):
    _, bucket = through
    with pytest.raises(ClientError) as error:
        read(boto(cloud.endpoint, (REMOTE_KEYS[0], "wrong")), bucket)
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert cloud.object_bytes() == 0


def test_latency_and_bandwidth_are_felt(cloud, through):
    client, bucket = through
    read(client, bucket)
    begun = time.monotonic()
    read(client, bucket)
    near = time.monotonic() - begun
    cloud.settings(latency_ms=100, mib_s=1)
    begun = time.monotonic()
    read(client, bucket)
    far = time.monotonic() - begun
    assert 0.1 + len(BODY) / 2**20 * 0.7 < far < near + PATIENCE


def test_a_reset_breaks_the_body_and_only_as_often_as_told(cloud, through):
    client, bucket = through
    cloud.rule("reset", op="GetObject", after=100_000, times=1)
    with pytest.raises((ResponseStreamingError, IncompleteReadError, ConnectionClosedError, ConnectionError)):
        read(client, bucket)
    assert cloud.object_bytes() == 100_000
    assert read(client, bucket) == BODY


def test_a_cut_ends_the_body_early(cloud, through):
    client, bucket = through
    cloud.rule("cut", key="k", after=5)
    with pytest.raises((ResponseStreamingError, IncompleteReadError)):
        read(client, bucket)
    cloud.behave()
    assert read(client, bucket) == BODY


def test_a_flip_changes_one_bit(cloud, through):
    client, bucket = through
    cloud.rule("flip", op="GetObject", after=200_001)
    request = client.get_object(Bucket=bucket, Key="k")
    raw = b"".join(request["Body"]._raw_stream.stream(65536))
    wrong = [i for i in range(len(BODY)) if raw[i] != BODY[i]]
    assert wrong == [200_001] and raw[200_001] == BODY[200_001] ^ 1


def test_a_stall_waits(cloud, through):
    client, bucket = through
    cloud.rule("stall", op="GetObject", after=10)
    with pytest.raises(ReadTimeoutError):
        read(impatient(cloud), bucket)
    cloud.behave()
    cloud.rule("stall", op="GetObject", after=10, ms=500, times=1)
    begun = time.monotonic()
    assert read(client, bucket) == BODY
    assert time.monotonic() - begun > 0.4


def test_what_stands_still_is_released(cloud, through):
    client, bucket = through
    cloud.rule("stall", op="GetObject", after=10, skip=1, times=1)
    cloud.rule("jam", op="PutObject", after=10)
    assert read(client, bucket) == BODY
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        got = pool.submit(read, client, bucket)
        put = pool.submit(client.put_object, Bucket=bucket, Key="new", Body=BODY)
        cloud.wait_held(2)
        assert not got.done() and not put.done()
        cloud.release()
        assert got.result() == BODY and put.result()
    assert read(client, bucket, "new") == BODY and cloud.stats()["held"] == 0


def test_a_rule_for_each(cloud, through):
    client, bucket = through
    client.put_object(Bucket=bucket, Key="l", Body=BODY)
    cloud.rule("error", op="GetObject", status=503, each=2)
    for key in "klkl":
        with pytest.raises(ClientError):
            read(client, bucket, key)
    assert read(client, bucket, "k") == read(client, bucket, "l") == BODY


def test_lies_about_the_length(cloud, through):
    client, bucket = through
    cloud.rule("longer", op="GetObject")
    with pytest.raises(ReadTimeoutError):
        read(impatient(cloud), bucket)
    cloud.behave()
    cloud.rule("shorter", op="GetObject", times=1)
    reply = client.get_object(Bucket=bucket, Key="k")
    assert reply["ContentLength"] == len(BODY) - 7
    assert b"".join(reply["Body"]._raw_stream.stream(65536)) == BODY[:-7]


def test_errors_and_refusals(cloud, through):
    client, bucket = through
    cloud.rule("error", op="GetObject", status=503, times=1)
    with pytest.raises(ClientError) as error:
        read(client, bucket)
    assert error.value.response["Error"]["Code"] == "SlowDown"
    cloud.rule("refuse", op="GetObject", times=1)
    with pytest.raises((ConnectionClosedError, ConnectionError)):
        read(client, bucket)
    assert read(client, bucket) == BODY


def test_a_client_that_leaves_is_let_go(cloud, through):
    client, bucket = through
    cloud.rule("stall", op="GetObject", after=100_000)
    reply = client.get_object(Bucket=bucket, Key="k")
    cloud.wait_held()
    assert cloud.stats()["open"] >= 2
    reply["Body"]._raw_stream._fp.close()
    reply["Body"].close()
    client.close()
    cloud.release()
    cloud.wait_alone()


def test_the_fake_remote_answers_as_written(fake):
    client = boto(fake.endpoint, REMOTE_KEYS)
    fake.put("/b/k", b"0123456789")
    assert client.get_object(Bucket="b", Key="k")["Body"].read() == b"0123456789"
    assert client.head_object(Bucket="b", Key="k")["ETag"] == f'"{hashlib.md5(b"0123456789").hexdigest()}"'
    assert client.get_object(Bucket="b", Key="k", Range="bytes=2-4")["Body"].read() == b"234"
    assert [o["Key"] for o in client.list_objects_v2(Bucket="b")["Contents"]] == ["k"]
    fake.on("GET", "/b/odd", lambda r: r.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab") or r.reset())
    with pytest.raises((ResponseStreamingError, IncompleteReadError, ConnectionError)):
        client.get_object(Bucket="b", Key="odd")["Body"].read()
    assert fake.seen["GET /b/k"] == 2 and fake.seen["GET /b/odd"] == 1
    with socket.create_connection(("127.0.0.1", fake.port)) as raw:
        raw.sendall(b"GET /b/none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b" 404 " in raw.recv(100)


class Clock:
    """Stands in for `time`: each sleep takes as long as the next number says."""

    def __init__(self, takes, on_sleep=lambda: None):
        self.now, self.takes, self.on_sleep = 0.0, list(takes), on_sleep

    def monotonic(self):
        return self.now

    def sleep(self, _):
        self.now += self.takes.pop(0)
        self.on_sleep()


def test_patience_does_not_count_what_the_machine_stood_still(monkeypatch):
    clock = Clock([0.5, 300.0, 0.5, 0.5])
    monkeypatch.setattr(process, "time", clock)
    patience, looks = Patience(3), []
    while clock.takes:
        clock.sleep(0)
        looks.append(patience.is_over())
    assert looks == [False, False, False, False]
    clock.takes = [1.0, 1.0]
    clock.sleep(0)
    assert patience.is_over()  # 2.5 seconds and one more


class Silent:
    """A writer that lives."""

    def is_alive(self):
        return True


def test_a_slow_load_is_waited_for(monkeypatch):
    """As long as something is acknowledged, however long all of it takes; a load that stands still is reported."""
    clock = Clock([0.9] * 1000)
    monkeypatch.setattr(process, "time", clock)
    monkeypatch.setattr(ledger, "time", clock)
    book = ledger.Ledger(writers=0)
    load = ledger.Load(0, book, random.Random(1))
    load.writers = [Silent()]

    def acknowledged():
        book.acks += 1

    clock.on_sleep = acknowledged
    load.wait_acks(PATIENCE * 2)
    assert book.acks >= PATIENCE * 2
    clock.on_sleep = lambda: None
    with pytest.raises(ledger.Stuck, match="none in"):
        load.wait_acks(1)
