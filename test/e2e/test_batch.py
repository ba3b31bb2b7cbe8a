"""Batches: POST /BUCKET?batch. Many objects, ranges and members of shards in one answer, in the order of the list."""

import concurrent.futures
import gzip
import http.client
import io
import json
import random
import struct
import subprocess
import tarfile
import urllib.parse
import zipfile

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
import webdataset
from rigs import forebay
from rigs.process import PATIENCE

from conftest import boto
from test_cold import PATIENT, attach

MIB = 1024 * 1024


def ask(server, bucket, body, query="", **headers):
    """(status, body); status None when the connection was reset inside the answer."""
    at = urllib.parse.urlsplit(server.endpoint)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=PATIENCE)
    try:
        connection.request("POST", f"/{bucket}?batch{query}", body, headers)
        answer = connection.getresponse()
        try:
            return answer.status, answer.read()
        except (http.client.IncompleteRead, ConnectionError) as error:
            return None, getattr(error, "partial", b"")
    finally:
        connection.close()


def members(data, mode="r:"):
    with tarfile.open(fileobj=io.BytesIO(data), mode=mode) as tar:
        return [(m.name, tar.extractfile(m).read()) for m in tar]


def make_tar(samples, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, data in samples:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def make_zip(samples):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in samples:
            archive.writestr(name, data)
    return out.getvalue()


@pytest.fixture
def samples():
    rng = random.Random(5)
    return [(f"d.{i % 2}/{i:04d}.jpg", rng.randbytes(rng.choice((0, 1, 511, 4096, 70_000)))) for i in range(60)]


@pytest.fixture
def shards(s3, bucket, samples):
    """Shards of every format with the same members."""
    tar = make_tar(samples)
    subprocess_lz4 = subprocess.run(["lz4", "-c"], input=tar, capture_output=True, check=False) if has_lz4() else None
    bodies = {"s/x.tar": tar, "s/x.tgz": gzip.compress(tar), "s/x.tar.gz": gzip.compress(tar[:100_000]) + gzip.compress(tar[100_000:]), "s/x.zip": make_zip(samples)}
    if subprocess_lz4 is not None:
        bodies["s/x.tar.lz4"] = subprocess_lz4.stdout
    for key, body in bodies.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    return sorted(bodies)


def has_lz4():
    try:
        return subprocess.run(["lz4", "--version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def put_many(s3, bucket, objects):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda o: s3.put_object(Bucket=bucket, Key=o[0], Body=o[1]), objects))


def test_order_is_kept_whatever_the_sizes(server, s3, bucket):
    rng = random.Random(1)
    objects = {f"o/{i:03d}": rng.randbytes(rng.choice((0, 1, 511, 512, 30_000, 300_000, 3 * MIB if i % 40 == 0 else 10))) for i in range(200)}
    put_many(s3, bucket, objects.items())
    names = list(objects) * 2
    rng.shuffle(names)
    names[7] = "none"
    status, data = ask(server, bucket, "\n".join(names))
    assert status == 200
    got = members(data)
    assert [name for name, _ in got] == ["__404__/none" if n == "none" else n for n in names]
    assert all(data == objects.get(name, b"") for name, data in got)


def test_members_of_shards_of_every_format(server, s3, bucket, samples, shards):
    wanted = [(shard, *random.Random(i).choice(samples)) for i, shard in enumerate(shards * 20)]
    for _ in range(2):  # the second time with an index
        status, data = ask(server, bucket, "\n".join(f"{shard}/{name}" for shard, name, _ in wanted) + f"\n{shards[0]}/none\n")
        assert status == 200
        assert members(data) == [(f"{shard}/{name}", body) for shard, name, body in wanted] + [(f"__404__/{shards[0]}/none", b"")]


def test_an_overwritten_shard_is_read_again(server, s3, bucket, samples):
    for round_ in range(3):
        new = [(name, data + b"%d" % round_) for name, data in samples[round_:]]
        s3.put_object(Bucket=bucket, Key="x.tar", Body=make_tar(new))
        status, data = ask(server, bucket, f"x.tar/{new[5][0]}\nx.tar/{samples[0][0]}")
        assert status == 200
        assert members(data)[0][1] == new[5][1]
        assert members(data)[1][0].startswith("__404__") == (round_ > 0)
    s3.delete_object(Bucket=bucket, Key="x.tar")
    assert members(ask(server, bucket, f"x.tar/{new[5][0]}")[1]) == [(f"__404__/x.tar/{new[5][0]}", b"")]


def test_ranges(server, s3, bucket, samples, shards):
    body = random.Random(2).randbytes(900_000)
    s3.put_object(Bucket=bucket, Key="big", Body=body)
    name, data = next(s for s in samples if len(s[1]) == 70_000)
    ranges = [(0, 0), (5, 5), (255_000, 530_000), (899_999, 899_999), (100, None)]
    status, got = ask(server, bucket, "\n".join(f"big\t{a}-{'' if b is None else b}" for a, b in ranges))
    assert status == 200 and [d for _, d in members(got)] == [body[a : None if b is None else b + 1] for a, b in ranges]
    status, got = ask(server, bucket, "\n".join(f"{s}/{name}\t1000-65000" for s in shards))
    assert status == 200 and [d for _, d in members(got)] == [data[1000:65001]] * len(shards)
    status, got = ask(server, bucket, "big\nbig\t5-900000")
    assert status == 416 or status is None  # None: the first item had left already
    status, got = ask(server, bucket, "big\t900001-")
    assert status == 416 and b"item 0" in got and b"900000 bytes" in got


def test_json_frames_and_other_archives(server, s3, bucket, samples, shards):
    s3.put_object(Bucket=bucket, Key="k.tar/x", Body=b"no member")
    other = bucket + "-b"
    s3.create_bucket(Bucket=other)
    s3.put_object(Bucket=other, Key="k", Body=b"other")
    items = ["s/x.tar/" + samples[3][0], {"object": "k.tar/x", "start": 3, "end": 5}, {"object": "k", "bucket": other}, {"object": "s/x.zip", "member": samples[4][0]}]
    names = ["s/x.tar/" + samples[3][0], "k.tar/x", f"{other}/k", "s/x.zip/" + samples[4][0]]
    bodies = [samples[3][1], b"mem", b"other", samples[4][1]]

    def post(**more):
        status, data = ask(server, bucket, json.dumps({"items": items, **more}), **{"Content-Type": "application/json; charset=utf-8"})
        assert status == 200
        return data

    assert members(post()) == list(zip(names, bodies, strict=True))
    assert members(post(format="tgz"), "r:gz") == list(zip(names, bodies, strict=True))
    with zipfile.ZipFile(io.BytesIO(post(format="zip"))) as archive:
        assert archive.testzip() is None and archive.namelist() == names and [archive.read(n) for n in names] == bodies
    if has_lz4():
        tar = subprocess.run(["lz4", "-dc"], input=post(format="tar.lz4"), capture_output=True, check=True).stdout
        assert members(tar) == list(zip(names, bodies, strict=True))
    data, seen = ask(server, bucket, "k.tar\n../odd//name\ns/x.tar/" + samples[3][0], "&format=frames")[1], []
    while data:
        index, status, length = struct.unpack(">IIQ", data[:16])
        seen.append((index, status, data[16 : 16 + length]))
        data = data[16 + length :]
    assert seen == [(0, 404, b""), (1, 404, b""), (2, 200, samples[3][1])]


def test_what_is_refused_names_the_item(server, s3, bucket, samples, shards):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    lying = make_tar([("m", b"x" * 5000)])[:3000]
    s3.put_object(Bucket=bucket, Key="lying.tar", Body=lying)
    s3.put_object(Bucket=bucket, Key="no.zip", Body=b"x" * 5000)
    # (body, query, status, what the message says)
    rows = [
        ("a\nnone", "&on-missing=fail", (404, None), "item 1"),
        ("none\na", "&on-missing=fail", (404,), "item 0, &quot;none&quot;"),
        ("s/x.tar/none", "&on-missing=fail", (404,), "item 0"),
        ("a", "&on-missing=no", (400,), "on-missing"),
        ("a", "&format=rar", (400,), "rar"),
        ("../a", "", (400,), "item 0"),
        ("s/x.tar/../../a", "", (400,), "item 0"),
        ("a/m\tx", "", (400,), "line 1"),
        ("lying.tar/m", "", (400,), "longer than the archive"),
        ("no.zip/m", "", (400,), "no end record"),
        ("a\n" * 32769, "", (400,), "32768"),
        ("x" * (5 * MIB), "", (400,), "limit"),
        (json.dumps({"items": [{"object": "a", "bucket": "nobucket"}]}), "json", (404,), "nobucket"),
        (json.dumps({"items": [{"object": "a", "member": "m"}]}), "json", (400,), "no archive by its name"),
        ("[" * MIB, "json", (400,), "no JSON"),
    ]
    for body, query, statuses, says in rows:
        headers = {"Content-Type": "application/json"} if query == "json" else {}
        status, data = ask(server, bucket, body, "" if query == "json" else query, **headers)
        assert status in statuses, (body[:50], status, data[:400])
        assert status is None or says in data.decode() or says == "nobucket", (body[:50], data[:400])
    assert ask(server, "no-such-bucket", "a")[0] == 404


def test_one_name_many_times_is_read_from_memory(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="a", Body=b"z" * 1000)
    status, data = ask(server, bucket, "a\n" * 20_000)
    assert status == 200 and len(members(data)) == 20_000


def test_a_signed_and_a_presigned_batch(start_forebay):
    process = start_forebay(args=("--auth",))
    keys = process.keys()
    client = boto(process.endpoint, keys)
    client.create_bucket(Bucket="signed")
    client.put_object(Bucket="signed", Key="a", Body=b"1")
    assert ask(process, "signed", "a")[0] == 403
    credentials = botocore.credentials.Credentials(*keys)
    request = botocore.awsrequest.AWSRequest("POST", f"{process.endpoint}/signed?batch", data=b"a\nb")
    botocore.auth.S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
    at = urllib.parse.urlsplit(process.endpoint)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=PATIENCE)
    connection.request("POST", "/signed?batch", b"a\nb", dict(request.headers))
    answer = connection.getresponse()
    assert answer.status == 200 and members(answer.read()) == [("a", b"1"), ("__404__/b", b"")]
    presigned = botocore.awsrequest.AWSRequest("POST", f"{process.endpoint}/signed?batch=")
    botocore.auth.S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=60).add_auth(presigned)
    connection.request("POST", presigned.url[len(process.endpoint) :], b"a")
    answer = connection.getresponse()
    assert answer.status == 200 and members(answer.read()) == [("a", b"1")]
    connection.close()


def test_cold_objects_come_in_parallel_and_once(start_forebay, cloud, remote_s3, remote_bucket):
    rng = random.Random(3)
    objects = {f"c/{i:03d}": rng.randbytes(20_000) for i in range(100)}
    objects["c/x.tar"] = make_tar([(f"{i}.bin", rng.randbytes(30_000)) for i in range(30)])
    put_many(remote_s3, remote_bucket, objects.items())
    process = start_forebay(settings=PATIENT)
    done = attach(process, remote_bucket, cloud.endpoint)
    assert done.returncode == 0, done.stderr
    names = sorted(n for n in objects if not n.endswith(".tar"))
    list_ = names + [f"c/x.tar/{i}.bin" for i in (3, 1, 2)] + names[:10]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # two batches at once: one fetch for both
        both = list(pool.map(lambda _: ask(process, remote_bucket, "\n".join(list_)), range(2)))
    for status, data in both:
        assert status == 200
        got = members(data)
        assert [n for n, _ in got] == list_
        assert all(d == objects[n] for n, d in got if n in objects)


def test_slow_readers_and_those_who_leave(server, s3, bucket):
    """Memory is bounded, and a batch whose client went leaves nothing behind: the server still answers, and its end is clean."""
    put_many(s3, bucket, [(f"b/{i}", bytes(MIB)) for i in range(8)])
    at = urllib.parse.urlsplit(server.endpoint)
    body = "\n".join(f"b/{i % 8}" for i in range(400))
    before = server.rss_anon_kib()
    for _ in range(8):
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=PATIENCE)
        connection.request("POST", f"/{bucket}?batch", body)
        answer = connection.getresponse()
        answer.read(100_000)
        connection.sock.close()
        connection.close()
    assert server.rss_anon_kib() - before < 200 * 1024
    assert len(members(ask(server, bucket, "b/1\nb/2")[1])) == 2


def test_webdataset_reads_a_batch_as_a_shard(server, s3, bucket, tmp_path):
    put_many(s3, bucket, [(f"w/{i:03d}.{ext}", b"%d-%s" % (i, ext.encode())) for i in range(20) for ext in ("jpg", "cls")])
    status, data = ask(server, bucket, "\n".join(f"w/{i:03d}.{ext}" for i in (7, 3, 5) for ext in ("jpg", "cls")))
    assert status == 200
    path = tmp_path / "batch.tar"
    path.write_bytes(data)
    got = list(webdataset.WebDataset(str(path), shardshuffle=False))
    assert [s["__key__"] for s in got] == ["w/007", "w/003", "w/005"] and got[1]["cls"] == b"3-cls"


def test_the_command_line_gets_a_batch(server, s3, bucket, tmp_path):
    put_many(s3, bucket, [(f"c/{i}", b"%d" % i * 1000) for i in range(30)])
    names = [f"c/{i}" for i in (9, 3, 27)]
    (tmp_path / "list").write_text("\n".join([*names, "none", "c/1\t2-3"]))

    def get(*arguments, **more):
        command = [server.binary, "get", *arguments, "--endpoint-url", server.endpoint]
        return subprocess.run([str(c) for c in command], capture_output=True, check=False, env=forebay.server_env({}), cwd=tmp_path, **more)

    done = get("--batch", "list", f"s3://{bucket}", "out.tar")
    assert done.returncode == 0, done.stderr
    want = [(n, b"%d" % int(n[2:]) * 1000) for n in names] + [("__404__/none", b""), ("c/1", b"11")]
    assert members((tmp_path / "out.tar").read_bytes()) == want
    done = get("--batch", "-", f"s3://{bucket}", "--format", "tgz", input=json.dumps(names).encode())
    assert done.returncode == 0 and members(done.stdout, "r:gz") == want[:3]
    done = get("--batch", "-", f"s3://{bucket}", "no.tar", "--fail-on-missing", input=b"none\nc/1")
    assert done.returncode == 3 and not (tmp_path / "no.tar").exists() and b"none" in done.stderr, done.stderr
