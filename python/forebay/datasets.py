"""Data sets for PyTorch's DataLoader, and for any loop. torch is not needed: its loaders want these methods, not its classes."""

from __future__ import annotations

import array
import io
import random
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from .client import Client, Item, split_url
from .errors import Invalid, NotFound
from .samplers import GroupedSampler, _distributed, worker_share

Wanted = Union[str, Item]
Sample = Union[Wanted, Mapping[str, Wanted]]

SHARD_SUFFIXES = (".tar", ".tgz", ".tar.gz")


class Keys(Sequence):
    """Texts in two pieces of memory instead of an object each: forked workers share them, and a pickle is small."""

    def __init__(self, texts: Sequence[str]) -> None:
        encoded = [t.encode() for t in texts]
        self._bytes = b"".join(encoded)
        self._ends = array.array("Q")
        at = 0
        for text in encoded:
            at += len(text)
            self._ends.append(at)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if i < 0:
            i += len(self)
        if not 0 <= i < len(self):
            raise IndexError(i)
        return self._bytes[self._ends[i - 1] if i else 0 : self._ends[i]].decode()


def _raw(_sample: Sample, data: Any) -> Any:
    """Without a transform: bytes, which can be sent from a worker to its parent."""
    if isinstance(data, dict):
        return {name: bytes(part) for name, part in data.items()}
    return bytes(data) if data is not None else None


class MapDataset:
    """Samples by index; a batch of them is one request.

    source      "forebay://BUCKET/PREFIX": the objects below it, listed once, here; or a sequence of samples in `bucket`: a key, an
                Item (member of a shard, range), or {name: key or Item} for a sample of several parts
    suffix      of a source that is listed: only keys that end so, such as ".jpg"
    transform   f(sample, data) -> what the data set gives. `sample` is the one of the source; `data` a memoryview of its bytes (flat,
                format "B"), valid as long as it is referenced, or a dict of them for a sample of several parts. None: data as bytes
    missing     "error": NotFound; "none": `data` is None for what does not exist; "skip": its sample is left out of the batch
    limit       bytes of a batch

    DataLoader calls __getitems__ with the indices of a batch (torch 2; also Debian's 1.13). Workers may be forked or spawned.
    """

    def __init__(
        self,
        source: Union[str, Sequence[Sample]],
        *,
        bucket: Optional[str] = None,
        client: Optional[Client] = None,
        suffix: str = "",
        transform: Optional[Callable[[Any, Any], Any]] = None,
        missing: str = "error",
        limit: Optional[int] = None,
    ) -> None:
        if missing not in ("error", "none", "skip"):
            raise Invalid(f'missing {missing!r}: expected "error", "none" or "skip"')
        self.client = client if client is not None else Client()
        if isinstance(source, str):
            self.bucket, prefix = split_url(source)
            keys = [key for key in self.client.list_keys(self.bucket, prefix) if key.endswith(suffix)]
            if not keys:
                raise NotFound(f"{source}: no object below it{f' ends with {suffix!r}' if suffix else ''}")
            self.samples: Sequence[Sample] = Keys(keys)
        else:
            if bucket is None:
                raise Invalid("samples that are listed by name need bucket=")
            self.bucket = bucket
            self.samples = Keys(source) if source and all(type(s) is str for s in source) else source
        self.transform = transform if transform is not None else _raw
        self.missing, self.limit = missing, limit

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: Any) -> Any:
        """One sample; for a list of indices, as __getitems__."""
        if isinstance(index, (list, tuple)):
            return self.__getitems__(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        got = self.__getitems__([index])
        if not got:
            raise NotFound(f"sample {index}, {self.samples[index]!r}, does not exist")
        return got[0]

    def __getitems__(self, indices: Sequence[int]) -> List[Any]:
        """The samples of these indices in their order, with one request."""
        samples = [self.samples[i] for i in indices]
        wanted: List[Wanted] = []
        for sample in samples:
            wanted.extend(sample.values() if isinstance(sample, Mapping) else (sample,))
        parts = iter(self.client.batch(self.bucket, wanted, missing="error" if self.missing == "error" else "none", limit=self.limit))
        out = []
        for sample in samples:
            data: Any = {name: next(parts) for name in sample} if isinstance(sample, Mapping) else next(parts)
            gone = any(part is None for part in data.values()) if isinstance(data, dict) else data is None
            if gone and self.missing == "skip":
                continue
            out.append(self.transform(sample, None if gone else data))
        return out


def shard_index(url: str, *, client: Optional[Client] = None) -> List[Dict[str, Item]]:
    """The samples of a tar in the order of the shard: {"png": Item(...), "cls": Item(...)}, a dict for each run of members with the
    same path up to the first dot of the base name (WebDataset's rule). The Items are byte ranges of the tar, so that a batch of them
    needs no index at the server. Reads the heads of the members; payloads above 256 KiB are skipped."""
    client = client if client is not None else Client()
    bucket, key = split_url(url)
    samples: List[Dict[str, Item]] = []
    last = None
    with _Range(client, bucket, key) as raw, tarfile.open(fileobj=io.BufferedReader(raw, 256 << 10), mode="r:") as tar:
        for member in tar:
            name = _sample_name(member)
            if name is None:
                continue
            if name[0] != last:
                samples.append({})
                last = name[0]
            if member.size > 0:
                samples[-1][name[1]] = Item(key, start=member.offset_data, length=member.size)
    return samples


def _sample_name(member: tarfile.TarInfo) -> Optional[Tuple[str, str]]:
    """("dir/0001", "seg.png"); None for what is no file of a sample."""
    folder, _, base = member.name.rpartition("/")
    stem, dot, extension = base.partition(".")
    if not member.isreg() or not dot or not stem or (folder.startswith("__") and folder.partition("/")[0].endswith("__")):
        return None
    return (f"{folder}/{stem}" if folder else stem), extension


class _Range(io.RawIOBase):
    """An object as a seekable file; each read is a ranged GET."""

    def __init__(self, client: Client, bucket: str, key: str) -> None:
        self.client, self.bucket, self.key, self.at = client, bucket, key, 0
        self.size = client.head(bucket, key).size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + (0 if whence == io.SEEK_SET else self.at if whence == io.SEEK_CUR else self.size)
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)[: max(0, self.size - self.at)]
        if not view.nbytes:
            return 0
        got = self.client.get_into(self.bucket, self.key, view, self.at)
        self.at += got
        return got


class IterableDataset:
    """Samples in a shuffled stream: shards read whole, or objects in batches. Each epoch gives every sample once, over all ranks and
    workers.

    source      as MapDataset's; keys that all end in .tar, .tgz or .tar.gz are shards (`shards` says otherwise)
    shards      True: each object is an archive of samples, and the stream gives
                {"__key__": "0007", "__url__": "forebay://...", "png": bytes, "cls": bytes}, as WebDataset does; False: each is a sample
    transform   of objects f(sample, data), as MapDataset's; of shards f(sample) with that dict
    window      shards whose samples are shuffled together, and which are in memory together; of objects: groups of `batch` keys
    batch       objects of one request; the next request is under way while this one is used
    shuffle     False: in the order of the source
    seed        with the epoch it decides the order

    Under DataLoader each worker takes its own share (shards are dealt out to ranks and workers: have at least as many). state_dict()
    and load_state_dict() are those of this process or worker: torchdata's StatefulDataLoader carries them. Resuming reads the current
    window again and gives what the uninterrupted stream would have given.
    """

    def __init__(
        self,
        source: Union[str, Sequence[Sample]],
        *,
        bucket: Optional[str] = None,
        client: Optional[Client] = None,
        suffix: str = "",
        shards: Optional[bool] = None,
        transform: Optional[Callable[..., Any]] = None,
        window: int = 4,
        batch: int = 256,
        shuffle: bool = True,
        seed: int = 0,
        rank: Optional[int] = None,
        world: Optional[int] = None,
    ) -> None:
        self.map = MapDataset(source, bucket=bucket, client=client, suffix=suffix, transform=None if shards else transform)
        if shards is None:
            shards = len(self.map) > 0 and all(isinstance(s, str) and s.endswith(SHARD_SUFFIXES) for s in self.map.samples)
        if window < 1 or batch < 1:
            raise Invalid(f"window {window}, batch {batch}: at least 1")
        if (rank is None) != (world is None):
            raise Invalid("rank and world go together")
        self.shards, self.transform = shards, transform
        if not shards and transform is not None:
            self.map.transform = transform
        self.window, self.batch, self.shuffle, self.seed = window, batch, shuffle, seed
        self.rank, self.world = (rank, world) if rank is not None and world is not None else _distributed()
        self._epoch, self._begun, self._given, self._automatic = 0, 0, 0, True

    def set_epoch(self, epoch: int) -> None:
        """The next __iter__ is this epoch's. Workers that live on (persistent_workers) count epochs by themselves."""
        if epoch != self._epoch:
            self._begun = self._given = 0
        self._epoch, self._automatic = epoch, False

    def __iter__(self) -> Iterator[Any]:
        begun, self._begun = self._begun, 0
        self._given = begun
        rank, world = worker_share(self.rank, self.world)
        for sample in self._of_shards(rank, world, begun) if self.shards else self._of_objects(rank, world, begun):
            self._given += 1
            yield sample
        if self._automatic:
            self._epoch += 1
        self._given = 0

    def state_dict(self) -> Dict[str, Any]:
        """The position of this process or worker in its share of the epoch: samples given out."""
        return {"epoch": self._epoch, "position": self._given, "seed": self.seed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if state["seed"] != self.seed:
            raise Invalid(f"the state is of seed {state['seed']}, this stream has {self.seed}: the order would be another one")
        self._epoch, self._begun = state["epoch"], state["position"]
        self._given = self._begun

    # ---- objects ----

    def _of_objects(self, rank: int, world: int, skip: int) -> Iterator[Any]:
        if self.shuffle:
            sampler = GroupedSampler(len(self.map), group=self.batch, window=self.window, batch_size=self.batch, seed=self.seed, rank=rank, world=world)
            sampler.set_epoch(self._epoch)
            state = sampler.state_dict()
            state["position"] = skip // self.batch * self.batch
            sampler.load_state_dict(state)
            batches: Iterator[List[int]] = iter(sampler)
        else:
            total = len(self.map)
            first, end = total * rank // world + skip // self.batch * self.batch, total * (rank + 1) // world
            batches = (list(range(at, min(at + self.batch, end))) for at in range(first, end, self.batch))
        skip %= self.batch
        for samples in _one_ahead(batches, self.map.__getitems__):
            yield from samples[skip:]
            skip = 0

    # ---- shards ----

    def _of_shards(self, rank: int, world: int, skip: int) -> Iterator[Any]:
        order = list(range(len(self.map)))
        if self.shuffle:
            random.Random(f"forebay shards {self.seed} {self._epoch}").shuffle(order)
        mine = order[rank::world]
        windows = [mine[at : at + self.window] for at in range(0, len(mine), self.window)]
        number = 0
        for samples in _one_ahead(iter(windows), self._read_window):
            if self.shuffle:
                random.Random(f"forebay window {self.seed} {self._epoch} {rank} {world} {number}").shuffle(samples)
            number += 1
            left, skip = samples[skip:], max(0, skip - len(samples))
            yield from left if self.transform is None else map(self.transform, left)

    def _read_window(self, shards: List[int]) -> List[Dict[str, Any]]:
        samples: List[Dict[str, Any]] = []
        for index in shards:
            key = self.map.samples[index]
            if not isinstance(key, str):
                raise Invalid(f"sample {index}, {key!r}: a shard is an object")
            data = self.map.client.get(self.map.bucket, key)
            samples.extend(_samples_of_tar(data, f"forebay://{self.map.bucket}/{key}"))
        return samples


def _samples_of_tar(data: bytes, url: str) -> Iterator[Dict[str, Any]]:
    sample: Dict[str, Any] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
            for member in tar:
                name = _sample_name(member)
                if name is None:
                    continue
                if sample and sample["__key__"] != name[0]:
                    yield sample
                    sample = {}
                if not sample:
                    sample = {"__key__": name[0], "__url__": url}
                content = tar.extractfile(member)
                assert content is not None  # a regular file
                sample[name[1]] = content.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Invalid(f"{url}: not an archive that can be read: {error}") from error
    if sample:
        yield sample


def _one_ahead(arguments: Iterator[Any], work: Callable[[Any], Any]) -> Iterator[Any]:
    """work(a) of each argument in order, the next one in a thread while this one is used."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="forebay")
    try:
        coming = None
        for argument in arguments:
            following = pool.submit(work, argument)
            if coming is not None:
                yield coming.result()
            coming = following
        if coming is not None:
            yield coming.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
