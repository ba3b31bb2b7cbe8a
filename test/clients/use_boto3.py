import os
import sys

import names  # noqa: F401
import boto3
import botocore.config
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

endpoint, key, secret, bucket, style, cafile = sys.argv[1:]
s3 = boto3.client(
    "s3", endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret, region_name="us-east-1", verify=cafile or None,
    config=botocore.config.Config(s3={"addressing_style": style}, signature_version="s3v4", retries={"total_max_attempts": 1}),
)  # fmt: skip
s3.create_bucket(Bucket=bucket)
body = os.urandom(18 * 1024 * 1024)
for name in ("plain", "dir/ü b+c%2F~é", "a//b", "dir/"):
    s3.put_object(Bucket=bucket, Key=name, Body=name.encode(), Metadata={"m": "v"})
    got = s3.get_object(Bucket=bucket, Key=name)
    assert got["Body"].read() == name.encode() and got["Metadata"] == {"m": "v"}
open("/dev/null", "rb")
import io  # noqa: E402

s3.upload_fileobj(io.BytesIO(body), bucket, "big", Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
out = io.BytesIO()
s3.download_fileobj(bucket, "big", out)
assert out.getvalue() == body
url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "plain"})
import ssl  # noqa: E402
import urllib.request  # noqa: E402

context = ssl.create_default_context(cafile=cafile) if cafile else None
assert urllib.request.urlopen(url, context=context).read() == b"plain"
assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket, Prefix="dir/", Delimiter="/")["Contents"]] == ["dir/", "dir/ü b+c%2F~é"]
s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "dir/ü b+c%2F~é"})
assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == "dir/ü b+c%2F~é".encode()
try:
    s3.put_object(Bucket=bucket, Key="copy", Body=b"", IfNoneMatch="*")
    raise SystemExit("a conditional PUT replaced an object")
except ClientError as e:
    assert e.response["Error"]["Code"] == "PreconditionFailed", e
listed = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]]
assert s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": k} for k in listed]})["Deleted"]
s3.delete_bucket(Bucket=bucket)
print(f"boto3 {boto3.__version__} ok")
