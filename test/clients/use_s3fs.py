import os
import sys

import names  # noqa: F401
import fsspec
import s3fs

endpoint, key, secret, bucket, style, cafile = sys.argv[1:]
fs = s3fs.S3FileSystem(
    key=key, secret=secret, endpoint_url=endpoint, use_listings_cache=False, skip_instance_cache=True,
    client_kwargs={"region_name": "us-east-1", **({"verify": cafile} if cafile else {})}, config_kwargs={"s3": {"addressing_style": style}},
)  # fmt: skip
fs.mkdir(bucket)
body = os.urandom(12_000_000)
fs.pipe_file(f"{bucket}/tree/a", b"a")
fs.pipe_file(f"{bucket}/tree/deep/ü b+c", b"odd")
fs.pipe({f"{bucket}/many/{i:04}": str(i).encode() for i in range(300)})
with fs.open(f"{bucket}/tree/big", "wb", block_size=5 << 20) as f:
    f.write(body)
with fs.open(f"{bucket}/tree/big", "rb") as f:
    f.seek(5_000_000)
    assert f.read(100) == body[5_000_000:5_000_100]
assert fs.cat_file(f"{bucket}/tree/big") == body
assert fs.cat_ranges([f"{bucket}/tree/big"] * 2, [0, 100], [10, 200]) == [body[:10], body[100:200]]
assert fs.info(f"{bucket}/tree/big")["size"] == len(body)
assert sorted(fs.find(f"{bucket}/tree")) == [f"{bucket}/tree/a", f"{bucket}/tree/big", f"{bucket}/tree/deep/ü b+c"]
assert fs.glob(f"{bucket}/tree/**/*c") == [f"{bucket}/tree/deep/ü b+c"]
assert fs.isdir(f"{bucket}/tree/deep") and not fs.exists(f"{bucket}/none")
fs.cp_file(f"{bucket}/tree/big", f"{bucket}/copy")
fs.mv(f"{bucket}/tree/a", f"{bucket}/moved")
assert not fs.exists(f"{bucket}/tree/a") and fs.cat_file(f"{bucket}/moved") == b"a"
fs.touch(f"{bucket}/empty")
assert fs.cat_file(f"{bucket}/empty") == b""
fs.rm(f"{bucket}/many", recursive=True)  # DeleteObjects
assert not fs.exists(f"{bucket}/many")
fs.rm(bucket, recursive=True)
assert not fs.exists(bucket)
print(f"s3fs {s3fs.__version__} fsspec {fsspec.__version__} ok")
