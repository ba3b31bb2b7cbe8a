"""The arithmetic of tools/bench/tails.py: which moments are nobody's, what is thrown away for them and only for them."""

import pathlib
import random
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from bench import tails  # noqa: E402

US, MS = 1_000, 1_000_000


@pytest.mark.parametrize(
    "what, late, kept, waited, theirs, thrown",
    [
        ("nothing to speak of", 100 * US, 0, 100 * US, 0, None),
        ("the host had the core", 200 * US, 0, 0, 0, 0),
        ("the host had the core, with a wake-up of ours on top", 5 * MS, 10 * US, 0, 0, 0),
        ("a system call of the server kept the core", 5 * MS, 5 * MS, 0, 0, None),
        ("something above all others had the core", 5 * MS, 5 * MS, 5 * MS, 0, 5 * MS),
        ("somebody else had the core, the watcher was served", 10 * US, 0, 2 * MS, 10 * US, 2 * MS),
        ("the server waited for threads of its own", 10 * US, 0, 2 * MS, 1900 * US, None),
    ],
)
def test_whose_doing_a_gap_was(what, late, kept, waited, theirs, thrown):
    begin, end = 10 * MS, 10 * MS + 200 * US + late
    assert tails.stalls_of([[0, begin, end, late, kept, waited, theirs]]) == ([] if thrown is None else [(begin - thrown, end)]), what


def test_windows_last_until_what_piled_up_is_answered():
    assert tails.windows_of([(100, 110)], 3) == [(100, 140)]
    assert tails.windows_of([(100, 110), (200, 220)], 3) == [(100, 140), (200, 280)]
    # The second stall begins in what the first left behind: 10 of 30 are answered, and wait with what it adds.
    assert tails.windows_of([(100, 110), (120, 130)], 3) == [(100, 170)]
    assert tails.windows_of([(100, 200), (110, 120)], 3) == [(100, 530)]  # on both cores at once


def test_windows_go_on_while_the_generator_is_behind():
    behind = tails.BEHIND_NS + 1
    window = (0, 10 * MS)

    def asked(until):
        return [(at, at + (behind if at < until else 0)) for at in range(0, 100 * MS, 100 * US)]

    assert tails.until_caught_up([window], asked(5 * MS)) == [window]
    assert tails.until_caught_up([window], asked(17 * MS)) == [(0, 17 * MS)]
    assert tails.until_caught_up([window], asked(90 * MS)) == [(0, 50 * MS)]  # that is its own doing
    assert tails.until_caught_up([window, (12 * MS, 20 * MS)], asked(17 * MS)) == [(0, 20 * MS)]
    assert tails.until_caught_up([window], []) == [window]


def test_what_meets_a_window_is_thrown_away_and_nothing_else():
    windows = [(100, 140), (200, 280)]
    for begin, end, met in ((0, 100, False), (0, 101, True), (99, 500, True), (110, 120, True), (139, 150, True), (140, 200, False), (150, 199, False), (279, 300, True), (280, 400, False)):
        assert tails.disturbed(windows, begin, end) == met, (begin, end)
        assert met == any(a < end and b > begin for a, b in windows)
    assert not tails.disturbed([], 0, 1000)
    assert tails.away_ns([(100, 110), (105, 120), (300, 400)], 0, 350) == 20 + 50


def test_quantiles_of_buckets():
    counts = tails.collections.Counter(tails.bucket_of(us) for us in range(1, 10001))
    for share in (0.5, 0.99, 0.999):
        assert tails.quantile(counts, share) == pytest.approx(10000 * share, rel=0.02)


def run_of(rng, stalls, server_sleeps):
    """[(due, answered)] of one server at 70 % of what it can, who sleeps 3 ms in `server_sleeps` of its requests; in `stalls` nobody is there."""
    spans, free = [], 0
    for n in range(14_000):
        due = n * 100 * US
        begin = max(due, free)
        free = begin + 70 * US + (3 * MS if rng.random() < server_sleeps else 0)
        for since, until in stalls:
            if since < free and until > begin:
                free += until - since
        spans.append((due, due, free))
    return spans


@pytest.mark.parametrize("server_sleeps, p99_ms", [(0, (0.06, 0.08)), (1 / 300, (1, 20))])
def test_stalls_go_and_what_the_server_does_stays(server_sleeps, p99_ms):
    rng = random.Random(7)
    stalls = [(at * MS, at * MS + 5 * MS) for at in range(50, 1400, 100)]
    gaps = [[0, a, b, b - a, 0, 0, 0] for a, b in stalls]
    one = tails.Slice(run_of(rng, stalls, server_sleeps), gaps)
    told = tails.figures_of([one])
    assert told["all"]["p99"] > 3000
    assert p99_ms[0] * 1000 < told["calm"]["p99"] < p99_ms[1] * 1000
    assert told["away"] == pytest.approx(0.05, abs=0.002)
    assert 0.2 < told["thrown"] < 0.27  # five times as long as the cores were away, and what was under way


def test_verdicts_say_what_is_noise():
    assert tails.verdict(0.8, 0.7, 0.9, 1.0) == "met"
    assert tails.verdict(0.8, 0.7, 1.2, 1.0) == "met, but a few slices decide"
    assert tails.verdict(1.3, 1.1, 1.9, 1.0) == "MISSED"
    assert tails.verdict(1.3, 0.9, 1.9, 1.0) == "MISSED, but a few slices decide"


def test_sides_on_which_stalls_fall_apart_are_not_judged():
    rng = random.Random(3)
    even = [[0.02 + rng.uniform(-0.01, 0.01) for _ in range(20)] for _ in range(2)]
    assert not tails.apart(*even)
    assert not tails.apart([0.3, 0.4, *even[0][2:]], even[1])  # a bad second of the host
    assert tails.apart([x * 3 for x in even[0]], even[1]) and tails.apart(even[0], [x * 3 for x in even[1]])
    assert not tails.apart([x * 1.2 for x in even[0]], even[1])
