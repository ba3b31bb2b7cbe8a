"""I5, D8, F9 and the way out: what `forebay disk rebuild|check|export|import`, `backup` and `restore` do, with the real
program on real folders."""

import concurrent.futures
import hashlib
import io
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tarfile
import threading
import time
import urllib.request

import botocore.exceptions
import pytest
from rigs import forebay, plain
from rigs.process import PATIENCE

from conftest import boto

SEED = int(os.environ.get("SEED", "20261121"))
PART = 5 << 20


def run(*args, code=0, stdin=None):
    """The program's verb; (stdout, stderr). Its exit code must be `code`."""
    done = subprocess.run([str(forebay.binary()), *map(str, args)], capture_output=True, env=forebay.server_env(), input=stdin, timeout=PATIENCE)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    assert done.returncode == code, f"{args}: {done.returncode}, wanted {code}\n{out}\n{err}"
    return out, err


def zero(path, size=4096):
    with open(path, "r+b") as file:
        file.write(bytes(size))


def flip(path, offset, bit=3):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


class Node:
    """A folder with objects of every kind, and what a client knows of them."""

    def __init__(self, folder):
        self.folder, self.bodies, self.heads = folder, {}, {}

    def fill(self, client):
        rng = random.Random(SEED)
        client.create_bucket(Bucket="data")
        client.create_bucket(Bucket="empty")
        for n in range(40):
            self.put(client, f"small/{n:03d}", rng.randbytes(rng.randint(0, 30_000)), Metadata={"number": str(n)}, ContentType="text/x-small")
        for n in range(4):
            self.put(client, f"large/{n}", rng.randbytes(400_000 + n))
        self.put(client, "own", rng.randbytes(17 << 20), ContentDisposition="attachment", CacheControl="no-cache")
        for key in ("a//b", "/rooted", "folder/", "../up", "tab\there", "ä/ö", "small", "x" * 1024, "large/0/below"):
            self.put(client, key, key.encode() * 3)
        self.put(client, "small/007", rng.randbytes(9000), Metadata={"second": "yes"})
        for key in ("small/011", "large/3"):
            client.delete_object(Bucket="data", Key=key)
            del self.bodies[key], self.heads[key]
        self.in_parts(client, "in/parts", [rng.randbytes(PART), rng.randbytes(PART + 77), rng.randbytes(1000)])

    def put(self, client, key, body, **more):
        client.put_object(Bucket="data", Key=key, Body=body, **more)
        self.note(client, key, body)

    def in_parts(self, client, key, parts):
        upload = client.create_multipart_upload(Bucket="data", Key=key, Metadata={"made": "in parts"}, ContentType="application/x-parts")["UploadId"]
        done = [
            {"PartNumber": n, "ETag": client.upload_part(Bucket="data", Key=key, UploadId=upload, PartNumber=n, Body=body)["ETag"]}
            for n, body in enumerate(parts, 1)
        ]
        client.complete_multipart_upload(Bucket="data", Key=key, UploadId=upload, MultipartUpload={"Parts": done})
        self.note(client, key, b"".join(parts))

    def note(self, client, key, body):
        self.bodies[key] = body
        self.heads[key] = head(client, key)

    def check(self, client, bucket="data", times=True):
        """Everything that was acknowledged is there, as it was; nothing else is."""
        listed = {row["Key"]: row for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket) for row in page.get("Contents", [])}
        assert listed.keys() == self.bodies.keys()
        for key, body in self.bodies.items():
            got = head(client, key, bucket)
            want = dict(self.heads[key])
            if not times:
                got.pop("LastModified"), want.pop("LastModified")
            assert got == want, key
            assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == body, key


def head(client, key, bucket="data"):
    answer = client.head_object(Bucket=bucket, Key=key)
    names = ("ETag", "ContentLength", "ContentType", "Metadata", "LastModified", "CacheControl", "ContentDisposition")
    return {name: answer.get(name) for name in names}


def client_of(process):
    return boto(process.endpoint, process.keys())


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recovery") / "original"
    node = Node(folder)
    with forebay.Forebay(folder) as process:
        process.wait_ready()
        node.fill(client_of(process))
        process.end()
    return node


@pytest.fixture
def copy(original, tmp_path):
    """A copy of the filled folder that may be hurt."""
    folder = tmp_path / "data"
    subprocess.run(["cp", "-a", "--sparse=always", str(original.folder), str(folder)], check=True)
    return folder


# ---- rebuild ----


@pytest.mark.parametrize("hurt", ["index", "superblocks", "both", "garbage"])
def test_rebuild_gives_everything_back(original, copy, start_forebay, hurt):
    """I5: a lost or damaged index, two zeroed superblocks: the same node again, nothing deleted in it."""
    if hurt in ("index", "both"):
        shutil.rmtree(copy / "index")
    if hurt == "garbage":
        (copy / "index/data.mdb").write_bytes(random.Random(1).randbytes(300_000))
    if hurt in ("superblocks", "both"):
        zero(copy / ".forebay/superblock")
        zero(copy / ".forebay/superblock.2")
    out, _ = run("disk", "rebuild", copy)
    assert f"{len(original.bodies)} objects" in out
    original.check(client_of(start_forebay("data")))


def test_serve_rebuilds_a_missing_index_by_itself(original, copy, start_forebay):
    shutil.rmtree(copy / "index")
    original.check(client_of(start_forebay("data")))


def test_a_hundred_thousand_objects_are_served_at_once_after_a_kill(tmp_path, start_forebay):
    """F9. Also that import takes so many, and a start without an index: the same objects."""
    count = 100_000
    with tarfile.open(tmp_path / "in.tar", "w") as tar:
        for n in range(count):
            member = tarfile.TarInfo(f"{n % 100:02d}/{n:06d}")
            member.size = 6
            tar.addfile(member, io.BytesIO(b"%06d" % n))
    done = subprocess.run(
        [str(forebay.binary("rel")), "disk", "import", "-q", str(tmp_path / "data"), str(tmp_path / "in.tar"), "--bucket", "many"],
        capture_output=True,
        env=forebay.server_env(),
        check=True,
    )
    assert b"imported 100000 objects" in done.stdout
    process = start_forebay("data", build="rel")
    for n in range(200):
        assert plain.ask(process.port, "PUT", "many", f"new/{n}", body=b"new").status == 200
    process.kill()
    for index_is_lost in (False, True):
        if index_is_lost:
            shutil.rmtree(tmp_path / "data/index")
        begun = time.monotonic()
        process = start_forebay("data", build="rel")
        assert plain.get(process.port, "many", "42/077742").body == b"077742"
        took = time.monotonic() - begun
        assert took < PATIENCE, f"{took:.1f} s to the first GET; the index was {'lost' if index_is_lost else 'there'}"
        print(f"{took:.2f} s to the first GET, index lost: {index_is_lost}")
        assert json.loads(process.get("/_/stat")[1])["disk"]["objects"] == count + 200
        process.kill()


def test_a_disk_without_its_logs_is_refused_until_bodies_are_asked_for(original, copy, start_forebay):
    for log in copy.glob("native/log-*.tar"):
        log.unlink()
    process = start_forebay("data")  # what is left can be looked at; nothing is written, and nothing is guessed
    client = client_of(process)
    small = next(key for key, body in original.bodies.items() if 0 < len(body) < 100_000)
    for call, arguments in ((client.get_object, {"Key": small}), (client.put_object, {"Key": "new", "Body": b""})):
        with pytest.raises(botocore.exceptions.ClientError) as e:
            call(Bucket="data", **arguments)
        assert e.value.response["ResponseMetadata"]["HTTPStatusCode"] in (500, 503, 507)
    assert "a log is missing" in process.log()
    process.end()
    _, err = run("disk", "rebuild", "--from-bodies", copy, code=2)
    assert "--yes" in err
    out, _ = run("disk", "rebuild", "--from-bodies", "--dry-run", copy)
    assert "would take back" in out
    run("disk", "rebuild", "--from-bodies", "--yes", copy)
    client = client_of(start_forebay("data"))
    for key in ("large/0", "large/1", "own"):
        assert client.get_object(Bucket="data", Key=key)["Body"].read() == original.bodies[key]
        assert head(client, key)["ETag"] == original.heads[key]["ETag"]
    parts = client.list_multipart_uploads(Bucket="data")["Uploads"]
    assert [part["Key"] for part in parts] == ["in/parts"]  # what was complete is said to be in progress, never guessed


def test_tools_keep_away_from_a_served_disk(copy, start_forebay):
    start_forebay("data")
    for verb in (["check"], ["rebuild"], ["check", "--repair"]):
        _, err = run("disk", *verb, copy, code=1)
        assert "a process serves this disk: stop it first" in err
    run("disk", "export", copy, copy.parent / "x.tar", code=1)
    run("disk", "import", copy, copy, code=1)


def test_what_is_no_disk_is_said_to_be_none(tmp_path):
    for verb in ("check", "rebuild"):
        _, err = run("disk", verb, tmp_path, code=3)
        assert "is no disk" in err


# ---- check ----


def places(folder, bodies):
    """{key: (file, offset)} of bodies that stand verbatim in a segment."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*.tar")):
        data = path.read_bytes()
        for key, body in bodies.items():
            if len(body) > 1000 and (at := data.find(body[:1000])) >= 0:
                found[key] = (path, at)
    return found


def test_repair_mends_and_names_and_a_second_run_has_nothing_to_say(original, copy, start_forebay):
    """I3 and I5: bytes are damaged in two objects, and everything around them too."""
    where = places(copy, original.bodies)
    for key in ("small/020", "large/1"):
        flip(where[key][0], where[key][1] + 300)
    flip(copy / ".forebay/superblock.2", 100)
    flip(where["large/2"][0], 700)  # the segment's header
    flip(where["large/2"][0], where["large/2"][1] - 4096 + 900)  # the body's
    flip(copy / "index/data.mdb", 5000)
    out, _ = run("disk", "check", copy, code=6)
    assert '"small/020"' in out and '"large/1"' in out
    out, _ = run("disk", "check", "--repair", "--json", copy, code=6)
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[-1]["damaged"] == 2 and lines[-1]["mended"] >= 3
    out, _ = run("disk", "check", "--repair", copy, code=6)
    assert " 2 damaged, 0 mended" in out
    client = client_of(process := start_forebay("data"))
    for key in original.bodies:
        if key not in ("small/020", "large/1"):
            assert client.get_object(Bucket="data", Key=key)["Body"].read() == original.bodies[key]
            assert head(client, key) == original.heads[key]
    assert plain.get(process.port, "data", "small/020").status == 500
    process.end()
    _, err = run("disk", "check", "--repair", "--drop-damaged", copy, code=2)
    assert "--yes" in err
    out, _ = run("disk", "check", "--repair", "--drop-damaged", "--yes", copy)
    assert "2 mended" in out
    out, _ = run("disk", "check", copy)
    assert "sound: " in out and "; 0 damaged" in out  # the rotten bytes in the log belong to no object: a note
    process = start_forebay("data")
    assert plain.get(process.port, "data", "small/020").status == 404
    assert plain.get(process.port, "data", "small/021").status == 200


# ---- export, import ----


def members(path):
    with tarfile.open(path) as tar:
        return {m.name: (tar.extractfile(m).read(), m) for m in tar.getmembers()}


def test_export_is_exactly_what_lives(original, copy, tmp_path):
    run("disk", "export", copy, tmp_path / "all.tar")
    found = members(tmp_path / "all.tar")
    assert len(found) == len(original.bodies)
    safe = {f"data/{key}" for key in ("own", "ä/ö", "large/1", "small/000", "in/parts", "large/0/below")}
    assert safe <= found.keys()
    assert sum(name.startswith(".forebay/id/") for name in found) == 8  # 5 odd keys, one too long, two folders
    assert sorted(hashlib.sha256(body).hexdigest() for body, _ in found.values()) == sorted(
        hashlib.sha256(body).hexdigest() for body in original.bodies.values()
    )
    assert subprocess.run(["tar", "-xf", tmp_path / "all.tar", "-C", tmp_path], capture_output=True).stderr == b""
    out, _ = run("disk", "export", copy, tmp_path / "some.tar", "--bucket", "data", "--prefix", "large/", "--json")
    assert json.loads(out)["objects"] == 4
    assert {"data/large/1", "data/large/2"} < members(tmp_path / "some.tar").keys()
    run("disk", "export", copy, tmp_path / "none.tar", "--bucket", "ghost", code=3)  # a name that was typed wrong is no backup
    assert members(tmp_path / "none.tar") == {}


def test_export_leaves_out_what_is_damaged_and_says_so(original, copy, tmp_path):
    where = places(copy, original.bodies)
    flip(where["large/1"][0], where["large/1"][1] + 300_000)
    out, _ = run("disk", "export", copy, tmp_path / "all.tar", code=6)
    assert '"large/1"' in out and "1 damaged" in out
    assert "data/large/1" not in members(tmp_path / "all.tar")


@pytest.mark.parametrize("form", ["tar", "folder"])
def test_export_and_import_give_the_same_objects(original, copy, tmp_path, start_forebay, form):
    target = tmp_path / ("out.tar" if form == "tar" else "out")
    run("disk", "export", copy, target)
    out, _ = run("disk", "import", tmp_path / "new", target)
    assert f"imported {len(original.bodies)} objects" in out
    out, _ = run("disk", "import", tmp_path / "new", target)  # again: nothing twice
    assert "imported 0 objects" in out and f"{len(original.bodies)} already present" in out
    run("disk", "check", tmp_path / "new")
    process = start_forebay("new")
    original.check(client_of(process), times=form == "tar")


def test_import_takes_anybodys_tar_and_folder(tmp_path, start_forebay):
    files = {"photos/a.jpg": b"one", "photos/b/c.jpg": b"two" * 100_000, "top": b"three"}
    for name, body in files.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(body)
    out, _ = run("disk", "import", tmp_path / "new", tmp_path / "in", code=1)
    assert '"top" is left out' in out and "imported 2 objects" in out
    run("disk", "import", tmp_path / "new", tmp_path / "in", "--bucket", "other", "--prefix", "x/")
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(tmp_path / "in", arcname="./")
    run("disk", "import", tmp_path / "new", "-", "--bucket", "third", stdin=data.getvalue())
    client = client_of(start_forebay("new"))
    assert client.get_object(Bucket="photos", Key="b/c.jpg")["Body"].read() == files["photos/b/c.jpg"]
    for bucket, prefix in (("other", "x/"), ("third", "")):
        for name, body in files.items():
            got = client.get_object(Bucket=bucket, Key=prefix + name)
            assert got["Body"].read() == body and got["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'


def test_an_import_that_was_killed_is_begun_again(tmp_path, start_forebay):
    """kill -9 three times in the middle of it: the last run completes it, nothing is twice, nothing is half."""
    rng = random.Random(SEED)
    bodies = {f"k{n:04d}": rng.randbytes(rng.choice([10, 3000, 400_000])) for n in range(600)}
    with tarfile.open(tmp_path / "in.tar", "w") as tar:
        for key, body in bodies.items():
            member = tarfile.TarInfo(key)
            member.size, member.mtime = len(body), 1_700_000_000
            tar.addfile(member, io.BytesIO(body))
    command = [str(forebay.binary()), "disk", "import", str(tmp_path / "new"), str(tmp_path / "in.tar"), "--bucket", "killed"]
    for seconds in (0.3, 0.6, 0.9):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=forebay.server_env()) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
    run(*command[1:])
    out, _ = run(*command[1:])
    assert f"{len(bodies)} already present" in out
    run("disk", "check", tmp_path / "new")
    client = client_of(start_forebay("new"))
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="killed")
    assert {row["Key"] for page in pages for row in page["Contents"]} == bodies.keys()
    for key in rng.sample(sorted(bodies), 60):
        assert client.get_object(Bucket="killed", Key=key)["Body"].read() == bodies[key]


def test_an_archive_that_was_changed_is_not_taken(original, copy, tmp_path):
    run("disk", "export", copy, tmp_path / "all.tar", "--prefix", "large/1")
    data = (tmp_path / "all.tar").read_bytes()
    flip(tmp_path / "all.tar", data.find(original.bodies["large/1"][:100]) + 50)
    out, _ = run("disk", "import", tmp_path / "new", tmp_path / "all.tar", code=1)
    assert "its bytes are not what its record says" in out and "imported 0 objects" in out
    (tmp_path / "cut.tar").write_bytes(data[: len(data) // 2])
    _, err = run("disk", "import", tmp_path / "new", tmp_path / "cut.tar", code=1)
    assert "ends inside a member" in err


def test_export_merges_the_disks_of_a_node(tmp_path, start_forebay):
    """Each object once, whichever of its disks has it; with two copies a lost disk and a rotten one cost nothing."""
    disks = [tmp_path / name for name in ("one", "two", "three")]
    process = start_forebay("one", args=[str(disk) for disk in disks[1:]])
    client = client_of(process)
    node = Node(disks[0])
    node.fill(client)
    run("bucket", "set", "s3://data", "--copies", "2", "--endpoint-url", process.endpoint)
    twice = {f"twice/{n}": random.Random(n).randbytes(500 + n * 30_000) for n in range(12)}
    for key, body in twice.items():
        node.put(client, key, body)
    client.delete_object(Bucket="data", Key="twice/3")
    del node.bodies["twice/3"], node.heads["twice/3"], twice["twice/3"]
    process.end()
    out, _ = run("disk", "export", *disks, tmp_path / "all.tar", "--json")
    assert json.loads(out.splitlines()[-1])["objects"] == len(node.bodies)
    _, err = run("disk", "import", disks[0], tmp_path / "all.tar", code=4)
    assert "two" in err or "three" in err  # a listed disk that is not given is missed
    run("disk", "import", tmp_path / "new", tmp_path / "second", tmp_path / "all.tar")
    node.check(client_of(start_forebay("new", args=[str(tmp_path / "second")])))
    key, (path, at) = next((k, p) for k, p in places(disks[0], twice).items())
    flip(path, at + 100)
    out, _ = run("disk", "export", *disks, tmp_path / "rotten.tar", "--prefix", "twice/")
    assert members(tmp_path / "rotten.tar").keys() == {f"data/{key}" for key in twice}
    out, _ = run("disk", "export", "--partial", disks[1], disks[2], tmp_path / "lost.tar", "--prefix", "twice/", code=1)
    assert members(tmp_path / "lost.tar").keys() == {f"data/{key}" for key in twice}


# ---- backup, restore ----


def test_a_restored_node_answers_the_same(original, copy, tmp_path, start_forebay):
    """Objects, metadata, buckets, ETags of parts; keys and users where they were asked for, and sealed."""
    process = start_forebay("data")
    client = client_of(process)
    secret = process.keys()[1]
    there = ("--endpoint-url", process.endpoint)
    run("user", "add", "bob", "--grant", "read:s3://data", *there)
    users, _ = run("user", "ls", *there)
    (tmp_path / "pass").write_text("correct horse battery\n")
    (tmp_path / "pass").chmod(0o600)
    run("backup", tmp_path / "plain.tar", *there)
    run("backup", "--with-keys", "--passphrase-file", tmp_path / "pass", tmp_path / "keys.tar", *there)
    run("backup", tmp_path / "plain.tar", *there, code=2)  # not over another one
    buckets = [b["Name"] for b in client.list_buckets()["Buckets"]]
    process.end()
    for name in ("plain.tar", "keys.tar"):
        data = (tmp_path / name).read_bytes()
        assert secret.encode() not in data and b"user/bob" not in data, name

    out, _ = run("restore", tmp_path / "plain.tar", tmp_path / "first")
    assert f"{len(original.bodies)} objects" in out and "the backup has no keys" in out
    run("restore", tmp_path / "plain.tar", tmp_path / "first", code=1)  # it is a node now
    out, _ = run("restore", "--yes", tmp_path / "plain.tar", tmp_path / "first")
    assert f"{len(original.bodies)} already present" in out
    run("disk", "check", tmp_path / "first")
    process = start_forebay("first")
    client = client_of(process)
    assert process.keys()[1] != secret
    assert [b["Name"] for b in client.list_buckets()["Buckets"]] == buckets
    original.check(client)
    process.end()

    run("restore", "--passphrase-file", tmp_path / "pass", tmp_path / "keys.tar", tmp_path / "second")
    process = start_forebay("second")
    assert process.keys()[1] == secret
    assert run("user", "ls", "--endpoint-url", process.endpoint)[0] == users
    original.check(client_of(process))


class History:
    """A bucket with versioning as a client sees it: versions, markers, their order and what each answers; and uploads in progress."""

    def __init__(self, client):
        self.client = client

    def fill(self):
        client, rng = self.client, random.Random(SEED)
        client.create_bucket(Bucket="old")
        client.put_object(Bucket="old", Key="first/null", Body=b"before versioning was on", Metadata={"was": "first"})
        client.put_object(Bucket="old", Key="k", Body=b"the null version")
        self.versioning("Enabled")
        for n in range(5):
            client.put_object(Bucket="old", Key="k", Body=rng.randbytes(1000 * n), Metadata={"n": str(n)}, Tagging=f"n={n}")
        client.put_object(Bucket="old", Key="first/null", Body=rng.randbytes(300_000))
        large = client.put_object(Bucket="old", Key="large", Body=rng.randbytes(5 << 20))["VersionId"]
        client.put_object(Bucket="old", Key="large", Body=b"small now")
        client.put_object_tagging(Bucket="old", Key="large", VersionId=large, Tagging={"TagSet": [{"Key": "later", "Value": "yes"}]})
        client.delete_object(Bucket="old", Key="k")
        client.put_object(Bucket="old", Key="k", Body=b"back again")
        for key in ("gone", "a//b"):
            client.put_object(Bucket="old", Key=key, Body=key.encode())
            client.delete_object(Bucket="old", Key=key)
        client.delete_object(Bucket="old", Key="never was")
        self.versioning("Suspended")
        client.put_object(Bucket="old", Key="k", Body=b"a null version again")
        client.put_object(Bucket="old", Key="suspended", Body=b"1")
        client.put_object(Bucket="old", Key="suspended", Body=b"2")
        client.delete_object(Bucket="old", Key="large")  # a marker that is the null version
        self.versioning("Enabled")
        client.put_object(Bucket="old", Key="suspended", Body=b"3")

    def versioning(self, status):
        self.client.put_bucket_versioning(Bucket="old", VersioningConfiguration={"Status": status})

    def begin_uploads(self):
        """Two in progress: {key: (id, etags)}; the second one has no part yet."""
        client, rng = self.client, random.Random(SEED + 1)
        self.parts = {n: rng.randbytes(size) for n, size in ((1, PART), (2, PART + 5), (4, 70_000))}
        self.upload = client.create_multipart_upload(
            Bucket="old", Key="on its way", Metadata={"made": "in parts"}, Tagging="a=b", ChecksumAlgorithm="SHA256"
        )["UploadId"]
        for n, body in self.parts.items():
            client.upload_part(Bucket="old", Key="on its way", UploadId=self.upload, PartNumber=n, Body=body, ChecksumAlgorithm="SHA256")
        self.empty = client.create_multipart_upload(Bucket="old", Key="begun", ContentType="text/x-begun")["UploadId"]

    def seen(self, client):
        """All that a client can ask of it."""
        out = []
        for page in client.get_paginator("list_object_versions").paginate(Bucket="old", PaginationConfig={"PageSize": 3}):
            for kind in ("Versions", "DeleteMarkers"):
                out += [{"kind": kind, **{k: v for k, v in row.items() if k != "Owner"}} for row in page.get(kind, [])]
        for row in out:
            if row["kind"] == "Versions":
                one = dict(Bucket="old", Key=row["Key"], VersionId=row["VersionId"])
                answer = client.get_object(**one)
                row["body"] = answer["Body"].read()
                row["more"] = [answer.get(name) for name in ("ETag", "Metadata", "ContentType", "LastModified", "VersionId", "TagCount")]
                row["tags"] = client.get_object_tagging(**one)["TagSet"]
        out.append(client.get_bucket_versioning(Bucket="old").get("Status"))
        uploads = client.list_multipart_uploads(Bucket="old").get("Uploads", [])
        out.append([(u["Key"], u["UploadId"], u["Initiated"], u.get("ChecksumAlgorithm")) for u in uploads])
        for u in uploads:
            out.append(client.list_parts(Bucket="old", Key=u["Key"], UploadId=u["UploadId"]).get("Parts", []))
        return out

    def complete(self, client):
        parts = client.list_parts(Bucket="old", Key="on its way", UploadId=self.upload)["Parts"]
        named = [{name: part[name] for name in ("PartNumber", "ETag", "ChecksumSHA256")} for part in parts]
        client.complete_multipart_upload(Bucket="old", Key="on its way", UploadId=self.upload, MultipartUpload={"Parts": named})
        answer = client.get_object(Bucket="old", Key="on its way")
        assert answer["Body"].read() == b"".join(self.parts.values()) and answer["Metadata"] == {"made": "in parts"}
        return answer["ETag"]


@pytest.mark.parametrize("disks", [1, 3])
def test_a_restored_node_has_versions_and_uploads(tmp_path, start_forebay, disks):
    """Older versions, delete markers, null versions, tags; uploads in progress go on where they were. Restored into as many
    disks, with two copies of each object where there are several."""
    more = [str(tmp_path / f"more{n}") for n in range(disks - 1)]
    for _ in range(3):  # it is older than the node that comes of it
        start_forebay("data", args=more).end()
    process = start_forebay("data", args=more)
    client = client_of(process)
    history = History(client)
    history.fill()
    if disks > 1:
        run("bucket", "set", "s3://old", "--copies", "2", "--endpoint-url", process.endpoint)
    history.begin_uploads()
    want = history.seen(client)
    out, _ = run("backup", "--json", tmp_path / "b.tar", "--endpoint-url", process.endpoint)
    said = json.loads(out)
    kinds = [row["kind"] for row in want if isinstance(row, dict)]
    latest = sum(row["IsLatest"] for row in want if isinstance(row, dict) and row["kind"] == "Versions")
    assert said["objects"] == latest and said["objects"] + said["older"] == kinds.count("Versions")
    assert said["markers"] == kinds.count("DeleteMarkers") and said["uploads"] == 2 and said["parts"] == 3
    etag = history.complete(client)
    process.end()
    out, _ = run("disk", "export", "--json", tmp_path / "data", *more, tmp_path / "all.tar")
    exported = json.loads(out.splitlines()[-1])
    assert exported["older_left_out"] > 0 and exported["parts_left_out"] == 0  # it was completed
    new = [tmp_path / f"new{n}" for n in range(disks)]
    out, _ = run("restore", "--json", tmp_path / "b.tar", *new)
    restored = json.loads(out)
    assert all(restored[name] == said[name] for name in ("objects", "older", "markers", "uploads", "parts", "bytes")), (restored, said)
    process = start_forebay("new0", args=[str(folder) for folder in new[1:]])
    client = client_of(process)
    assert history.seen(client) == want
    assert history.complete(client) == etag
    # What is written now is younger than all of it.
    newest = client.put_object(Bucket="old", Key="k", Body=b"after the restore")["VersionId"]
    listed = client.list_object_versions(Bucket="old", Prefix="k")["Versions"]
    assert listed[0]["VersionId"] == newest and listed[0]["IsLatest"]
    # An older one becomes current when the newer ones go, and a deleted object with its marker.
    client.delete_object(Bucket="old", Key="k", VersionId=newest)
    assert client.get_object(Bucket="old", Key="k")["Body"].read() == b"a null version again"
    marker = next(m for m in client.list_object_versions(Bucket="old", Prefix="gone")["DeleteMarkers"])
    client.delete_object(Bucket="old", Key="gone", VersionId=marker["VersionId"])
    assert client.get_object(Bucket="old", Key="gone")["Body"].read() == b"gone"
    before = history.seen(client)
    process.kill()
    shutil.rmtree(tmp_path / "new0" / "index")
    process = start_forebay("new0", args=[str(folder) for folder in new[1:]])
    assert history.seen(client_of(process)) == before


def test_a_restore_that_is_broken_off(tmp_path, start_forebay):
    """kill -9 in the middle, again and again: the half is never served, the last run completes it, no other backup is mixed into it."""
    process = start_forebay("data")
    client = client_of(process)
    history = History(client)
    history.fill()
    history.begin_uploads()
    client.create_bucket(Bucket="zzz")
    for n in range(150):
        client.put_object(Bucket="zzz", Key=f"{n:03d}", Body=bytes([n]) * 3000 * (n % 40))
    want = history.seen(client)
    there = ("--endpoint-url", process.endpoint)
    run("backup", tmp_path / "b.tar", *there)
    run("backup", tmp_path / "other.tar", *there)
    process.end()
    new = tmp_path / "new"
    data = (tmp_path / "b.tar").read_bytes()
    for n in (1, 2, 3):  # what is sent is read, all but what a pipe holds
        command = [str(forebay.binary()), "restore", "--yes", "-", str(new)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=forebay.server_env()) as process:
            process.stdin.write(data[: len(data) * n // 4])
            process.stdin.flush()
            process.kill()
    assert (new / ".forebay/restoring").exists()
    served = forebay.Forebay(new, log_dir=tmp_path)
    assert served.popen.wait(PATIENCE) != 0
    assert "was broken off: go on with forebay restore --yes" in served.log()
    _, err = run("restore", "--yes", tmp_path / "other.tar", new, code=4)
    assert "what a restore of another backup has brought" in err
    run("restore", "--yes", tmp_path / "b.tar", new)
    out, _ = run("restore", "--yes", "--json", tmp_path / "b.tar", new)
    again = json.loads(out)
    assert again["objects"] == again["older"] == again["markers"] == again["uploads"] == again["parts"] == 0 and again["same"] > 150
    run("disk", "check", new)
    process = start_forebay("new")
    client = client_of(process)
    assert history.seen(client) == want
    assert len(client.list_objects_v2(Bucket="zzz")["Contents"]) == 150
    client.delete_object(Bucket="zzz", Key="007")
    process.end()
    _, err = run("restore", "--yes", tmp_path / "b.tar", new, code=1)  # it was served: nothing comes back
    assert "is no half of a restore, or was served since" in err


def test_a_backup_of_another_format(tmp_path, start_forebay):
    """Of an earlier program (format 1, plain objects) it is taken, of a later one it is refused in words; import takes the
    objects of a backup and says what it passes over."""
    process = start_forebay("data")
    client = client_of(process)
    history = History(client)
    history.fill()
    run("backup", tmp_path / "b.tar", "--endpoint-url", process.endpoint)
    process.end()
    data = (tmp_path / "b.tar").read_bytes()
    (tmp_path / "newer.tar").write_bytes(data.replace(b'"format":2', b'"format":3', 1))
    _, err = run("restore", tmp_path / "newer.tar", tmp_path / "newer", code=2)
    assert "the backup has format 3, this program reads 1 to 2" in err
    (tmp_path / "epoch.tar").write_bytes(re.sub(rb'"epoch":\d', b'"epoch":0', data, count=1))
    _, err = run("restore", tmp_path / "epoch.tar", tmp_path / "epoch", code=6)
    assert "in a backup of epoch 0" in err
    out, _ = run("disk", "import", "--json", tmp_path / "imported", tmp_path / "b.tar")
    said = json.loads(out.splitlines()[-1])
    listed = members(tmp_path / "b.tar")
    older = sum(name.startswith(".forebay/version/") for name in listed)
    assert said["objects"] == 3 and said["passed_over"] == older
    client = client_of(start_forebay("imported"))
    assert {row["Key"] for row in client.list_objects_v2(Bucket="old")["Contents"]} == {"first/null", "k", "suspended"}
    assert client.get_object(Bucket="old", Key="k")["Body"].read() == b"a null version again"


def test_a_backup_that_is_cut_or_meant_for_others_is_told(copy, tmp_path, start_forebay):
    process = start_forebay("data")
    (tmp_path / "pass").write_text("correct horse battery\n")
    (tmp_path / "other").write_text("another passphrase\n")
    run("backup", "--with-keys", "--passphrase-file", tmp_path / "pass", tmp_path / "b.tar", "--endpoint-url", process.endpoint, code=4)
    for name in ("pass", "other"):
        (tmp_path / name).chmod(0o600)
    run("backup", "--with-keys", "--passphrase-file", tmp_path / "pass", tmp_path / "b.tar", "--endpoint-url", process.endpoint)
    run("restore", "--passphrase-file", tmp_path / "other", tmp_path / "b.tar", tmp_path / "new", code=4)
    data = (tmp_path / "b.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(data[: len(data) // 2])
    _, err = run("restore", tmp_path / "cut.tar", tmp_path / "new2", code=1)
    assert "ends inside a member" in err or "the backup is cut" in err
    run("disk", "export", tmp_path / "new2", tmp_path / "objects.tar")
    _, err = run("restore", tmp_path / "objects.tar", tmp_path / "new3", code=2)
    assert "this is no backup" in err


def test_a_restore_that_is_refused_leaves_the_keys_alone(tmp_path, start_forebay):
    """Keys of a backup come before what it says of itself: nothing of them is written into a node that may not be restored into,
    nor where that never comes."""
    (tmp_path / "pass").write_text("correct horse battery\n")
    (tmp_path / "pass").chmod(0o600)
    secret = ("--passphrase-file", tmp_path / "pass")
    process = start_forebay("data")
    client_of(process).create_bucket(Bucket="mine")
    run("backup", "--with-keys", *secret, tmp_path / "b.tar", "--endpoint-url", process.endpoint)
    process.end()
    process = start_forebay("other")
    client_of(process).create_bucket(Bucket="theirs")
    process.end()

    def keys(folder):
        found = {p: p.read_bytes() for p in (folder / ".forebay").rglob("*") if p.is_file() and p.name in ("credentials", "restoring")}
        return found | {p: p.read_bytes() for p in (folder / ".forebay/secrets").rglob("*") if p.is_file()}

    before = keys(tmp_path / "other")
    assert any(p.name == "credentials" for p in before)
    assert before[tmp_path / "other/.forebay/credentials"] != keys(tmp_path / "data")[tmp_path / "data/.forebay/credentials"]
    _, err = run("restore", "--yes", *secret, tmp_path / "b.tar", tmp_path / "other", code=1)
    assert "is no half of a restore, or was served since" in err
    assert keys(tmp_path / "other") == before
    listed = members(tmp_path / "b.tar")
    assert next(iter(listed)) == ".forebay/keys"

    def write(name, *some):
        with tarfile.open(tmp_path / name, "w") as tar:
            for member, content in some:
                info = tarfile.TarInfo(member)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))

    sealed, about, state = (listed[f".forebay/{name}"][0] for name in ("keys", "backup", "state"))
    write("alone.tar", (".forebay/keys", sealed))
    run("restore", *secret, tmp_path / "alone.tar", tmp_path / "new", code=1)
    assert not (tmp_path / "new/.forebay/credentials").exists()
    write("twice.tar", (".forebay/keys", sealed), (".forebay/keys", sealed))
    _, err = run("restore", *secret, tmp_path / "twice.tar", tmp_path / "new1", code=2)
    assert "the keys stand twice" in err
    write("wide.tar", (".forebay/backup", about + b" " * 4096))
    _, err = run("restore", tmp_path / "wide.tar", tmp_path / "new2", code=1)
    assert f'".forebay/backup" has {len(about) + 4096} bytes, at most 4096 are taken' in err
    write("behind.tar", (".forebay/backup", about), (".forebay/keys", sealed), (".forebay/state", state), (".forebay/end", b"{}"))
    run("restore", *secret, tmp_path / "behind.tar", tmp_path / "new3")
    assert (tmp_path / "new3/.forebay/credentials").read_bytes() == (tmp_path / "data/.forebay/credentials").read_bytes()


def test_an_upload_that_ends_while_its_part_is_read_is_passed_over(tmp_path, start_forebay):
    """A large part is read twice; one that went between is left out whole, and the backup goes on."""
    process = start_forebay("data")
    client = client_of(process)
    client.create_bucket(Bucket="big")
    client.put_object(Bucket="big", Key="stays", Body=b"here")
    uploads = []
    for n in range(4):
        uploads.append(client.create_multipart_upload(Bucket="big", Key=f"u{n}")["UploadId"])
        client.upload_part(Bucket="big", Key=f"u{n}", UploadId=uploads[n], PartNumber=1, Body=bytes(32 << 20))
    left = {upload.encode(): f"u{n}" for n, upload in enumerate(uploads)}
    stream, seen = bytearray(), 0
    with urllib.request.urlopen(f"{process.endpoint}/_/backup", timeout=PATIENCE) as answer:
        while piece := answer.read1(65536):
            stream += piece
            for upload in [u for u in left if stream.find(b".forebay/upload/" + u, max(0, seen - 100)) >= 0]:
                client.abort_multipart_upload(Bucket="big", Key=left.pop(upload), UploadId=upload.decode())
            seen = len(stream)
    assert not left
    with tarfile.open(fileobj=io.BytesIO(bytes(stream))) as tar:
        names = [m.name for m in tar.getmembers()]
    assert names[-1] == ".forebay/end" and "big/stays" in names and ".forebay/damaged" not in names
    (tmp_path / "b.tar").write_bytes(stream)
    run("restore", tmp_path / "b.tar", tmp_path / "new")


def test_what_is_damaged_is_left_out_of_a_backup_and_named(original, copy, tmp_path, start_forebay):
    where = places(copy, original.bodies)
    for key in ("small/020", "own"):
        flip(where[key][0], where[key][1] + 700)
    process = start_forebay("data")
    out, _ = run("backup", tmp_path / "b.tar", "--endpoint-url", process.endpoint, code=6)
    assert f"{len(original.bodies) - 2} objects" in out and "2 damaged ones are left out" in out
    named = members(tmp_path / "b.tar")[".forebay/damaged"][0].splitlines()
    assert {json.loads(line)["key"] for line in named} == {"small/020", "own"}
    run("restore", tmp_path / "b.tar", tmp_path / "new")


def test_each_object_of_a_backup_is_of_one_version(tmp_path, start_forebay):
    """While a backup runs, objects are replaced and deleted: each is whole in it, and of some version."""
    process = start_forebay("data")
    client = client_of(process)
    client.create_bucket(Bucket="busy")
    keys = [f"k{n:02d}" for n in range(30)]

    def body(key, version):
        return f"{key}/{version};".encode() * (20_000 + version % 7 * 9_000)

    def put(key, version):
        assert plain.ask(process.port, "PUT", "busy", key, body=body(key, version)).status == 200

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: put(key, 0), keys))
    over = threading.Event()

    def write(seed):
        rng, version = random.Random(seed), seed
        while not over.is_set():
            version += 1
            key = rng.choice(keys[: len(keys) - 2])
            if rng.random() < 0.1:
                plain.ask(process.port, "DELETE", "busy", key)
            else:
                put(key, version)

    writers = [threading.Thread(target=write, args=(SEED % 1000 * 1000 + n * 100,)) for n in range(3)]
    for writer in writers:
        writer.start()
    try:
        for n in range(3):
            run("backup", tmp_path / f"{n}.tar", "--endpoint-url", process.endpoint)
    finally:
        over.set()
        for writer in writers:
            writer.join(PATIENCE)
    for n in range(3):
        found = {name: content for name, (content, _) in members(tmp_path / f"{n}.tar").items() if name.startswith("busy/")}
        assert {"busy/k28", "busy/k29"} <= found.keys()  # untouched ones
        for name, content in found.items():
            key, version = re.match(rb"(k\d\d)/(\d+);", content).groups()
            assert name == f"busy/{key.decode()}" and content == body(key.decode(), int(version)), name
