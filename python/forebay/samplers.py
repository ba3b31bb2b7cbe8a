"""The grouped shuffle: whole groups in random order, shuffled within a window, split by rank and worker."""

from __future__ import annotations

import bisect
import itertools
import random
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from .errors import Invalid


class GroupedSampler:
    """Indices of samples in an order that is random and cheap to read.

    Samples lie in groups: shards, or runs of consecutive keys. Each epoch draws the groups in a random order, takes `window` of them
    at a time, and shuffles the samples of the window. So a reader touches few shards at a time, and each sample of every group
    comes exactly once an epoch, over all ranks. A window as large as the number of groups is a full shuffle; docs/training.md has
    a measured table between the two.

    groups      samples of each group, as a sequence of ints; or the number of samples, with `group` samples in each group
    window      groups that are shuffled together; window * group samples of indices are in memory
    batch_size  None: yields indices (int); else lists of that many, for DataLoader(batch_sampler=...)
    drop_last   leaves out the last batch of a rank where it is short
    seed        with the epoch it decides the order, equal on all ranks and machines
    rank, world which share of the epoch is this process's: shares differ by one sample at most. None: torch.distributed's where it
                is initialised, else 0 of 1

    set_epoch(n) before each epoch, as with DistributedSampler; without it each __iter__ that begins at the start is the next epoch.
    """

    def __init__(
        self,
        groups: Union[int, Sequence[int]],
        *,
        group: Optional[int] = None,
        window: int = 16,
        batch_size: Optional[int] = None,
        drop_last: bool = False,
        seed: int = 0,
        rank: Optional[int] = None,
        world: Optional[int] = None,
    ) -> None:
        if isinstance(groups, int):
            size = 1024 if group is None else group
            if groups < 0 or size < 1:
                raise Invalid(f"{groups} samples in groups of {size}: at least 0 and 1")
            sizes = [min(size, groups - first) for first in range(0, groups, size)]
        else:
            sizes = [int(n) for n in groups]
            if group is not None:
                raise Invalid("group is for a number of samples; the sizes of the groups are given already")
        bad = next((i for i, n in enumerate(sizes) if n < 0), None)
        if bad is not None:
            raise Invalid(f"group {bad} has {sizes[bad]} samples: at least 0")
        if window < 1 or (batch_size is not None and batch_size < 1):
            raise Invalid(f"window {window}, batch_size {batch_size}: at least 1")
        if (rank is None) != (world is None):
            raise Invalid("rank and world go together")
        self.rank, self.world = (rank, world) if rank is not None and world is not None else _distributed()
        if not 0 <= self.rank < self.world:
            raise Invalid(f"rank {self.rank} of {self.world}: ranks count from 0")
        self.window, self.batch_size, self.drop_last, self.seed = window, batch_size, drop_last, seed
        self._sizes = sizes
        self._first = [0, *itertools.accumulate(sizes)]  # index of the first sample of each group
        self._epoch = 0
        self._begun = 0  # samples of the epoch that were given out before this process came to it
        self._given = 0  # samples that were given out, of this rank
        self._automatic = True

    def set_epoch(self, epoch: int) -> None:
        """The next __iter__ is this epoch's; a position that load_state_dict() set in another epoch is forgotten."""
        if epoch != self._epoch:
            self._begun = self._given = 0
        self._epoch, self._automatic = epoch, False

    @property
    def epoch(self) -> int:
        return self._epoch

    def share(self) -> int:
        """Samples of this rank in an epoch."""
        first, last = self._share()
        return last - first

    def __len__(self) -> int:
        """Of one __iter__ from the start: samples, or batches."""
        share = self.share()
        if self.batch_size is None:
            return share
        return share // self.batch_size if self.drop_last else -(-share // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        begun, self._begun = self._begun, 0
        self._given = begun
        if self.batch_size is None:
            for index in self._indices(begun):
                self._given += 1
                yield index
        else:
            indices = self._indices(begun)
            while batch := list(itertools.islice(indices, self.batch_size)):
                if len(batch) < self.batch_size and self.drop_last:
                    break
                self._given += len(batch)
                yield batch
        if self._automatic:
            self._epoch += 1
        self._given = 0

    # ---- state ----

    def state_dict(self, done: Optional[int] = None) -> Dict[str, Any]:
        """The position, for load_state_dict() of a sampler made with the same arguments. `done`: how many items (samples, or batches
        with a batch_size) the training loop has finished in this epoch. Say it where a DataLoader with workers asks ahead: without it,
        everything that was given out counts as done."""
        given = self._given if done is None else min(done * (self.batch_size or 1), self.share())
        return {"epoch": self._epoch, "position": given, "seed": self.seed, "rank": self.rank, "world": self.world, "window": self.window, "samples": self._first[-1]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next __iter__ goes on behind `position`: what it gives equals what the uninterrupted epoch would have given."""
        for name, mine in (("seed", self.seed), ("rank", self.rank), ("world", self.world), ("window", self.window), ("samples", self._first[-1])):
            if state[name] != mine:
                raise Invalid(f"the state is of {name} {state[name]}, this sampler has {mine}: the order would be another one")
        if not 0 <= state["position"] <= self.share():
            raise Invalid(f"position {state['position']} of {self.share()} samples")
        self._epoch, self._begun = state["epoch"], state["position"]
        self._given = self._begun

    # ---- the order ----

    def _share(self) -> Tuple[int, int]:
        total = self._first[-1]
        return total * self.rank // self.world, total * (self.rank + 1) // self.world

    def _runs(self) -> List[Tuple[int, int]]:
        """(first, end) of the samples of this rank, a run for each group, in the order of the epoch."""
        order = list(range(len(self._sizes)))
        random.Random(f"forebay groups {self.seed} {self._epoch}").shuffle(order)
        ends = list(itertools.accumulate(self._sizes[g] for g in order))
        first, last = self._share()
        runs = []
        for place in range(bisect.bisect_right(ends, first), len(order)):
            group, end = order[place], ends[place]
            begin = end - self._sizes[group]
            if begin >= last:
                break
            low, high = max(first, begin), min(last, end)
            if low < high:
                runs.append((self._first[group] + low - begin, self._first[group] + high - begin))
        return runs

    def _indices(self, skip: int) -> Iterator[int]:
        runs = self._runs()
        for number, at in enumerate(range(0, len(runs), self.window)):
            window = runs[at : at + self.window]
            size = sum(end - first for first, end in window)
            if skip >= size:
                skip -= size
                continue
            samples = [index for first, end in window for index in range(first, end)]
            random.Random(f"forebay window {self.seed} {self._epoch} {self.rank} {self.world} {number}").shuffle(samples)
            yield from itertools.islice(samples, skip, None)
            skip = 0


def _distributed() -> Tuple[int, int]:
    import sys

    torch = sys.modules.get("torch")  # it is initialised by a program that has imported it
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def worker_share(rank: int, world: int) -> Tuple[int, int]:
    """(rank, world) with DataLoader's workers as ranks of their own."""
    import sys

    torch = sys.modules.get("torch")
    info = torch.utils.data.get_worker_info() if torch is not None else None
    return (rank, world) if info is None else (rank * info.num_workers + info.id, world * info.num_workers)
