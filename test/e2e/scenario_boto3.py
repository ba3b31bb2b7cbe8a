"""What a program does with boto3, from create to delete; run by test_boto3.py with the newest boto3 and with 1.35,
which signs and sends bodies in another way. Ends with status 0 after its last line, or with a traceback.

    scenario_boto3.py ENDPOINT ACCESS_KEY SECRET_KEY BUCKET
"""

import hashlib
import io
import os
import sys

import boto3
import botocore.config
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

MIB = 1024 * 1024
SIZES = (0, 1, 4095, 4096, 16 * 1024, 16 * 1024 + 1, 100_000, MIB, 5 * MIB + 1, 17 * MIB)


def main(endpoint, access_key, secret_key, bucket):
    s3 = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name="us-east-1",
        config=botocore.config.Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )
    s3.create_bucket(Bucket=bucket)
    s3.head_bucket(Bucket=bucket)
    assert bucket in [row["Name"] for row in s3.list_buckets()["Buckets"]]

    bodies = {f"size/{size}": os.urandom(size) for size in SIZES}
    for key, body in bodies.items():
        put = s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType="image/png", Metadata={"lower-case": "value", "n": str(len(body))})
        assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"', key
    for key, body in bodies.items():
        got = s3.get_object(Bucket=bucket, Key=key)
        assert got["Body"].read() == body, key
        assert got["ContentType"] == "image/png" and got["Metadata"] == {"lower-case": "value", "n": str(len(body))}
        head = s3.head_object(Bucket=bucket, Key=key)
        assert head["ContentLength"] == len(body) and head["ETag"] == got["ETag"]

    ranges(s3, bucket, bodies["size/100000"])
    transfers(s3, bucket)
    listing(s3, bucket, sorted(bodies))
    conditions(s3, bucket)
    copies(s3, bucket, bodies["size/100000"])
    tags(s3, bucket)
    deletes(s3, bucket)
    versions(s3, bucket + "-v")
    print(f"boto3 {boto3.__version__}: ok")


def ranges(s3, bucket, body):
    for text, part in (("bytes=0-0", body[:1]), ("bytes=16383-16385", body[16383:16386]), ("bytes=99990-", body[99990:]), ("bytes=-7", body[-7:])):
        got = s3.get_object(Bucket=bucket, Key="size/100000", Range=text)
        assert got["Body"].read() == part and got["ResponseMetadata"]["HTTPStatusCode"] == 206, text
    assert code_of(s3.get_object, Bucket=bucket, Key="size/100000", Range="bytes=100000-") == "InvalidRange"


def transfers(s3, bucket):
    """The transfer manager: parallel parts up, parallel ranges down."""
    body = os.urandom(21 * MIB + 17)
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)
    s3.upload_fileobj(io.BytesIO(body), bucket, "transfer", ExtraArgs={"Metadata": {"from": "transfer"}}, Config=config)
    head = s3.head_object(Bucket=bucket, Key="transfer")
    assert head["ContentLength"] == len(body) and head["ETag"].endswith('-5"') and head["Metadata"] == {"from": "transfer"}
    out = io.BytesIO()
    s3.download_fileobj(bucket, "transfer", out, Config=config)
    assert out.getvalue() == body
    s3.delete_object(Bucket=bucket, Key="transfer")


def listing(s3, bucket, keys):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 3})
    assert [row["Key"] for page in pages for row in page["Contents"]] == keys
    pages = s3.get_paginator("list_objects").paginate(Bucket=bucket, PaginationConfig={"PageSize": 3})
    assert [row["Key"] for page in pages for row in page["Contents"]] == keys
    assert s3.list_objects_v2(Bucket=bucket, Delimiter="/")["CommonPrefixes"] == [{"Prefix": "size/"}]


def conditions(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="once", Body=b"1", IfNoneMatch="*")["ETag"]
    assert code_of(s3.put_object, Bucket=bucket, Key="once", Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    assert code_of(s3.get_object, Bucket=bucket, Key="once", IfNoneMatch=etag) == "304"
    assert code_of(s3.get_object, Bucket=bucket, Key="once", IfMatch='"x"') == "PreconditionFailed"


def copies(s3, bucket, body):
    source = {"Bucket": bucket, "Key": "size/100000"}
    etag = s3.copy_object(Bucket=bucket, Key="copy é +", CopySource=source)["CopyObjectResult"]["ETag"]
    assert etag == f'"{hashlib.md5(body).hexdigest()}"' and s3.get_object(Bucket=bucket, Key="copy é +")["Body"].read() == body
    s3.copy_object(Bucket=bucket, Key="copy é +", CopySource={"Bucket": bucket, "Key": "copy é +"}, MetadataDirective="REPLACE", Metadata={"new": "1"})
    assert s3.head_object(Bucket=bucket, Key="copy é +")["Metadata"] == {"new": "1"}
    s3.copy(source, bucket, "managed", Config=TransferConfig(multipart_threshold=50_000, multipart_chunksize=5 * MIB))
    assert s3.get_object(Bucket=bucket, Key="managed")["Body"].read() == body
    attributes = s3.get_object_attributes(Bucket=bucket, Key="size/100000", ObjectAttributes=["ETag", "ObjectSize"])
    assert attributes["ObjectSize"] == len(body)


def tags(s3, bucket):
    s3.put_object(Bucket=bucket, Key="tagged", Body=b"", Tagging="a=1")
    s3.put_object_tagging(Bucket=bucket, Key="tagged", Tagging={"TagSet": [{"Key": "b", "Value": "2"}]})
    assert s3.get_object_tagging(Bucket=bucket, Key="tagged")["TagSet"] == [{"Key": "b", "Value": "2"}]


def versions(s3, bucket):
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"2")
    s3.delete_object(Bucket=bucket, Key="k")
    assert s3.get_object(Bucket=bucket, Key="k", VersionId=first)["Body"].read() == b"1"
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2}):
        for row in page.get("Versions", []) + page.get("DeleteMarkers", []):
            s3.delete_object(Bucket=bucket, Key=row["Key"], VersionId=row["VersionId"])
    s3.delete_bucket(Bucket=bucket)


def deletes(s3, bucket):
    assert code_of(s3.delete_bucket, Bucket=bucket) == "BucketNotEmpty"
    keys = [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys] + [{"Key": "never there"}]})
    assert sorted(row["Key"] for row in done["Deleted"]) == sorted([*keys, "never there"]) and "Errors" not in done
    assert code_of(s3.get_object, Bucket=bucket, Key=keys[0]) == "NoSuchKey"
    s3.delete_bucket(Bucket=bucket)
    assert code_of(s3.list_objects_v2, Bucket=bucket) == "NoSuchBucket"


def code_of(call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    raise AssertionError(f"{call.__name__} should have failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
