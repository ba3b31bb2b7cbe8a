"""Objects as boto3 speaks of them: conditional writes, copies, attributes, parts, overrides, tags."""

import base64
import concurrent.futures
import datetime
import hashlib
import random
import socket
import time
import urllib.parse

import pytest
from botocore.exceptions import ClientError
from rigs.process import PATIENCE

from test_boto3 import error_of

MIB = 1024 * 1024


def put(s3, bucket, key, body=b"x", **arguments):
    return s3.put_object(Bucket=bucket, Key=key, Body=body, **arguments)


def read(s3, bucket, key, **arguments):
    return s3.get_object(Bucket=bucket, Key=key, **arguments)["Body"].read()


def upload_parts(s3, bucket, key, parts, **arguments):
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key, **arguments)["UploadId"]
    done = [
        {"PartNumber": n, "ETag": s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=n, Body=part)["ETag"]}
        for n, part in enumerate(parts, 1)
    ]
    return upload, done


# ---- conditions ----


def test_put_if_absent_and_if_match(s3, bucket):
    first = put(s3, bucket, "k", b"one", IfNoneMatch="*")["ETag"]
    assert error_of(put, s3=s3, bucket=bucket, key="k", IfNoneMatch="*") == (412, "PreconditionFailed")
    second = put(s3, bucket, "k", b"two", IfMatch=first)["ETag"]
    assert error_of(put, s3=s3, bucket=bucket, key="k", IfMatch=first) == (412, "PreconditionFailed")
    put(s3, bucket, "k", b"three", IfMatch=second.strip('"'))
    assert error_of(put, s3=s3, bucket=bucket, key="none", IfMatch=first) == (404, "NoSuchKey")
    assert error_of(put, s3=s3, bucket=bucket, key="k", IfNoneMatch=first, IfMatch=second) == (501, "NotImplemented")
    assert error_of(put, s3=s3, bucket=bucket, key="none", IfMatch="*") == (404, "NoSuchKey")
    assert read(s3, bucket, "k") == b"three"
    s3.delete_object(Bucket=bucket, Key="k")
    put(s3, bucket, "k", b"four", IfNoneMatch="*")


@pytest.mark.parametrize("versions", [False, True])
def test_put_unless_it_is_one_of_these(s3, bucket, versions):
    """If-None-Match with ETags: refused where the current object has one of them, by PUT and Complete."""
    if versions:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    none = '"' + "0" * 32 + '"'

    def complete(**condition):
        upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
        part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
        return s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]}, **condition)["ETag"]

    def write(**condition):
        return put(s3, bucket, "k", b"put", **condition)["ETag"]

    for by in (write, complete):
        first = by(IfNoneMatch=none)
        for names in (first, first.strip('"'), f"{none}, {first}"):
            assert error_of(by, IfNoneMatch=names) == (412, "PreconditionFailed")
        assert error_of(by, IfNoneMatch=", ".join([none] * 17)) == (400, "InvalidRequest")
        put(s3, bucket, "k", b"other")
        assert by(IfNoneMatch=f"{none}, no-etag, {first}") == first
        s3.delete_object(Bucket=bucket, Key="k")  # with versions: a delete marker is no object
        assert by(IfNoneMatch=first) == first


def test_the_condition_that_failed_is_named(s3, bucket):
    put(s3, bucket, "k")
    with pytest.raises(ClientError) as error:
        put(s3, bucket, "k", IfNoneMatch="*")
    assert error.value.response["Error"]["Condition"] == "If-None-Match"


def test_of_many_writers_one_wins(server, s3, bucket):
    """64 clients want each of 20 keys: by put-if-absent, then by compare-and-swap."""
    from conftest import boto

    clients = [boto(server.endpoint, server.keys()) for _ in range(64)]

    def try_put(client, key, body, **condition):
        try:
            client.put_object(Bucket=bucket, Key=key, Body=body, **condition)
            return body
        except ClientError as error:
            assert error.response["Error"]["Code"] == "PreconditionFailed"
            return None

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        for key in (f"key-{n}" for n in range(20)):
            for condition in ({"IfNoneMatch": "*"}, None):
                condition = condition or {"IfMatch": s3.head_object(Bucket=bucket, Key=key)["ETag"]}
                bodies = [f"{key} {n} {condition}".encode() for n in range(64)]
                won = [w for w in pool.map(lambda c, b, k=key, t=condition: try_put(c, k, b, **t), clients, bodies) if w is not None]
                assert len(won) == 1
                assert read(s3, bucket, key) == won[0]


def test_complete_if_absent(s3, bucket):
    upload, parts = upload_parts(s3, bucket, "k", [b"a"])
    put(s3, bucket, "k", b"there")
    complete = {"Bucket": bucket, "Key": "k", "UploadId": upload, "MultipartUpload": {"Parts": parts}}
    assert error_of(s3.complete_multipart_upload, IfNoneMatch="*", **complete) == (412, "PreconditionFailed")
    assert error_of(s3.complete_multipart_upload, IfMatch='"' + "0" * 32 + '"', **complete) == (412, "PreconditionFailed")
    s3.complete_multipart_upload(IfMatch=s3.head_object(Bucket=bucket, Key="k")["ETag"], **complete)
    assert read(s3, bucket, "k") == b"a"


def test_conditional_deletes(s3, bucket):
    etag = put(s3, bucket, "k", b"12345")["ETag"]
    when = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    delete = {"Bucket": bucket, "Key": "k"}
    assert error_of(s3.delete_object, IfMatch='"' + "0" * 32 + '"', **delete) == (412, "PreconditionFailed")
    assert error_of(s3.delete_object, IfMatchSize=4, **delete) == (412, "PreconditionFailed")
    assert error_of(s3.delete_object, IfMatchLastModifiedTime=when - datetime.timedelta(seconds=9), **delete) == (412, "PreconditionFailed")
    s3.delete_object(IfMatch=etag, IfMatchSize=5, IfMatchLastModifiedTime=when, **delete)
    s3.delete_object(IfMatch=etag, **delete)  # there is nothing to delete: 204, as without a condition
    s3.delete_object(IfMatchSize=5, **delete)
    assert not s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k", "ETag": etag}]}).get("Errors")

    for key in ("a", "b", "c", "d"):
        put(s3, bucket, key, key.encode())
    answer = s3.delete_objects(
        Bucket=bucket,
        Delete={"Objects": [{"Key": "a", "ETag": '"' + "0" * 32 + '"'}, {"Key": "b", "Size": 1}, {"Key": "c", "Size": 2}, {"Key": "d", "LastModifiedTime": when - datetime.timedelta(days=1)}]},
    )
    assert [d["Key"] for d in answer["Deleted"]] == ["b"]
    assert {(e["Key"], e["Code"]) for e in answer["Errors"]} == {(k, "PreconditionFailed") for k in "acd"}


def test_conditions_go_on_to_the_remote(start_forebay, fake):
    """They are sent as they came, and what the remote says of them is the answer."""
    from conftest import boto
    from test_cold import PATIENT, attach

    seen = []

    def answer(request):
        seen.append((request.headers.get("If-None-Match"), request.headers.get("If-Match")))
        if len(seen) == 1:
            request.send(200, {"ETag": '"' + hashlib.md5(request.body).hexdigest() + '"'}, b"")
        else:
            request.send(412, {}, b"<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>")

    node = start_forebay("conditions", settings=PATIENT)
    fake.on("HEAD", "/far", lambda r: r.send(200, {}, b""))
    fake.on("PUT", "/far/k", answer)
    done = attach(node, "far", fake.endpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    s3 = boto(node.endpoint, node.keys())
    put(s3, "far", "k", b"one", IfNoneMatch="*")
    assert error_of(put, s3=s3, bucket="far", key="k", body=b"two", IfNoneMatch="*") == (412, "PreconditionFailed")
    assert error_of(put, s3=s3, bucket="far", key="k", body=b"two", IfMatch='"etag"') == (412, "PreconditionFailed")
    assert seen == [("*", None), ("*", None), (None, '"etag"')]
    assert read(s3, "far", "k") == b"one"

    # DELETE, and each of DeleteObjects
    asked = []

    def delete(request):
        asked.append((request.path, request.headers.get("If-Match"), request.headers.get("x-amz-if-match-size"), request.headers.get("x-amz-if-match-last-modified-time")))
        if request.headers.get("If-Match") == '"wrong"':
            request.send(412, {}, b"<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>")
        elif request.path == "/far/none":
            request.send(404, {}, b"<Error><Code>NoSuchKey</Code><Message>no</Message></Error>")
        else:
            request.send(204, {}, b"")

    for key in ("k", "l", "none"):
        fake.on("DELETE", f"/far/{key}", delete)
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    assert error_of(s3.delete_object, Bucket="far", Key="k", IfMatch='"wrong"') == (412, "PreconditionFailed")
    assert read(s3, "far", "k") == b"one"
    assert error_of(s3.delete_object, Bucket="far", Key="none", IfMatch='"right"') == (404, "NoSuchKey")
    s3.delete_object(Bucket="far", Key="none")
    answer = s3.delete_objects(Bucket="far", Delete={"Objects": [{"Key": "k", "ETag": '"right"', "Size": 3, "LastModifiedTime": when}, {"Key": "l", "ETag": '"wrong"'}]})
    assert [d["Key"] for d in answer["Deleted"]] == ["k"] and [(e["Key"], e["Code"]) for e in answer["Errors"]] == [("l", "PreconditionFailed")]
    assert asked == [
        ("/far/k", '"wrong"', None, None),
        ("/far/none", '"right"', None, None),
        ("/far/none", None, None, None),
        ("/far/k", '"right"', "3", "Fri, 02 Jan 2026 03:04:05 GMT"),
        ("/far/l", '"wrong"', None, None),
    ]

    # Complete
    completed = []

    def complete(request):
        completed.append((request.headers.get("If-None-Match"), request.headers.get("If-Match")))
        if request.headers.get("If-None-Match"):
            request.send(412, {}, b"<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>")
        else:
            request.send(200, {}, b"<CompleteMultipartUploadResult><ETag>&quot;0123-1&quot;</ETag></CompleteMultipartUploadResult>")

    fake.on("POST", "/far/k", complete)
    upload = {"Bucket": "far", "Key": "k", "UploadId": "u", "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": '"00000000000000000000000000000000"'}]}}
    assert error_of(s3.complete_multipart_upload, IfNoneMatch="*", **upload) == (412, "PreconditionFailed")
    assert s3.complete_multipart_upload(IfMatch='"e"', **upload)["ETag"] == '"0123-1"'
    assert completed == [("*", None), (None, '"e"')]


# ---- copies ----


def test_copy_keeps_or_replaces(s3, bucket):
    put(s3, bucket, "from", b"body", ContentType="text/plain", Metadata={"a": "1"}, Tagging="x=1&y=2", CacheControl="no-cache")
    copy = s3.copy_object(Bucket=bucket, Key="kept", CopySource={"Bucket": bucket, "Key": "from"})
    assert copy["CopyObjectResult"]["ETag"] == '"' + hashlib.md5(b"body").hexdigest() + '"'
    head = s3.head_object(Bucket=bucket, Key="kept")
    assert (head["ContentType"], head["Metadata"], head["CacheControl"]) == ("text/plain", {"a": "1"}, "no-cache")
    assert s3.get_object_tagging(Bucket=bucket, Key="kept")["TagSet"] == [{"Key": "x", "Value": "1"}, {"Key": "y", "Value": "2"}]

    s3.copy_object(Bucket=bucket, Key="new", CopySource={"Bucket": bucket, "Key": "from"}, MetadataDirective="REPLACE", Metadata={"b": "2"}, ContentType="text/html", TaggingDirective="REPLACE", Tagging="z=3")
    head = s3.head_object(Bucket=bucket, Key="new")
    assert (head["ContentType"], head["Metadata"]) == ("text/html", {"b": "2"}) and "CacheControl" not in head
    assert s3.get_object_tagging(Bucket=bucket, Key="new")["TagSet"] == [{"Key": "z", "Value": "3"}]
    assert read(s3, bucket, "new") == b"body"


@pytest.mark.parametrize("size", [0, 5, 300_000, 17 * MIB])
def test_copy_onto_itself_changes_metadata_only(s3, bucket, size):
    body = random.Random(size).randbytes(size)
    etag = put(s3, bucket, "k", body, Metadata={"a": "1"}, ChecksumAlgorithm="SHA256")["ETag"]
    itself = {"Bucket": bucket, "Key": "k", "CopySource": {"Bucket": bucket, "Key": "k"}}
    assert error_of(s3.copy_object, **itself) == (400, "InvalidRequest")
    assert s3.copy_object(MetadataDirective="REPLACE", Metadata={"b": "2"}, ContentType="text/x", **itself)["CopyObjectResult"]["ETag"] == etag
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head["Metadata"], head["ContentType"], head["ETag"]) == ({"b": "2"}, "text/x", etag)
    assert head["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(body).digest()).decode()
    assert read(s3, bucket, "k") == body
    s3.copy_object(MetadataDirective="REPLACE", **itself)
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["Metadata"] == {} and read(s3, bucket, "k") == body


def test_copy_source_conditions(s3, bucket):
    etag = put(s3, bucket, "from")["ETag"]
    when = s3.head_object(Bucket=bucket, Key="from")["LastModified"]
    copy = {"Bucket": bucket, "Key": "to", "CopySource": {"Bucket": bucket, "Key": "from"}}
    other, day = '"' + "0" * 32 + '"', datetime.timedelta(days=1)
    for bad in ({"CopySourceIfMatch": other}, {"CopySourceIfNoneMatch": etag}, {"CopySourceIfModifiedSince": when}, {"CopySourceIfUnmodifiedSince": when - day}):
        assert error_of(s3.copy_object, **copy, **bad) == (412, "PreconditionFailed")
    for good in ({"CopySourceIfMatch": etag}, {"CopySourceIfNoneMatch": other}, {"CopySourceIfModifiedSince": when - day}, {"CopySourceIfUnmodifiedSince": when}):
        s3.copy_object(**copy, **good)
    assert error_of(s3.copy_object, IfNoneMatch="*", **copy) == (412, "PreconditionFailed")
    s3.copy_object(IfMatch=etag, **copy)


def test_copy_errors(s3, bucket):
    put(s3, bucket, "from")
    assert error_of(s3.copy_object, Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "none"}) == (404, "NoSuchKey")
    assert error_of(s3.copy_object, Bucket=bucket, Key="to", CopySource={"Bucket": "no-such-bucket", "Key": "from"}) == (404, "NoSuchBucket")
    assert error_of(s3.copy_object, Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"}, MetadataDirective="SOMETHING") == (400, "InvalidArgument")


@pytest.mark.parametrize("key", ["a b+c/é", "100%/x?y", "a//b/../c", "plain"])
def test_copy_sources_in_every_form(server, s3, bucket, key):
    from conftest import boto

    put(s3, bucket, key, key.encode())
    raw = boto(server.endpoint, server.keys())
    raw.meta.events.register("before-call.s3.CopyObject", lambda params, **_: params["headers"].update({"x-amz-copy-source": source}))
    for source in (f"{bucket}/{urllib.parse.quote(key)}", f"/{bucket}/{urllib.parse.quote(key)}", urllib.parse.quote(f"{bucket}/{key}", safe="")):
        raw.copy_object(Bucket=bucket, Key="to", CopySource="replaced/above")
        assert read(s3, bucket, "to") == key.encode()


def test_copy_checksums(s3, bucket):
    put(s3, bucket, "from", b"123456789", ChecksumAlgorithm="CRC32C")
    s3.copy_object(Bucket=bucket, Key="same", CopySource={"Bucket": bucket, "Key": "from"})
    assert s3.head_object(Bucket=bucket, Key="same", ChecksumMode="ENABLED")["ChecksumCRC32C"] == "4waSgw=="
    answer = s3.copy_object(Bucket=bucket, Key="other", CopySource={"Bucket": bucket, "Key": "from"}, ChecksumAlgorithm="SHA1")
    assert answer["CopyObjectResult"]["ChecksumSHA1"] == "98O8HYCOBHMq32eZZczDTKeuNEE="
    head = s3.head_object(Bucket=bucket, Key="other", ChecksumMode="ENABLED")
    assert head["ChecksumSHA1"] == "98O8HYCOBHMq32eZZczDTKeuNEE=" and head["ChecksumType"] == "FULL_OBJECT"


def test_copy_of_a_multipart_object_is_whole(s3, bucket):
    parts = [random.Random(n).randbytes(5 * MIB) for n in range(2)] + [b"end"]
    upload, done = upload_parts(s3, bucket, "from", parts)
    s3.complete_multipart_upload(Bucket=bucket, Key="from", UploadId=upload, MultipartUpload={"Parts": done})
    answer = s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "from"})
    assert answer["CopyObjectResult"]["ETag"] == '"' + hashlib.md5(b"".join(parts)).hexdigest() + '"'
    assert read(s3, bucket, "to") == b"".join(parts)


def test_upload_part_copy(s3, bucket):
    body = random.Random(1).randbytes(11 * MIB)
    put(s3, bucket, "from", body)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="to")["UploadId"]
    copy = {"Bucket": bucket, "Key": "to", "UploadId": upload, "CopySource": {"Bucket": bucket, "Key": "from"}}
    ranges = {1: (0, 6 * MIB - 1), 2: (6 * MIB, 11 * MIB - 1)}
    parts = [{"PartNumber": n, "ETag": s3.upload_part_copy(PartNumber=n, CopySourceRange=f"bytes={a}-{b}", **copy)["CopyPartResult"]["ETag"]} for n, (a, b) in ranges.items()]
    assert parts[0]["ETag"] == '"' + hashlib.md5(body[: 6 * MIB]).hexdigest() + '"'
    for bad in ("0-2", "bytes=0", "bytes=hello-", "bytes=0-2,3-5", f"bytes=0-{11 * MIB}"):
        assert error_of(s3.upload_part_copy, PartNumber=3, CopySourceRange=bad, **copy) == (400, "InvalidArgument")
    s3.complete_multipart_upload(Bucket=bucket, Key="to", UploadId=upload, MultipartUpload={"Parts": parts})
    assert read(s3, bucket, "to") == body


# ---- reading ----


def test_a_bucket_goes_with_its_uploads_in_progress(s3):
    """Without objects a bucket can be deleted, as with AWS; one of the same name later has none of its uploads."""
    s3.create_bucket(Bucket="half-done")
    begun = [s3.create_multipart_upload(Bucket="half-done", Key=f"k{n}")["UploadId"] for n in range(70)]
    s3.upload_part(Bucket="half-done", Key="k0", UploadId=begun[0], PartNumber=1, Body=b"x" * (5 << 20))
    s3.put_object(Bucket="half-done", Key="k", Body=b"1")
    assert error_of(s3.delete_bucket, Bucket="half-done") == (409, "BucketNotEmpty")
    assert len(s3.list_multipart_uploads(Bucket="half-done")["Uploads"]) == 70  # a refused removal aborts nothing
    s3.delete_object(Bucket="half-done", Key="k")
    s3.delete_bucket(Bucket="half-done")
    assert error_of(s3.upload_part, Bucket="half-done", Key="k0", UploadId=begun[0], PartNumber=2, Body=b"x") == (404, "NoSuchBucket")
    s3.create_bucket(Bucket="half-done")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="half-done")
    assert error_of(s3.list_parts, Bucket="half-done", Key="k0", UploadId=begun[0]) == (404, "NoSuchUpload")
    s3.delete_bucket(Bucket="half-done")


def test_part_numbers(s3, bucket):
    parts = [random.Random(n).randbytes(5 * MIB + n) for n in range(2)] + [b"end"]
    upload, done = upload_parts(s3, bucket, "k", parts)
    assert error_of(s3.head_object, Bucket=bucket, Key="k", PartNumber=1) == (404, "404")
    etag = s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": done})["ETag"]
    for n, part in enumerate(parts, 1):
        answer = s3.get_object(Bucket=bucket, Key="k", PartNumber=n)
        assert answer["Body"].read() == part
        assert (answer["PartsCount"], answer["ETag"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (3, etag, 206)
        head = s3.head_object(Bucket=bucket, Key="k", PartNumber=n)
        assert (head["PartsCount"], head["ContentLength"]) == (3, len(part))
    assert error_of(s3.get_object, Bucket=bucket, Key="k", PartNumber=4) == (416, "InvalidPartNumber")
    assert error_of(s3.get_object, Bucket=bucket, Key="k", PartNumber=10001) == (400, "InvalidArgument")
    assert error_of(s3.get_object, Bucket=bucket, Key="k", PartNumber=1, Range="bytes=0-1") == (400, "InvalidRequest")
    put(s3, bucket, "whole", b"12345")
    answer = s3.get_object(Bucket=bucket, Key="whole", PartNumber=1)
    assert (answer["Body"].read(), answer["ContentRange"]) == (b"12345", "bytes 0-4/5") and "PartsCount" not in answer


def test_attributes(s3, bucket):
    everything = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    put(s3, bucket, "k", b"123456789", ChecksumAlgorithm="CRC32")
    answer = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=everything)
    assert (answer["ETag"], answer["ObjectSize"], answer["StorageClass"]) == (hashlib.md5(b"123456789").hexdigest(), 9, "STANDARD")
    assert answer["Checksum"] == {"ChecksumCRC32": "y/Q5Jg==", "ChecksumType": "FULL_OBJECT"} and "ObjectParts" not in answer
    upload, done = upload_parts(s3, bucket, "parts", [b"a" * 5 * MIB, b"b" * 5 * MIB, b"c"])
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": done})
    answer = s3.get_object_attributes(Bucket=bucket, Key="parts", ObjectAttributes=everything, MaxParts=2)
    parts = answer["ObjectParts"]
    assert (parts["TotalPartsCount"], parts["IsTruncated"], parts["NextPartNumberMarker"]) == (3, True, 2)
    assert [(p["PartNumber"], p["Size"]) for p in parts["Parts"]] == [(1, 5 * MIB), (2, 5 * MIB)]
    assert error_of(s3.get_object_attributes, Bucket=bucket, Key="none", ObjectAttributes=["ETag"]) == (404, "NoSuchKey")


def test_storage_class_is_echoed(s3, bucket):
    put(s3, bucket, "k", StorageClass="STANDARD_IA")
    assert s3.head_object(Bucket=bucket, Key="k")["StorageClass"] == "STANDARD_IA"
    assert error_of(put, s3=s3, bucket=bucket, key="k", StorageClass="NOPE") == (400, "InvalidStorageClass")


# ---- multipart checksums: values of section 5 of the pitfalls ----


def test_multipart_checksums(s3, bucket):
    bodies = [c * 5 * MIB for c in (b"A", b"B", b"C")]
    for algorithm, kind, want in (
        ("CRC32", "COMPOSITE", "Z+ry2Q==-3"),
        ("SHA256", "COMPOSITE", "uWBwpe1dxI4Vw8Gf0X9ynOdw/SS6VBzfWm9giiv1sf4=-3"),
        ("CRC32", "FULL_OBJECT", "WgDhBQ=="),
        ("CRC64NVME", "FULL_OBJECT", "i+6LR0y3eFo="),
    ):
        name = "Checksum" + algorithm
        if algorithm == "CRC64NVME":
            try:
                s3.upload_part(Bucket=bucket, Key="probe", UploadId="none", PartNumber=1, Body=b"", ChecksumAlgorithm=algorithm)
            except ClientError:
                pass
            except Exception:  # needs awscrt
                continue
        upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType=kind)["UploadId"]
        parts = []
        for n, body in enumerate(bodies, 1):
            answer = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=n, Body=body, ChecksumAlgorithm=algorithm)
            parts.append({"PartNumber": n, "ETag": answer["ETag"], name: answer[name]})
        listed = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)
        assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (algorithm, kind)
        assert [p[name] for p in listed["Parts"]] == [p[name] for p in parts]
        complete = {"Bucket": bucket, "Key": "k", "UploadId": upload}
        if kind == "COMPOSITE":
            bare = [{k: v for k, v in p.items() if k != name} for p in parts]
            assert error_of(s3.complete_multipart_upload, MultipartUpload={"Parts": bare}, **complete) == (400, "InvalidRequest")
        assert error_of(s3.complete_multipart_upload, MultipartUpload={"Parts": parts}, MpuObjectSize=5, **complete) == (400, "InvalidRequest")
        answer = s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, ChecksumType=kind, MpuObjectSize=15 * MIB, **complete)
        assert (answer[name], answer["ETag"]) == (want, '"b2add96cc9702bbf4efb0ccdfc6b7747-3"')
        assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[name] == want
        # What each part was sent with is reported after Complete too.
        told = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["Checksum", "ObjectParts"])
        assert [p[name] for p in told["ObjectParts"]["Parts"]] == [p[name] for p in parts]
        assert told["Checksum"] == {name: want.removesuffix("-3"), "ChecksumType": kind}
        for n, part in enumerate(parts, 1):
            head = s3.head_object(Bucket=bucket, Key="k", PartNumber=n, ChecksumMode="ENABLED")
            assert (head[name], head["ChecksumType"]) == (part[name], kind)
            body = s3.get_object(Bucket=bucket, Key="k", PartNumber=n, ChecksumMode="ENABLED")["Body"].read()  # boto3 holds it against the header
            assert body == bodies[n - 1]


@pytest.mark.parametrize("algorithm, kind", [("SHA256", "COMPOSITE"), ("SHA1", "COMPOSITE"), ("CRC32", "COMPOSITE"), ("CRC32", "FULL_OBJECT")])
def test_complete_says_the_checksum_of_the_object(s3, bucket, algorithm, kind):
    """The header of CompleteMultipartUpload is of the object, not of the document in its body."""
    name = "Checksum" + algorithm

    def complete(sum_of_all=None):
        upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType=kind)["UploadId"]
        parts = []
        for number, body in enumerate([b"a" * (5 * MIB), b"b" * 1000], 1):
            part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm)
            parts.append({"PartNumber": number, "ETag": part["ETag"], name: part[name]})
        return s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts}, **({name: sum_of_all} if sum_of_all else {}))

    right = complete()[name]
    assert complete(right)[name] == right and right.endswith("-2") == (kind == "COMPOSITE")
    wrong = base64.b64encode(bytes([base64.b64decode(right.removesuffix("-2"))[0] ^ 1]) + base64.b64decode(right.removesuffix("-2"))[1:]).decode()
    assert error_of(complete, sum_of_all=wrong + ("-2" if kind == "COMPOSITE" else "")) == (400, "BadDigest")


def test_crc64nvme_is_made_where_a_client_sends_no_checksum(server, bucket):
    from conftest import boto

    s3 = boto(server.endpoint, server.keys(), request_checksum_calculation="when_required", response_checksum_validation="when_required")
    assert put(s3, bucket, "k", b"123456789")["ChecksumCRC64NVME"] == "rosUhgp5mIg="
    own = {"ChecksumCRC64NVME": "rosUhgp5mIg=", "ChecksumType": "FULL_OBJECT"}
    for ask in (s3.head_object, s3.get_object):
        answer = ask(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert own.items() <= answer.items() and "ChecksumCRC64NVME" not in ask(Bucket=bucket, Key="k")
        assert "ChecksumCRC64NVME" not in ask(Bucket=bucket, Key="k", ChecksumMode="ENABLED", Range="bytes=0-3")
    assert s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["Checksum"])["Checksum"] == own
    assert put(s3, bucket, "empty", b"")["ChecksumCRC64NVME"] == "AAAAAAAAAAA="
    assert s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})["CopyObjectResult"]["ChecksumCRC64NVME"] == "rosUhgp5mIg="

    upload, parts = upload_parts(s3, bucket, "parts", [c * 5 * MIB for c in (b"A", b"B", b"C")])
    listed = s3.list_parts(Bucket=bucket, Key="parts", UploadId=upload)["Parts"]
    answer = s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
    assert (answer["ChecksumCRC64NVME"], answer["ChecksumType"]) == ("i+6LR0y3eFo=", "FULL_OBJECT")
    told = s3.get_object_attributes(Bucket=bucket, Key="parts", ObjectAttributes=["Checksum", "ObjectParts"])
    assert told["Checksum"]["ChecksumCRC64NVME"] == "i+6LR0y3eFo="
    assert [p["ChecksumCRC64NVME"] for p in told["ObjectParts"]["Parts"]] == [p["ChecksumCRC64NVME"] for p in listed]


# ---- tags ----


def tag_set(tags):
    return {"TagSet": [{"Key": k, "Value": v} for k, v in tags.items()]}


def test_object_tags(s3, bucket):
    body = b"x" * 400_000
    put(s3, bucket, "k", body, Tagging="a=1&b=" + urllib.parse.quote("é /+"), Metadata={"m": "1"})
    answer = s3.get_object(Bucket=bucket, Key="k")
    assert answer["TagCount"] == 2
    when = answer["LastModified"]
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == tag_set({"a": "1", "b": "é /+"})["TagSet"]
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tag_set({"c": ""}))
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == tag_set({"c": ""})["TagSet"]
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    head = s3.head_object(Bucket=bucket, Key="k")
    assert "TagCount" not in head and head["Metadata"] == {"m": "1"} and head["LastModified"] == when
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []
    assert read(s3, bucket, "k") == body
    tag = {"Bucket": bucket, "Key": "k"}
    assert error_of(s3.put_object_tagging, Tagging=tag_set({str(n): "" for n in range(11)}), **tag) == (400, "BadRequest")
    assert error_of(s3.put_object_tagging, Tagging=tag_set({"k" * 129: ""}), **tag) == (400, "InvalidTag")
    assert error_of(s3.put_object_tagging, Tagging=tag_set({"k": "v" * 257}), **tag) == (400, "InvalidTag")
    assert error_of(s3.put_object_tagging, Tagging={"TagSet": [{"Key": "a", "Value": "1"}] * 2}, **tag) == (400, "InvalidTag")
    assert error_of(s3.get_object_tagging, Bucket=bucket, Key="none") == (404, "NoSuchKey")
    upload = s3.create_multipart_upload(Bucket=bucket, Key="mpu", Tagging="t=1")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="mpu", UploadId=upload, PartNumber=1, Body=b"x")["ETag"]
    s3.complete_multipart_upload(Bucket=bucket, Key="mpu", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    s3.put_object_tagging(Bucket=bucket, Key="mpu", Tagging=tag_set({"t": "2"}))
    assert s3.get_object_tagging(Bucket=bucket, Key="mpu")["TagSet"] == tag_set({"t": "2"})["TagSet"]
    assert s3.head_object(Bucket=bucket, Key="mpu")["ETag"].endswith('-1"') and read(s3, bucket, "mpu") == b"x"


def test_bucket_tags(s3, bucket):
    assert error_of(s3.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")
    s3.put_bucket_tagging(Bucket=bucket, Tagging=tag_set({"team": "a/b", "n": "1"}))
    assert s3.get_bucket_tagging(Bucket=bucket)["TagSet"] == tag_set({"team": "a/b", "n": "1"})["TagSet"]
    assert error_of(s3.put_bucket_tagging, Bucket=bucket, Tagging=tag_set({str(n): "" for n in range(51)})) == (400, "BadRequest")
    s3.delete_bucket_tagging(Bucket=bucket)
    assert error_of(s3.get_bucket_tagging, Bucket=bucket) == (404, "NoSuchTagSet")


def test_copies_between_native_and_attached_buckets(start_forebay, seaweed, remote_s3, remote_bucket):
    """Copies go through either way: the remote has what was copied to it, and its ETag."""
    from conftest import REMOTE_KEYS, boto
    from test_cold import PATIENT, attach

    node = start_forebay("copies", settings=PATIENT)
    done = attach(node, remote_bucket, seaweed.endpoint)
    assert done.returncode == 0 and REMOTE_KEYS, done.stdout + done.stderr
    s3 = boto(node.endpoint, node.keys())
    s3.create_bucket(Bucket="native")
    body = random.Random(7).randbytes(6 * MIB)
    remote_s3.put_object(Bucket=remote_bucket, Key="there", Body=body, Metadata={"a": "1"}, ContentType="text/x")
    s3.copy_object(Bucket="native", Key="here", CopySource={"Bucket": remote_bucket, "Key": "there"})
    head = s3.head_object(Bucket="native", Key="here")
    assert (head["Metadata"], head["ContentType"], head["ETag"]) == ({"a": "1"}, "text/x", '"' + hashlib.md5(body).hexdigest() + '"')
    s3.copy_object(Bucket=remote_bucket, Key="back", CopySource={"Bucket": "native", "Key": "here"}, MetadataDirective="REPLACE", Metadata={"b": "2"})
    head = remote_s3.head_object(Bucket=remote_bucket, Key="back")
    assert head["Metadata"] == {"b": "2"} and read(s3, remote_bucket, "back") == body
    s3.copy_object(Bucket=remote_bucket, Key="back", CopySource={"Bucket": remote_bucket, "Key": "back"}, MetadataDirective="REPLACE", Metadata={"c": "3"})
    assert remote_s3.head_object(Bucket=remote_bucket, Key="back")["Metadata"] == {"c": "3"}
    upload = s3.create_multipart_upload(Bucket="native", Key="parts")["UploadId"]
    part = s3.upload_part_copy(Bucket="native", Key="parts", UploadId=upload, PartNumber=1, CopySource={"Bucket": remote_bucket, "Key": "there"}, CopySourceRange="bytes=100-199")
    s3.complete_multipart_upload(Bucket="native", Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]})
    assert read(s3, "native", "parts") == body[100:200]
    upload = s3.create_multipart_upload(Bucket=remote_bucket, Key="parts")["UploadId"]
    into = {"Bucket": remote_bucket, "Key": "parts", "UploadId": upload}
    parts = [
        {"PartNumber": n, "ETag": s3.upload_part_copy(PartNumber=n, CopySource={"Bucket": source, "Key": key}, CopySourceRange=f"bytes=0-{last}", **into)["CopyPartResult"]["ETag"]}
        for n, (source, key, last) in enumerate([("native", "here", 5 * MIB - 1), (remote_bucket, "there", 9)], 1)
    ]
    s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **into)
    assert remote_s3.get_object(Bucket=remote_bucket, Key="parts")["Body"].read() == body[: 5 * MIB] + body[:10] == read(s3, remote_bucket, "parts")
    assert error_of(s3.put_bucket_versioning, Bucket=remote_bucket, VersioningConfiguration={"Status": "Enabled"}) == (501, "NotImplemented")


def test_tags_of_attached_buckets_are_the_remotes(start_forebay, seaweed, remote_s3, remote_bucket):
    from conftest import boto
    from test_cold import PATIENT, attach

    node = start_forebay("tags", settings=PATIENT)
    assert attach(node, remote_bucket, seaweed.endpoint).returncode == 0
    s3 = boto(node.endpoint, node.keys())
    put(s3, remote_bucket, "k", b"body", Tagging="a=1&b=x%20y")
    want = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "x y"}]

    def tags_at(client):
        return sorted(client.get_object_tagging(Bucket=remote_bucket, Key="k")["TagSet"], key=lambda t: t["Key"])

    assert tags_at(remote_s3) == want and tags_at(s3) == want
    s3.put_object_tagging(Bucket=remote_bucket, Key="k", Tagging=tag_set({"c": "3"}))
    assert tags_at(remote_s3) == [{"Key": "c", "Value": "3"}] == tags_at(s3)
    remote_s3.put_object_tagging(Bucket=remote_bucket, Key="k", Tagging=tag_set({"d": "4"}))
    assert tags_at(s3) == [{"Key": "d", "Value": "4"}]
    s3.delete_object_tagging(Bucket=remote_bucket, Key="k")
    assert tags_at(remote_s3) == [] == tags_at(s3)
    assert read(s3, remote_bucket, "k") == b"body"
    tag = {"Bucket": remote_bucket, "Key": "k"}
    assert error_of(s3.put_object_tagging, Tagging=tag_set({str(n): "" for n in range(11)}), **tag) == (400, "BadRequest")
    assert error_of(s3.get_object_tagging, Bucket=remote_bucket, Key="none") == (404, "NoSuchKey")
    assert error_of(s3.get_object_tagging, VersionId="0" * 15 + "1" + "0" * 16, **tag) == (404, "NoSuchVersion")


# ---- answers that are kept ----


def ask_raw(connection, request, size):
    """One answer's head, as lines of text, and its body."""
    connection.sendall(request)
    got = b""
    while b"\r\n\r\n" not in got or len(got) < got.index(b"\r\n\r\n") + 4 + size:
        piece = connection.recv(65536)
        assert piece, "the connection ended within an answer"
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


def names_of(lines):
    """{name: value}, and the answer without what is another each time."""
    fields = dict(line.split(": ", 1) for line in lines[1:])
    assert len(fields) == len(lines) - 1
    return fields, [line for line in lines if not line.startswith(("Date: ", "x-amz-request-id: ", "x-amz-id-2: "))]


@pytest.mark.parametrize("size", [1, 4096, 16384, 32_600, 300_000])
def test_a_cached_response_head_differs_in_date_and_ids_alone(server, s3, bucket, size):
    """V3: an answer that is served again says what the first one said; its date is now, its id its own; `Connection: close` is obeyed."""
    body = random.randbytes(size)
    put(s3, bucket, "k", body, ContentType="image/jpeg", Metadata={"a": "b"})
    usual = f"GET /{bucket}/k HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    last = f"GET /{bucket}/k HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
        first, same = names_of(ask_raw(raw, usual, size)[0])
        kept, ids, dates = server.metrics()["forebay_response_cache_hits_total"], {first["x-amz-request-id"]}, {first["Date"]}
        end = time.monotonic() + PATIENCE
        while (len(dates) < 2 or len(ids) < 10) and time.monotonic() < end:
            lines, came = ask_raw(raw, usual, size)
            fields, rest = names_of(lines)
            assert came == body and rest == same
            assert fields["x-amz-id-2"] == fields["x-amz-request-id"] not in ids
            ids.add(fields["x-amz-request-id"])
            dates.add(fields["Date"])
        assert len(dates) >= 2 and len(ids) >= 10
        assert server.metrics()["forebay_response_cache_hits_total"] - kept >= len(ids) - 5
        told = datetime.datetime.strptime(fields["Date"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=datetime.UTC)
        assert abs((datetime.datetime.now(datetime.UTC) - told).total_seconds()) < PATIENCE
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
            lines, came = ask_raw(raw, last, size)
            fields, rest = names_of(lines)
            assert fields.pop("Connection") == "close" and came == body
            assert [line for line in rest if not line.startswith("Connection: ")] == same
            assert raw.recv(1) == b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
        old = f"GET /{bucket}/k HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: keep-alive\r\n\r\n".encode()
        for _ in range(4):
            lines, came = ask_raw(raw, old, size)
            assert "Connection: keep-alive" in lines and came == body


@pytest.mark.parametrize("size", [4096, 16384, 32_600, 40_000])
def test_a_crowd_is_answered_each_for_itself(server, s3, bucket, size):
    """V3: many who ask for the same at once get its bytes, each behind a head of his own, and no other head is left in them."""
    body, ids = random.randbytes(size), set()
    put(s3, bucket, "k", body)
    usual = f"GET /{bucket}/k HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    crowd = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(32)]
    for _ in range(20):
        for raw in crowd:
            raw.sendall(usual)
        for raw in crowd:
            lines, came = ask_raw(raw, b"", size)
            assert came == body
            ids.add(names_of(lines)[0]["x-amz-request-id"])
    for raw in crowd:
        raw.close()
    assert len(ids) == 20 * len(crowd)
