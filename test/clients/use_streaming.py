"""mosaicml-streaming: MDS shards written to and read from a bucket."""

import os
import shutil
import sys
import tempfile
import types

import importlib.abc
import importlib.machinery


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """It imports transformers and torchvision for data sets that are not used here: empty ones spare gigabytes."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in ("transformers", "torchvision") else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (), {})
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, StandIns())
endpoint, key, secret, bucket, style, cafile = sys.argv[1:]
os.environ.update(S3_ENDPOINT_URL=endpoint, AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret)
import boto3  # noqa: E402
from streaming import MDSWriter, StreamingDataset  # noqa: E402

boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket=bucket)
local = tempfile.mkdtemp()
samples = [{"n": i, "data": os.urandom(2000)} for i in range(2000)]
with MDSWriter(out=f"s3://{bucket}/set", columns={"n": "int", "data": "bytes"}, size_limit=500_000) as w:
    for s in samples:
        w.write(s)
data = StreamingDataset(remote=f"s3://{bucket}/set", local=local + "/d", shuffle=False, batch_size=8)
assert len(data) == len(samples)
assert all(data[i]["data"] == samples[i]["data"] and data[i]["n"] == i for i in (0, 1, 999, 1999))
assert sum(1 for _ in data) == len(samples)
shutil.rmtree(local, ignore_errors=True)
print("mosaicml-streaming ok")
