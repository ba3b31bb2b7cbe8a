import io
import os
import sys
import urllib.parse

import names  # noqa: F401
import minio
import urllib3
from minio.commonconfig import CopySource
from minio.deleteobjects import DeleteObject

endpoint, key, secret, bucket, style, cafile = sys.argv[1:]
where = urllib.parse.urlparse(endpoint)
pool = urllib3.PoolManager(cert_reqs="CERT_REQUIRED", ca_certs=cafile) if cafile else None
c = minio.Minio(where.netloc, access_key=key, secret_key=secret, secure=where.scheme == "https", region="us-east-1", http_client=pool)
if style == "virtual":
    c.enable_virtual_style_endpoint()
c.make_bucket(bucket)
assert c.bucket_exists(bucket)
body = os.urandom(11 * 1024 * 1024)
c.put_object(bucket, "dir/ü b+c", io.BytesIO(body), len(body), content_type="image/png", metadata={"m": "v"}, part_size=5 << 20)
assert c.get_object(bucket, "dir/ü b+c").read() == body
assert c.get_object(bucket, "dir/ü b+c", offset=5, length=7).read() == body[5:12]
stat = c.stat_object(bucket, "dir/ü b+c")
assert stat.size == len(body) and stat.metadata["x-amz-meta-m"] == "v" and stat.content_type == "image/png"
c.put_object(bucket, "unknown", io.BytesIO(b"12345"), -1, part_size=5 << 20)
c.copy_object(bucket, "copy", CopySource(bucket, "unknown"))
assert c.get_object(bucket, "copy").read() == b"12345"
assert [o.object_name for o in c.list_objects(bucket, recursive=True)] == ["copy", "dir/ü b+c", "unknown"]
assert sorted(o.object_name for o in c.list_objects(bucket)) == ["copy", "dir/", "unknown"]
url = c.presigned_get_object(bucket, "copy")
assert (pool or urllib3.PoolManager()).request("GET", url).data == b"12345"
assert not list(c.remove_objects(bucket, [DeleteObject(n) for n in ("copy", "dir/ü b+c", "unknown")]))
c.remove_bucket(bucket)
print("minio ok")
