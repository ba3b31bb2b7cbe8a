"""Whole nodes that earlier programs left behind when they were killed: two disks, index, log, list of disks, users, settings, an attached
bucket, a write in doubt, a job. This program opens, reads and writes each. tools/fixture_node.py makes the next one."""

import hashlib
import json
import lzma
import pathlib
import subprocess

import botocore.exceptions
import pytest
from rigs import forebay

from conftest import boto

FIXTURES = sorted((pathlib.Path(__file__).resolve().parents[1] / "fixtures").glob("node-*"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name)
def node(request, tmp_path, start_forebay):
    """(start, what is in it): start() begins the server on both disks."""
    packed = lzma.decompress((request.param / "data.tar.xz").read_bytes())
    subprocess.run(["tar", "-x", "-C", tmp_path], input=packed, check=True)
    return (lambda: start_forebay("disk1", args=(str(tmp_path / "disk2"),))), json.loads((request.param / "objects.json").read_text())


def json_of(process, *words):
    access, secret = process.keys()
    env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint, "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret})
    done = subprocess.run([forebay.binary(), *words, "--json"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_all(client, told):
    for name, want in told["objects"].items():
        bucket, key = name.split("/", 1)
        assert hashlib.sha256(client.get_object(Bucket=bucket, Key=key)["Body"].read()).hexdigest() == want, name


def test_there_is_a_node_from_before_the_rooms_of_the_store():
    assert [path.name for path in FIXTURES][:1] == ["node-1"]


def test_every_object_and_setting_is_there(node):
    start, told = node
    process = start()
    client = boto(process.endpoint, process.keys())
    read_all(client, told)
    assert client.get_object_tagging(Bucket="two", Key="tagged")["TagSet"] == [{"Key": "colour", "Value": "green"}]
    assert client.head_object(Bucket="two", Key="tagged")["Metadata"] == {"kept": "yes"}
    for bucket in ("one", "two"):
        versions = client.list_object_versions(Bucket=bucket)
        bodies = [client.get_object(Bucket=bucket, Key="versioned", VersionId=v["VersionId"])["Body"].read() for v in versions["Versions"] if v["Key"] == "versioned"]
        assert bodies == [b"newer", b"older"]
        assert [mark["Key"] for mark in versions["DeleteMarkers"]] == ["size/100"]
        upload = client.list_multipart_uploads(Bucket=bucket)["Uploads"][0]
        parts = client.list_parts(Bucket=bucket, Key="unfinished", UploadId=upload["UploadId"])["Parts"]
        assert [(part["PartNumber"], part["Size"]) for part in parts] == [(3, 5)]
    assert "alice" in json_of(process, "user", "ls")
    buckets = json_of(process, "bucket", "ls")
    assert '"far"' in buckets and '"one"' in buckets and '"two"' in buckets
    assert '"done"' in json_of(process, "jobs", "--all")


def test_a_write_in_doubt_stays_in_doubt(node):
    start, told = node
    process = start()
    client = boto(process.endpoint, process.keys())
    with pytest.raises(botocore.exceptions.ClientError) as error:
        client.get_object(Bucket="far", Key="in-doubt")
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503


def test_it_is_written_and_read_again(node):
    start, told = node
    process = start()
    client = boto(process.endpoint, process.keys())
    for bucket in ("one", "two"):
        content = b"x" * 400_000
        client.put_object(Bucket=bucket, Key="later", Body=content)
        told["objects"][f"{bucket}/later"] = hashlib.sha256(content).hexdigest()
        upload = client.list_multipart_uploads(Bucket=bucket)["Uploads"][0]["UploadId"]
        etag = client.list_parts(Bucket=bucket, Key="unfinished", UploadId=upload)["Parts"][0]["ETag"]
        client.complete_multipart_upload(Bucket=bucket, Key="unfinished", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 3, "ETag": etag}]})
        told["objects"][f"{bucket}/unfinished"] = hashlib.sha256(b"three").hexdigest()
        client.delete_object(Bucket=bucket, Key="size/0")
        del told["objects"][f"{bucket}/size/0"]
    process.end()
    process = start()
    read_all(boto(process.endpoint, process.keys()), told)
