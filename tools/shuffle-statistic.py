#!/usr/bin/env python3
"""How random the grouped shuffle is: its batches beside those of a full shuffle, for several windows.

    shuffle-statistic.py [--samples 100000] [--group 1000] [--classes 100] [--batch 512] [--seed 7]

The data set is the worst one for it: samples lie sorted by class, so that each group holds one class, or a part of one. Printed
are, for an epoch of forebay.GroupedSampler:

    classes    how many classes a batch has
    distance   total variation between the classes of a batch and those of the whole set: 0 equal, 1 disjoint; the mean of all batches
    excess     that distance over a full shuffle's
    pairs      how often two samples that follow each other are of one group, over what chance would give
    open       groups that a reader has to have at hand for one batch: the mean

It needs libforebay (tools/build.sh rel libforebay). docs/training.md shows what it prints.
"""

import argparse
import collections
import os
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ.setdefault("FOREBAY_LIBRARY", str(ROOT / "build/lib/libforebay.so"))
sys.path.insert(0, str(ROOT / "python"))

import forebay  # noqa: E402


def statistics(order, class_of, group, classes, batch):
    """Of one epoch's order of indices."""
    total = len(order)
    share = 1 / classes
    batches = [order[at : at + batch] for at in range(0, total - batch + 1, batch)]
    distances, kinds, groups = [], [], []
    for indices in batches:
        counts = collections.Counter(class_of[i] for i in indices)
        missing = (classes - len(counts)) * share
        distances.append((sum(abs(n / batch - share) for n in counts.values()) + missing) / 2)
        kinds.append(len(counts))
        groups.append(len({i // group for i in indices}))
    same = sum(a // group == b // group for a, b in zip(order, order[1:])) / (total - 1)
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    return {"classes": mean(kinds), "distance": mean(distances), "pairs": same / ((group - 1) / (total - 1)), "open": mean(groups)}


def table(samples=100_000, group=1000, classes=100, batch=512, seed=7, windows=(1, 2, 4, 8, 16, 32, 64)):
    """Lines of Markdown."""
    class_of = [i * classes // samples for i in range(samples)]
    full = list(range(samples))
    random.Random(seed).shuffle(full)
    floor = statistics(full, class_of, group, classes, batch)
    rows = [(str(w), statistics(list(forebay.GroupedSampler(samples, group=group, window=w, seed=seed, rank=0, world=1)), class_of, group, classes, batch)) for w in windows]
    rows.append(("full shuffle", floor))
    yield "| window, groups | classes in a batch | distance | over a full shuffle's | pairs of one group | groups open |"
    yield "|---|---|---|---|---|---|"
    for name, s in rows:
        yield f"| {name} | {s['classes']:.1f} | {s['distance']:.3f} | {s['distance'] / floor['distance']:.2f}x | {s['pairs']:.1f}x | {s['open']:.1f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("samples", 100_000), ("group", 1000), ("classes", 100), ("batch", 512), ("seed", 7)):
        parser.add_argument(f"--{name}", type=int, default=value)
    print("\n".join(table(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
