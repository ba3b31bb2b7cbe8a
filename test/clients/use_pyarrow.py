import os
import sys
import urllib.parse

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

endpoint, key, secret, bucket, style, cafile = sys.argv[1:]
where = urllib.parse.urlparse(endpoint)
more = {"tls_ca_file_path": cafile} if cafile else {}
s3 = fs.S3FileSystem(access_key=key, secret_key=secret, endpoint_override=where.netloc, scheme=where.scheme, region="us-east-1", allow_bucket_creation=True, allow_bucket_deletion=True, force_virtual_addressing=style == "virtual", **more)
s3.create_dir(bucket)
body = os.urandom(12_000_000)
with s3.open_output_stream(f"{bucket}/raw") as out:  # CreateMultipartUpload
    out.write(body)
with s3.open_input_file(f"{bucket}/raw") as f:
    f.seek(100)
    assert f.read(50) == body[100:150] and f.size() == len(body)
s3.create_dir(f"{bucket}/dir/sub")  # folder markers
table = pa.table({"n": list(range(100_000)), "s": [str(i % 7) for i in range(100_000)]})
pq.write_table(table, f"{bucket}/t.parquet", filesystem=s3)
assert pq.read_table(f"{bucket}/t.parquet", filesystem=s3, columns=["n"])["n"].to_pylist()[-1] == 99_999
ds.write_dataset(table, f"{bucket}/set", format="parquet", partitioning=["s"], filesystem=s3)
back = ds.dataset(f"{bucket}/set", format="parquet", partitioning=["s"], filesystem=s3)
assert back.count_rows() == 100_000 and back.count_rows(filter=ds.field("s") == 3) == 14_286
assert {f.base_name for f in s3.get_file_info(fs.FileSelector(bucket))} == {"raw", "dir", "t.parquet", "set"}
s3.copy_file(f"{bucket}/raw", f"{bucket}/copy")
s3.move(f"{bucket}/copy", f"{bucket}/moved")
assert s3.get_file_info(f"{bucket}/copy").type == fs.FileType.NotFound and s3.get_file_info(f"{bucket}/moved").size == len(body)
s3.delete_dir_contents(bucket)
assert s3.get_file_info(fs.FileSelector(bucket, recursive=True)) == []
s3.delete_dir(bucket)
print(f"pyarrow {pa.__version__} ok")
