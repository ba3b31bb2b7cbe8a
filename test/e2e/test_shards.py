"""Shards: the index of members, kept beside the object and offered to other programs; the verbs `forebay shard`; resharding."""

import gzip
import io
import json
import random
import re
import subprocess
import tarfile
import urllib.error
import urllib.request
import zipfile

import pytest
import webdataset
from rigs.process import PATIENCE, Patience

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


def members(body):
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        return [(m.name, tar.extractfile(m).read()) for m in tar]


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


# ---- resharding ----


def ask(server, path, method="GET", body=None):
    request = urllib.request.Request(server.endpoint + path, method=method, data=None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def begin(server, names=None, **args):
    """The id of a new job, or the text of the refusal."""
    body = {"kind": "reshard", "args": {"bucket": "bkt", "to": "new", "name": "s-%03d.tar", "size": 30_000, **args}}
    if names is not None:
        body["list"] = "\n".join(names)
    status, answer = ask(server, "/_/jobs", "POST", body)
    return answer["id"] if status == 202 else answer


def end_of(server, job):
    patience = Patience()
    while not patience.is_over():
        status, doc = ask(server, f"/_/jobs/{job}?wait=5")
        assert status == 200, doc
        if doc["state"] in ("done", "failed", "failed-in-part", "cancelled"):
            return doc
    raise AssertionError(f"job {job} has not ended: {doc}")


def reshard(server, names=None, **args):
    job = begin(server, names, **args)
    return end_of(server, job)


def objects(s3, bucket="new"):
    return {o["Key"]: s3.get_object(Bucket=bucket, Key=o["Key"])["Body"].read() for o in s3.list_objects_v2(Bucket=bucket).get("Contents", [])}


def samples_in(shards):
    """[[(name, bytes) of a sample], ...] over all shards, in their order."""
    out = []
    for _, body in sorted(shards.items()):
        with tarfile.open(fileobj=io.BytesIO(body)) as tar:
            last = None
            for member in tar:
                key = member.name.rsplit("/", 1)[0] + "/" + member.name.rsplit("/", 1)[1].split(".", 1)[0]
                if key != last:
                    out.append([])
                last = key
                out[-1].append((member.name, tar.extractfile(member).read()))
    return out


def make_zip(samples):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in samples:
            archive.writestr(name, data)
    return out.getvalue()


@pytest.fixture(scope="module")
def inputs(server):
    """Shards of three formats, and their samples: one has its members apart from each other."""
    s3 = boto(server.endpoint, server.keys())
    s3.create_bucket(Bucket="bkt")
    parts = [make_samples(n, 14, f"d{n}/") for n in range(4)]
    parts[0] = parts[0][0::2] + parts[0][1::2]  # all jpg, then all cls
    s3.put_object(Bucket="bkt", Key="in/0.tar", Body=make_tar(parts[0]))
    s3.put_object(Bucket="bkt", Key="in/1.tgz", Body=gzip.compress(make_tar(parts[1])))
    s3.put_object(Bucket="bkt", Key="in/2.zip", Body=make_zip(parts[2]))
    s3.put_object(Bucket="bkt", Key="in/3.tar", Body=make_tar(parts[3]))
    s3.put_object(Bucket="bkt", Key="in/readme.txt", Body=b"no shard")
    samples = [[(name, data) for part in parts for name, data in part if name.split(".")[0] == key] for key in dict.fromkeys(name.split(".")[0] for part in parts for name, _ in part)]
    return server, s3, samples


@pytest.fixture
def new(inputs):
    """`inputs` with an empty bucket "new"."""
    server, s3, _ = inputs
    s3.create_bucket(Bucket="new")
    yield inputs
    for key in objects(s3):
        s3.delete_object(Bucket="new", Key=key)
    s3.delete_bucket(Bucket="new")


def size_of(sample):
    return sum(len(data) for _, data in sample)


@pytest.mark.parametrize("by", ["none", "name", "size", "shuffle", "checksum", "md5"])
def test_reshard_orders(new, by):
    server, s3, samples = new
    before = objects(s3, "bkt")
    doc = reshard(server, prefix="in/", by=by, **({"descending": 1} if by in ("name", "size") else {"seed": 7}))
    assert doc["state"] == "done", doc
    shards = objects(s3)
    got = samples_in(shards)
    assert sorted(got) == sorted(samples)
    assert len(shards) > 3 and all(len(body) <= 30_000 + 10_240 for body in shards.values())
    if by == "none":
        assert got == samples
    elif by == "name":
        assert [s[0][0] for s in got] == sorted((s[0][0] for s in samples), reverse=True)
    elif by == "size":
        assert [size_of(s) for s in got] == sorted((size_of(s) for s in samples), reverse=True)
    else:
        assert got != samples
    first = shards
    if by == "shuffle":
        failed = reshard(server, prefix="in/", by=by, seed=7)
        assert "exists" in failed["reason"] and ask(server, f"/_/jobs/{failed['id']}", "DELETE")[0] < 300
        assert reshard(server, prefix="in/", by=by, seed=7, overwrite=1)["state"] == "done" and objects(s3) == first
        assert reshard(server, prefix="in/", by=by, seed=8, overwrite=1)["state"] == "done" and objects(s3) != first
    assert objects(s3, "bkt") == before  # sources are never touched
    assert not list((server.data_dir / ".forebay/node/spill").iterdir())


def test_reshard_by_content_and_by_list(new):
    server, s3, _ = new
    rng = random.Random(3)
    values = [rng.randrange(-50, 50) for _ in range(30)]
    samples = [[(f"{i:03d}.cls", str(value).encode() + b"\n"), (f"{i:03d}.jpg", rng.randbytes(100))] for i, value in enumerate(values)]
    flat = [member for sample in samples for member in sample]
    s3.put_object(Bucket="bkt", Key="c/a.tar", Body=make_tar(flat[:30]))
    s3.put_object(Bucket="bkt", Key="c/b.tar", Body=make_tar(flat[30:]))
    assert reshard(server, ["c/{a,b}.tar"], by="content", ext=".cls", key_type="int")["state"] == "done"
    got = [int(data) for body in (b for _, b in sorted(objects(s3).items())) for name, data in members(body) if name.endswith(".cls")]
    assert got == sorted(values)

    order = [(f"{i:03d}", f"{('even', 'odd')[i % 2]}.tar") for i in reversed(range(30))]
    s3.put_object(Bucket="bkt", Key="order.txt", Body="".join(f"{a}\t{b}\n" for a, b in order).encode())
    doc = reshard(server, ["c/{a,b}.tar"], by="list", order="order.txt", name="l/")
    assert doc["state"] == "done", doc
    assert [name for name, _ in members(objects(s3)["l/even.tar"])][:3] == ["028.cls", "028.jpg", "026.cls"]
    assert len(members(objects(s3)["l/odd.tar"])) == 30
    s3.put_object(Bucket="bkt", Key="order.json", Body=json.dumps({"x-%02d.tar": [a for a, _ in order]}).encode())
    doc = reshard(server, ["c/{a,b}.tar"], by="list", order="order.json", name="j/", size=20_000)
    assert doc["state"] == "done" and {"j/x-00.tar", "j/x-01.tar"} <= set(objects(s3))

    for text, says in (
        ("".join(f"{a}\t{b}\n" for a, b in order[:-1]), 'sample "000"'),
        ("".join(f"{a}\t{b}\n" for a, b in [*order, ("999", "odd.tar")]), 'sample "999", line 31 of the order file, is in no shard'),
        ("".join(f"{a}\t{b}\n" for a, b in [*order, ("005", "odd.tar")]), "stands in line 25 and in line 31"),
        ("000 odd.tar\n", "has no shard"),
        ("", "names no sample"),
    ):
        s3.put_object(Bucket="bkt", Key="bad.txt", Body=text.encode())
        doc = reshard(server, ["c/{a,b}.tar"], by="list", order="bad.txt", name="b/")
        assert doc["state"] == "failed" and says in doc["reason"], doc
    assert not [key for key in objects(s3) if key.startswith("b/")]


def test_reshard_plan_and_refusals(new):
    server, s3, samples = new
    doc = reshard(server, prefix="in/", by="name", dry_run=1)
    plan = json.loads(doc["position"])
    assert doc["state"] == "done" and plan["phase"] == "planned" and not objects(s3)
    assert plan["inputs"] == 4 and plan["samples"] == len(samples) and plan["bytes"] == sum(map(size_of, samples)) and plan["shards"] > 3
    for args, says in (
        ({"size": 0}, "shards of 0 bytes"),
        ({"by": "colour"}, "the orders are"),
        ({"by": "content"}, "extension"),
        ({"by": "list"}, "SAMPLE, a tab, SHARD"),
        ({"name": "one.tar"}, "names one shard"),
        ({"name": "s-%03d.jpg"}, "is no name of a shard"),
        ({"to": "nowhere"}, "no bucket"),
        ({"colour": 1}, "no argument"),
    ):
        assert says in begin(server, **{"prefix": "in/", **args}), args
    s3.put_object(Bucket="bkt", Key="bad/up.tar", Body=make_tar([("../up.jpg", b"x")]))
    s3.put_object(Bucket="bkt", Key="bad/lie.tar", Body=make_tar([("a.jpg", b"x" * 9000)])[:4000])
    for args, says in (
        ({"names": ["in/9.tar"]}, "does not exist"),
        ({"names": ["in/readme.txt"]}, "is no shard by its name"),
        ({"prefix": "empty/"}, "no shard is there"),
        ({"names": ["bad/up.tar"]}, "would leave the folder"),
        ({"names": ["bad/lie.tar"]}, "longer than the archive"),
        ({"prefix": "in/", "by": "content", "ext": ".txt"}, "no member that ends in"),
        ({"prefix": "in/", "by": "content", "ext": ".jpg", "key_type": "int"}, "key"),
        ({"prefix": "in/", "name": "s-{0..1}.tar"}, "names 2 shards"),
        ({"prefix": "in/", "to": "bkt", "name": "in/%d.tar"}, "the name of one that is read"),
    ):
        doc = reshard(server, **args)
        assert doc["state"] == "failed" and says in doc["reason"], (args, doc)
    assert not objects(s3)
    doc = reshard(server, ["in/{0..9}.tar"], skip_missing=1)
    assert doc["state"] == "done" and doc["present"] == 8


def test_dsort_of_ais(new):
    server, s3, samples = new
    spec = {
        "input_bck": {"name": "bkt"},
        "input_format": {"objnames": ["in/0.tar", "in/1.tgz", "in/2.zip", "in/3.tar", "in/none.tar"]},
        "output_bck": {"name": "new"},
        "output_format": "d-{000..999}",
        "output_extension": ".tar",
        "output_shard_size": "30KB",
        "algorithm": {"kind": "alphanumeric", "decreasing": True},
        "description": "by name",
    }
    for dry_run in (True, False):
        with urllib.request.urlopen(urllib.request.Request(server.endpoint + "/v1/sort", json.dumps({**spec, "dry_run": dry_run}).encode(), method="POST")) as answer:
            job = answer.read().decode()
        assert job.startswith("srt-") and end_of(server, job[4:])["state"] == "done"
        assert bool(objects(s3)) != dry_run
        (info,) = ask(server, f"/v1/sort?uuid={job}")[1].values()
        extraction, creation = info["Metrics"]["local_extraction"], info["Metrics"]["shard_creation"]
        assert info["id"] == job and info["src-bck"]["name"] == "bkt" and info["dst-bck"]["name"] == "new" and info["archived"]
        assert creation["finished"] and not info["aborted"] and info["Metrics"]["description"] == "by name"
        assert extraction["extracted_count"] == "4" and extraction["extracted_record_count"] == str(len(samples))
        assert creation["created_count"] == info["loc-objs"] == str(len(objects(s3)))
    assert [s[0][0] for s in samples_in(objects(s3))] == sorted((s[0][0] for s in samples), reverse=True)
    assert job in [i["id"] for i in ask(server, "/v1/sort?regex=%5Eby")[1]] and ask(server, "/v1/sort?only_active=true")[1] == []
    assert ask(server, f"/v1/sort/abort?uuid={job}", "DELETE")[0] == 200  # it has ended
    assert ask(server, f"/v1/sort?uuid={job}", "DELETE")[0] == 200 and ask(server, f"/v1/sort?uuid={job}")[0] == 404


@pytest.mark.parametrize("point", ["reshard.run:3", "reshard.sorting:1", "reshard.created:2"])
def test_a_killed_reshard_goes_on_to_equal_bytes(inputs, start_forebay, tmp_path, point):
    """A kill -9 in each phase; each shard makes a run of its own, and one case has more of them than one merge reads."""
    _, source, _ = inputs
    settings = {"reshard.memory": "1KiB"}
    server = start_forebay(settings=settings, env={"FOREBAY_FAULT": f"{point}:kill"}).wait_ready()
    s3 = boto(server.endpoint, server.keys())
    for bucket in ("bkt", "new", "again"):
        s3.create_bucket(Bucket=bucket)
    for key, body in objects(source, "bkt").items():
        if key.startswith("in/"):
            s3.put_object(Bucket="bkt", Key=key, Body=body)
    for i in range(36 if point == "reshard.sorting:1" else 0):
        s3.put_object(Bucket="bkt", Key=f"in/more-{i:02d}.tar", Body=make_tar([(f"m{i}/{k:02d}.txt", b"x" * i) for k in range(20)]))
    job = begin(server, prefix="in/", by="shuffle", seed=3)
    assert server.popen.wait(PATIENCE) == -9, f"no code passed {point}"
    server = start_forebay(settings=settings).wait_ready()
    s3 = boto(server.endpoint, server.keys())
    doc = end_of(server, job)
    assert doc["state"] == "done", doc
    assert reshard(server, prefix="in/", by="shuffle", seed=3, to="again")["state"] == "done"
    assert objects(s3) == objects(s3, "again") and len(objects(s3)) > 3
    assert not list((server.data_dir / ".forebay/node/spill").iterdir())


def test_webdataset_reads_ours_and_we_read_its(new, tmp_path):
    server, s3, samples = new
    with webdataset.TarWriter(str(tmp_path / "w.tar")) as writer:
        for i in range(12):
            writer.write({"__key__": f"k/{i:03d}", "cls": i % 3, "txt": f"text {i}"})
    s3.put_object(Bucket="bkt", Key="w/w.tar", Body=(tmp_path / "w.tar").read_bytes())
    assert reshard(server, ["w/w.tar"], by="shuffle", seed=1, size=4096)["state"] == "done"
    shards = objects(s3)
    assert len(shards) > 2
    for key, body in shards.items():
        (tmp_path / key).write_bytes(body)
    urls = [str(tmp_path / key) for key in sorted(shards)]
    read = {s["__key__"]: (s["cls"], s["txt"]) for s in webdataset.WebDataset(urls, shardshuffle=False).decode()}
    assert read == {f"k/{i:03d}": (i % 3, f"text {i}") for i in range(12)}


# ---- the command line ----


def cli(server, *args, code=0):
    """(stdout, stderr) of `forebay ARGS`."""
    done = subprocess.run([server.binary, *map(str, args), "--endpoint-url", server.endpoint], capture_output=True, timeout=PATIENCE)
    assert done.returncode == code, (args, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout, done.stderr.decode()


@pytest.fixture
def folder(tmp_path):
    """A folder with samples, and those."""
    samples = make_samples(9, 4, "")
    (tmp_path / "in/sub").mkdir(parents=True)
    samples = [(f"sub/{name}" if i % 4 < 2 else name, data) for i, (name, data) in enumerate(samples)]
    for name, data in samples:
        (tmp_path / "in" / name).write_bytes(data)
    return tmp_path, dict(samples)


@pytest.mark.parametrize(("ext", "remote"), [("tar", False), ("zip", False), ("tar", True), ("tar.lz4", True)])
def test_shard_verbs(new, folder, ext, remote):
    server, s3, _ = new
    path, samples = folder
    shard = f"s3://new/x.{ext}" if remote else path / f"x.{ext}"
    cli(server, "shard", "create", shard, path / "in")
    assert "exists" in cli(server, "shard", "create", shard, path / "in", code=1)[1]
    listed = json.loads(cli(server, "shard", "ls", shard, "-o", "json")[0])
    assert {m["name"]: m["size"] for m in listed} == {name: len(data) for name, data in samples.items()}
    name = next(name for name, data in samples.items() if data)
    assert cli(server, "shard", "cat", shard, name)[0] == samples[name]
    assert "no member" in cli(server, "shard", "cat", shard, "none", code=3)[1]
    (path / "more.txt").write_bytes(b"more")
    cli(server, "shard", "append", shard, path / "more.txt")
    assert "two members" in cli(server, "shard", "append", shard, path / "more.txt", code=1)[1]
    cli(server, "shard", "extract", shard, path / "out")
    found = {str(p.relative_to(path / "out")): p.read_bytes() for p in (path / "out").rglob("*") if p.is_file()}
    assert found == {**samples, "more.txt": b"more"}
    cli(server, "shard", "extract", shard, path / "some", "-m", "sub/*.jpg")
    assert all(p.suffix == ".jpg" for p in (path / "some").rglob("*") if p.is_file())
    if ext in ("tar", "zip"):
        assert len(json.loads(cli(server, "shard", "index", shard, "--format", "json")[0])["members"]) == len(samples) + 1
    else:
        assert "no index" in cli(server, "shard", "index", shard, code=2)[1]


def test_shard_verbs_refuse(new, folder):
    server, s3, _ = new
    path, _ = folder
    (path / "up.tar").write_bytes(make_tar([("ok.txt", b"x"), ("../up.txt", b"y")]))
    assert "would not be a file below" in cli(server, "shard", "extract", path / "up.tar", path / "down/here", code=2)[1]
    assert not (path / "down/up.txt").exists()
    (path / "lies.tar").write_bytes(make_tar([("a.jpg", b"x" * 9000)])[:4000])
    assert "longer than the archive" in cli(server, "shard", "extract", path / "lies.tar", path / "lies", code=2)[1]
    assert not list((path / "lies").rglob("*.jpg"))
    with zipfile.ZipFile(path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(40 << 20))
    assert "expand" in cli(server, "shard", "extract", path / "bomb.zip", path / "bomb", code=2)[1]
    assert not list((path / "bomb").rglob("zeros"))
    assert "no shard by its name" in cli(server, "shard", "ls", path / "in", code=2)[1]
    cli(server, "shard", "ls", "s3://new/none.tar", code=3)


def test_reshard_verb_and_joined_index(new):
    server, s3, samples = new
    out = cli(server, "reshard", "s3://bkt/in/", "s3://new/r/", "--size", "30KB", "--shuffle", "--seed", "7", "--dry-run")[0].decode()
    assert f"{len(samples)} samples" in out and "would become" in out and not objects(s3)
    cli(server, "reshard", "s3://bkt/in/{0,3}.tar", "s3://new/r/", "--size", "30KB", "--name", "s-{00..99}.tar", "-q")
    shards = objects(s3)
    assert set(shards) >= {"r/s-00.tar", "r/s-01.tar"}
    assert "shards of 0 bytes" in cli(server, "reshard", "s3://bkt/in/", "s3://new/r/", "--size", "0", code=2)[1]
    index = json.loads(cli(server, "shard", "index", f"s3://new/r/s-{{00..{len(shards) - 1:02d}}}.tar", "--base", "here/")[0])
    assert [s["url"] for s in index["shardlist"]] == [f"here/{key[2:]}" for key in sorted(shards)]
    assert sum(s["nsamples"] for s in index["shardlist"]) == 28
    cli(server, "shard", "create", "s3://new/joined.tar", "s3://new/r/s-{00..01}.tar", "-q")
    assert [name for name, _ in members(objects(s3)["joined.tar"])] == ["r/s-00.tar", "r/s-01.tar"]
