"""Several pytest processes over one set of tests: each takes the next free file (LANE_CLAIMS names the
folder in which they note it). tools/check.sh starts them; without LANE_CLAIMS pytest runs as ever."""

import os
import pathlib

# The longest first, so that the last of them ends with the others.
LONG = ("tier", "cli_transfers", "recovery", "cold", "trouble", "bounded", "durability", "disks", "space", "clients", "jobs", "points", "s3_objects", "serve", "identity")


def rank(path):
    name = path.stem.removeprefix("test_")
    return LONG.index(name) if name in LONG else len(LONG)


def claimed(folder, items):
    """Items of one file after the other that this process was first to take."""
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    for path in sorted(files, key=rank):
        try:
            os.close(os.open(pathlib.Path(folder) / path.name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        yield from files[path]


def pytest_runtestloop(session):
    folder = os.environ.get("LANE_CLAIMS")
    if folder is None or session.testsfailed or session.config.option.collectonly:
        return None
    mine = claimed(folder, session.items)
    item = next(mine, None)
    while item is not None:
        following = next(mine, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail or session.shouldstop:
            raise session.Interrupted(session.shouldfail or session.shouldstop)
        item = following
    return True
