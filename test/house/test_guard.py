"""`make bench-guard` judges: what it reads from callgrind is whose it is, and a row that became dearer is told whatever the libraries are."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from bench import guard  # noqa: E402

DUMP = """\
events: Ir sysCount sysTime
ob=(1) /x/forebay
fl=(1) serve.c
fn=(1) serve'2
10 100 0
+3 20 1 900
cob=(2) /lib/libcrypto.so.3
cfn=(2) SHA256_Update
calls=7 0
* 5000 0
fi=(2) list.h
-2 3
ob=(2)
fn=(2)
0 640
cob=(1)
cfn=(1)
calls=1 0
0 77
ob=(3) /lib/libc.so.6
fn=(3) clock_gettime
0 50 1 10
ob=(1)
fn=(4) send_all
0 7
"""


def test_costs_are_of_whose_file_they_are(tmp_path):
    dump = tmp_path / "dump"
    dump.write_text(DUMP)
    ours, others, calls = guard.read_dump(dump, "/x/forebay")
    assert ours == {"serve": 123, "send_all": 7}
    assert others == {"libcrypto.so.3: SHA256_Update": 640, "libc.so.6: clock_gettime": 50}
    assert calls == 1  # of the clock is none outside valgrind
    with pytest.raises(RuntimeError, match="no instruction of /y/forebay"):
        guard.read_dump(dump, "/y/forebay")


def test_a_machine_that_stood_still_makes_nothing_cheaper():
    assert guard.less_idle(({"serve": 400_000}, {"memcpy": 50_000}), [30_000, 2_000], 0.1) == ([397_000, 49_800], False)
    assert guard.less_idle(({"serve": 400_000}, {"memcpy": 50_000}), [30_000, 2_000], 75) == ([400_000, 50_000], True)


def row(ours, libraries=2000, calls=3.0):
    return {"ours": ours, "libraries": libraries, "system_calls": calls, "functions": {"serve": ours}}


@pytest.mark.parametrize(
    ("now", "wide", "faults"),
    [
        (row(1049), 5, []),
        (row(1060), 5, ["ours"]),
        (row(1060), 25, ["ours"]),  # a library of another version excuses nothing of ours
        (row(1000, 2200), 5, ["with libraries"]),
        (row(1000, 2200), 25, []),
        (row(1000, 2800), 25, ["with libraries"]),
        (row(1000, calls=8), 25, ["calls"]),
    ],
)
def test_dearer_is_told(now, wide, faults):
    assert guard.too_much("head", now, row(1000), 5, wide) == faults


def test_names_what_grew(capsys):
    assert guard.judge({"head": row(1060), "get-4k": row(1000)}, {"head": row(1000), "get-4k": row(1000)}, 5, 25) == ["head"]
    assert "TOO MUCH: ours\n" in (said := capsys.readouterr().out) and "+60 in serve" in said


def git(*argv):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false", *argv], check=True, capture_output=True)


def test_who_stands_in_for_a_baseline_that_does_not_hold(tmp_path, monkeypatch):
    def at(tree):
        monkeypatch.setattr(guard, "ROOT", tree)
        monkeypatch.setattr(guard, "BASELINE", tree / "guard.json")
        return guard.stand_in()

    def commit(name, text):
        (tree / name).write_text(text)
        git("-C", tree, "add", ".")
        git("-C", tree, "commit", "-m", name)

    assert at(tmp_path) == ("", "no commit here holds guard.json")
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    git("init", tree)
    commit("src/a.c", "1")
    commit("guard.json", "{}")
    assert at(tree) == ("", "this commit itself wrote guard.json")
    (tree / "src/a.c").write_text("2")  # not committed: that is what is judged
    wrote, why = at(tree)
    assert wrote == guard.git("rev-parse", "HEAD") and not why
    commit("src/a.c", "3")
    assert at(tree) == (wrote, "")
    for depth, text in (("1", "4"), ("2", "5")):
        commit("src/a.c", text)
        git("clone", "--depth", depth, tree.as_uri(), tmp_path / depth)
    assert at(tmp_path / "1") == ("", "the history here begins with this commit")
    first, why = at(tmp_path / "2")  # not the one that wrote it, but the oldest there is
    assert first == guard.git("rev-parse", "HEAD~1") and not why
