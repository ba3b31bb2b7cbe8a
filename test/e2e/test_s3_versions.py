"""Versions as boto3 speaks of them, over restarts."""

import json
import urllib.request

import pytest
from rigs.process import PATIENCE

from conftest import boto, new_bucket
from test_boto3 import error_of


@pytest.fixture
def versioned(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


def put(s3, bucket, key, body=b"x", **arguments):
    return s3.put_object(Bucket=bucket, Key=key, Body=body, **arguments).get("VersionId")


def listed(s3, bucket, **arguments):
    """[(key, id, what, latest)] of all pages, in the order of the lists."""
    found, more = [], {}
    while True:
        page = s3.list_object_versions(Bucket=bucket, **arguments, **more)
        for what in ("Versions", "DeleteMarkers"):
            found += [(v["Key"], v["VersionId"], what, v["IsLatest"]) for v in page.get(what, [])]
        if not page["IsTruncated"]:
            return found
        more = {"KeyMarker": page["NextKeyMarker"]}
        if "NextVersionIdMarker" in page:
            more["VersionIdMarker"] = page["NextVersionIdMarker"]


def test_versioning_of_a_bucket(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    put_versioning = lambda status: s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})  # noqa: E731
    put_versioning("Enabled")
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    put_versioning("Suspended")
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Suspended"
    assert error_of(put_versioning, status="Off") == (400, "IllegalVersioningConfigurationException")


def test_each_put_is_a_version(s3, versioned):
    ids = [put(s3, versioned, "k", f"{n}".encode()) for n in range(3)]
    assert len(set(ids)) == 3
    for n, version in enumerate(ids):
        answer = s3.get_object(Bucket=versioned, Key="k", VersionId=version)
        assert (answer["Body"].read(), answer["VersionId"]) == (f"{n}".encode(), version)
    assert s3.get_object(Bucket=versioned, Key="k")["VersionId"] == ids[2]
    assert listed(s3, versioned) == [("k", v, "Versions", v == ids[2]) for v in reversed(ids)]
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=versioned)["Contents"]] == ["k"]
    assert error_of(s3.get_object, Bucket=versioned, Key="k", VersionId="nonsense") == (400, "InvalidArgument")
    assert error_of(s3.get_object, Bucket=versioned, Key="k", VersionId="0" * 31 + "1") in ((404, "NoSuchVersion"), (400, "InvalidArgument"))
    assert error_of(s3.get_object, Bucket=versioned, Key="k", VersionId="00000000000000010000000000000000") == (404, "NoSuchVersion")


def test_delete_markers(s3, versioned):
    first = put(s3, versioned, "k", b"one")
    answer = s3.delete_object(Bucket=versioned, Key="k")
    marker = answer["VersionId"]
    assert answer["DeleteMarker"] is True
    with pytest.raises(s3.exceptions.ClientError) as error:
        s3.get_object(Bucket=versioned, Key="k")
    head = error.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert error.value.response["Error"]["Code"] == "NoSuchKey"
    assert (head["x-amz-delete-marker"], head["x-amz-version-id"]) == ("true", marker)
    assert error_of(s3.get_object, Bucket=versioned, Key="k", VersionId=marker) == (405, "MethodNotAllowed")
    assert error_of(s3.head_object, Bucket=versioned, Key="k", VersionId=marker) == (405, "405")
    assert "Contents" not in s3.list_objects_v2(Bucket=versioned)
    assert s3.get_object(Bucket=versioned, Key="k", VersionId=first)["Body"].read() == b"one"
    put(s3, versioned, "k", b"two", IfNoneMatch="*")  # over a marker there is no object
    s3.delete_object(Bucket=versioned, Key="k")
    assert error_of(s3.delete_bucket, Bucket=versioned) == (409, "BucketNotEmpty")
    answer = s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)
    assert (answer["DeleteMarker"], answer["VersionId"]) == (True, marker)
    s3.delete_object(Bucket=versioned, Key="k", VersionId="00000000000000010000000000000000")  # 204


def test_deleting_the_current_version_brings_back_the_one_before(s3, versioned):
    ids = [put(s3, versioned, "k", f"{n}".encode()) for n in range(3)]
    s3.delete_object(Bucket=versioned, Key="k", VersionId=ids[2])
    answer = s3.get_object(Bucket=versioned, Key="k")
    assert (answer["Body"].read(), answer["VersionId"]) == (b"1", ids[1])
    s3.delete_object(Bucket=versioned, Key="k", VersionId=ids[0])
    assert listed(s3, versioned) == [("k", ids[1], "Versions", True)]
    s3.delete_object(Bucket=versioned, Key="k", VersionId=ids[1])
    assert listed(s3, versioned) == []
    s3.delete_bucket(Bucket=versioned)


def test_a_marker_meets_no_condition(s3, versioned):
    """A conditional DELETE looks at the current version: a delete marker has no ETag, size or time that could be right."""
    etag = s3.put_object(Bucket=versioned, Key="k", Body=b"12345")["ETag"]
    delete = {"Bucket": versioned, "Key": "k"}
    assert s3.delete_object(IfMatch=etag, **delete)["DeleteMarker"] is True
    for condition in ({"IfMatch": etag}, {"IfMatch": "*"}, {"IfMatchSize": 5}):
        assert error_of(s3.delete_object, **condition, **delete) == (412, "PreconditionFailed")
    answer = s3.delete_objects(Bucket=versioned, Delete={"Objects": [{"Key": "k", "ETag": etag}, {"Key": "none", "ETag": etag}]})
    assert [e["Code"] for e in answer["Errors"]] == ["PreconditionFailed"] and [d["Key"] for d in answer["Deleted"]] == ["none"]
    assert error_of(s3.put_object, Body=b"", IfMatch=etag, **delete) == (404, "NoSuchKey")  # a write sees no object there
    assert [how for key, _, how, _ in listed(s3, versioned) if key == "k"] == ["Versions", "DeleteMarkers"]


def test_null_versions(s3, bucket):
    assert put(s3, bucket, "k", b"before") is None
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert s3.head_object(Bucket=bucket, Key="k")["VersionId"] == "null"
    second = put(s3, bucket, "k", b"second")
    assert s3.get_object(Bucket=bucket, Key="k", VersionId="null")["Body"].read() == b"before"
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    assert put(s3, bucket, "k", b"third") is None  # as AWS; reads name it
    assert s3.head_object(Bucket=bucket, Key="k")["VersionId"] == "null"
    assert s3.get_object(Bucket=bucket, Key="k", VersionId="null")["Body"].read() == b"third"
    assert listed(s3, bucket) == [("k", "null", "Versions", True), ("k", second, "Versions", False)]
    answer = s3.delete_object(Bucket=bucket, Key="k")
    assert (answer["DeleteMarker"], answer["VersionId"]) == (True, "null")
    assert sorted(listed(s3, bucket)) == sorted([("k", "null", "DeleteMarkers", True), ("k", second, "Versions", False)])
    s3.delete_object(Bucket=bucket, Key="k", VersionId="null")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"second"


def test_a_copy_onto_itself_where_versions_are_suspended_leaves_the_version(s3, versioned):
    """A version with an id is for ever what was put; the copy is the null version."""
    first = put(s3, versioned, "k", b"body", Metadata={"of": "first"})
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Suspended"})
    for value in ("second", "third"):
        s3.copy_object(Bucket=versioned, Key="k", CopySource={"Bucket": versioned, "Key": "k"}, MetadataDirective="REPLACE", Metadata={"of": value})
        assert listed(s3, versioned) == [("k", "null", "Versions", True), ("k", first, "Versions", False)]
        now = s3.get_object(Bucket=versioned, Key="k")
        assert (now["Body"].read(), now["Metadata"]) == (b"body", {"of": value})
        assert s3.head_object(Bucket=versioned, Key="k", VersionId=first)["Metadata"] == {"of": "first"}


def test_tags_and_copies_of_versions(s3, versioned):
    first, second = (put(s3, versioned, "k", body, Metadata={"m": body.decode()}) for body in (b"one", b"two"))
    s3.put_object_tagging(Bucket=versioned, Key="k", VersionId=first, Tagging={"TagSet": [{"Key": "t", "Value": "1"}]})
    assert s3.get_object_tagging(Bucket=versioned, Key="k", VersionId=first)["TagSet"] == [{"Key": "t", "Value": "1"}]
    assert s3.get_object_tagging(Bucket=versioned, Key="k")["TagSet"] == []
    assert listed(s3, versioned) == [("k", second, "Versions", True), ("k", first, "Versions", False)]
    answer = s3.copy_object(Bucket=versioned, Key="k", CopySource={"Bucket": versioned, "Key": "k", "VersionId": first})
    assert answer["CopySourceVersionId"] == first and answer["VersionId"] not in (first, second)
    head = s3.get_object(Bucket=versioned, Key="k")
    assert (head["Body"].read(), head["Metadata"], head["TagCount"]) == (b"one", {"m": "one"}, 1)
    s3.copy_object(Bucket=versioned, Key="k", CopySource={"Bucket": versioned, "Key": "k"}, MetadataDirective="REPLACE", Metadata={"m": "new"})
    assert s3.get_object(Bucket=versioned, Key="k", VersionId=answer["VersionId"])["Metadata"] == {"m": "one"}
    assert len(listed(s3, versioned)) == 4
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    assert error_of(s3.copy_object, Bucket=versioned, Key="to", CopySource={"Bucket": versioned, "Key": "k", "VersionId": marker}) == (400, "InvalidRequest")
    assert error_of(s3.copy_object, Bucket=versioned, Key="to", CopySource={"Bucket": versioned, "Key": "k"}) == (404, "NoSuchKey")


def test_multipart_versions(s3, versioned):
    ids = []
    for body in (b"one", b"two"):
        upload = s3.create_multipart_upload(Bucket=versioned, Key="k")["UploadId"]
        etag = s3.upload_part(Bucket=versioned, Key="k", UploadId=upload, PartNumber=1, Body=body)["ETag"]
        complete = {"Bucket": versioned, "Key": "k", "UploadId": upload, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": etag}]}}
        ids.append(s3.complete_multipart_upload(**complete)["VersionId"])
        assert s3.complete_multipart_upload(**complete)["VersionId"] == ids[-1]  # again: the same answer
    assert s3.get_object(Bucket=versioned, Key="k", VersionId=ids[0])["Body"].read() == b"one"
    s3.delete_object(Bucket=versioned, Key="k", VersionId=ids[1])
    assert s3.get_object(Bucket=versioned, Key="k")["Body"].read() == b"one"


def test_delete_objects_of_versions(s3, versioned):
    first, second = put(s3, versioned, "a", b"1"), put(s3, versioned, "b", b"2")
    answer = s3.delete_objects(Bucket=versioned, Delete={"Objects": [{"Key": "a"}, {"Key": "b", "VersionId": second}, {"Key": "a", "VersionId": first}]})
    by_key = {(d["Key"], d.get("VersionId")): d for d in answer["Deleted"]}
    assert by_key[("a", None)]["DeleteMarker"] is True
    assert ("b", second) in by_key and ("a", first) in by_key
    assert listed(s3, versioned) == [("a", by_key[("a", None)]["DeleteMarkerVersionId"], "DeleteMarkers", True)]


def test_pages_of_versions(s3, versioned):
    want = []
    for key in ("a/1", "a/2", "b", "c/1", "c\x01"):
        ids = [put(s3, versioned, key, f"{n}".encode()) for n in range(4)]
        want += [(key, v, "Versions", v == ids[-1]) for v in reversed(ids)]
    want.sort(key=lambda v: v[0].encode())
    for size in (1, 2, 3, 7, 1000):
        assert listed(s3, versioned, MaxKeys=size) == want
    assert listed(s3, versioned, Prefix="a/", MaxKeys=3) == want[:8]
    page = s3.list_object_versions(Bucket=versioned, Delimiter="/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["a/", "c/"]
    assert {v["Key"] for v in page["Versions"]} == {"b", "c\x01"}
    keys, prefixes, more = [], [], {}
    while True:
        page = s3.list_object_versions(Bucket=versioned, Delimiter="/", MaxKeys=2, **more)
        keys += [(v["Key"], v["VersionId"]) for v in page.get("Versions", [])]
        prefixes += [p["Prefix"] for p in page.get("CommonPrefixes", [])]
        assert len(page.get("Versions", [])) + len(page.get("CommonPrefixes", [])) <= 2
        if not page["IsTruncated"]:
            break
        more = {"KeyMarker": page["NextKeyMarker"], **({"VersionIdMarker": page["NextVersionIdMarker"]} if "NextVersionIdMarker" in page else {})}
    assert prefixes == ["a/", "c/"] and keys == [v[:2] for v in want if "/" not in v[0]]


def test_deleting_page_by_page_ends(s3, versioned):
    """As tools empty a bucket: delete what a page shows, go on with its markers."""
    for n in range(5):
        for key in ("a", "b", "c"):
            put(s3, versioned, key)
    more = {}
    while True:
        page = s3.list_object_versions(Bucket=versioned, MaxKeys=4, **more)
        found = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in page.get("Versions", [])]
        assert "Errors" not in s3.delete_objects(Bucket=versioned, Delete={"Objects": found})
        if not page["IsTruncated"]:
            break
        more = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
    assert listed(s3, versioned) == []
    s3.delete_bucket(Bucket=versioned)


def test_versions_outlive_a_kill(start_forebay, request):
    node = start_forebay("killed")
    s3 = boto(node.endpoint, node.keys())
    bucket = new_bucket(s3, request.node)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ids = [put(s3, bucket, "k", bytes([n]) * 300_000) for n in range(3)]
    s3.put_object_tagging(Bucket=bucket, Key="k", VersionId=ids[0], Tagging={"TagSet": [{"Key": "t", "Value": "1"}]})
    marker = s3.delete_object(Bucket=bucket, Key="k")["VersionId"]
    node.kill()
    node = start_forebay("killed")
    s3 = boto(node.endpoint, node.keys())
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert {v[1] for v in listed(s3, bucket)} == {*ids, marker}
    for n, version in enumerate(ids):
        assert s3.get_object(Bucket=bucket, Key="k", VersionId=version)["Body"].read() == bytes([n]) * 300_000
    assert s3.get_object_tagging(Bucket=bucket, Key="k", VersionId=ids[0])["TagSet"] == [{"Key": "t", "Value": "1"}]


def test_on_three_disks_with_two_copies(start_forebay, tmp_path, request):
    """The same again, where each version lies on two of three disks."""
    more = [tmp_path / name for name in ("second", "third")]
    for folder in more:
        folder.mkdir()
    node = start_forebay("first", args=more)
    s3 = boto(node.endpoint, node.keys())
    for check in (
        test_each_put_is_a_version, test_delete_markers, test_deleting_the_current_version_brings_back_the_one_before, test_tags_and_copies_of_versions,
        test_multipart_versions, test_delete_objects_of_versions, test_pages_of_versions, test_deleting_page_by_page_ends,
    ):  # fmt: skip
        bucket = new_bucket(s3, request.node)
        settings = json.dumps({"copies": 2}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{node.endpoint}/_/buckets/{bucket}", settings, {"Content-Type": "application/json"}, method="PATCH"), timeout=PATIENCE)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        check(s3, bucket)
