"""The block cache takes memory that nothing else uses, and gives it back when something does (docs/sizing.md)."""

import json
import os
import pathlib
import subprocess
import sys

import plain
import pytest
from rigs import forebay
from rigs.process import PATIENCE
from test_bounded import oom_kills, start as start_limited

MIB = 1 << 20


def cli(process, *args, status=0):
    done = subprocess.run([process.binary, *args], capture_output=True, text=True, timeout=PATIENCE, env=forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint}))
    assert done.returncode == status, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def cache(process):
    status, body = process.get("/_/stat")
    assert status == 200, body
    return json.loads(body)["block_cache"]


def fill(process, count, size=MIB, passes=3):
    """Objects that are read until they are in memory."""
    plain.ask(process.port, "PUT", "memory")
    for i in range(count):
        assert plain.ask(process.port, "PUT", "memory", str(i), body=bytes([i % 251]) * size).status == 200
    read(process, count, passes)


def read(process, count, passes=3):
    for _ in range(passes):
        for i in range(count):
            assert plain.get(process.port, "memory", str(i)).body[:4] == bytes([i % 251]) * 4


def machine(root, available, total=4096, stalled=1):
    """A folder that stands for "/" (rt/memory.h), figures in MiB."""
    for path, text in (
        ("proc/meminfo", f"MemTotal: {total * 1024} kB\nMemAvailable: {available * 1024} kB\n"),
        ("proc/self/cgroup", "0::/\n"),
        ("proc/pressure/memory", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled}\n"),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / (path + ".new")).write_text(text)
        (root / (path + ".new")).rename(root / path)


def test_it_follows_what_is_available(start_forebay, tmp_path):
    root = tmp_path / "root"
    machine(root, 3000)
    process = start_forebay(env={"FOREBAY_TEST_MEMORY": str(root)})
    assert cache(process)["size"] == "auto" and cache(process)["most_bytes"] == 2048 * MIB
    fill(process, 24)
    assert cache(process)["held_bytes"] >= 24 * MIB, "it grows as it is used"
    machine(root, 380)  # 30 MiB less than the reserve of a tenth
    process.wait_until(lambda: cache(process)["held_bytes"] <= 2 * MIB, what="give back what is missing")
    assert "memory is tight" in process.log()
    read(process, 24, 1)  # all of it is still there, from the disk
    assert cache(process)["held_bytes"] <= 2 * MIB
    machine(root, 3000)
    process.wait_until(lambda: cache(process)["target_bytes"] > 1000 * MIB, what="may grow again")
    read(process, 24)
    assert cache(process)["held_bytes"] >= 24 * MIB
    top = json.loads(cli(process, "top", "--once", "--interval", "100ms", "-o", "json"))
    assert top["block_cache_bytes"] >= 24 * MIB and top["block_cache_target_bytes"] > 1000 * MIB
    assert "% of reads from it" in cli(process, "top", "--once", "--interval", "100ms")
    found = cli(process, "doctor")
    assert "memory" in found and "auto, at most 2.0 GiB" in found, found


def test_a_fixed_size_and_what_more_would_gain(start_forebay):
    process = start_forebay(settings={"memory.block_cache": "8MiB"})
    fill(process, 12, passes=8)
    stat = cache(process)
    assert stat["size"] == "fixed" and stat["most_bytes"] == stat["target_bytes"] == 8 * MIB
    assert stat["held_bytes"] <= 8 * MIB
    assert stat["rereads_twice"] > 0, stat
    found = cli(process, "doctor")
    assert "fixed by memory.block_cache" in found and "set memory.block_cache to auto or to more" in found, found


LIMIT = 700 * MIB
HOG = """
import sys, time
blocks = []
for i in range(int(sys.argv[1])):
    blocks.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.002)
print("whole", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def group():
    version1, version2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
    root, limit = (version1, "memory.limit_in_bytes") if version1.is_dir() else (version2, "memory.max")
    made = root / f"forebay-memory-{os.getpid()}"
    try:
        made.mkdir()
        (made / limit).write_text(str(LIMIT))
    except OSError as error:
        pytest.skip(f"no control group for memory: {error}")
    yield made
    made.rmdir()


def test_another_program_gets_the_memory(tmp_path, group):
    """In one control group: the cache fills what there is; then a program takes most of it and is not killed."""
    process = start_limited(tmp_path, f"echo $$ > {group}/cgroup.procs")
    hog = None
    try:
        most = cache(process)["most_bytes"]
        assert most <= LIMIT / 2
        count = most // MIB + 20
        fill(process, count)
        held = cache(process)["held_bytes"]
        assert held > 100 * MIB, cache(process)
        hog = subprocess.Popen(
            ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"', sys.executable, "-c", HOG, str(520)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert hog.stdout.readline() == "whole\n", "the program lives and has its memory"
        assert oom_kills(group) == 0
        process.wait_until(lambda: cache(process)["held_bytes"] <= 90 * MIB, what="give back memory")
        assert process.metrics()["process_resident_memory_bytes"] < 180 * MIB, "the memory is really given back"
        read(process, count, 1)
        assert oom_kills(group) == 0
        hog.stdin.close()
        assert hog.wait() == 0
        process.wait_until(lambda: cache(process)["target_bytes"] >= held, what="may grow again")
        read(process, count)
        assert cache(process)["held_bytes"] > 100 * MIB
    finally:
        if hog is not None and hog.poll() is None:
            hog.kill()
            hog.wait()
        process.end()
