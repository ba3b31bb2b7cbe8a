"""AWS CRT, as s3torchconnector uses it; torch is not needed."""

import os
import sys

endpoint, key, secret, bucket, style, cafile = sys.argv[1:]
os.environ.update(AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret)
from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client  # noqa: E402

import boto3  # noqa: E402

boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket=bucket)
c = MountpointS3Client("us-east-1", endpoint=endpoint, force_path_style=style == "path", part_size=8 << 20)
body = os.urandom(20 << 20)
stream = c.put_object(bucket, "dir/big")
for at in range(0, len(body), 1 << 20):
    stream.write(body[at : at + (1 << 20)])
stream.close()
stream = c.put_object(bucket, "dir/small")
stream.write(b"small")
stream.close()
assert b"".join(c.get_object(bucket, "dir/big")) == body
assert b"".join(c.get_object(bucket, "dir/big", 5, 100)) == body[5:100]
assert c.head_object(bucket, "dir/big").size == len(body)
assert [o.key for page in c.list_objects(bucket, prefix="dir/") for o in page.object_info] == ["dir/big", "dir/small"]
c.copy_object(bucket, "dir/small", bucket, "copy")
assert b"".join(c.get_object(bucket, "copy")) == b"small"
for name in ("dir/big", "dir/small", "copy"):
    c.delete_object(bucket, name)
assert not [o.key for page in c.list_objects(bucket) for o in page.object_info]
print("s3torchconnectorclient ok")
