"""Data folders that released versions wrote: this program reads every object of each. tools/fixture.py makes the next one."""

import hashlib
import json
import lzma
import pathlib
import subprocess

import pytest
from rigs import forebay

from conftest import boto

FIXTURES = sorted((pathlib.Path(__file__).resolve().parents[1] / "fixtures").glob("format-*"))
BUCKET, VERSIONS = "fixture", "fixture-versions"


def sha256(answer):
    return hashlib.sha256(answer["Body"].read()).hexdigest()


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name)
def fixture(request, tmp_path):
    packed = lzma.decompress((request.param / "data.tar.xz").read_bytes())
    subprocess.run(["tar", "-x", "-C", tmp_path], input=packed, check=True)
    return tmp_path / "data", json.loads((request.param / "objects.json").read_text())


def test_there_is_a_fixture_of_each_format():
    assert [path.name for path in FIXTURES][:1] == ["format-1"]


def test_every_object_reads_as_it_was_written(fixture, start_forebay):
    folder, told = fixture
    check = subprocess.run([forebay.binary(), "disk", "check", folder], capture_output=True, text=True, env=forebay.server_env())
    assert check.returncode == 0, check.stdout + check.stderr
    process = start_forebay("data")
    client = boto(process.endpoint, process.keys())
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    assert {row["Key"] for page in pages for row in page["Contents"]} == told["objects"].keys()
    for key, want in told["objects"].items():
        head = client.head_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")
        assert {name: head.get(name) for name in want if name != "sha256"} == {name: want[name] for name in want if name != "sha256"}, key
        assert sha256(client.get_object(Bucket=BUCKET, Key=key)) == want["sha256"], key
    upload = client.list_multipart_uploads(Bucket=BUCKET)["Uploads"][0]
    assert upload["Key"] == "unfinished"
    parts = client.list_parts(Bucket=BUCKET, Key="unfinished", UploadId=upload["UploadId"])["Parts"]
    assert [(part["PartNumber"], part["Size"]) for part in parts] == [(7, 5)]


def test_versions_read_as_they_were_written(fixture, start_forebay):
    folder, told = fixture
    if not told.get("versions"):
        pytest.skip("of a format without versions")
    client = boto((process := start_forebay("data")).endpoint, process.keys())
    listed = client.list_object_versions(Bucket=VERSIONS)
    assert {row["VersionId"] for row in listed["Versions"]} == {version for _, version, content in told["versions"] if content}
    assert [row["VersionId"] for row in listed["DeleteMarkers"]] == [version for _, version, content in told["versions"] if content is None]
    for key, version, content in told["versions"]:
        if content is not None:
            assert sha256(client.get_object(Bucket=VERSIONS, Key=key, VersionId=version)) == content, version


def test_it_goes_on_from_there(fixture, start_forebay):
    """What is written and deleted behind the fixture is there after a restart, beside it."""
    folder, told = fixture
    process = start_forebay("data")
    client = boto(process.endpoint, process.keys())
    client.put_object(Bucket=BUCKET, Key="later", Body=b"x" * 400_000)
    client.delete_object(Bucket=BUCKET, Key="large")
    process.end()
    client = boto((process := start_forebay("data")).endpoint, process.keys())
    assert client.get_object(Bucket=BUCKET, Key="later")["Body"].read() == b"x" * 400_000
    keys = {row["Key"] for row in client.list_objects_v2(Bucket=BUCKET)["Contents"]}
    assert keys == told["objects"].keys() - {"large"} | {"later"}
