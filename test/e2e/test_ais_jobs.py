"""AIS: jobs on many objects: copies of buckets and of objects, deletes; by list, template and prefix."""

import concurrent.futures
import http.client
import io
import json
import time
import urllib.parse
import zipfile

from rigs.process import PATIENCE

from test_ais_shards import ask, snapshots
from test_batch import members, put_many


def start(server, method, path, action, value):
    status, _, got = ask(server, method, path, {"action": action, "value": value})
    assert status == 200, got
    return got.decode()


def wait(server, job):
    """The snapshot of a job that has ended or is idle."""
    until = time.monotonic() + PATIENCE
    while True:
        (snapshot,) = snapshots(server, id=job)
        if snapshot["is_idle"] or not snapshot["end-time"].startswith("0001"):
            return snapshot
        assert time.monotonic() < until, snapshot
        time.sleep(0.02)


def keys(s3, bucket):
    return [o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket) for o in page.get("Contents", [])]


def fill(s3, bucket):
    put_many(s3, bucket, [(f"a/{i:02d}", b"%d" % i) for i in range(100)] + [("odd{1..3},$x\\y", b"odd"), ("other", b"o")])


def test_copy_a_bucket(server, s3, bucket):
    fill(s3, bucket)
    s3.put_object(Bucket=bucket, Key="meta", Body=b"m", Metadata={"colour": "blue"}, ContentType="text/x")
    to = bucket + "-to"
    job = start(server, "POST", f"/v1/buckets/{bucket}?bck_to=ais/@%23/{to}/", "copy-bck", {"prepend": "p/"})
    snapshot = wait(server, job)
    assert snapshot["kind"] == "copy-bck" and snapshot["stats"]["loc-objs"] == "103" and snapshot["err"] == ""
    assert keys(s3, to) == ["p/" + k for k in keys(s3, bucket)]
    got = s3.get_object(Bucket=to, Key="p/meta")
    assert got["Body"].read() == b"m" and got["Metadata"] == {"colour": "blue"} and got["ContentType"] == "text/x"
    status = json.loads(ask(server, "GET", "/v1/cluster?what=status", {"ID": job})[2])
    assert status["end_time"] > 0 and not status["aborted"]
    job = start(server, "POST", f"/v1/buckets/{bucket}?bck_to=ais/@%23/{to}/", "copy-bck", {"prefix": "a/1", "dry_run": True})
    assert wait(server, job)["stats"]["loc-objs"] == "10" and "a/10" not in keys(s3, to)
    assert ask(server, "POST", f"/v1/buckets/{bucket}?bck_to=ais/@%23/{bucket}/", {"action": "copy-bck", "value": {}})[0] == 400
    assert ask(server, "POST", f"/v1/buckets/{bucket}", {"action": "copy-bck", "value": {}})[0] == 400
    assert ask(server, "POST", f"/v1/buckets/no-such-b?bck_to=ais/@%23/{to}/", {"action": "copy-bck", "value": {}})[0] == 404


def test_copy_objects_by_list_and_template(server, s3, bucket):
    fill(s3, bucket)
    to = bucket + "-to"
    s3.create_bucket(Bucket=to)
    path = f"/v1/buckets/{bucket}?bck_to=ais/@%23/{to}/"
    odd = "odd{1..3},$x\\y"
    job = start(server, "POST", path, "copy-listrange", {"objnames": ["a/03", odd, "none"]})
    assert f"copy-listrange[{job}]" in json.loads(ask(server, "GET", "/v1/cluster?what=running_all", {})[2])
    snapshot = wait(server, job)
    assert keys(s3, to) == ["a/03", odd] and "none" in snapshot["err"] and snapshot["stats"]["loc-objs"] == "2"
    for template, prepend, count in (("a/{05..15..5}", "t/", 3), ("a/{95..104}", "u/", 5), ("a/1", "v/", 10), ("", "w/", 102), ("a/@3", "x/", 0), ("a/%02d", "y/", 100), ("a/%x", "z/", 0)):
        snapshot = wait(server, start(server, "POST", path, "copy-listrange", {"template": template, "prepend": prepend, "tobck": {"name": to, "provider": "ais"}}))
        assert snapshot["err"] == "" and len([k for k in keys(s3, to) if k.startswith(prepend)]) == count, template
    for value, status in (({"objnames": ["a"], "template": "b"}, 400), ({"objnames": ["a\nb"]}, 400), ({"objnames": [7]}, 400), ({"template": "a{0..99999999}"}, 400), ({"objnames": ["a"], "ext": {"a": "b/c"}}, 400), ({"objnames": ["a"], "ext": [1]}, 400)):
        assert ask(server, "POST", path, {"action": "copy-listrange", "value": value})[0] == status, value
    status, _, got = ask(server, "POST", f"/v1/buckets/{bucket}?bck_to=ais/@%23/nowhere/", {"action": "copy-listrange", "value": {"template": ""}})
    assert status == 404 and json.loads(got)["message"] == 'bucket "ais://nowhere" does not exist'


def test_copies_get_other_extensions(server, s3, bucket):
    put_many(s3, bucket, [(k, k.encode()) for k in ("a.jpg", "b.jpg.png", "d.jpg/c", "e.txt", "f")])
    to = bucket + "-to"
    job = start(server, "POST", f"/v1/buckets/{bucket}?bck_to=ais/@%23/{to}/", "copy-bck", {"ext": {".jpg": "jpeg", "png": ".webp"}, "prepend": "n/"})
    assert wait(server, job)["err"] == ""
    assert keys(s3, to) == ["n/a.jpeg", "n/b.jpg.webp", "n/d.jpg/c", "n/e.txt", "n/f"]


def test_a_bucket_gets_another_name(server, s3, bucket):
    put_many(s3, bucket, [(f"k{i}", b"%d" % i) for i in range(5)])
    to, path = bucket + "-new", f"/v1/buckets/{bucket}"
    assert ask(server, "GET", f"/v1/objects/{bucket}/k1")[2] == b"1"
    for target, status, says in ((bucket, 400, "onto itself"), (f"{bucket}-x?", 400, ""), ("", 400, "")):
        got = ask(server, "POST", f"{path}?bck_to={urllib.parse.quote(f'ais/@#/{target}/')}", {"action": "move-bck"})
        assert got[0] == status and says in got[2].decode(), target
    assert ask(server, "POST", f"{path}?bck_to=aws/@%23/{to}/", {"action": "move-bck"})[0] == 501
    s3.create_bucket(Bucket=bucket + "-x")
    got = ask(server, "POST", f"{path}?bck_to=ais/@%23/{bucket}-x/", {"action": "move-bck"})
    assert got[0] == 409 and f'bucket \\"ais://{bucket}-x\\" already exists' in got[2].decode()
    job = start(server, "POST", f"{path}?bck_to=ais/@%23/{to}/", "move-bck", None)
    assert wait(server, job)["kind"] == "move-bck"
    assert json.loads(ask(server, "GET", "/v1/cluster?what=status", {"ID": job})[2])["end_time"] > 0
    for gone in (f"/v1/objects/{bucket}/k1", path):
        assert ask(server, "GET", gone)[0] == 404
    assert keys(s3, to) == [f"k{i}" for i in range(5)] and ask(server, "GET", f"/v1/objects/{to}/k1")[2] == b"1"
    s3.create_bucket(Bucket=bucket)
    assert keys(s3, bucket) == []
    s3.put_object(Bucket=bucket, Key="k1", Body=b"another")
    assert ask(server, "GET", f"/v1/objects/{to}/k1")[2] == b"1"


def test_delete_objects(server, s3, bucket):
    fill(s3, bucket)
    path = f"/v1/buckets/{bucket}"
    before = len(keys(s3, bucket))
    for value, count in (({"objnames": ["a/00", "none"]}, 1), ({"template": "a/{01..05}"}, 5), ({"template": "a/1"}, 10)):
        snapshot = wait(server, start(server, "DELETE", path, "delete-listrange", value))
        before -= count
        assert snapshot["kind"] == "delete-listrange" and snapshot["err"] == "" and len(keys(s3, bucket)) == before
    assert "odd{1..3},$x\\y" in keys(s3, bucket)
    wait(server, start(server, "DELETE", path, "delete-listrange", {"objnames": ["odd{1..3},$x\\y"]}))
    assert "odd{1..3},$x\\y" not in keys(s3, bucket)
    assert ask(server, "DELETE", path, {"action": "evict-listrange", "value": {"template": ""}})[0] == 400
    assert ask(server, "POST", path, {"action": "prefetch-listrange", "value": {"template": ""}})[0] == 400


def test_many_jobs_on_one_bucket_at_once(server, s3, bucket):
    """Copies and deletes together: each object is whole or gone, and each job ends."""
    put_many(s3, bucket, [(f"m/{i:03d}", b"%d" % i * 1000) for i in range(200)])
    to = bucket + "-to"
    s3.create_bucket(Bucket=to)
    jobs = [start(server, "POST", f"/v1/buckets/{bucket}?bck_to=ais/@%23/{to}/", "copy-listrange", {"template": "m/", "prepend": f"{n}/"}) for n in range(3)]
    jobs += [start(server, "DELETE", f"/v1/buckets/{bucket}", "delete-listrange", {"template": "m/0"})]
    for job in jobs:
        wait(server, job)
    for key in keys(s3, to):
        assert s3.get_object(Bucket=to, Key=key)["Body"].read() == b"%d" % int(key[-3:]) * 1000
    assert keys(s3, bucket) == [f"m/{i:03d}" for i in range(100, 200)]


def test_a_copy_goes_on_after_a_kill(start_forebay):
    from conftest import boto

    process = start_forebay()
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="from")
    client.create_bucket(Bucket="into")
    put_many(client, "from", [(f"k/{i:04d}", b"%d" % i) for i in range(600)])
    job = start(process, "POST", "/v1/buckets/from?bck_to=ais/@%23/into/", "copy-bck", {})
    process.kill()
    process = start_forebay()
    client = boto(process.endpoint, process.keys())
    assert wait(process, job)["err"] == ""
    assert keys(client, "into") == [f"k/{i:04d}" for i in range(600)]


def test_archive_objects_into_shards(server, s3, bucket):
    put_many(s3, bucket, [(f"a/{i:02d}.jpg", b"%d" % i * 5000) for i in range(40)])
    path = f"/v1/buckets/{bucket}"
    for name, mode in (("s/one.tar", "r:"), ("s/one.tgz", "r:gz"), ("s/one.zip", None)):
        value = {"archname": name, "objnames": ["a/07.jpg", "none", "a/03.jpg"]}
        snapshot = wait(server, start(server, "PUT", path, "archive", value))
        assert "none" in snapshot["err"] and snapshot["stats"]["loc-objs"] == "2", snapshot
        wait(server, start(server, "PUT", path, "archive", {"archname": name, "template": "a/{20..22}.jpg", "aate": True, "bnonly": True}))
        wait(server, start(server, "PUT", path, "archive", {"archname": name, "template": "a/3", "aate": True, "isbn": True}))
        body = s3.get_object(Bucket=bucket, Key=name)["Body"].read()
        want = [("a/07.jpg", 7), ("a/03.jpg", 3)] + [(f"{i}.jpg", i) for i in (20, 21, 22)] + [(f"{bucket}/a/{i}.jpg", i) for i in range(30, 40)]
        assert read_archive(body, mode) == [(n, b"%d" % i * 5000) for n, i in want]
        status, _, got = ask(server, "GET", f"/v1/objects/{bucket}/{name}?archpath=21.jpg")
        assert status == 200 and got == b"21" * 5000
    # Without "aate" the shard is replaced.
    wait(server, start(server, "PUT", path, "archive", {"archname": "s/one.tar", "objnames": ["a/01.jpg"]}))
    assert read_archive(s3.get_object(Bucket=bucket, Key="s/one.tar")["Body"].read(), "r:") == [("a/01.jpg", b"1" * 5000)]
    for value, status in (({"archname": "x"}, 400), ({}, 400), ({"archname": "x.tar", "mime": ".zip"}, 400), ({"archname": "x.tar", "tobck": {"name": "nowhere"}}, 404)):
        assert ask(server, "PUT", path, {"action": "archive", "value": value})[0] == status, value
    s3.put_object(Bucket=bucket, Key="broken.tar", Body=b"no tar" * 200)
    snapshot = wait(server, start(server, "PUT", path, "archive", {"archname": "broken.tar", "objnames": ["a/01.jpg"], "aate": True}))
    assert "broken.tar" in snapshot["err"]
    assert s3.get_object(Bucket=bucket, Key="broken.tar")["Body"].read() == b"no tar" * 200


def read_archive(body, mode):
    if mode is not None:
        return members(body, mode)
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert archive.testzip() is None
        return [(n, archive.read(n)) for n in archive.namelist()]


def put_member(server, path, body, pine=None):
    at = urllib.parse.urlsplit(server.endpoint)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=PATIENCE)
    connection.request("PUT", path, body, {} if pine is None else {"Ais-Pine": str(pine)})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_put_members_into_an_archive(server, s3, bucket):
    for name, mode in (("p.tar", "r:"), ("p.tgz", "r:gz"), ("p.zip", None)):
        path = f"/v1/objects/{bucket}/{name}?archpath="
        assert put_member(server, path + "a", b"A" * 70_000, 1) == 404
        assert put_member(server, path + "a", b"A" * 70_000, 2) == 200
        assert put_member(server, path + "d/b", b"B", 1) == 200
        assert put_member(server, path + "c", b"C", 2) == 200
        assert read_archive(s3.get_object(Bucket=bucket, Key=name)["Body"].read(), mode) == [("a", b"A" * 70_000), ("d/b", b"B"), ("c", b"C")]
        assert put_member(server, path + "new", b"N") == 200
        assert read_archive(s3.get_object(Bucket=bucket, Key=name)["Body"].read(), mode) == [("new", b"N")]
        assert put_member(server, path + "../x", b"N", 2) == 400 and put_member(server, path + "x", b"", 2) == 400
    assert put_member(server, f"/v1/objects/{bucket}/noext?archpath=a", b"x", 2) == 400
    assert put_member(server, f"/v1/objects/{bucket}/noext?archpath=a&archmime=tar", b"x", 2) == 200


def test_appends_at_once_lose_nothing(server, s3, bucket):
    """An append with status 200 is in the archive; one that races with another gets 409 and is not."""
    path = f"/v1/objects/{bucket}/many.tar?archpath="
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda i: put_member(server, f"{path}{i}", b"%d" % i * 3000, 2), range(24)))
    assert set(done) <= {200, 409} and 200 in done
    got = dict(members(s3.get_object(Bucket=bucket, Key="many.tar")["Body"].read()))
    assert got == {str(i): b"%d" % i * 3000 for i, status in enumerate(done) if status == 200}


def test_files_become_objects(start_forebay, tmp_path):
    from conftest import boto

    files = tmp_path / "promote"
    (files / "in/deep").mkdir(parents=True)
    for name, data in (("top", b"1" * 3_000_000), ("in/a", b"aa"), ("in/deep/b", b""), ("in/c", b"cc")):
        (files / name).write_bytes(data)
    (tmp_path / "secret").write_bytes(b"secret")
    (files / "link").symlink_to(tmp_path / "secret")
    (files / "in/out").symlink_to(tmp_path)
    node = start_forebay(settings={"ais.promote_dir": str(files)})
    s3 = boto(node.endpoint, node.keys())
    s3.create_bucket(Bucket="made")

    def promote(source, name="", **flags):
        job = start(node, "POST", "/v1/objects/made", "promote", {"src": str(source), "obj": name, **flags})
        return wait(node, job)

    def contents():
        return {k: s3.get_object(Bucket="made", Key=k)["Body"].read() for k in keys(s3, "made")}

    assert promote(files / "top")["err"] == "" and contents() == {"top": b"1" * 3_000_000}
    assert promote("in/a", "named")["err"] == "" and contents()["named"] == b"aa"
    promote(files / "in", "p")
    assert set(keys(s3, "made")) == {"top", "named", "p/a", "p/c"}  # not recursive, and no link is followed
    (files / "in/a").write_bytes(b"newer")
    assert promote(files / "in", "p", rcr=True)["stats"]["loc-objs"] == "3"
    assert contents()["p/deep/b"] == b"" and contents()["p/a"] == b"aa"
    promote(files / "in", "p", rcr=True, ovw=True, dls=True)
    assert contents()["p/a"] == b"newer" and not (files / "in/a").exists() and (files / "in/deep").exists()
    for source in (tmp_path / "secret", "../secret", files / "../secret", "/etc/passwd", "link", "in/out/secret", "nothing", str(files) + "-not"):
        assert promote(source)["err"] != "", source
    assert set(keys(s3, "made")) == {"top", "named", "p/a", "p/c", "p/deep/b"}


def test_copies_of_a_bucket_need_disks(server, s3, bucket):
    path = f"/v1/buckets/{bucket}"
    status, _, got = ask(server, "POST", path, {"action": "make-n-copies", "value": 2})
    assert status == 400 and "add disks first" in json.loads(got)["message"]
    assert ask(server, "POST", path, {"action": "make-n-copies", "value": "x"})[0] == 400
    assert wait(server, start(server, "POST", path, "make-n-copies", 1))["kind"] == "make-n-copies"
    status, _, got = ask(server, "POST", path, {"action": "ec-encode", "value": "{}"})
    assert status == 501 and "make-n-copies" in json.loads(got)["message"]
    assert ask(server, "POST", f"/v1/objects/{bucket}", {"action": "blob-download", "name": "x"})[0] == 400
