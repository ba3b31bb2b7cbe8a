"""S3 as boto3 speaks it: the scenario by two versions, and the answers that programs depend on."""

import base64
import datetime
import hashlib
import os
import pathlib
import random
import subprocess
import urllib.error
import urllib.request
import zlib

import pytest
from botocore.exceptions import ClientError
from rigs.process import PATIENCE

from conftest import ROOT, boto

HERE = pathlib.Path(__file__).parent
MIB = 1024 * 1024


def error_of(call, **arguments):
    """(HTTP status, S3 code) of a call that must fail."""
    with pytest.raises(ClientError) as error:
        call(**arguments)
    answer = error.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


@pytest.mark.parametrize("environment", [".venv", ".venv-old"])
def test_scenario(server, environment):
    """The same program, with boto3 of today (CRC trailers by default) and of 1.35."""
    command = [ROOT / environment / "bin/python", HERE / "scenario_boto3.py", server.endpoint, *server.keys(), "scenario" + environment.replace(".", "-")]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(": ok\n")


# ---- errors ----


def test_errors_by_name(s3, bucket):
    s3.put_object(Bucket=bucket, Key="there", Body=b"x")
    assert error_of(s3.get_object, Bucket=bucket, Key="none") == (404, "NoSuchKey")
    assert error_of(s3.get_object, Bucket="no-such-bucket", Key="k") == (404, "NoSuchBucket")
    assert error_of(s3.put_object, Bucket="no-such-bucket", Key="k", Body=b"x") == (404, "NoSuchBucket")
    assert error_of(s3.head_object, Bucket=bucket, Key="none") == (404, "404")
    assert error_of(s3.head_bucket, Bucket="no-such-bucket") == (404, "404")
    assert error_of(s3.delete_bucket, Bucket=bucket) == (409, "BucketNotEmpty")
    assert error_of(s3.delete_bucket, Bucket="no-such-bucket") == (404, "NoSuchBucket")
    assert error_of(s3.put_object, Bucket=bucket, Key="k" * 1025, Body=b"x") == (400, "KeyTooLongError")
    assert error_of(s3.abort_multipart_upload, Bucket=bucket, Key="k", UploadId="none") == (404, "NoSuchUpload")
    s3.delete_object(Bucket=bucket, Key="none")  # 204, as S3 does


def test_error_body_and_ids(s3, bucket):
    with pytest.raises(ClientError) as error:
        s3.get_object(Bucket=bucket, Key="none")
    answer = error.value.response
    request_id = answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]
    assert request_id and answer["Error"].get("Key") == "none"
    assert answer["ResponseMetadata"]["RequestId"] == request_id
    again = s3.list_objects_v2(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]
    assert again != request_id


def test_wrong_keys_are_refused_even_on_loopback(server, bucket):
    """S1: no password is asked on loopback, but credentials that are sent are checked."""
    access_key, secret_key = server.keys()
    assert error_of(boto(server.endpoint, (access_key, "wrong")).list_objects_v2, Bucket=bucket) == (403, "SignatureDoesNotMatch")
    assert error_of(boto(server.endpoint, ("STRANGER", secret_key)).list_objects_v2, Bucket=bucket) == (403, "InvalidAccessKeyId")


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("SSE", {"ServerSideEncryption": "AES256"}),
        ("lock", {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": datetime.datetime(2030, 1, 1)}),
    ],
)
def test_what_is_not_built_is_501_and_stores_nothing(s3, bucket, name, arguments):
    assert error_of(s3.put_object, Bucket=bucket, Key="k", Body=b"x", **arguments) == (501, "NotImplemented"), name
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


# ---- integrity: I6 ----


def test_wrong_sums_are_refused_and_store_nothing(s3, bucket):
    """I6: Content-MD5 and x-amz-checksum-* that do not fit are 400, and nothing is there afterwards."""
    wrong_md5 = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    wrong_crc = base64.b64encode(zlib.crc32(b"other").to_bytes(4, "big")).decode()
    wrong_sha = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    assert error_of(s3.put_object, Bucket=bucket, Key="k", Body=b"body", ContentMD5=wrong_md5) == (400, "BadDigest")
    assert error_of(s3.put_object, Bucket=bucket, Key="k", Body=b"body", ChecksumCRC32=wrong_crc) == (400, "BadDigest")
    assert error_of(s3.put_object, Bucket=bucket, Key="k", Body=b"body", ChecksumSHA256=wrong_sha) == (400, "BadDigest")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "SHA1", "SHA256"])
def test_checksums_are_kept(s3, bucket, algorithm):
    body = os.urandom(100_000)
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == body
    assert got[f"Checksum{algorithm}"] == put[f"Checksum{algorithm}"]


# ---- reads ----


def test_conditional_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"body")["ETag"]
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["Body"].read() == b"body"
    assert error_of(s3.get_object, Bucket=bucket, Key="k", IfMatch='"other"') == (412, "PreconditionFailed")
    assert error_of(s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=etag)[0] == 304
    assert s3.get_object(Bucket=bucket, Key="k", IfNoneMatch='"other"')["Body"].read() == b"body"
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=-1)
    assert error_of(s3.get_object, Bucket=bucket, Key="k", IfUnmodifiedSince=later) == (412, "PreconditionFailed")


@pytest.mark.parametrize(
    "asked, status, part",
    [
        ("bytes=0-3", 206, "0-3/10"),
        ("bytes=4-", 206, "4-9/10"),
        ("bytes=4-999", 206, "4-9/10"),
        ("bytes=-3", 206, "7-9/10"),
        ("bytes=-999", 206, "0-9/10"),
        ("bytes=0-9", 206, "0-9/10"),
        ("bytes=10-", 416, "*/10"),
        ("bytes=10-20", 416, "*/10"),
        ("bytes=-0", 416, "*/10"),
        ("bytes=5-2", 200, None),
        ("bytes=a-b", 200, None),
        ("items=0-1", 200, None),
        ("bytes=0-1,3-4", 200, None),
    ],
)
def test_ranges(server, s3, bucket, asked, status, part):
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    request = urllib.request.Request(f"{server.endpoint}/{bucket}/k", headers={"Range": asked})
    try:
        reply = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        reply = error
    body = reply.read()
    assert reply.status == status
    assert reply.headers["Content-Range"] == (f"bytes {part}" if part else None)
    if status == 206:
        first, last = (int(n) for n in part.split("/")[0].split("-"))
        assert body == b"0123456789"[first : last + 1]
    elif status == 200:
        assert body == b"0123456789"


def test_presigned_urls(server, s3, bucket):
    """S3: bound to method, key and time; and it works without any header of the client's."""
    s3.put_object(Bucket=bucket, Key="a b/ü.txt", Body=b"body")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ü.txt"}, ExpiresIn=60)
    assert urllib.request.urlopen(url, timeout=PATIENCE).read() == b"body"
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "new"}, ExpiresIn=60)
    assert urllib.request.urlopen(urllib.request.Request(put, data=b"put", method="PUT"), timeout=PATIENCE).status == 200
    assert s3.get_object(Bucket=bucket, Key="new")["Body"].read() == b"put"
    for wrong in (url.replace("a%20b", "other"), url.replace("X-Amz-Expires=60", "X-Amz-Expires=61"), put):
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(wrong, timeout=PATIENCE)
        assert error.value.code == 403


def test_virtual_host_style(server, s3, bucket):
    """The bucket in the host name, as *.localhost."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"body")
    request = urllib.request.Request(f"{server.endpoint}/k", headers={"Host": f"{bucket}.localhost:{server.port}"})
    assert urllib.request.urlopen(request, timeout=PATIENCE).read() == b"body"


# ---- multipart ----


def test_multipart_by_hand(s3, bucket):
    parts = {number: os.urandom(5 * MIB) for number in (1, 3)} | {7: b"tail"}
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m", ContentType="text/plain", Metadata={"a": "b"})["UploadId"]
    etags = {}
    for number in (7, 3, 1):
        etags[number] = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=number, Body=parts[number])["ETag"]
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    assert [p["PartNumber"] for p in s3.list_parts(Bucket=bucket, Key="m", UploadId=upload)["Parts"]] == [1, 3, 7]
    assert [u["Key"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["m"]
    complete = {"Parts": [{"PartNumber": n, "ETag": etags[n]} for n in (1, 3, 7)]}
    done = s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload=complete)
    sums = b"".join(hashlib.md5(parts[n]).digest() for n in (1, 3, 7))
    assert done["ETag"] == f'"{hashlib.md5(sums).hexdigest()}-3"'
    got = s3.get_object(Bucket=bucket, Key="m")
    assert got["Body"].read() == parts[1] + parts[3] + parts[7]
    assert got["ContentType"] == "text/plain" and got["Metadata"] == {"a": "b"}
    again = s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload=complete)
    assert again["ETag"] == done["ETag"]  # clients retry after a time-out
    other = {"Parts": [{**complete["Parts"][0], "ETag": '"' + "0" * 32 + '"'}, *complete["Parts"][1:]]}
    for parts in (other, {"Parts": complete["Parts"][:1]}):  # what was not completed is not answered as if it were
        assert error_of(s3.complete_multipart_upload, Bucket=bucket, Key="m", UploadId=upload, MultipartUpload=parts) == (404, "NoSuchUpload")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_multipart_refusals(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    etags = [s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=n, Body=b"small")["ETag"] for n in (1, 2)]

    def complete(*rows):
        parts = [{"PartNumber": n, "ETag": etag} for n, etag in rows]
        return error_of(s3.complete_multipart_upload, Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": parts})

    assert complete((2, etags[1]), (1, etags[0])) == (400, "InvalidPartOrder")
    assert complete((1, '"00000000000000000000000000000000"')) == (400, "InvalidPart")
    assert complete((9, etags[0])) == (400, "InvalidPart")
    assert complete((1, etags[0]), (2, etags[1])) == (400, "EntityTooSmall")
    assert error_of(s3.upload_part, Bucket=bucket, Key="m", UploadId=upload, PartNumber=10001, Body=b"x") == (400, "InvalidArgument")
    s3.abort_multipart_upload(Bucket=bucket, Key="m", UploadId=upload)
    assert error_of(s3.upload_part, Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"x") == (404, "NoSuchUpload")
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_part_sent_again_replaces(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"first")
    etag = s3.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=b"second")["ETag"]
    s3.complete_multipart_upload(Bucket=bucket, Key="m", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert s3.get_object(Bucket=bucket, Key="m")["Body"].read() == b"second"


# ---- listing: V2 ----


def model_page_all(keys, prefix, delimiter):
    """What a listing shows, in byte order: (keys, common prefixes)."""
    shown, groups = [], set()
    for key in sorted(keys, key=lambda k: k.encode()):
        if not key.startswith(prefix):
            continue
        at = key.find(delimiter, len(prefix)) if delimiter else -1
        if at >= 0:
            groups.add(key[: at + len(delimiter)])
        else:
            shown.append(key)
    return shown, sorted(groups, key=lambda k: k.encode())


def test_listing_equals_the_model(s3, bucket):
    """Random keys with awkward neighbours, random prefixes, delimiters and page sizes, both versions."""
    rng = random.Random(20261121)
    alphabet = ["a", "b", "/", "//", "-", "+", ".", "é", "€", "𝄞", " ", "%", "z"]
    keys = {"".join(rng.choice(alphabet) for _ in range(rng.randint(1, 7))) for _ in range(250)}
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    tries = 0
    for _ in range(25):
        key = rng.choice(sorted(keys))
        prefix, delimiter = key[: rng.randint(0, 3)], rng.choice(["", "/", "a", "//", "é"])
        size = rng.choice([3, 7, 20, 1000])
        for name in ("list_objects_v2", "list_objects"):
            if name == "list_objects" and not delimiter:
                continue  # v1 without a delimiter gives no NextMarker: the paginator is right, and tested below
            pages = list(s3.get_paginator(name).paginate(Bucket=bucket, Prefix=prefix, Delimiter=delimiter, PaginationConfig={"PageSize": size}))
            shown = [row["Key"] for page in pages for row in page.get("Contents", [])]
            groups = [row["Prefix"] for page in pages for row in page.get("CommonPrefixes", [])]
            assert (shown, groups) == model_page_all(keys, prefix, delimiter), (name, prefix, delimiter, size)
            for page in pages[:-1]:
                assert len(page.get("Contents", [])) + len(page.get("CommonPrefixes", [])) <= size
            tries += 1
    assert tries > 35
    ordered = model_page_all(keys, "", "")[0]
    assert [row["Key"] for page in s3.get_paginator("list_objects").paginate(Bucket=bucket, PaginationConfig={"PageSize": 9}) for row in page["Contents"]] == ordered
    for after in rng.sample(ordered, 10) + ["", "zzzzzzz"]:
        page = s3.list_objects_v2(Bucket=bucket, StartAfter=after, MaxKeys=5)
        assert [row["Key"] for row in page.get("Contents", [])] == [k for k in ordered if k.encode() > after.encode()][:5]


def test_listing_limits(s3, bucket):
    for n in range(3):
        s3.put_object(Bucket=bucket, Key=f"k{n}", Body=b"12345")
    empty = s3.list_objects_v2(Bucket=bucket, MaxKeys=0)
    assert empty["KeyCount"] == 0 and not empty["IsTruncated"]
    page = s3.list_objects_v2(Bucket=bucket, MaxKeys=2)
    assert page["IsTruncated"] and page["KeyCount"] == 2 and page["NextContinuationToken"]
    assert page["Contents"][0]["Size"] == 5 and page["Contents"][0]["ETag"] == f'"{hashlib.md5(b"12345").hexdigest()}"'
    assert error_of(s3.list_objects_v2, Bucket=bucket, ContinuationToken="no token of ours") == (400, "InvalidArgument")


def test_overwrite_and_delete_are_seen_at_once(s3, bucket):
    for n in range(50):
        s3.put_object(Bucket=bucket, Key="k", Body=str(n).encode() * 1000)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == str(n).encode() * 1000
        assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
        s3.delete_object(Bucket=bucket, Key="k")
        assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
        assert error_of(s3.head_object, Bucket=bucket, Key="k")[0] == 404
