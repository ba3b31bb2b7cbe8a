"""T2, D1: a server that dies at a named fault point (src/rt/point.h), as by kill -9 exactly there, has lost nothing that it
acknowledged. The simulator does it at every point with the power cut (test/sim/sim_points.c); here it is the real program."""

import random

import pytest
from rigs import ledger
from rigs.process import PATIENCE

import plain

POINTS = ("segment.made", "body.sealed", "body.synced", "wal.written", "wal.synced", "commit.visible", "index.before", "index.committed", "record.delete",
          "record.upload-complete")  # fmt: skip
SEED = 20261121


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_fault_point(start_forebay, point):
    """It dies there, and everything is as it was acknowledged."""
    rng = random.Random(f"{SEED} {point}")
    book = ledger.Ledger(writers=3)
    process = start_forebay("node")
    assert plain.ask(process.port, "PUT", book.bucket).status == 200
    process.end()
    process = start_forebay("node", env={"FOREBAY_FAULT": f"{point}:{rng.randint(2, 4)}:kill"})
    load = ledger.Load(process.port, book, rng)
    assert process.popen.wait(PATIENCE) == -9, f"no code passed {point}"
    load.join()
    process = start_forebay("node")
    book.resolve(process.port)


def test_an_unknown_point_is_refused(start_forebay):
    with pytest.raises(RuntimeError, match='no such point'):
        start_forebay("node", env={"FOREBAY_FAULT": "nowhere:1:kill"})
