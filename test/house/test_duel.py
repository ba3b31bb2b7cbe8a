"""The arithmetic of tools/bench/duel.py and rows.py: what a ratio of slices is, and what is held against a goal."""

import pathlib
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from bench import duel, rows  # noqa: E402


def side(requests, cpu_us=10, lost=0.0):
    """One whose slices of 0.1 s had so many answers."""
    slices = [{"requests": n, "seconds": 0.1, "rps": n / 0.1, "cpu_s": n * cpu_us / 1e6, "us_per_request": cpu_us if n else 0} for n in requests]
    return types.SimpleNamespace(name="a side", slices=[slices], samples=[{"rps": 1, "p99_us": 100, "untimed_share": lost}])


@pytest.mark.parametrize(
    "what, ours, theirs, figure, at_most, said",
    [
        ("as quick", side([100] * 30), side([100] * 30), "rps", False, "met"),
        ("a third of the slices stand still: the median does not see it", side([100, 100, 0] * 10), side([100] * 30), "rps", False, "MISSED"),
        ("it stands still all the time", side([0] * 30), side([100] * 30), "rps", False, "NOT ASSESSED, no figures"),
        ("the other one stands still", side([100] * 30), side([0] * 30), "rps", False, "NOT ASSESSED, no figures"),
        ("no CPU because of no answers", side([0] * 30), side([100] * 30), "us_per_request", True, "NOT ASSESSED, no figures"),
        ("dearer", side([100] * 30, 12), side([100] * 30), "us_per_request", True, "MISSED"),
        ("p99 of nearly all", side([100] * 30, lost=0.001), side([100] * 30), "p99_us", True, "met"),
    ],
)
def test_verdicts(what, ours, theirs, figure, at_most, said):
    assert duel.verdict(ours, theirs, figure, 1.0, at_most) == said, what


def test_a_p99_without_the_slow_ones_is_not_judged():
    assert duel.verdict(side([100] * 30), side([100] * 30, lost=0.02), "p99_us", 1.0, True).startswith("NOT ASSESSED, up to 2.0%")


@pytest.mark.parametrize(
    "what, ours, many, excused",
    [
        ("the loop of many misses by far, and beside it we do not", side([80] * 30), side([82] * 30), True),
        ("the loop of many misses, beside it we do too", side([60] * 30), side([82] * 30), False),
        ("the loop of many misses by a hair that may be chance", side([88] * 30), side([86, 92, 89] * 10), False),
        ("the loop of many meets", side([80] * 30), side([95] * 30), False),
    ],
)
def test_what_is_the_memorys(what, ours, many, excused):
    assert rows.is_memory(ours, side([100] * 30), many, "rps", 0.9, False) == excused, what
