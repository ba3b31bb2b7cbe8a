"""PyTorch datasets and samplers of NVIDIA's SDK for AIStore, unmodified, in DataLoaders with worker processes; WebDataset over http URLs of /v1."""

import io
import os
import random
import sys
import tarfile

for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # they would win over ca_cert
    os.environ.pop(variable, None)
import torch.utils.data as torch_data
import webdataset
from aistore import Client
from aistore.pytorch import AISIterDataset, AISMapDataset, AISMultiShardStream, AISParallelMapDataset, AISShardReader, DynamicBatchSampler
from aistore.pytorch.batch_iter_dataset import AISBatchIterDataset
from aistore.sdk import DataShard

from ais_token import token

torch_data.Sampler.__init__ = lambda self, data_source=None: None  # as in torch 2: Debian's 1.13 wants an argument that it does not use
endpoint, _, _, name, _, cafile = sys.argv[1:]
bearer = token(admin=True)
os.environ.update(AIS_AUTHN_TOKEN=bearer, AIS_CLIENT_CA=cafile)  # DataShard makes a client of its own
client = Client(endpoint, token=bearer, ca_cert=cafile or None, timeout=60)
bucket = client.bucket(name).create()
shards = client.bucket(name + "-shards").create()
rng = random.Random(5)
samples = {f"train/{i:03}.bin": rng.randbytes(rng.choice((1, 500, 40_000))) for i in range(60)}
for key, data in samples.items():
    bucket.object(key).get_writer().put_content(data)
bucket.object("test/x").get_writer().put_content(b"x")


def make_shard(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member, data in members:
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


content = {f"s{n}.tar": [(f"{n}{i:03}.{ext}", rng.randbytes(2000)) for i in range(20) for ext in ("cls", "jpg")] for n in range(4)}
for shard, members in content.items():
    shards.object(shard).get_writer().put_content(make_shard(members))


def load(dataset, workers=2, **options):
    """What a DataLoader with worker processes yields, twice: two epochs are the same."""
    loader = torch_data.DataLoader(dataset, num_workers=workers, multiprocessing_context="fork" if workers else None, **{"batch_size": None, **options})
    first, second = [sample for sample in loader], [sample for sample in loader]  # list() asks for a length, which AISShardReader of 2.0.0 cannot say
    assert len(first) == len(second)
    return first


only = {bucket: "train/"}
for workers in (0, 2):
    assert dict(load(AISMapDataset(bucket, only), workers)) == samples
    assert dict(load(AISIterDataset(bucket, only), workers)) == samples
    assert dict(load(AISBatchIterDataset(bucket, client, only, max_batch_size=7), workers)) == samples
    assert dict(load(AISBatchIterDataset([bucket], client, only, streaming=False), workers)) == samples
    read = load(AISShardReader(shards), workers)
    want = [(m, d) for shard in content.values() for m, d in shard]
    assert sorted((f"{key}.{ext}", d) for key, fields in read for ext, d in fields.items()) == sorted(want)
    pairs = load(AISMultiShardStream([DataShard(endpoint, shards.name, prefix="s0"), DataShard(endpoint, shards.name, prefix="s1")]), workers=min(workers, 1))
    assert [tuple(p) for p in pairs] == [(a[1], b[1]) for a, b in zip(content["s0.tar"], content["s1.tar"])]

# Whole objects by ranges, several at a time
for key, whole in AISParallelMapDataset(bucket, only, num_workers=3):
    with whole:
        assert bytes(whole.buf[: len(whole)]) == samples[key]

# Batches by bytes
dataset = AISMapDataset(bucket, only)
batches = load(dataset, batch_sampler=DynamicBatchSampler(dataset, max_batch_size=90_000, shuffle=True), batch_size=1, collate_fn=list)
assert sum(len(b) for b in batches) == len(samples) and all(sum(len(d) for _, d in b) <= 90_000 for b in batches)

# WebDataset reads the shards by URL, with and without ranges of names
url = f"pipe:curl -sf {'--cacert ' + cafile if cafile else ''} -H 'Authorization: Bearer {bearer}' '{endpoint}/v1/objects/{shards.name}/s{{0..3}}.tar?provider=ais'"
wds = webdataset.WebDataset(url, shardshuffle=False, nodesplitter=webdataset.split_by_node, workersplitter=webdataset.split_by_worker)
got = [(s["__key__"], s["cls"], s["jpg"]) for s in load(wds)]
assert sorted(got) == sorted((m[0][:-4], m[1], n[1]) for shard in content.values() for m, n in zip(shard[::2], shard[1::2]))

# Epochs from a list of members of shards, in an order of the trainer's own
batch = client.batch(bucket=shards)
order = [(shard, member) for shard in content for member, _ in content[shard]]
rng.shuffle(order)
for shard, member in order[:32]:
    batch.add(shards.object(shard), archpath=member)
assert [data for _, data in batch.get()] == [dict(content[shard])[member] for shard, member in order[:32]]

for b in (bucket, shards):
    b.delete()
print("aistore torch ok")
