"""AIS: members of shards in GET (archpath, archregx), GetBatch, and jobs as its clients query and stop them."""

import base64
import http.client
import io
import json
import random
import tarfile
import time
import urllib.parse

import pytest
from rigs.process import PATIENCE

from test_batch import make_tar, make_zip, members, put_many

FORMATS = ("s.tar", "s.tgz", "s.zip")


def ask(server, method, path, body=None):
    """(status, headers, body); status None when the connection was reset inside the answer."""
    at = urllib.parse.urlsplit(server.endpoint)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=PATIENCE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, answer.read()
        except (http.client.IncompleteRead, ConnectionError) as error:
            return None, answer.headers, getattr(error, "partial", b"")
    finally:
        connection.close()


@pytest.fixture
def samples():
    rng = random.Random(9)
    return [(f"d/{i:03d}.{ext}", rng.randbytes(rng.choice((0, 100, 20_000)))) for i in range(30) for ext in ("jpg", "cls", "seg.png")]


@pytest.fixture
def shards(s3, bucket, samples):
    bodies = {"s.tar": make_tar(samples), "s.tgz": make_tar(samples, "w:gz"), "s.zip": make_zip(samples)}
    put_many(s3, bucket, bodies.items())


def test_one_member(server, s3, bucket, samples, shards):
    for shard in FORMATS:
        for name, data in (samples[0], samples[44], samples[-1], samples[44]):
            status, headers, got = ask(server, "GET", f"/v1/objects/{bucket}/{shard}?archpath={name}&archregx=&archmode=")
            assert status == 200 and got == data and headers["Content-Length"] == str(len(data))
        status, _, got = ask(server, "GET", f"/v1/objects/{bucket}/{shard}?archpath=none")
        assert status == 404 and f"ais://{bucket}/{shard}" in json.loads(got)["message"]
    s3.put_object(Bucket=bucket, Key="noext", Body=make_tar(samples))
    assert ask(server, "GET", f"/v1/objects/{bucket}/noext?archpath={samples[3][0]}&archmime=tar")[2] == samples[3][1]
    assert ask(server, "GET", f"/v1/objects/{bucket}/noext?archpath={samples[3][0]}")[0] == 400
    assert ask(server, "GET", f"/v1/objects/{bucket}/none.tar?archpath=x")[0] == 404


def test_all_that_match_in_the_order_of_the_archive(server, s3, bucket, samples, shards):
    rows = [
        ("prefix", "d/00", lambda n: n.startswith("d/00")),
        ("suffix", ".cls", lambda n: n.endswith(".cls")),
        ("substr", "seg", lambda n: "seg" in n),
        ("wdskey", "d/007", lambda n: n.partition(".")[0] == "d/007"),
        ("regexp", "^d/0[12][0-9]\\.(jpg|cls)$", lambda n: n[3] in "12" and n[-3:] in ("jpg", "cls")),
        ("prefix", "*", lambda n: True),
        ("", "d/00", lambda n: n.startswith("d/00")),
    ]
    for shard in FORMATS:
        for mode, pattern, wanted in rows:
            query = urllib.parse.urlencode({"archregx": pattern, "archmode": mode, "archpath": ""})
            status, headers, got = ask(server, "GET", f"/v1/objects/{bucket}/{shard}?{query}")
            assert status == 200 and headers["Content-Type"] == "application/x-tar"
            assert members(got) == [(n, d) for n, d in samples if wanted(n)], (shard, mode)
    for query, status in (
        ("archregx=zzz", 404),
        ("archregx=a&archpath=b", 400),
        ("archregx=(&archmode=regexp", 400),
        ("archregx=a&archmode=glob", 400),
        ("archregx=" + "a" * 2000, 400),
        ("archregx=((((a%7B1,65535%7D)%7B1,65535%7D)%7B9%7D&archmode=regexp", 400),
    ):
        assert ask(server, "GET", f"/v1/objects/{bucket}/s.tar?{query}")[0] == status, query


def test_what_lies_is_an_error(server, s3, bucket, samples):
    whole = make_tar(samples)
    s3.put_object(Bucket=bucket, Key="short.tar", Body=whole[:-30_000])
    s3.put_object(Bucket=bucket, Key="text.tgz", Body=b"no gzip" * 100)
    s3.put_object(Bucket=bucket, Key="text.zip", Body=b"no zip" * 100)
    for key in ("short.tar", "text.tgz", "text.zip"):
        for query in ("archpath=a", "archregx=a"):
            status, _, got = ask(server, "GET", f"/v1/objects/{bucket}/{key}?{query}")
            assert status == 400 and key in json.loads(got)["message"], got


def test_get_batch_streams_in_order(server, s3, bucket, samples, shards):
    put_many(s3, bucket, [(f"o/{i}", b"%d" % i) for i in range(50)])
    items = [{"objname": f"o/{i}"} for i in (7, 3, 49, 3)] + [{"objname": "s.tar", "archpath": samples[4][0]}, {"objname": "none"}, {"uname": f"ais/@#/{bucket}/o/5"}, {"objname": "s.zip", "archpath": samples[44][0], "start": 1, "length": 3}]
    names = ["o/7", "o/3", "o/49", "o/3", "s.tar/" + samples[4][0], "none", "o/5", "s.zip/" + samples[44][0]]
    bodies = [b"7", b"3", b"49", b"3", samples[4][1], b"", b"5", samples[44][1][1:4]]
    for more, form in (({}, "{}/{}"), ({"onob": True}, "{1}"), ({"mime": ".tgz"}, "{}/{}")):
        status, headers, got = ask(server, "GET", f"/v1/ml/moss/{bucket}?provider=ais", {"in": items, "strm": True, "coer": True, **more})
        assert status == 200
        want = [("__404__/" if n == "none" else "") + form.format(bucket, n) for n in names]
        assert members(got, "r:gz" if "mime" in more else "r:") == list(zip(want, bodies, strict=True))


def test_get_batch_multipart(server, s3, bucket, samples, shards):
    items = [{"objname": "s.tar", "archpath": samples[1][0], "opaque": base64.urlsafe_b64encode(b"\xff\xfe1").decode()}, {"objname": "none", "bucket": bucket, "provider": "ais"}]
    status, headers, got = ask(server, "GET", "/v1/ml/moss?provider=ais", {"in": [{**i, "bucket": bucket} for i in items], "strm": False, "coer": True})
    assert status == 200 and headers["Content-Type"].startswith("multipart/mixed; boundary=")
    boundary = headers["Content-Type"].partition("boundary=")[2].encode()
    _, metadata, archive, end = got.split(b"--" + boundary)
    told = json.loads(metadata.partition(b"\r\n\r\n")[2])
    assert end == b"--\r\n" and told["uuid"].startswith("gbt-")
    assert [(o["objname"], o["size"], o.get("opaque"), bool(o.get("err_msg"))) for o in told["out"]] == [("s.tar", len(samples[1][1]), base64.b64encode(b"\xff\xfe1").decode(), False), ("none", 0, None, True)]
    assert members(archive.partition(b"\r\n\r\n")[2][:-2]) == [(f"{bucket}/s.tar/{samples[1][0]}", samples[1][1]), (f"__404__/{bucket}/none", b"")]


def test_get_batch_refuses_by_name(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"12345")
    rows = [
        ({"in": []}, 400, "empty"),
        ({}, 400, "empty"),
        ({"in": [{"objname": "none"}], "strm": True}, 404, f"ais://{bucket}/none"),
        ({"in": [{"objname": "none"}], "strm": False}, 404, f"ais://{bucket}/none"),
        ({"in": [{"objname": "a", "start": 1}], "strm": True}, 416, "item 0"),
        ({"in": [{"objname": "a", "start": -1, "length": 1}], "strm": True}, 416, "item 0"),
        ({"in": [{"objname": "a", "length": -2}], "strm": True}, 416, "item 0"),
        ({"in": [{"objname": "a", "start": 3, "length": 3}], "strm": True}, 416, "item 0"),
        ({"in": [{"objname": "a", "bucket": "no-such-bucket"}]}, 404, 'bucket "ais://no-such-bucket" does not exist'),
        ({"in": [{"objname": "../a"}]}, 400, "item 0"),
        ({"in": [{}]}, 400, "item 0"),
        ({"in": [7]}, 400, "item 0"),
        ({"in": [{"objname": "a"}], "mime": ".rar"}, 400, ".rar"),
        ({"in": [{"objname": "a"}] * 32769}, 400, "32768"),
    ]
    for body, status, says in rows:
        got = ask(server, "GET", f"/v1/ml/moss/{bucket}", body)
        assert got[0] == status and says in json.loads(got[2])["message"], (body if len(str(body)) < 200 else "", got[2][:300])
    assert ask(server, "GET", "/v1/ml/moss", {"in": [{"objname": "a"}]})[0] == 400
    assert ask(server, "GET", f"/v1/ml/moss/{bucket}")[0] == 400
    # Each name of a bucket is resolved once: many items need no memory of the request.
    status, _, got = ask(server, "GET", "/v1/ml/moss", {"in": [{"uname": f"ais/@#/{bucket}/a"}] * 32768, "strm": True})
    with tarfile.open(fileobj=io.BytesIO(got), mode="r:") as tar:
        assert status == 200 and len(tar.getnames()) == 32768


def snapshots(server, **query):
    status, _, got = ask(server, "GET", "/v1/cluster?what=qryxstats", query)
    assert status in (200, 404)
    return None if status == 404 else [s for node in json.loads(got).values() for s in node]


def test_a_batch_is_a_job_that_can_be_stopped(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="big", Body=bytes(1 << 20))
    before = {s["id"] for s in snapshots(server, kind="get-batch")}
    at = urllib.parse.urlsplit(server.endpoint)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=PATIENCE)
    connection.request("GET", f"/v1/ml/moss/{bucket}", json.dumps({"in": [{"objname": "big"}] * 2000, "strm": True}))
    answer = connection.getresponse()
    answer.read(1000)
    (mine,) = [s for s in snapshots(server, kind="get-batch") if s["id"] not in before]
    assert mine["end-time"].startswith("0001") and not mine["is_idle"] and mine["id"].startswith("gbt-")
    assert f"get-batch[{mine['id']}]" in json.loads(ask(server, "GET", "/v1/cluster?what=running_all", {"kind": "get-batch"})[2])
    assert ask(server, "PUT", "/v1/cluster", {"action": "stop", "value": {"ID": mine["id"]}})[0] == 200
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        while answer.read(1 << 20):
            pass
    connection.close()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and snapshots(server, id=mine["id"])[0]["end-time"].startswith("0001"):
        time.sleep(0.05)
    assert snapshots(server, id=mine["id"])[0]["aborted"]


def test_jobs_that_are_done_at_once_and_those_unknown(server):
    for kind in ("lru", "rebalance", "cleanup-store"):
        ids = {ask(server, "PUT", "/v1/cluster", {"action": "start", "value": {"Kind": kind, "Bck": None}})[2].decode() for _ in range(2)}
        assert len(ids) == 2 and all(len(i) >= 9 for i in ids)
        for job in ids:
            status = json.loads(ask(server, "GET", "/v1/cluster?what=status", {"ID": job})[2])
            assert status["uuid"] == job and status["end_time"] > 0 and not status["aborted"] and status["kind"] == kind
        every = json.loads(ask(server, "GET", "/v1/cluster?what=status_all", {"kind": kind, "show_active": False})[2])
        assert ids <= {s["uuid"] for s in every}
    assert ask(server, "GET", "/v1/cluster?what=status", {"ID": "none"})[0] == 404
    assert snapshots(server, id="none") is None and snapshots(server, kind="nokind") == []
    assert ask(server, "PUT", "/v1/cluster", {"action": "stop", "value": {"ID": "none"}})[0] == 404
    assert ask(server, "PUT", "/v1/cluster", {"action": "start", "value": {"Kind": "nokind"}})[0] == 400
    assert ask(server, "PUT", "/v1/cluster", {"action": "start", "value": {"Kind": "ec-encode"}})[0] == 501


def list_all(server, bucket, size, **value):
    """Each entry of all pages; every page but the last one is full."""
    token, found = "", []
    while True:
        value.update(pagesize=size, continuation_token=token)
        status, _, got = ask(server, "GET", f"/v1/buckets/{bucket}", {"action": "list", "value": value})
        assert status == 200, got
        page = json.loads(got)
        assert len(page["entries"]) <= size and (len(page["entries"]) == size or not page["continuation_token"])
        found += [(e["name"], int(e.get("size", 0)), e["flags"]) for e in page["entries"]]
        token = page["continuation_token"]
        if not token:
            return found


def test_listings_show_members_of_archives(server, s3, bucket, samples, shards):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    s3.put_object(Bucket=bucket, Key="no.tar", Body=b"no archive" * 100)
    s3.put_object(Bucket=bucket, Key="s.z", Body=b"zz")
    want = [("a", 1, 64), ("no.tar", 1000, 64)]
    for shard in FORMATS:
        size = s3.head_object(Bucket=bucket, Key=shard)["ContentLength"]
        want += [(shard, size, 64 | 512)] + [(f"{shard}/{name}", len(data), 64 | 128) for name, data in samples]
    want.insert(len(want) - len(samples) - 1, ("s.z", 2, 64))
    for size in (1, 7, 91, 92, 1000):
        assert list_all(server, bucket, size, flags="8") == want, size
    assert list_all(server, bucket, 50, flags="8", prefix="s.zip") == want[-len(samples) - 1 :]
    assert list_all(server, bucket, 50) == [(n, s, 64) for n, s, f in want if not f & 128]
    for token in ("x", "-1:s.tar", "5:" + "k" * 1025):
        assert ask(server, "GET", f"/v1/buckets/{bucket}", {"action": "list", "value": {"flags": "8", "continuation_token": token}})[0] == 400
    # An archive that goes between two pages: the listing goes on behind it.
    page = json.loads(ask(server, "GET", f"/v1/buckets/{bucket}", {"action": "list", "value": {"flags": "8", "pagesize": 10}})[2])
    s3.delete_object(Bucket=bucket, Key="s.tar")
    rest = {"flags": "8", "continuation_token": page["continuation_token"]}
    assert json.loads(ask(server, "GET", f"/v1/buckets/{bucket}", {"action": "list", "value": rest})[2])["entries"][0]["name"] == "s.tgz"
