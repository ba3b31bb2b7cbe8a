"""Forebay from Python: objects, ranges and batches; data sets, samplers and a file system on top of them.

    import forebay

    client = forebay.Client()                            # server and keys as the command line finds them
    one = client.get("bucket", "key")
    many = client.batch("bucket", ["a", "b", forebay.Item("shards/0.tar", member="7.png")])

    dataset = forebay.MapDataset("forebay://bucket/images/", transform=decode)
    sampler = forebay.GroupedSampler(len(dataset), group=1024, window=8, batch_size=512, seed=7)
    for batch in forebay.watch(torch.utils.data.DataLoader(dataset, batch_sampler=sampler, num_workers=4)):
        ...

The calls are those of libforebay: they release the interpreter's lock, retry, resume, and work in threads and in workers that
were forked or spawned. docs/training.md in the sources has whole examples; each class says what it takes and gives.
"""

from .client import Client, Item, ObjectInfo
from .datasets import IterableDataset, MapDataset, shard_index
from .errors import Busy, Changed, Damaged, Denied, Error, Invalid, NotFound, OutOfRange, ServerError, TooLarge, Unreachable
from .samplers import GroupedSampler
from .watching import Watch, watch

__version__ = "@VERSION@"
__all__ = [
    "Busy", "Changed", "Client", "Damaged", "Denied", "Error", "GroupedSampler", "Invalid", "Item", "IterableDataset", "MapDataset",
    "NotFound", "ObjectInfo", "OutOfRange", "ServerError", "TooLarge", "Unreachable", "Watch", "shard_index", "watch",
]  # fmt: skip
