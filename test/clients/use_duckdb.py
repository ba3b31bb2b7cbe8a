import sys
import urllib.parse

import duckdb

endpoint, key, secret, bucket, style, cafile = sys.argv[1:]
import boto3  # noqa: E402

boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret, region_name="us-east-1").create_bucket(Bucket=bucket)
where = urllib.parse.urlparse(endpoint)
db = duckdb.connect()
db.sql("load httpfs")
db.sql(f"create secret (type s3, key_id '{key}', secret '{secret}', endpoint '{where.netloc}', use_ssl {where.scheme == 'https'}, url_style '{style if style == 'path' else 'vhost'}')")
db.sql(f"copy (select range as n, range % 7 as m from range(100000)) to 's3://{bucket}/t.parquet' (format parquet)")
assert db.sql(f"select sum(n), count(*) from 's3://{bucket}/t.parquet' where m = 3").fetchone() == (sum(n for n in range(100000) if n % 7 == 3), 14286)
assert len(db.sql(f"from glob('s3://{bucket}/*.parquet')").fetchall()) == 1
print("duckdb ok")
