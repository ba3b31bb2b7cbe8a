"""watch(): where a training loop waits."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterable, Iterator, Optional


class Watch:
    """Wraps a loader, of any kind, and measures.

    `wait` is the time that the loop spends in next() of the loader; `busy` the time between two of those calls: forward, backward,
    optimizer. The first batch of an epoch, which starts the workers, counts apart. AU is busy / (busy + wait): the share of the time
    in which the accelerator can work. On a GPU, call torch.cuda.synchronize() in the loop, or `busy` ends before the work does.

    every, report   calls report(sentence) after each `every` seconds, and at the end of each epoch; None: never
    """

    def __init__(self, loader: Iterable[Any], *, every: float = 10.0, report: Optional[Callable[[str], None]] = None) -> None:
        self.loader, self.every, self._report = loader, every, report
        self.epochs = 0
        self._reset()

    def _reset(self) -> None:
        self.batches = 0
        self.start = self.wait = self.busy = 0.0
        self.waits: list = []

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not there yet: of a copy, or of a pickle
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        self._reset()
        clock = time.perf_counter
        at = told = clock()
        iterator = iter(self.loader)
        while True:
            try:
                batch = next(iterator)
            except StopIteration:
                break
            now = clock()
            if self.batches == 0:
                self.start = now - at
            else:
                self.wait += now - at
                self.waits.append(now - at)
            self.batches += 1
            yield batch
            at = clock()
            self.busy += at - now
            if self._report is not None and at - told >= self.every:
                told = at
                self._report(self.sentence())
        self.epochs += 1
        if self._report is not None:
            self._report(self.sentence())

    def figures(self) -> Dict[str, Any]:
        """Of the epoch in progress, or the last one: counts, and seconds."""
        waits = sorted(self.waits)

        def quantile(q: float) -> float:
            return waits[min(len(waits) - 1, int(q * len(waits)))] if waits else 0.0

        whole = self.busy + self.wait
        return {
            "batches": self.batches, "start_s": self.start, "wait_s": self.wait, "busy_s": self.busy, "au": self.busy / whole if whole > 0 else 0.0,
            "wait_p50_s": quantile(0.5), "wait_p99_s": quantile(0.99),
        }  # fmt: skip

    def sentence(self) -> str:
        f = self.figures()
        verdict = "compute is the limit" if f["au"] >= 0.9 else "the loop waits for data: more workers, larger batches of requests, or a faster transform"
        return (
            f"{f['batches']} batches: AU {f['au']:.0%}, {f['wait_s']:.2f} s of waiting (p50 {f['wait_p50_s'] * 1e3:.1f} ms, p99 {f['wait_p99_s'] * 1e3:.1f} ms), "
            f"{f['busy_s']:.2f} s of work, first batch after {f['start_s']:.2f} s: {verdict}"
        )


def watch(loader: Iterable[Any], *, every: float = 10.0, report: Optional[Callable[[str], None]] = None) -> Watch:
    """`for batch in forebay.watch(loader, report=print):` says every 10 s, and at the end, what the loop waits for."""
    return Watch(loader, every=every, report=report)
