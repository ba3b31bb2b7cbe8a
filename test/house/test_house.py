"""The house keeps its own rules: the order of the rooms, the format, what the pages claim, what must not be in a file."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import rooms  # noqa: E402


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [ROOT / name for name in out.split("\0") if name and (ROOT / name).is_file()]


def text_of(path):
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""  # pictures, corpora


def test_rooms_are_in_order():
    wrong, count = rooms.check(ROOT / "src")
    assert count > 20
    assert wrong == []


@pytest.mark.parametrize(
    "name, text, says",
    [
        ("upper/a.c", '#include "lower/b.h"\n', "but lower stands below it"),
        ("upper/a.c", '#include "a.h"\n', 'write "upper/a.h"'),
        ("upper/a.c", "int x;\n#include <pthread.h>\n", "a.c:2: <pthread.h> is for rt alone"),
        ("cellar/a.c", "int x;\n", 'no room "cellar"'),
    ],
)
def test_rooms_sees_what_is_wrong(tmp_path, monkeypatch, name, text, says):
    monkeypatch.setattr(rooms, "EXCEPTIONS", {})
    monkeypatch.setattr(rooms, "UPWARD", set())
    (tmp_path / "ROOMS").write_text("upper  above\nrt  the kernel\nlower  below\n")
    for file, content in {"upper/a.h": "#pragma once\n", "lower/b.h": "#pragma once\n", "rt/r.c": "#include <pthread.h>\n", name: text}.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(content)
    for room in ("upper", "lower", "rt"):
        (tmp_path / room / "README.md").write_text("x\n")
    wrong, _ = rooms.check(tmp_path)
    assert len(wrong) == 1 and says in wrong[0]


@pytest.mark.parametrize(
    "name, text, says",
    [
        ("big/first/a.c", '#include "big/second/b.h"\n', "but big/second stands below it"),
        ("big/big.h", '#pragma once\n#include "big/first/a.h"\n', 'includes "big/first/a.h" of a sub-room'),
        ("big/third/c.c", '#include "big/first/a.h"\n', 'no sub-room "big/third"'),
        ("user/u.c", '#include "big/first/a.h"\n', "is not a public header of big"),
    ],
)
def test_rooms_sees_what_is_wrong_in_a_sub_room(tmp_path, monkeypatch, name, text, says):
    monkeypatch.setattr(rooms, "EXCEPTIONS", {})
    monkeypatch.setattr(rooms, "UPWARD", set())
    (tmp_path / "ROOMS").write_text("big  a room\n  big/first  a\n  big/second  b\n  big/main.c  all of it\nuser  below\n")
    files = {"big/big.h": "#pragma once\n", "big/first/a.h": '#pragma once\n#include "big/big.h"\n', "big/second/b.h": '#pragma once\n#include "big/first/a.h"\n',
             "big/main.c": '#include "big/second/b.h"\n', "user/v.c": '#include "big/big.h"\n', name: text}
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / file).write_text(content)
    for room in ("big", "user"):
        (tmp_path / room / "README.md").write_text("x\n")
    wrong, _ = rooms.check(tmp_path)
    assert len(wrong) == 1 and says in wrong[0]


def test_c_files_are_formatted():
    files = [str(p) for p in tracked("*.c", "*.h") if "third_party" not in p.parts]
    run = subprocess.run(["clang-format", "--dry-run", "-Werror", *files], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]


def check_tests_of(page, name, text):
    """The text names a test, and each test that it names exists."""
    tests = re.findall(r"`((?:test|tools)/[^`]+)`", text)
    assert tests, f"{page}: no test of {name}"
    for test in tests:
        file, _, case = test.partition("::")
        path = ROOT / file
        assert path.exists(), f"{file} does not exist, but {page} names it"
        if case:
            assert case in path.read_text(), f"{file} has no {case}, but {page} names it"


def test_every_promise_is_a_sentence_with_tests():
    promises = re.findall(r"(?m)^\*\*([^*]+)\.\*\* ((?:.+\n)+)\n((?:- `.+`\n)*)", (ROOT / "docs/promises.md").read_text())
    assert len(promises) > 40
    for ident, sentence, tests in promises:
        assert sentence.rstrip().endswith(".") and ". " not in sentence.replace("\n", " ").rstrip(), f"{ident} is not one sentence: {sentence}"
        check_tests_of("docs/promises.md", ident, tests)


def test_every_promise_has_an_id_of_its_own():
    ids = re.findall(r"(?m)^\*\*([A-Z][0-9]+)\.\*\*", (ROOT / "docs/promises.md").read_text())
    assert len(ids) > 40
    assert sorted({i for i in ids if ids.count(i) > 1}) == []


def test_every_line_on_durability_names_a_test_that_exists():
    text = (ROOT / "docs/durability.md").read_text()
    rows = [line for line in text.split("## What the promises cover")[0].splitlines() if line.startswith("| ") and not line.startswith(("| operation", "| means"))]
    assert len(rows) > 20
    for row in rows:
        check_tests_of("docs/durability.md", row, row)


def test_every_fault_point_is_passed_somewhere():
    """T2: at least thirty, each named once in the table and passed by the code that it names."""
    table = re.findall(r'X\((\w+), "([a-z.-]+)"\)', (ROOT / "src/rt/point.h").read_text())
    assert len(table) >= 30
    assert len({name for _, name in table}) == len(table)
    code = "\n".join(text_of(p) for p in tracked("src/*.c"))
    missing = [ident for ident, _ in table if f"POINT({ident})" not in code and not re.search(rf"\bPOINT_{ident}[;,)]", code)]
    assert missing == [], "no code passes these"


def test_every_fuzz_target_has_a_corpus():
    targets = [p for p in (ROOT / "test/fuzz").glob("fuzz_*.c")]
    for target in targets:
        corpus = ROOT / "test/fuzz/corpus" / target.stem.removeprefix("fuzz_")
        assert corpus.is_dir() and any(corpus.iterdir()), f"{target.name} has no corpus at {corpus}"
    names = {p.stem.removeprefix("fuzz_") for p in targets}
    for corpus in (ROOT / "test/fuzz/corpus").glob("*"):
        assert corpus.name in names, f"{corpus} belongs to no fuzz target"


def test_every_unit_test_belongs_to_a_room():
    known = rooms.read_rooms(ROOT / "src")
    for path in (ROOT / "test/unit").glob("*/test_*.c"):
        assert path.parent.name in known, f"{path} is in no room"
    names = [p.name for p in (ROOT / "test/unit").glob("*/test_*.c")]
    assert len(names) == len(set(names)), "two test programs have one name"


def test_links_in_pages_lead_somewhere():
    for page in tracked("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(page)):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_no_file_names_this_machine():
    """Hosts of package registries, and paths of the machine where it was written, have no place in the tree."""
    words = re.compile("|".join(["/" + "work/", "/" + "root/", "deb\\." + "debian", "pypi\\." + "org", "pythonhosted" + "\\.", "registry\\." + "npmjs"]))
    for path in tracked("."):
        found = words.search(text_of(path))
        assert not found, f"{path.relative_to(ROOT)} has {found.group(0)!r}"


# ---- pages that name code ----

# What they write as code and is no function: rooms, words of the command line, members of a struct.
NO_FUNCTIONS = {"disks", "object", "rt", "prefetch", "rebuild", "meta"}


def functions_of(path):
    """Those that a C file defines: the return type stands on a line of its own."""
    return set(re.findall(r"(?m)^(\w+)\([^;{]*\)\n\{", path.read_text()))


def wrong_in_walks(text, src):
    """Functions and files that do not exist, and functions that stand in another file than the page says."""
    defined = {str(p.relative_to(src)): functions_of(p) for p in src.rglob("*.[ch]")}
    everywhere = NO_FUNCTIONS.union(*defined.values())
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    wrong = [f"no file {name}" for name in re.findall(r"\b((?:[a-z0-9]+/)+\w+\.[ch])\b", text) if name not in defined]
    for name in re.findall(r"`(\w+)(?:\(\))?`", text):
        if name not in everywhere:
            wrong.append(f"no function {name}")
    for name, file in re.findall(r"`(\w+)(?:\(\))?`\s\(((?:[a-z0-9]+/)+\w+\.[ch])", text):
        if name in everywhere and name not in defined.get(file, {name}):
            wrong.append(f"{name} is not in {file}")
    return wrong


def test_every_hop_of_the_architecture_exists():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(re.findall(r"`\w+`", text)) > 100
    assert wrong_in_walks(text, ROOT / "src") == []


def wrong_in_readme(text, room):
    """Files, types and functions of a room that do not exist."""
    code = "\n".join(p.read_text() for p in [*room.rglob("*.[ch]"), *room.parent.glob("*/*.h")])
    wrong = []
    for quoted in re.findall(r"`([^`]+)`", text):
        for name in re.findall(r"(?<![\w/.])([\w*/]+\.[ch])\b", quoted):
            known = (room, room.parent, *(ROOT / "test").glob("**/"))
            if not any(any(place.glob(name)) for place in known):
                wrong.append(f"no file {name}")
        wrong += [f"no type struct {name}" for name in re.findall(r"^struct (\w+)$", quoted) if f"struct {name} {{" not in code]
        wrong += [f"no function {name}" for name in re.findall(r"^(\w+)\(\)$", quoted) if not re.search(rf"\b{name}\(", code)]
    return wrong


def test_every_readme_of_a_room_names_what_exists():
    for room in rooms.read_rooms(ROOT / "src"):
        assert wrong_in_readme((ROOT / "src" / room / "README.md").read_text(), ROOT / "src" / room) == [], room


def code_of(root):
    return "\n".join(text_of(p) for folder in ("src", "test", "tools") for p in (root / folder).rglob("*.[chp]*"))


def wrong_in_page(text, root, code):
    """Functions, and files in a folder, that exist nowhere: not in the source, the tests or the tools."""
    wrong = []
    for quoted in re.findall(r"`([^`]+)`", text):
        wrong += [f"no function {name}" for name in re.findall(r"^(\w+)\(\)$", quoted) if not re.search(rf"\b{name}\(", code)]
        for name in re.findall(r"^((?:[a-z0-9_]+/)+\w+\.(?:c|h|py|sh))$", quoted):
            if not any((root / place / name).exists() for place in ("", "src", "test", "docs", "tools")):
                wrong.append(f"no file {name}")
    return wrong


def test_every_page_names_what_exists():
    """But docs/decisions: they say what was true on their day."""
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    assert len(pages) > 10
    code = code_of(ROOT)
    wrong = {page.name: wrong_in_page(page.read_text(), ROOT, code) for page in pages}
    assert {name: sentences for name, sentences in wrong.items() if sentences} == {}


def test_what_pages_get_wrong_is_seen(tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    (room / "a.c").write_text("int\nhere(void)\n{\n}\n")
    (room / "b.c").write_text("struct box {\n    int x;\n};\nstatic void\nthere(struct box *b)\n{\n}\n")
    right = "`here` (room/a.c) → `there()` (room/b.c), in `rt`"
    assert wrong_in_walks(right, tmp_path) == []
    assert wrong_in_walks("`gone` → `here` (room/b.c) (room/c.c)", tmp_path) == ["no file room/c.c", "no function gone", "here is not in room/b.c"]
    assert wrong_in_readme("`a.c`, `*.c`, `struct box`, `there()`", room) == []
    house = tmp_path / "src" / "hall"
    house.mkdir(parents=True)
    (house / "a.c").write_text("int\nhere(void)\n{\n}\n")
    assert wrong_in_page("`here()` of `hall/a.c`, `src/hall/a.c`; `a.c` and `gone(x)` say nothing", tmp_path, code_of(tmp_path)) == []
    assert wrong_in_page("`gone()` of `hall/b.c`", tmp_path, code_of(tmp_path)) == ["no function gone", "no file hall/b.c"]
    assert wrong_in_readme("`c.c`, `struct crate`, `gone()`", room) == ["no file c.c", "no type struct crate", "no function gone"]


def test_a_null_for_a_text_is_a_build_error(tmp_path):
    """What printf would print as "(null)"; the compiler must see it in our own functions with formats too."""
    sources = {"literal": 'err_set(eb, ERR_IO, "no %s", (const char *)NULL)', "flows": 'const char *t = NULL; err_prefix(eb, "%s", t)', "fine": 'err_set(eb, ERR_IO, "a %s", "b")'}
    for name, call in sources.items():
        (tmp_path / f"{name}.c").write_text(f'#include <stddef.h>\n#include "base/err.h"\nvoid f(struct errbuf *eb);\nvoid f(struct errbuf *eb) {{ {call}; }}\n')
        run = subprocess.run(["gcc", "-std=c17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/src", "-c", tmp_path / f"{name}.c", "-o", tmp_path / "o"], capture_output=True, text=True)
        assert (run.returncode == 0) == (name == "fine"), run.stderr
        assert name == "fine" or "null" in run.stderr, run.stderr
