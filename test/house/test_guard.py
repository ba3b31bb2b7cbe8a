"""`make bench-guard` assesses: what it reads from callgrind is whose it is, and a row that became dearer is reported whatever the libraries are."""

import json
import pathlib
import subprocess
import sys
import types

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


def test_receipts_and_sends_are_counted_by_functions_of_ours(tmp_path):
    calls = "cfn=(3) socket_try_recv\ncalls=5 0\n* 40\ncob=(2) /lib/x86_64-linux-gnu/libc.so.6\ncfn=(4) socket_try_recv\ncalls=9 0\n* 40\n"
    (dump := tmp_path / "dump").write_text(f"events: Ir\nob=(1) /x/forebay\nfn=(1) conn_inline_read\n0 7\n{calls}cfn=(5) sendable_send'2\ncalls=4 0\n* 40\n")
    assert guard.read_dump(dump, "/x/forebay")[-1] == {"socket_try_recv": 5, "sendable_send": 4}


def test_costs_are_of_whose_file_they_are(tmp_path):
    dump = tmp_path / "dump"
    dump.write_text(DUMP)
    ours, others, calls, io = guard.read_dump(dump, "/x/forebay")
    assert ours == {"serve": 123, "send_all": 7}
    assert others == {"libcrypto.so.3: SHA256_Update": 640, "libc.so.6: clock_gettime": 50}
    assert calls == 1  # of the clock is none outside valgrind
    assert io == {}
    with pytest.raises(RuntimeError, match="no instruction of /y/forebay"):
        guard.read_dump(dump, "/y/forebay")


# 300 PUTs: callgrind gave a third of the system calls to the function of another thread, and the calls of fdatasync() are two a PUT.
PUTS = """\
events: Ir sysCount sysTime
ob=(1) /x/forebay
fn=(1) call_sync
10 100 400
cob=(2) /lib/x86_64-linux-gnu/libc.so.6
cfn=(2) fdatasync
calls=300 0
* 5000 300 900
+4 20
cob=(2)
cfn=(2)
calls=%d 0
* 5000 300 900
cob=(1)
cfn=(3) rt_write'2
calls=9 0
* 5000
ob=(1)
fn=(11) write_zeros.constprop.0
0 60
cfn=(3)
calls=25 0
* 5000
fn=(4) call_write
0 300
cob=(2)
cfn=(5) pwrite64@@GLIBC_2.2.5
calls=325 0
* 600 325
cfn=(6) fdatasync
calls=7 0
* 600
cob=(2)
cfn=(7) write
calls=900 0
* 600
cob=(3) /lib/x86_64-linux-gnu/libcrypto.so.3
cfn=(8) open
calls=300 0
* 600
ob=(2)
fn=(9) fopen
0 20
cfn=(10) __open64_nocancel
calls=3 0
* 10
"""


@pytest.mark.parametrize(("second", "faults"), [(0, []), (300, ["fdatasync 2"])])
def test_a_second_sync_of_each_put_is_told(tmp_path, second, faults):
    (dump := tmp_path / "dump").write_text(PUTS % second)
    *_, io = guard.read_dump(dump, "/x/forebay")
    assert io == {"fdatasync": 300 + second, "pwrite": 300, "open": 3}
    base = json.loads(guard.BASELINE.read_text())["rows"]["put-4k"]
    now = base | {"io": base["io"] | {kind: n / 300 for kind, n in io.items()}}
    assert [said.split(",")[0] for said in guard.too_much("put-4k", now, base, 5, 5)] == faults


@pytest.mark.parametrize("name", [n for n in guard.ROWS if n not in guard.TOLD])
def test_one_more_of_any_kind_is_told_of_every_row(name):
    base = json.loads(guard.BASELINE.read_text())["rows"][name]
    assert base["io"] and guard.too_much(name, base, base, 5, 5) == []
    for kind in (*base["io"], "fsync", "open"):
        now = base | {"io": base["io"] | {kind: base["io"].get(kind, 0) + 1}}
        assert [said.split()[0] for said in guard.too_much(name, now, base, 5, 5)] == [kind]


def test_a_server_that_vgdb_does_not_reach_is_a_sentence_and_not_a_hang(monkeypatch):
    assert "unsafe.core_dumps=true" in guard.FLAGS  # an undumpable process cannot be traced by an ordinary user

    def asleep(argv, timeout, **_):
        raise subprocess.TimeoutExpired(argv, timeout)

    monkeypatch.setattr(guard.subprocess, "run", asleep)
    server = types.SimpleNamespace(popen=types.SimpleNamespace(pid=7))
    with pytest.raises(RuntimeError, match="vgdb zero: no answer of process 7 in 60 s;.*unsafe.core_dumps"):
        guard.Server.tell(server, "zero")


def test_the_fewest_of_two_counts(monkeypatch):
    rows = {"put-4k": row(1010) | {"io": {"fdatasync": 1.4, "pwrite": 1.0, "open": 0.5}}}
    guard.cheaper(rows, {"put-4k": row(1000, calls=20) | {"io": {"fdatasync": 1.0, "pwrite": 1.2}}})
    assert rows["put-4k"] == row(1000) | {"io": {"fdatasync": 1.0, "pwrite": 1.0}}


def test_a_row_that_is_gone_is_told(tmp_path, monkeypatch, capsys):
    baseline = {"environment": {}, "libraries": {}, "rows": {"head": row(1000), "get-old": row(1000)}}
    (file := tmp_path / "guard.json").write_text(json.dumps(baseline))
    monkeypatch.setattr(guard, "BASELINE", file)
    monkeypatch.setattr(guard, "environment", lambda build: {})
    monkeypatch.setattr(guard, "libraries", dict)
    monkeypatch.setattr(guard, "measure", lambda binary, wanted: {name: row(1000) for name in wanted})
    assert guard.main(["head"]) == 1
    assert "no longer a row: get-old;" in capsys.readouterr().out
    monkeypatch.setitem(guard.ROWS, "get-old", guard.ROWS["head"])
    assert guard.main(["head"]) == 0


def test_a_machine_that_stood_still_makes_nothing_cheaper():
    assert guard.less_idle(({"serve": 400_000}, {"memcpy": 50_000}), [30_000, 2_000], 0.1) == ([397_000, 49_800], False)
    assert guard.less_idle(({"serve": 400_000}, {"memcpy": 50_000}), [30_000, 2_000], 75) == ([400_000, 50_000], True)


def row(ours, libraries=2000, calls=3.0):
    return {"ours": ours, "libraries": libraries, "system_calls": calls, "io": {"syscall": 2.0}, "functions": {"serve": ours}}


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
    assert guard.assess({"head": row(1060), "get-4k": row(1000)}, {"head": row(1000), "get-4k": row(1000)}, 5, 25) == ["head"]
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
    (tree / "src/a.c").write_text("2")  # not committed: that is what is assessed
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
