"""What people look for in the command line: headers and tags of what goes up, versions and undo, unfinished uploads, choices by age and size,
a limited rate; and the answer to Signature Version 2."""

import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import time

import pytest
from botocore.exceptions import ClientError
from rigs import forebay
from rigs.process import PATIENCE

import plain
from conftest import boto


@pytest.fixture
def cli(server, tmp_path):
    """cli(*args, status=0): standard output; cli.stderr has the rest. Keys of the server, so that tests may use boto3 beside it."""

    def run(*args, status=0, env=None):
        keys = server.keys()
        environment = forebay.server_env(
            {
                "FOREBAY_ENDPOINT": server.endpoint,
                "FOREBAY_ACCESS_KEY_ID": keys[0],
                "FOREBAY_SECRET_ACCESS_KEY": keys[1],
                "XDG_STATE_HOME": str(tmp_path / "state"),
                **(env or {}),
            }
        )
        done = subprocess.run([str(a) for a in (server.binary, *args)], env=environment, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        for word in forebay.BAD_WORDS:
            assert word not in done.stderr, done.stderr
        assert done.returncode == status, f"{args}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr}"
        run.stderr = done.stderr
        return done.stdout

    return run


@pytest.fixture
def s3(server):
    return boto(server.endpoint, server.keys())


def test_headers_and_tags_of_what_goes_up(cli, s3, tmp_path):
    s3.create_bucket(Bucket="headers")
    (tmp_path / "small.json").write_text("{}")
    (tmp_path / "medium").write_bytes(os.urandom(3 << 20))
    (tmp_path / "large.tar").write_bytes(os.urandom(40 << 20))
    flags = ("--content-type", "text/x-own", "--metadata", "run=7", "--metadata", "who=a b=c", "--tag", "stage=final", "--tag", "x y=1/2")
    for name in ("small.json", "medium", "large.tar"):
        cli("cp", tmp_path / name, "s3://headers/", *flags)
        head = s3.head_object(Bucket="headers", Key=name)
        assert head["ContentType"] == "text/x-own" and head["Metadata"] == {"run": "7", "who": "a b=c"}, name
        tags = s3.get_object_tagging(Bucket="headers", Key=name)["TagSet"]
        assert {t["Key"]: t["Value"] for t in tags} == {"stage": "final", "x y": "1/2"}, name
    cli("cp", tmp_path / "small.json", "s3://headers/plain.json")
    assert s3.head_object(Bucket="headers", Key="plain.json")["ContentType"] == "application/json"
    for wrong, says in (
        (("--metadata", "run"), "NAME=VALUE"),
        (("--metadata", "a b=1"), "letters"),
        (("--metadata", "a=\u00e9"), "printable ASCII"),
        (("--tag", "=1"), "NAME=VALUE"),
        (tuple(f for i in range(11) for f in ("--tag", f"t{i}=1")), "10 times"),
    ):
        cli("cp", tmp_path / "small.json", "s3://headers/", *wrong, status=2)
        assert says in cli.stderr, (wrong, cli.stderr)
    cli("cp", "s3://headers/small.json", tmp_path / "back", "--tag", "a=b", status=2)
    assert "forebay tag" in cli.stderr


def test_tag(cli, s3):
    s3.create_bucket(Bucket="tags")
    s3.put_object(Bucket="tags", Key="k", Body=b"1")
    assert cli("tag", "s3://tags/k") == ""
    assert cli("tag", "s3://tags/k", "stage=a", "run=7+8") == "stage=a\nrun=7+8\n"
    assert cli("tag", "s3://tags/k", "stage=b", "-n") == "run=7+8\nstage=b\n"
    assert json.loads(cli("tag", "s3://tags/k", "-o", "json")) == {"stage": "a", "run": "7+8"}
    assert cli("tag", "s3://tags/k", "--remove", "run", "stage=b") == "stage=b\n"
    assert s3.get_object_tagging(Bucket="tags", Key="k")["TagSet"] == [{"Key": "stage", "Value": "b"}]
    assert cli("tag", "s3://tags/k", "--clear") == ""
    assert s3.get_object_tagging(Bucket="tags", Key="k")["TagSet"] == []
    cli("tag", "s3://tags/none", status=3)
    cli("tag", "s3://tags/k", "wrong", status=2)


def test_stat_shows_the_checksum(cli, s3):
    s3.create_bucket(Bucket="sums")
    sha = base64.b64encode(hashlib.sha256(b"abc").digest()).decode()
    s3.put_object(Bucket="sums", Key="k", Body=b"abc", ChecksumAlgorithm="SHA256")
    assert f"checksum  SHA256 {sha}\n" in cli("stat", "s3://sums/k")
    facts = json.loads(cli("stat", "-o", "json", "s3://sums/k"))
    assert (facts["checksum_algorithm"], facts["checksum"]) == ("SHA256", sha)


def versions(cli, place):
    return json.loads(cli("ls", "--versions", place, "-o", "json"))


def test_versions_and_undo(cli, s3):
    s3.create_bucket(Bucket="versions")
    s3.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"first", b"second"):
        s3.put_object(Bucket="versions", Key="k", Body=body)
    s3.put_object(Bucket="versions", Key="k2", Body=b"another")
    first, second = versions(cli, "s3://versions/k")[1]["version_id"], versions(cli, "s3://versions/k")[0]["version_id"]
    assert [v["size"] for v in versions(cli, "s3://versions/k")] == [6, 5, 7], "the newest of a key first, longer keys behind"
    assert first in cli("ls", "--versions", "s3://versions")
    # An overwrite is taken back, and so is that.
    assert "would restore" in cli("undo", "-n", "s3://versions/k")
    assert s3.get_object(Bucket="versions", Key="k")["Body"].read() == b"second"
    assert first in cli("undo", "s3://versions/k")
    assert s3.get_object(Bucket="versions", Key="k")["Body"].read() == b"first"
    cli("undo", "s3://versions/k")
    assert s3.get_object(Bucket="versions", Key="k")["Body"].read() == b"second"
    kept = {v["version_id"] for v in versions(cli, "s3://versions/k") if v["key"] == "k"}
    assert {first, second} <= kept and len(kept) == 4, "nothing was lost"
    # A deleted object comes back.
    cli("rm", "s3://versions/k")
    cli("cat", "s3://versions/k", status=3)
    assert versions(cli, "s3://versions/k")[0]["delete_marker"]
    assert "delete marker" in cli("undo", "s3://versions/k")
    assert cli("cat", "s3://versions/k") == "second"
    # One version goes for ever, only when that was said.
    cli("rm", "--version", first, "s3://versions/k", status=2)
    assert "for ever" in cli.stderr and first in cli.stderr and "--yes" in cli.stderr
    assert "would delete" in cli("rm", "-n", "--version", first, "s3://versions/k")
    cli("rm", "--yes", "--version", first, "s3://versions/k")
    assert first not in {v["version_id"] for v in versions(cli, "s3://versions/k")}
    cli("rm", "--yes", "--version", first, "s3://versions/k", status=3)
    assert "ls --versions" in cli.stderr
    cli("undo", "s3://versions/k2", status=3)
    assert "no older version" in cli.stderr
    cli("undo", "s3://versions/none", status=3)


def test_many_versions_come_page_by_page(cli, s3):
    s3.create_bucket(Bucket="pages")
    s3.put_bucket_versioning(Bucket="pages", VersioningConfiguration={"Status": "Enabled"})
    for _ in range(1100):
        s3.put_object(Bucket="pages", Key="k", Body=b"")
    assert len({v["version_id"] for v in versions(cli, "s3://pages")}) == 1100


def test_unfinished_uploads(cli, s3):
    s3.create_bucket(Bucket="open")
    ids = {}
    for key in ("a/1", "a/2", "b"):
        ids[key] = s3.create_multipart_upload(Bucket="open", Key=key)["UploadId"]
        s3.upload_part(Bucket="open", Key=key, UploadId=ids[key], PartNumber=1, Body=b"x" * 1000)
    s3.put_object(Bucket="open", Key="a/1", Body=b"an object")
    listed = json.loads(cli("ls", "--uploads", "s3://open", "-o", "json"))
    assert [(u["key"], u["upload_id"], u["parts"], u["bytes"]) for u in listed] == [(k, ids[k], 1, 1000) for k in sorted(ids)]
    assert cli("ls", "--uploads", "s3://open/a/", "-o", "name") == "s3://open/a/1\ns3://open/a/2\n"
    assert cli("ls", "--uploads", "--older-than", "1h", "s3://open") == ""
    cli("rm", "--uploads", "s3://open/a/", status=2)
    assert "abort 2 unfinished uploads below s3://open/a/" in cli.stderr and "objects stay" in cli.stderr and "--yes" in cli.stderr
    assert cli("rm", "--uploads", "-n", "s3://open").count("would abort") == 3
    cli("rm", "--uploads", "--yes", "--older-than", "7d", "s3://open")
    assert "aborted 0 uploads" in cli.stderr
    cli("rm", "--uploads", "--yes", "s3://open/a/")
    assert [u["key"] for u in json.loads(cli("ls", "--uploads", "s3://open", "-o", "json"))] == ["b"]
    assert cli("cat", "s3://open/a/1") == "an object"
    cli("rm", "--uploads", "--yes", "s3://open/*", status=2)
    cli("rm", "--uploads", "--yes", "--larger", "1", "s3://open", status=2)


def test_choices_by_age_and_size(cli, s3, tmp_path):
    s3.create_bucket(Bucket="choice")
    for key, size in (("d/small", 10), ("d/large", 5000)):
        s3.put_object(Bucket="choice", Key=key, Body=b"x" * size)
    for flags, want in (
        (("--larger", "1KiB"), ["d/large"]),
        (("--smaller", "1KiB"), ["d/small"]),
        (("--older-than", "1h"), []),
        (("--newer-than", "1h"), ["d/large", "d/small"]),
        (("--newer-than", "1h", "--larger", "1KiB"), ["d/large"]),
    ):
        names = "".join(f"s3://choice/{key}\n" for key in want)
        assert cli("ls", "-r", "-o", "name", "s3://choice", *flags) == names, flags
        assert cli("find", "-o", "name", "s3://choice", *flags) == names, flags
        assert json.loads(cli("du", "-o", "json", "s3://choice", *flags))[-1]["objects"] == len(want), flags
        target = tmp_path / "-".join(flags)
        cli("cp", "-r", "s3://choice", target, *flags)
        assert sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()) == want, flags
    assert cli("find", "-o", "name", "s3://choice", "--older", "1h") == ""
    cli("rm", "-r", "s3://choice/d/", "--larger", "1KiB", "--newer-than", "2d", status=2)
    assert "delete 1 object newer than 2d and larger than 1KiB" in cli.stderr, cli.stderr
    cli("rm", "-r", "--yes", "s3://choice/d/", "--older-than", "1h")
    cli("rm", "-r", "--yes", "s3://choice/d/", "--larger", "1KiB")
    assert cli("ls", "-r", "-o", "name", "s3://choice") == "s3://choice/d/small\n"
    (tmp_path / "old").write_text("old")
    os.utime(tmp_path / "old", (time.time() - 864000,) * 2)
    (tmp_path / "tree").mkdir()
    (tmp_path / "old").rename(tmp_path / "tree/old")
    (tmp_path / "tree/new").write_text("new")
    cli("cp", "-r", tmp_path / "tree", "s3://choice/up", "--newer-than", "7d")
    assert cli("ls", "-r", "-o", "name", "s3://choice/up/") == "s3://choice/up/new\n"
    cli("cp", tmp_path / "tree/old", "s3://choice/x", "--newer-than", "7d", status=2)
    cli("ls", "s3://choice", "--larger", "much", status=2)
    cli("ls", "s3://choice", "--older-than", "yesterday", status=2)


def test_a_bucket_that_aborts_uploads_by_itself(cli, s3):
    """Uploads of a bucket with the rule go when their time is over; those of other buckets stay."""
    for bucket in ("hasty", "patient"):
        s3.create_bucket(Bucket=bucket)
        upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
        s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x" * 1000)
    s3.put_object(Bucket="hasty", Key="whole", Body=b"1")
    cli("bucket", "set", "s3://hasty", "--abort-uploads-after", "7d")
    assert "uploads   aborted after 7d" in cli("stat", "s3://hasty")
    assert json.loads(cli("stat", "-o", "json", "s3://hasty"))["upload_ttl_ms"] == 604_800_000
    cli("bucket", "set", "s3://hasty", "--abort-uploads-after", "500ms", status=2)
    assert "at least 1s" in cli.stderr
    cli("bucket", "set", "s3://hasty", "--abort-uploads-after", "1s")
    until = time.monotonic() + 120
    while s3.list_multipart_uploads(Bucket="hasty").get("Uploads"):
        assert time.monotonic() < until, "the upload is still there"
        time.sleep(0.2)
    with pytest.raises(ClientError, match="NoSuchUpload"):
        s3.upload_part(Bucket="hasty", Key="k", UploadId=upload, PartNumber=2, Body=b"y")
    assert len(s3.list_multipart_uploads(Bucket="patient")["Uploads"]) == 1
    assert s3.get_object(Bucket="hasty", Key="whole")["Body"].read() == b"1"
    cli("bucket", "set", "s3://hasty", "--abort-uploads-after", "never")
    assert "aborted after" not in cli("stat", "s3://hasty")


def test_mirror(server, cli, s3, tmp_path):
    """Files that come, change, move and go are followed, in folders that come too; Ctrl-C ends it with 0."""
    s3.create_bucket(Bucket="mirror")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("1")

    def wait_for(want):
        until = time.monotonic() + PATIENCE
        while True:
            there = {o["Key"]: s3.get_object(Bucket="mirror", Key=o["Key"])["Body"].read().decode() for o in s3.list_objects_v2(Bucket="mirror").get("Contents", [])}
            if there == want:
                return
            assert process.poll() is None and time.monotonic() < until, (there, want)
            time.sleep(0.1)

    cli("mirror", tree, "s3://mirror/p", "--delete", status=2)
    assert "--yes" in cli.stderr
    cli("mirror", tmp_path / "none", "s3://mirror/p", status=3)
    cli("mirror", tree, "s3://no-such-bucket/p", status=3)
    cli("mirror", "-", "s3://mirror/p", status=2)
    keys = server.keys()
    env = forebay.server_env({"FOREBAY_ENDPOINT": server.endpoint, "FOREBAY_ACCESS_KEY_ID": keys[0], "FOREBAY_SECRET_ACCESS_KEY": keys[1], "XDG_STATE_HOME": str(tmp_path / "state")})
    process = subprocess.Popen([server.binary, "mirror", str(tree), "s3://mirror/p", "--delete", "--yes"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for({"p/a": "1"})
        (tree / "a").write_text("22")
        (tree / "new/deep").mkdir(parents=True)
        (tree / "new/deep/b").write_text("b")
        wait_for({"p/a": "22", "p/new/deep/b": "b"})
        (tree / "new/deep/c").write_text("c")
        (tree / "a").rename(tree / "z")
        wait_for({"p/z": "22", "p/new/deep/b": "b", "p/new/deep/c": "c"})
        (tree / "new/deep/b").unlink()
        wait_for({"p/z": "22", "p/new/deep/c": "c"})
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert out.count("s3://mirror/p/z") == 1 and "following changes" in err, (out, err)
    finally:
        process.kill()
        process.wait()


def test_a_limited_rate(cli, s3, tmp_path):
    """No more than the rate allows: a lower bound of the time, whatever the machine does."""
    s3.create_bucket(Bucket="rate")
    (tmp_path / "file").write_bytes(os.urandom(3 << 20))
    for command in (("cp", tmp_path / "file", "s3://rate/k"), ("cp", "s3://rate/k", tmp_path / "back")):
        began = time.monotonic()
        cli(*command, "--bwlimit", "2MiB")
        assert time.monotonic() - began > 1.0
    assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()
    cli("cp", tmp_path / "file", "s3://rate/k", "--bwlimit", "fast", status=2)
    assert "--bwlimit" in cli.stderr


def test_signature_version_2_is_told_what_to_set(server, cli, s3):
    s3.create_bucket(Bucket="signed")
    s3.put_object(Bucket="signed", Key="k", Body=b"1")
    old = boto(server.endpoint, server.keys(), signature_version="s3")
    url = old.generate_presigned_url("get_object", Params={"Bucket": "signed", "Key": "k"})
    assert "AWSAccessKeyId" in url
    reply = plain.ask(server.port, "GET", "signed", "k", query=url.split("?", 1)[1])
    assert reply.status == 400 and b"signature_version" in reply.body and b"s3v4" in reply.body and b"forebay share" in reply.body
    with pytest.raises(ClientError) as refused:
        old.get_object(Bucket="signed", Key="k")
    assert "s3v4" in str(refused.value)
    shared = cli("share", "s3://signed/k").strip()
    assert plain.ask(server.port, "GET", "signed", "k", query=shared.split("?", 1)[1]).body == b"1"


def test_the_list_of_pages(server):
    status, body = server.get("/_/")
    pages = body.decode().splitlines()
    assert status == 200 and {"/_/scrub", "/_/backup", "/_/stat", "/_/jobs/..."} <= set(pages)
    for page in pages[1:]:
        if not page.endswith("...") and page not in ("/_/backup", "/_/trace", "/_/cluster"):
            assert server.get(page)[0] == 200, page
    assert all(re.fullmatch(r"/_/[a-z/]+(\.\.\.)?", page) for page in pages[1:])
