#!/usr/bin/env python3
"""figures: the figures of the house: private words, lines, asserts a room, include edges, names of static functions.

    figures.py [-v] [ROOT]      prints them; -v: each place of a word. test_words.py holds them.
"""

import collections
import pathlib
import re
import subprocess
import sys

# Words that this code once had for concepts that have a name, and signs of sentences that have to be decoded:
# (pattern, what to write instead). Case does not matter.
WORDS = [
    # concepts
    (r"hot[ _-]sets?|\b(?:disk_|OPT_MEMORY_)?hot_\w+|\w+_hot\b|\bmemory\.hot\b", "block cache"),
    (r"(?<!in[ _-])\bdoubt(?:s|ed|ful)?\b|\b(?!in_doubt)\w*(?<!in)_doubts?\b|\bdoubts?_\w+", "in doubt, in-doubt write"),
    (r"\b\w*undecided\w*", "prepared"),
    (r"\b\w*give_up\w*|\bgiv(?:e|es|en|ing) up\b|\bgave up\b", "abort"),
    (r"\bended[ _]marks?\b", "version tombstone"),
    (r"\b\w*(?<![a-z])deaf\w*|\b\w*unheard\w*", "unreachable, incomplete"),
    (r"\b\w*(?:un)?settled?\b|\bsettles\b|\bsettling\b", "converge"),
    (r"\b\w*put[ _]right\w*", "reconcile"),
    (r"\b(?:mover|movers|mover_\w+)\b", "rebalancer"),
    (r"\b\w*roster\w*", "membership"),
    (r"\b\w*keepers?\b|\bkeeper_\w+", "control loop"),
    (r"\bhome[ _]loops?\w*|\w+_home_loop\b|\b\w+'s home\b", "owner loop"),
    (r"\b(?:disk_)?carr(?:y|ied)_\w+|\b\w+_carr(?:y|ied)\b", "relocate"),
    (r"\b\w*stencil\w*", "header template"),
    (r"\bsigners\b|\bsigners_\w+", "signature cache"),
    (r"\bcold_join\w*", "single-flight fetch"),
    (r"\bat_once\b|\b\w*_glance\b|\bglance\w*", "inline handler"),
    (r"\bbirth[ _]name\w*", "immutable name"),
    (r"\bjudge_\w+|\b\w+_judge\b|\bjudge[sd]?\b|\bjudging\b", "check"),
    (r"\bdying\b", "garbage"),
    (r"\brecent_\w+|\brecent rows?\b", "lookup cache"),
    (r"\bheat(?:s|_\w+)?\b", "access frequency"),
    (r"\bstruct (?:row|tail|member|disk|roster|carry|slot_home)\b", "entry, memtable, record, store"),
    (r"\b(?:row|tail|member)_(?:init|fini|new|free|get|put|encode|decode|parse|add|find)\b", "entry, memtable, record"),
    (r"\bkept tombstones?\b", "tombstone"),
    # signs
    (r"\bnobody\b", "name the actor"),
    (r"\bsomebody\b", "name the actor"),
    (r"\bwhoever\b", "name the actor"),
    (r"\banew\b", "again, re-"),
    (r"\b(?:is|are|was|were|be|been) told\b", "name the actor"),
    (r"\bcom(?:es?|ing) to light\b|\bcame to light\b", "is found"),
    (r"\bas it stands\b|\bas they stand\b", "unchanged"),
    (r"\bwho asks\b", "the caller"),
    (r"\bwhom\b", "name the actor"),
    (r"\bhears?\b|\bheard\b", "receives, learns"),
]
RULES = [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in WORDS]

# Paths (or their beginnings) in which no word is counted, and why.
EXEMPT = {
    "docs/decisions/": "what was true on its day, in the words of its day",
    "test/house/figures.py": "the list of the words itself",
    "test/house/test_words.py": "words for that list to find",
    "test/fixtures/": "bytes that earlier versions wrote",
    "test/fuzz/corpus/": "bytes of formats",
}
# (file or its beginning, text that holds the word): the bytes of a format, or a name that somebody else gave.
ALLOWED = [
    ("src/store/record/", '"doubt'),
    ("docs/formats.md", "`doubt"),
    ("docs/formats.md", "`settled`"),
    ("docs/formats.md", "settled yes"),
    ("src/disks/membership.c", "settled %s"),  # a word of the file on disk
    ("src/disks/", '"settled '),
    ("src/disks/README.md", "`settled no`"),
    ("test/", "settled yes"),
    ("test/", "settled no"),
    ("src/conf/", "memory.hot"),
    ("test/unit/conf/", "memory.hot"),
    ("test/unit/conf/", "MEMORY__HOT"),
]


def files_of(root, *folders):
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders], cwd=root, capture_output=True, check=True, text=True).stdout
    for name in sorted(set(out.split("\0"))):
        path = root / name
        if name and path.is_file() and not path.is_symlink():
            yield name, path


def text_of(path):
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def is_allowed(name, line):
    return any(name.startswith(where) and text in line for where, text in ALLOWED)


def words_of(root):
    """Yields (file, line number, word, what to write)."""
    for name, path in files_of(root, "src", "test", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
        if name.startswith(tuple(EXEMPT)):
            continue
        for number, line in enumerate(text_of(path).splitlines(), 1):
            for rule, better in RULES:
                for m in rule.finditer(line):
                    if not is_allowed(name, line):
                        yield name, number, m.group(0), better


def area_of(name):
    """Where a file counts: its room, its kind of test, docs."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] in ("src", "test") and len(parts) > 2 else parts[0] if len(parts) > 1 else "pages"


def code_files(root):
    for name, path in files_of(root, "src"):
        if path.suffix in (".c", ".h", ".S", ".inc"):
            yield name, path


def lines_of(root):
    return sum(text_of(path).count("\n") for _, path in code_files(root))


def asserts_of(root):
    """{room: (asserts, lines)}"""
    rooms = collections.defaultdict(lambda: [0, 0])
    for name, path in code_files(root):
        text = text_of(path)
        room = rooms[name.split("/")[1]]
        room[0] += len(re.findall(r"(?m)^[ \t]*(?:static_)?assert\(", text))
        room[1] += text.count("\n")
    return {room: tuple(figures) for room, figures in rooms.items()}


def order_of(src):
    """Rooms and the rooms within them, in the order of src/ROOMS; within one, the files beside its rooms come last."""
    order, room, inner = [], None, []
    for line in (src / "ROOMS").read_text().splitlines() + ["end"]:
        word = line.split()[0] if line.split() else ""
        if not word or not word[0].isalpha():
            continue
        if line[0] in " \t":
            inner.append(word if "/" in word else f"{room}/{word}")
        elif "/" in word:
            inner.append(word)
        else:
            order += [*inner, room] if room else []
            room, inner = word, []
    return order


def edges_of(root):
    """({(room, room that it includes): includes}, those that point upward: from a room to one that stands below it)"""
    order = order_of(root / "src")

    def room_of(name):
        folder = name.rsplit("/", 1)[0]
        while folder not in order and "/" in folder:
            folder = folder.rsplit("/", 1)[0]
        return folder

    edges = collections.Counter()
    for name, path in code_files(root):
        mine = room_of(name.removeprefix("src/"))
        for header in re.findall(r'(?m)^\s*#\s*include\s*"([^"]+)"', text_of(path)):
            theirs = room_of(header)
            if theirs != mine:
                edges[mine, theirs] += 1

    def is_upward(mine, theirs):
        if mine not in order or theirs not in order:
            return True
        outer = mine.split("/")[0], theirs.split("/")[0]
        if outer[0] == outer[1] and "/" not in theirs:
            return False  # the door of its own room: its contract with the rooms below
        return order.index(theirs) > order.index(mine)

    return edges, {edge: count for edge, count in edges.items() if is_upward(*edge)}


def statics_of(root):
    """{name: files} of static functions that several files define under one name."""
    where = collections.defaultdict(list)
    for name, path in code_files(root):
        if path.suffix == ".c":
            for static in set(re.findall(r"(?m)^static (?:[\w ]|\*)+\n\*?(\w+)\(", text_of(path))):
                where[static].append(name)
    return {static: files for static, files in where.items() if len(files) > 1}


def report(root):
    """The figures, a line each."""
    words = collections.Counter(area_of(name) for name, *_ in words_of(root))
    asserts, lines = asserts_of(root), lines_of(root)
    edges, upward = edges_of(root)
    statics = statics_of(root)
    yield f"old words: {sum(words.values())}" + "".join(f", {area} {n}" for area, n in sorted(words.items()))
    yield f"lines under src: {lines:,}"
    for room in sorted(asserts):
        count, size = asserts[room]
        yield f"asserts a 1,000 lines of {room}: {1000 * count / size:.1f} ({count} in {size:,})"
    yield f"asserts a 1,000 lines, all rooms: {1000 * sum(c for c, _ in asserts.values()) / lines:.1f}"
    yield f"include edges between rooms: {len(edges)} by {sum(edges.values()):,} includes; upward: {len(upward)} by {sum(upward.values())}"
    for (mine, theirs), count in sorted(upward.items()):
        yield f"    upward: {mine} includes {theirs}, {count} times"
    yield f"static functions that share a name: {len(statics)} names, {sum(len(files) >= 4 for files in statics.values())} of them in four files and more"


def main():
    argv = [a for a in sys.argv[1:] if a != "-v"]
    root = pathlib.Path(argv[0] if argv else pathlib.Path(__file__).parents[2]).resolve()
    print("\n".join(report(root)))
    if "-v" in sys.argv:
        for name, number, word, better in words_of(root):
            print(f"{name}:{number}: {word!r}: {better}")


if __name__ == "__main__":
    main()
