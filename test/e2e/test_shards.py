"""Shards: the index of members, kept beside the object and offered to other programs; the verbs `forebay shard`; resharding."""

import io
import json
import random
import re
import tarfile
import urllib.request
import zipfile

import pytest
from conftest import boto

KINDS = ("kept", "built")


def get(server, path):
    """(status, body)"""
    try:
        with urllib.request.urlopen(f"{server.endpoint}/{path}") as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def indexes(server):
    """How many indexes were read from the node's state, and how many were built."""
    found = server.metrics()
    return tuple(int(found[f'forebay_shard_indexes_total{{from="{kind}"}}']) for kind in KINDS)


def make_tar(samples):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in samples:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def make_samples(seed, count=20, prefix="d/"):
    rng = random.Random(seed)
    return [(f"{prefix}{i:04d}.{ext}", rng.randbytes(rng.choice((0, 3, 700, 9000)))) for i in range(count) for ext in ("jpg", "cls")]


def wids_samples(names):
    """Samples as the published library counts them: runs of one key; names without a dot are left out."""
    keys = [match.group(1) for match in (re.match(r"^((?:.*/)?.*?)(\..*)$", name) for name in names) if match]
    return sum(1 for i, key in enumerate(keys) if i == 0 or keys[i - 1] != key)


def dali_index(body):
    """As the published tool writes it."""
    samples, last = [], None
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        for member in tar:
            if not member.isfile():
                continue
            dot = member.name.find(".", member.name.rfind("/") + 1)
            key, ext = member.name[:dot], member.name[dot + 1 :]
            if not key or key.endswith("/"):
                continue
            if key != last:
                samples.append([])
            last = key
            samples[-1].append(f"{ext} {member.offset_data} {member.size} {member.name}")
    return "".join([f"v1.2 {len(samples)}\n", *(" ".join(sample) + "\n" for sample in samples)]).encode()


@pytest.fixture
def local(start_forebay):
    """A server of this test alone, with a bucket, and a client of it."""
    server = start_forebay().wait_ready()
    s3 = boto(server.endpoint, server.keys())
    s3.create_bucket(Bucket="bkt")
    return server, s3


def test_an_index_is_kept_over_a_start_and_never_of_another_version(local, start_forebay):
    server, s3 = local
    samples = make_samples(1)
    s3.put_object(Bucket="bkt", Key="x.tar", Body=make_tar(samples))
    doc = json.loads(get(server, "bkt/x.tar?shard-index=json")[1])
    assert [m["name"] for m in doc["members"]] == [name for name, _ in samples] and doc["samples"] == len(samples) // 2
    assert indexes(server) == (0, 1)
    folder = server.data_dir / ".forebay/node/shards"
    assert len(list(folder.iterdir())) == 1
    server.end()

    server = start_forebay().wait_ready()
    s3 = boto(server.endpoint, server.keys())
    assert json.loads(get(server, "bkt/x.tar?shard-index=json")[1]) == doc
    assert indexes(server) == (1, 0)  # no scan
    s3.put_object(Bucket="bkt", Key="x.tar", Body=make_tar(samples[:6]))
    assert not list(folder.iterdir())  # dropped with the version that it described
    assert len(json.loads(get(server, "bkt/x.tar?shard-index=json")[1])["members"]) == 6
    assert indexes(server) == (1, 1) and len(list(folder.iterdir())) == 1
    s3.delete_object(Bucket="bkt", Key="x.tar")
    assert not list(folder.iterdir()) and get(server, "bkt/x.tar?shard-index=json")[0] == 404


def test_a_damaged_index_is_made_again(local, start_forebay):
    server, s3 = local
    s3.put_object(Bucket="bkt", Key="x.tar", Body=make_tar(make_samples(2)))
    doc = get(server, "bkt/x.tar?shard-index=json")[1]
    server.end()
    (kept,) = (server.data_dir / ".forebay/node/shards").iterdir()
    data = bytearray(kept.read_bytes())
    data[-9] ^= 1
    kept.write_bytes(data)
    server = start_forebay().wait_ready()
    assert get(server, "bkt/x.tar?shard-index=json")[1] == doc and indexes(server) == (0, 1)


def test_forms_for_other_programs(local):
    server, s3 = local
    body = make_tar([*make_samples(3), ("d/.hidden.jpg", b"x"), ("e/7.seg.png", b"yy"), ("e/7.txt", b"z")])
    s3.put_object(Bucket="bkt", Key="a b/x.tar", Body=body)
    etag = s3.head_object(Bucket="bkt", Key="a b/x.tar")["ETag"].strip('"')
    assert get(server, "bkt/a%20b/x.tar?shard-index=dali")[1] == dali_index(body)
    wids = json.loads(get(server, "bkt/a%20b/x.tar?shard-index=wids")[1])
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        samples = wids_samples(tar.getnames())
    url = f"{server.endpoint}/bkt/a%20b/x.tar"
    assert wids == {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": [{"url": url, "nsamples": samples, "filesize": len(body), "md5sum": etag}]}

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"x" * 1000)
    s3.put_object(Bucket="bkt", Key="x.zip", Body=out.getvalue())
    member = json.loads(get(server, "bkt/x.zip?shard-index=json")[1])["members"][0]
    assert member["name"] == "a.txt" and member["size"] == 1000 and member["stored"] < 100
    s3.put_object(Bucket="bkt", Key="lies.tar", Body=make_tar([("a.jpg", b"x" * 9000)])[:4000])
    s3.put_object(Bucket="bkt", Key="x.tgz", Body=b"x")
    s3.put_object(Bucket="bkt", Key="space.tar", Body=make_tar([("a b.jpg", b"x")]))
    for path, says in (
        ("x.zip?shard-index=wids", b"json"),
        ("x.zip?shard-index=xml", b"json, wids, dali"),
        ("x.tgz?shard-index=json", b"has no index"),
        ("plain?shard-index=json", b"no archive by its name"),
        ("lies.tar?shard-index=json", b"longer than the archive"),
        ("space.tar?shard-index=dali", b"a b.jpg"),
    ):
        status, answer = get(server, f"bkt/{path}")
        assert status == 400 and says in answer, (path, status, answer)
    assert get(server, "bkt/none.tar?shard-index=json")[0] == 404
