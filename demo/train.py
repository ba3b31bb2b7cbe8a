"""A training loop as people write it: a torch Dataset over boto3, or WebDataset over HTTP, and a small network.

Neither knows of Forebay: what changes between the ways is the endpoint. The third way is Forebay's own package, which asks for the
samples of a batch in one request.
"""

import io
import signal
import time
import warnings
import zlib

import boto3
import botocore.config
import numpy
import torch
import webdataset
from PIL import Image
from torch import nn

BATCH = 64
# Workers of these loaders wait for the network more than they compute: more than cores is right here.
warnings.filterwarnings("ignore", message="This DataLoader will create")

TEST_EVERY = 6  # each sixth digit is never trained on


class ObjectDataset(torch.utils.data.Dataset):
    """Map-style: one GET for each sample. Each worker makes its own client."""

    def __init__(self, endpoint, keys, bucket, prefix):
        self.endpoint, self.keys, self.bucket = endpoint, keys, bucket
        self.client = None
        pages = self._connect().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        self.names = [row["Key"] for page in pages for row in page["Contents"]]
        self.client = None  # not for the workers: a connection cannot be shared by processes

    def _connect(self):
        if self.client is None:
            self.client = boto3.client(
                "s3",
                endpoint_url=self.endpoint,
                aws_access_key_id=self.keys[0],
                aws_secret_access_key=self.keys[1],
                region_name="us-east-1",
                config=botocore.config.Config(s3={"addressing_style": "path"}),
            )
        return self.client

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        key = self.names[index]
        png = self._connect().get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return (*decode(png), int(key.rpartition("-")[2].removesuffix(".png")), index)


def object_loader(endpoint, keys, bucket, workers, seed):
    """Shuffled batches, one object a sample."""
    return torch.utils.data.DataLoader(
        ObjectDataset(endpoint, keys, bucket, "images/"),
        batch_size=BATCH,
        shuffle=True,
        generator=torch.Generator().manual_seed(seed),
        num_workers=workers,
        persistent_workers=True,
        worker_init_fn=leave_signals_to_parent,
    )


def batch_loader(endpoint, keys, bucket, workers, seed):
    """The same samples in the same order, a batch in one request."""
    import forebay  # the package of this repository: tools/demo.sh builds it

    client = forebay.Client(endpoint, access_key=keys[0], secret_key=keys[1])
    return torch.utils.data.DataLoader(
        forebay.MapDataset(f"forebay://{bucket}/images/", client=client, transform=from_batch),
        batch_size=BATCH,
        shuffle=True,
        generator=torch.Generator().manual_seed(seed),
        num_workers=workers,
        persistent_workers=True,
        worker_init_fn=leave_signals_to_parent,
    )


def from_batch(key, png):
    """What ObjectDataset gives: key is "images/INDEX-LABEL.png"."""
    index, label = key.removeprefix("images/").removesuffix(".png").split("-")
    return (*decode(png), int(label), int(index))


def shard_loader(urls, workers, seed):
    """Batches from tar shards over plain HTTP, shuffled in a buffer."""
    shards = (
        webdataset.WebDataset(urls, shardshuffle=False, handler=webdataset.reraise_exception)
        .shuffle(500, seed=seed)
        .map(lambda s: (*decode(s["png"]), int(s["cls"]), int(s["__key__"])))
        .batched(BATCH, collation_fn=torch.utils.data.default_collate)
    )
    return webdataset.WebLoader(shards, batch_size=None, num_workers=workers, persistent_workers=True, worker_init_fn=leave_signals_to_parent)


def leave_signals_to_parent(_worker):
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def decode(png):
    """(picture as a tensor, crc32 of the file)."""
    pixels = numpy.asarray(Image.open(io.BytesIO(png)), dtype=numpy.float32) / 255
    return torch.from_numpy(pixels).unsqueeze(0), zlib.crc32(png)


def make_model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )  # fmt: skip


def run_epoch(model, optimizer, loader):
    """Reads every sample once: five in six train, the sixth is kept and tests the model at the end.

    Returns seconds, samples, accuracy on the test samples, and the sum of the checksums of the files.
    """
    begun = time.monotonic()
    held_back, samples, checksum = [], 0, 0
    model.train()
    for pictures, sums, labels, index in loader:
        samples += len(labels)
        checksum += int(sums.sum())
        test = index % TEST_EVERY == 0
        held_back.append((pictures[test], labels[test]))
        if (~test).any():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pictures[~test]), labels[~test]).backward()
            optimizer.step()
    model.eval()
    pictures, labels = (torch.cat(parts) for parts in zip(*held_back))
    with torch.no_grad():
        right = (model(pictures).argmax(1) == labels).float().mean().item()
    return {"seconds": time.monotonic() - begun, "samples": samples, "accuracy": right, "checksum": checksum}


def train(loader, epochs, seed, after_epoch):
    """Trains a new model; after_epoch(number, figures) is called after each epoch."""
    torch.set_num_threads(1)
    model = make_model(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for number in range(1, epochs + 1):
        after_epoch(number, run_epoch(model, optimizer, loader))
