"""The figures of the house, printed (pytest -s) and held: private words, lines, asserts, include edges, names of static functions."""

import collections
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import figures  # noqa: E402
import rooms  # noqa: E402

# The most old words that an area may still have: what it has today, and never more. An area that is not named has none.
WORDS_MOST = {}
ASSERTS_LEAST = dict.fromkeys(("store", "disks", "object", "map", "meta", "job", "rt"), 20)  # a 1,000 lines
SHARED_STATICS_MOST = 73


def test_figures_are_printed(capsys):
    with capsys.disabled():
        print("\n" + "\n".join(figures.report(ROOT)))


def test_old_words_are_gone():
    found = collections.defaultdict(list)
    for name, number, word, better in figures.words_of(ROOT):
        found[figures.area_of(name)].append(f"{name}:{number}: {word!r}: {better}")
    wrong = {area: places[:20] for area, places in found.items() if len(places) > WORDS_MOST.get(area, 0)}
    assert wrong == {}, "test/house/figures.py -v names every place"


@pytest.mark.parametrize("room", ASSERTS_LEAST)
def test_asserts_of_rooms_that_keep_state(room):
    count, lines = figures.asserts_of(ROOT)[room]
    assert 1000 * count / lines >= ASSERTS_LEAST[room]


def test_no_include_points_upward():
    _, upward = figures.edges_of(ROOT)
    assert sum(upward.values()) <= len(rooms.UPWARD), upward


def test_static_names_tell_functions_apart():
    assert len(figures.statics_of(ROOT)) <= SHARED_STATICS_MOST


def test_what_figures_count(tmp_path, monkeypatch):
    for name, text in {
        "ROOMS": "upper  above\n  inner  in upper\nlower  below\n",
        "upper/a.c": '#include "upper/inner/b.h"\n#include "lower/c.h"\nstatic int\nrun(void)\n{\n    assert(1);\n    return 0; /* the roster */\n}\n',
        "upper/inner/b.h": '#include "upper/a.h"\n/* it heard of a doubt, in doubt */\n',
        "lower/c.c": '#include "upper/a.h"\nstatic int\nrun(void)\n{\n}\n',
    }.items():
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(text)
    listed = lambda root, *folders: [(str(p.relative_to(root)), p) for p in sorted(root.rglob("*.[ch]"))]  # noqa: E731
    monkeypatch.setattr(figures, "files_of", listed)
    assert [word for _, _, word, _ in figures.words_of(tmp_path)] == ["roster", "doubt", "heard"]
    assert figures.lines_of(tmp_path) == 15
    assert figures.asserts_of(tmp_path)["upper"] == (1, 10)
    edges, upward = figures.edges_of(tmp_path)
    assert upward == {("upper", "lower"): 1} and len(edges) == 4
    assert list(figures.statics_of(tmp_path)) == ["run"]
