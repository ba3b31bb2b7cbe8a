"""Commits with put-if-absent: writers side by side, and no update is lost."""

import subprocess
import sys

import boto3
import deltalake
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

endpoint, key, secret, bucket, style, cafile = sys.argv[1:7]
options = {
    "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    "aws_conditional_put": "etag", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
}  # fmt: skip
uri = f"s3://{bucket}/table"
WRITERS, COMMITS = 2, 10

if len(sys.argv) > 7:  # a writer
    me, done = int(sys.argv[7]), 0
    for n in range(COMMITS):
        write_deltalake(uri, pa.table({"writer": [me], "n": [n]}), mode="append", storage_options=options)
        done += 1
    print(done)
else:
    boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret, region_name="us-east-1").create_bucket(Bucket=bucket)
    write_deltalake(uri, pa.table({"writer": [-1], "n": [-1]}), storage_options=options)
    writers = [subprocess.Popen([sys.executable, *sys.argv, str(i)], stdout=subprocess.PIPE) for i in range(WRITERS)]
    acknowledged = [int(w.communicate()[0]) for w in writers]
    assert [w.returncode for w in writers] == [0] * WRITERS
    table = DeltaTable(uri, storage_options=options)
    rows = sorted((r["writer"], r["n"]) for r in table.to_pyarrow_table().to_pylist())
    assert rows == [(-1, -1)] + [(w, n) for w in range(WRITERS) for n in range(acknowledged[w])], rows
    assert table.version() == sum(acknowledged)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert DeltaTable(uri, storage_options=options).to_pyarrow_table().num_rows == len(rows)
    print(f"deltalake {deltalake.__version__}: {sum(acknowledged)} commits by {WRITERS} writers ok")
