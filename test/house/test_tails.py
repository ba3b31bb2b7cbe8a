"""The arithmetic of tools/bench/tails.py: which moments are no side's, what is thrown away for them and only for them."""

import pathlib
import random
import sys
import types

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
        ("another process had the core, the watcher was served", 10 * US, 0, 2 * MS, 10 * US, 2 * MS),
        ("the server waited for threads of its own", 10 * US, 0, 2 * MS, 1900 * US, None),
    ],
)
def test_whose_doing_a_gap_was(what, late, kept, waited, theirs, thrown):
    begin, end = 10 * MS, 10 * MS + 200 * US + late
    assert tails.stalls_of([[0, begin, end, late, kept, waited, theirs]]) == ([] if thrown is None else [(begin - thrown, end)]), what


def test_a_stall_leaves_its_length_behind_which_drains():
    one = tails.Stalls([(100, 110)], 4)
    assert [one.backlog(at) for at in (0, 100, 105, 110, 130, 150, 200)] == [0, 0, 5, 10, 5, 0, 0]
    two = tails.Stalls([(100, 110), (130, 140)], 4)  # five are still there when the second begins
    assert [two.backlog(at) for at in (130, 140, 180, 200)] == [5, 15, 5, 0]
    assert tails.Stalls([(100, 200), (110, 120)], 4).backlog(200) == 100  # on both cores at once
    assert tails.Stalls([(110, 120), (100, 115)], 4).backlog(120) == 20


def test_what_stalls_explain_is_what_they_last():
    stalls = tails.Stalls([(100, 110), (200, 220)], 4)
    for begin, end, explained in ((0, 100, 0), (0, 105, 5), (99, 500, 30), (105, 110, 10), (130, 500, 25), (150, 200, 0), (300, 900, 0), (260, 900, 10)):
        assert stalls.explain(begin, end) == explained, (begin, end)
    assert tails.Stalls([]).explain(0, 1000) == 0
    assert tails.Stalls([(100, 110), (105, 120), (300, 400)]).away(0, 350) == 20 + 50


def test_quantiles_of_buckets():
    counts = tails.collections.Counter(tails.bucket_of(us) for us in range(1, 10001))
    for share in (0.5, 0.99, 0.999):
        assert tails.quantile(counts, share) == pytest.approx(10000 * share, rel=0.02)


def run_of(rng, stalls, server_sleeps, requests=14_000):
    """[(due, answered)] of one server at 70 % of what it can, who sleeps 3 ms in `server_sleeps` of its requests; in `stalls` no side runs."""
    spans, free, over = [], 0, 0
    for n in range(requests):
        due = n * 100 * US
        begin = max(due, free)
        free = begin + 70 * US + (3 * MS if rng.random() < server_sleeps else 0)
        while over < len(stalls) and stalls[over][1] <= begin:
            over += 1
        for since, until in stalls[over:]:
            if since >= free:
                break
            free += until - max(since, begin)
        spans.append((due, free))
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
    # Five times as long as the cores were away, and what was under way; less what waited for the server's own sleeps.
    assert (0.12 if server_sleeps else 0.2) < told["thrown"] < 0.27


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


def slices_of(rng, own_ns, in_step, turns=12):
    """Turns of 0.3 s beside host stalls of 0.5 ms each 10 ms, of a server that stops for `own_ns` each 100 ms: in step with the host or not."""
    out = []
    for _ in range(turns):
        first = rng.randrange(10 * MS)
        host = [(at, at + 500 * US) for at in range(first, 300 * MS, 10 * MS)]
        begin = first + 9900 * US if in_step else rng.randrange(100 * MS - own_ns)
        own = [(at, at + own_ns) for at in range(begin, 300 * MS, 100 * MS)] if own_ns else []
        stops = tails.Stalls(host + own).stalls
        out.append(tails.Slice(run_of(rng, stops, 0, 3_000), [[0, a, b, b - a, 0, 0, 0] for a, b in host]))
    return out


def test_a_request_that_met_a_stall_counts_with_what_is_left_if_that_is_much():
    quick = [(n * MS, n * MS + 70 * US) for n in range(100)]
    gap = [[0, 200 * MS, 201 * MS, 1 * MS, 0, 0, 0]]
    for took, counts in ((1 * MS, None), (2 * MS, None), (3 * MS, 2000), (61 * MS, 60000)):
        one = tails.Slice([*quick, (200 * MS, 200 * MS + took)], gap)
        slow = one.calm - tails.Slice(quick, []).calm
        assert slow == ({} if counts is None else {tails.bucket_of(counts): 1}), took
        assert one.thrown == pytest.approx(1 / 101 if counts is None else 0)


class Kept(dict):
    def keep(self, _, what, figures):
        self[what] = figures


SIDES = [types.SimpleNamespace(name=name, size=64 << 10) for name in ("forebay", "nginx", "bare loop")]


@pytest.mark.parametrize("in_step", [False, True])
@pytest.mark.parametrize("own_ms", [0, 3, 15, 60])
def test_a_servers_own_stalls_are_seen_beside_the_hosts(capsys, own_ms, in_step):
    rng, context = random.Random(5), Kept()
    slices = [slices_of(rng, own_ms * MS, in_step), *(slices_of(rng, 0, False) for _ in SIDES[1:])]
    tails.assess(context, "", SIDES, slices, {"p99": 1.01})
    told = capsys.readouterr().out
    assessed = [line.split("at most", 1)[1].split(": ", 1)[1] for line in told.splitlines() if "at most" in line]
    assert len(assessed) == 2, told  # p99 and p99.9
    assert 0.2 < context["nginx"]["thrown"] < 0.35 and context["nginx"]["all"]["p99"] > 400
    if own_ms == 0:
        assert assessed == ["met", "met"], told
        assert context["forebay"]["calm"]["p99.9"] < 80
    else:
        assert any(verdict.startswith(("MISSED", "NOT ASSESSED")) for verdict in assessed), told
        assert context["forebay"]["calm"]["p99.9"] > 1000 * own_ms / 2, told


def test_where_nothing_is_left_that_is_said(capsys):
    context, few = Kept(), [tails.Slice([(n * MS, n * MS + 70 * US) for n in range(400)], [])] * 4
    tails.assess(context, "", SIDES, [few] * 3, {"p99": 1.0})
    told = capsys.readouterr().out
    assert told.count("NOT ASSESSED") == 2 and "at most 1: NOT ASSESSED" in told
    assert context["p99 / nginx, calm"]["median"] is None


def test_who_has_far_more_thrown_away_is_not_judged():
    def turns(thrown):
        return [types.SimpleNamespace(away=5, ns=100, thrown=thrown + k / 1000) for k in range(12)]

    assert tails.apart_of(turns(0.25), "nginx", turns(0.25)) is None
    assert "beside nginx" in tails.apart_of(turns(0.66), "nginx", turns(0.25))
    assert "beside nginx" in tails.apart_of(turns(0.1), "nginx", turns(0.25))
