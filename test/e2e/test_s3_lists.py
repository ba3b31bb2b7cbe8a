"""Lists of uploads and parts, here and of an attached bucket."""

import pytest

from conftest import REMOTE_KEYS, boto
from test_boto3 import error_of
from test_cold import PATIENT, attach

MIB = 1024 * 1024
KEYS = ["a", "a", "b/1", "b/2", "b/2", "b/3/x", "c d+é", "d//e", "e"]


def begin(s3, bucket, keys=KEYS):
    return [(k, s3.create_multipart_upload(Bucket=bucket, Key=k)["UploadId"]) for k in keys]


def pages(s3, bucket, **arguments):
    """(uploads, prefixes) of all pages."""
    uploads, prefixes, more = [], [], {}
    for _ in range(50):
        page = s3.list_multipart_uploads(Bucket=bucket, **arguments, **more)
        found = [(u["Key"], u["UploadId"]) for u in page.get("Uploads", [])]
        groups = [p["Prefix"] for p in page.get("CommonPrefixes", [])]
        assert len(found) + len(groups) <= arguments.get("MaxUploads", 1000)
        uploads += found
        prefixes += groups
        if not page["IsTruncated"]:
            return uploads, prefixes
        more = {"KeyMarker": page["NextKeyMarker"]}
        if page.get("NextUploadIdMarker"):
            more["UploadIdMarker"] = page["NextUploadIdMarker"]
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_uploads(s3, bucket, size):
    begun = begin(s3, bucket)
    assert pages(s3, bucket, MaxUploads=size) == (begun, [])
    assert pages(s3, bucket, MaxUploads=size, Prefix="b/") == (begun[2:6], [])
    assert pages(s3, bucket, MaxUploads=size, Delimiter="/") == ([begun[i] for i in (0, 1, 6, 8)], ["b/", "d/"])
    assert pages(s3, bucket, MaxUploads=size, Delimiter="/", Prefix="b/") == (begun[2:5], ["b/3/"])
    assert pages(s3, bucket, MaxUploads=size, Delimiter="//") == (begun[:7] + begun[8:], ["d//"])
    assert pages(s3, bucket, MaxUploads=size, Prefix="none") == ([], [])


def test_parts(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    for n in (1, 3, 7, 10000):
        s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=n, Body=b"%d" % n)
    found, more = [], {}
    while True:
        page = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload, MaxParts=2, **more)
        found += [(p["PartNumber"], p["Size"]) for p in page["Parts"]]
        if not page["IsTruncated"]:
            break
        more = {"PartNumberMarker": page["NextPartNumberMarker"]}
    assert found == [(1, 1), (3, 1), (7, 1), (10000, 5)]
    assert error_of(s3.list_parts, Bucket=bucket, Key="k", UploadId="none") == (404, "NoSuchUpload")


def test_of_an_attached_bucket_the_remote_tells(start_forebay, seaweed, remote_s3, remote_bucket):
    node = start_forebay("lists", settings=PATIENT)
    done = attach(node, remote_bucket, seaweed.endpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    s3 = boto(node.endpoint, node.keys())
    upload = s3.create_multipart_upload(Bucket=remote_bucket, Key="dir/k")["UploadId"]
    etag = s3.upload_part(Bucket=remote_bucket, Key="dir/k", UploadId=upload, PartNumber=1, Body=b"x" * 5 * MIB)["ETag"]
    assert [(u["Key"], u["UploadId"]) for u in s3.list_multipart_uploads(Bucket=remote_bucket)["Uploads"]] == [("dir/k", upload)]
    assert [(p["PartNumber"], p["Size"], p["ETag"]) for p in s3.list_parts(Bucket=remote_bucket, Key="dir/k", UploadId=upload)["Parts"]] == [(1, 5 * MIB, etag)]
    s3.abort_multipart_upload(Bucket=remote_bucket, Key="dir/k", UploadId=upload)
    assert REMOTE_KEYS and "Uploads" not in s3.list_multipart_uploads(Bucket=remote_bucket)
