"""D2: what was acknowledged survives a power cut of a real file system. tools/powercut.py does it; `make soak` cuts forty
times on each, here it is three. What is skipped is skipped for a reason that is said."""

import os
import pathlib
import subprocess
import sys

import pytest
from rigs import cutdisk, forebay
from rigs.process import ROOT

CUTS = int(os.environ.get("CUTS", "3"))
CUTDISK = pathlib.Path(os.environ.get("CUTDISK", ROOT / "build/test/cutdisk"))


def powercut(*args, tool="powercut"):
    why = cutdisk.why_not(CUTDISK)
    if why is not None:
        pytest.skip(f"POWER CUTS WERE NOT TESTED: {why}")
    argv = [sys.executable, ROOT / f"tools/{tool}.py", "--cutdisk", CUTDISK, *args]
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, env=forebay.server_env({"FOREBAY_BIN": str(forebay.binary("rel"))}))
    assert done.returncode == 0, f"{done.stdout[-4000:]}{done.stderr[-8000:]}"
    return done.stdout


@pytest.mark.parametrize("fs", ["ext4", "xfs"])
def test_power_cuts_of_a_real_file_system(fs):
    """D1, D2, D3: unflushed writes lost, reordered and torn; the ledger is kept, the disk checks without a fault."""
    told = powercut("--fs", fs, "--cuts", str(CUTS))
    assert f"{fs}: {CUTS} power cuts" in told and "nothing lost, nothing torn, nothing came back" in told


def test_the_ledger_notices_a_drive_that_lies():
    """The checker is checked: a drive that only says that it flushed loses what was acknowledged, and that is seen."""
    assert "and the ledger noticed" in powercut("--fs", "ext4", "--cuts", "10", "--lie")


def test_make_plug_notices_a_drive_that_lies():
    """The same of the plug under a training job, whose checkpoints stand in a ledger."""
    assert "and the ledger noticed" in powercut("--lie", tool="plug")
