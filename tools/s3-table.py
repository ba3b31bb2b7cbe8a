#!/usr/bin/env python3
"""make s3-table: every operation of the S3 API as boto3 knows it, run on Forebay and on SeaweedFS, side by side.

Operations that programs depend on have a check of what they do; the others are called with the least they take, and the
table says how they are answered. "works": every check held. Both servers are started here and get the same calls.
"""

import base64
import hashlib
import http.client
import pathlib
import sys
import tempfile
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import boto3  # noqa: E402
import botocore.config  # noqa: E402
from botocore.exceptions import ClientError, ParamValidationError  # noqa: E402
from rigs import forebay, seaweed  # noqa: E402

MIB = 1024 * 1024


class Side:
    """One server, its client, and a bucket that each check gets fresh keys in."""

    def __init__(self, name, endpoint, keys):
        self.name, self.endpoint = name, endpoint
        self.s3 = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id=keys[0], aws_secret_access_key=keys[1], region_name="us-east-1",
            config=botocore.config.Config(signature_version="s3v4", retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, connect_timeout=5, read_timeout=30),
        )
        self.count = 0
        self.bucket = self.new_bucket()

    def new_bucket(self):
        self.count += 1
        name = f"table-{self.count}"
        self.s3.create_bucket(Bucket=name)
        return name

    def key(self, body=b"body", **arguments):
        self.count += 1
        name = f"k{self.count}"
        self.s3.put_object(Bucket=self.bucket, Key=name, Body=body, **arguments)
        return name

    def read(self, key, **arguments):
        return self.s3.get_object(Bucket=self.bucket, Key=key, **arguments)["Body"].read()


def fails(call, code, **arguments):
    """The call must fail with that code (or status)."""
    try:
        call(**arguments)
    except ClientError as error:
        got = error.response["Error"]["Code"]
        assert got in (code, str(code)) or error.response["ResponseMetadata"]["HTTPStatusCode"] == code, f"{got} instead of {code}"
        return
    raise AssertionError(f"no {code}")


# ---- checks: one function for each operation, named as boto3's method ----


def list_buckets(s):
    assert s.bucket in [b["Name"] for b in s.s3.list_buckets()["Buckets"]]


def create_bucket(s):
    s.new_bucket()


def head_bucket(s):
    s.s3.head_bucket(Bucket=s.bucket)
    fails(s.s3.head_bucket, 404, Bucket="no-such-bucket-at-all")


def delete_bucket(s):
    name = s.new_bucket()
    s.s3.put_object(Bucket=name, Key="k", Body=b"")
    fails(s.s3.delete_bucket, "BucketNotEmpty", Bucket=name)
    s.s3.delete_object(Bucket=name, Key="k")
    s.s3.delete_bucket(Bucket=name)


def get_bucket_location(s):
    s.s3.get_bucket_location(Bucket=s.bucket)


def put_object(s):
    body = b"123456789"
    answer = s.s3.put_object(Bucket=s.bucket, Key="put", Body=body, ContentType="text/x", Metadata={"a": "b"}, ChecksumAlgorithm="CRC32")
    assert answer["ETag"] == f'"{hashlib.md5(body).hexdigest()}"', "ETag"
    assert answer["ChecksumCRC32"] == "y/Q5Jg==", "checksum in the answer"
    fails(s.s3.put_object, "BadDigest", Bucket=s.bucket, Key="put", Body=b"x", ContentMD5=base64.b64encode(hashlib.md5(b"y").digest()).decode())
    fails(s.s3.put_object, "PreconditionFailed", Bucket=s.bucket, Key="put", Body=b"x", IfNoneMatch="*")
    fails(s.s3.put_object, "PreconditionFailed", Bucket=s.bucket, Key="put", Body=b"x", IfMatch='"' + "0" * 32 + '"')
    s.s3.put_object(Bucket=s.bucket, Key="put", Body=body, IfMatch=answer["ETag"])


def get_object(s):
    key = s.key(b"0123456789", ContentType="text/x")
    answer = s.s3.get_object(Bucket=s.bucket, Key=key, Range="bytes=-3")
    assert (answer["Body"].read(), answer["ContentRange"]) == (b"789", "bytes 7-9/10"), "suffix range"
    fails(s.s3.get_object, "InvalidRange", Bucket=s.bucket, Key=key, Range="bytes=10-")
    fails(s.s3.get_object, "PreconditionFailed", Bucket=s.bucket, Key=key, IfMatch='"x"')
    fails(s.s3.get_object, 304, Bucket=s.bucket, Key=key, IfNoneMatch=answer["ETag"])
    fails(s.s3.get_object, "NoSuchKey", Bucket=s.bucket, Key="none")
    assert s.s3.get_object(Bucket=s.bucket, Key=key, ResponseContentType="a/b")["ContentType"] == "a/b", "overrides"
    assert s.s3.get_object(Bucket=s.bucket, Key=key, PartNumber=1)["ResponseMetadata"]["HTTPStatusCode"] == 206, "partNumber"


def head_object(s):
    key = s.key(b"0123456789", Metadata={"a": "b"}, ChecksumAlgorithm="SHA256")
    head = s.s3.head_object(Bucket=s.bucket, Key=key, ChecksumMode="ENABLED")
    assert (head["ContentLength"], head["Metadata"]) == (10, {"a": "b"}), "metadata"
    assert head.get("ChecksumSHA256"), "checksum"


def delete_object(s):
    key = s.key()
    fails(s.s3.delete_object, "PreconditionFailed", Bucket=s.bucket, Key=key, IfMatch='"' + "0" * 32 + '"')
    s.s3.delete_object(Bucket=s.bucket, Key=key)
    s.s3.delete_object(Bucket=s.bucket, Key=key)
    fails(s.s3.get_object, "NoSuchKey", Bucket=s.bucket, Key=key)


def delete_objects(s):
    keys = [s.key() for _ in range(3)]
    answer = s.s3.delete_objects(Bucket=s.bucket, Delete={"Objects": [{"Key": k} for k in keys]})
    assert {d["Key"] for d in answer["Deleted"]} == set(keys)


def copy_object(s):
    key = s.key(b"copied", Metadata={"a": "b"})
    source = {"Bucket": s.bucket, "Key": key}
    s.s3.copy_object(Bucket=s.bucket, Key="copy é+", CopySource=source)
    assert s.read("copy é+") == b"copied"
    fails(s.s3.copy_object, "InvalidRequest", Bucket=s.bucket, Key=key, CopySource=source)
    s.s3.copy_object(Bucket=s.bucket, Key=key, CopySource=source, MetadataDirective="REPLACE", Metadata={"c": "d"})
    assert s.s3.head_object(Bucket=s.bucket, Key=key)["Metadata"] == {"c": "d"}, "REPLACE onto itself"
    fails(s.s3.copy_object, "PreconditionFailed", Bucket=s.bucket, Key="to", CopySource=source, CopySourceIfMatch='"x"')
    fails(s.s3.copy_object, "PreconditionFailed", Bucket=s.bucket, Key="copy é+", CopySource=source, IfNoneMatch="*")


def get_object_attributes(s):
    key = s.key(b"12345")
    answer = s.s3.get_object_attributes(Bucket=s.bucket, Key=key, ObjectAttributes=["ETag", "ObjectSize", "StorageClass"])
    assert (answer["ETag"], answer["ObjectSize"]) == (hashlib.md5(b"12345").hexdigest(), 5)


def object_tags(s):
    key = s.key(Tagging="a=1")
    assert s.s3.get_object_tagging(Bucket=s.bucket, Key=key)["TagSet"] == [{"Key": "a", "Value": "1"}]
    s.s3.put_object_tagging(Bucket=s.bucket, Key=key, Tagging={"TagSet": [{"Key": "b", "Value": "2"}]})
    assert s.s3.get_object_tagging(Bucket=s.bucket, Key=key)["TagSet"] == [{"Key": "b", "Value": "2"}]
    assert s.s3.head_object(Bucket=s.bucket, Key=key).get("TagCount") == 1 or s.s3.get_object(Bucket=s.bucket, Key=key).get("TagCount") == 1, "count"
    s.s3.delete_object_tagging(Bucket=s.bucket, Key=key)
    assert s.s3.get_object_tagging(Bucket=s.bucket, Key=key)["TagSet"] == []


get_object_tagging = put_object_tagging = delete_object_tagging = object_tags


def bucket_tags(s):
    name = s.new_bucket()
    fails(s.s3.get_bucket_tagging, "NoSuchTagSet", Bucket=name)
    s.s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
    assert s.s3.get_bucket_tagging(Bucket=name)["TagSet"] == [{"Key": "a", "Value": "1"}]
    s.s3.delete_bucket_tagging(Bucket=name)
    fails(s.s3.get_bucket_tagging, "NoSuchTagSet", Bucket=name)


get_bucket_tagging = put_bucket_tagging = delete_bucket_tagging = bucket_tags


def bucket_versioning(s):
    name = s.new_bucket()
    assert "Status" not in s.s3.get_bucket_versioning(Bucket=name)
    s.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    assert s.s3.get_bucket_versioning(Bucket=name)["Status"] == "Enabled"
    return name


get_bucket_versioning = put_bucket_versioning = bucket_versioning


def list_object_versions(s):
    name = bucket_versioning(s)
    ids = [s.s3.put_object(Bucket=name, Key="k", Body=b"%d" % n)["VersionId"] for n in range(2)]
    marker = s.s3.delete_object(Bucket=name, Key="k")["VersionId"]
    page = s.s3.list_object_versions(Bucket=name)
    assert [v["VersionId"] for v in page["Versions"]] == ids[::-1], "order"
    assert [v["VersionId"] for v in page["DeleteMarkers"]] == [marker], "delete marker"
    assert s.s3.get_object(Bucket=name, Key="k", VersionId=ids[0])["Body"].read() == b"0", "by version"
    fails(s.s3.get_object, 405, Bucket=name, Key="k", VersionId=marker)
    s.s3.delete_object(Bucket=name, Key="k", VersionId=marker)
    assert s.s3.get_object(Bucket=name, Key="k")["Body"].read() == b"1", "the marker's end"


def lists(s, call, keys="Contents"):
    name = s.new_bucket()
    names = ["a", "b/1", "b/2", "c d+é&<", "z"]
    for key in names:
        s.s3.put_object(Bucket=name, Key=key, Body=b"")
    assert [c["Key"] for c in call(Bucket=name)[keys]] == names, "order"
    page = call(Bucket=name, Delimiter="/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["b/"], "common prefixes"
    assert len(call(Bucket=name, MaxKeys=2)[keys]) == 2 and call(Bucket=name, MaxKeys=2)["IsTruncated"], "pages"


def list_objects(s):
    lists(s, s.s3.list_objects)


def list_objects_v2(s):
    lists(s, s.s3.list_objects_v2)


def multipart(s, copy=False):
    key, parts = f"multi{s.count}", [b"a" * 5 * MIB, b"b"]
    s.count += 1
    upload = s.s3.create_multipart_upload(Bucket=s.bucket, Key=key)["UploadId"]
    done = []
    for n, part in enumerate(parts, 1):
        if copy:
            source = s.key(b"--" + part)
            answer = s.s3.upload_part_copy(Bucket=s.bucket, Key=key, UploadId=upload, PartNumber=n, CopySource={"Bucket": s.bucket, "Key": source}, CopySourceRange=f"bytes=2-{len(part) + 1}")["CopyPartResult"]
        else:
            answer = s.s3.upload_part(Bucket=s.bucket, Key=key, UploadId=upload, PartNumber=n, Body=part)
        done.append({"PartNumber": n, "ETag": answer["ETag"]})
    return key, upload, done, parts


def complete_multipart_upload(s, copy=False):
    key, upload, done, parts = multipart(s, copy)
    complete = {"Bucket": s.bucket, "Key": key, "UploadId": upload, "MultipartUpload": {"Parts": done}}
    etag = s.s3.complete_multipart_upload(**complete)["ETag"]
    sums = b"".join(hashlib.md5(p).digest() for p in parts)
    assert etag == f'"{hashlib.md5(sums).hexdigest()}-2"', "ETag"
    assert s.read(key) == b"".join(parts), "bytes"
    assert s.s3.complete_multipart_upload(**complete)["ETag"] == etag, "the same Complete again"


create_multipart_upload = upload_part = complete_multipart_upload


def upload_part_copy(s):
    complete_multipart_upload(s, copy=True)


def abort_multipart_upload(s):
    key, upload, _, _ = multipart(s)
    s.s3.abort_multipart_upload(Bucket=s.bucket, Key=key, UploadId=upload)
    fails(s.s3.list_parts, "NoSuchUpload", Bucket=s.bucket, Key=key, UploadId=upload)


def list_parts(s):
    key, upload, done, parts = multipart(s)
    page = s.s3.list_parts(Bucket=s.bucket, Key=key, UploadId=upload)
    assert [(p["PartNumber"], p["ETag"], p["Size"]) for p in page["Parts"]] == [(d["PartNumber"], d["ETag"], len(p)) for d, p in zip(done, parts)]


def list_multipart_uploads(s):
    name = s.new_bucket()
    begun = [(k, s.s3.create_multipart_upload(Bucket=name, Key=k)["UploadId"]) for k in ("a", "b/1", "b/2")]
    assert [(u["Key"], u["UploadId"]) for u in s.s3.list_multipart_uploads(Bucket=name)["Uploads"]] == begun
    page = s.s3.list_multipart_uploads(Bucket=name, Delimiter="/")
    assert [p["Prefix"] for p in page["CommonPrefixes"]] == ["b/"], "delimiter"


def bucket_cors(s):
    name = s.new_bucket()
    fails(s.s3.get_bucket_cors, "NoSuchCORSConfiguration", Bucket=name)
    s.s3.put_bucket_cors(Bucket=name, CORSConfiguration={"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["http://a.example"]}]})
    assert s.s3.get_bucket_cors(Bucket=name)["CORSRules"][0]["AllowedOrigins"] == ["http://a.example"]
    s.s3.delete_bucket_cors(Bucket=name)
    fails(s.s3.get_bucket_cors, "NoSuchCORSConfiguration", Bucket=name)


get_bucket_cors = put_bucket_cors = delete_bucket_cors = bucket_cors

# ---- what is no operation of its own, and yet asked for ----


def presigned(s):
    url = s.s3.generate_presigned_url("put_object", Params={"Bucket": s.bucket, "Key": "presigned"})
    assert urllib.request.urlopen(urllib.request.Request(url, b"signed", method="PUT"), timeout=10).status == 200
    url = s.s3.generate_presigned_url("get_object", Params={"Bucket": s.bucket, "Key": "presigned"})
    assert urllib.request.urlopen(url, timeout=10).read() == b"signed"


def post_form(s):
    form = s.s3.generate_presigned_post(s.bucket, "form/${filename}", Conditions=[["starts-with", "$key", "form/"]])
    border, body = "border", b""
    for name, value in form["fields"].items():
        body += f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    body += f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="f.txt"\r\n\r\nposted\r\n--{border}--\r\n'.encode()
    url = urllib.parse.urlsplit(form["url"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=10)
    connection.request("POST", url.path, body, {"Content-Type": f"multipart/form-data; boundary={border}"})
    status = connection.getresponse().status
    assert status in (200, 201, 204), f"status {status}"
    assert s.read("form/f.txt") == b"posted"


MORE = {"presigned GET and PUT": presigned, "POST form with policy": post_form}

# ---- the rest: the least that an operation takes ----


def least(shape, name="", depth=0):
    """Arguments of an operation, or a value of a shape, that are valid and say nothing."""
    if name == "Bucket":
        return "BUCKET"
    if name == "Key":
        return "k"
    kind = shape.type_name
    if kind == "structure":
        return {m: least(shape.members[m], m, depth + 1) for m in shape.required_members}
    if kind == "list":
        return [least(shape.member, "", depth + 1)]
    if kind == "map":
        return {}
    if kind == "string":
        return shape.enum[0] if getattr(shape, "enum", None) else "x"
    return {"integer": 1, "long": 1, "boolean": True, "timestamp": "2030-01-01", "blob": b"x"}.get(kind, "x")


def probe(s, method, model):
    arguments = least(model.input_shape) if model.input_shape is not None else {}
    if "Bucket" in arguments:
        arguments["Bucket"] = s.new_bucket()
        s.s3.put_object(Bucket=arguments["Bucket"], Key="k", Body=b"x")
    getattr(s.s3, method)(**arguments)


def outcome(run):
    """One cell of the table."""
    try:
        run()
        return None
    except ClientError as error:
        answer = error.response
        return f"{answer['ResponseMetadata']['HTTPStatusCode']} {answer['Error']['Code']}"
    except AssertionError as error:
        return f"no: {error}" if str(error) else "no"
    except ParamValidationError:
        return "(the SDK refuses the call)"
    except Exception as error:  # whatever the SDK makes of the answer
        return f"no: {type(error).__name__}"


def rows(side):
    from botocore import xform_name

    model = side.s3.meta.service_model
    for name in sorted(model.operation_names):
        method = xform_name(name)
        check = globals().get(method)
        if callable(check):
            yield name, outcome(lambda c=check: c(side)) or "works"
        else:
            yield name, outcome(lambda m=method, n=name: probe(side, m, model.operation_model(n))) or "answers"
    for name, check in MORE.items():
        yield name, outcome(lambda c=check: c(side)) or "works"


def main():
    with tempfile.TemporaryDirectory(prefix="s3-table-") as folder:
        folder = pathlib.Path(folder)
        with forebay.Forebay(folder / "forebay", build="rel") as ours, seaweed.Seaweed(folder / "seaweed") as theirs:
            ours.wait_ready()
            theirs.wait_ready()
            left = dict(rows(Side("Forebay", ours.endpoint, ours.keys())))
            right = dict(rows(Side("SeaweedFS", theirs.endpoint, (seaweed.ACCESS_KEY, seaweed.SECRET_KEY))))
            ours.end()
    width = max(map(len, left))
    print(f"{'operation':{width}}  {'Forebay':40}  SeaweedFS")
    for name in left:
        print(f"{name:{width}}  {left[name][:40]:40}  {right[name][:60]}")
    for name, column in (("Forebay", left), ("SeaweedFS", right)):
        print(f"{name}: {sum(v == 'works' for v in column.values())} of {sum(callable(globals().get(n_)) for n_ in map(snake, left)) + len(MORE)} checked operations work")


def snake(name):
    from botocore import xform_name

    return xform_name(name)


if __name__ == "__main__":
    main()
