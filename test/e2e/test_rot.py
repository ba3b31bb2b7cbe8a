"""200 random bits and swapped blocks over the segments of one disk of two, and as many over its index: nothing damaged is
sent, scrub and check find all of it, what has a copy is repaired from it, the index by a rebuild. Protects I1, I2, I3, I5."""

import collections
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess

from rigs import forebay
from rigs.process import PATIENCE

import plain
from conftest import boto

SEED = int(os.environ.get("SEED", "20261122"))
ROUNDS = int(os.environ.get("ROT", "2"))  # over the index; `make soak`: 40, with fewer bits in each
FLIPS, SWAPS, BLOCK, PAGE = 200, 25, 16_384, 4096
BUCKETS = {"two": 2, "one": 1}


def run(process, *args, codes=(0,)):
    done = subprocess.run([str(process.binary), *map(str, args)], capture_output=True, text=True, env=forebay.server_env(), timeout=PATIENCE)
    assert done.returncode in codes, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def online(process, *args, codes=(0,)):
    return run(process, *args, "--endpoint-url", process.endpoint, codes=codes)


def put_all(port, bodies):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for reply in pool.map(lambda item: plain.ask(port, "PUT", *item[0], body=item[1]), bodies.items()):
            assert reply.status == 200, reply.body


def read_all(port, bodies):
    """{(bucket, key): reply}; a reply that looks whole is right, one that breaks off was right until then."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = dict(zip(bodies, pool.map(lambda at: plain.get(port, *at), bodies), strict=True))
    for at, reply in replies.items():
        if reply.status == 200:
            assert reply.body == bodies[at] if reply.whole else bodies[at].startswith(reply.body), f"{at}: wrong bytes were sent (seed {SEED})"
    return replies


def refused(replies):
    return {at for at, reply in replies.items() if reply.status != 200 or not reply.whole}


class Disk:
    """The segments of a stopped disk, and which of the objects lie in them verbatim."""

    def __init__(self, folder, bodies):
        self.folder, self.places, self.used = folder, {}, {}
        heads = {body[:48]: at for at, body in bodies.items()}
        for path in sorted((folder / "native").glob("*.tar")):
            data = path.read_bytes().rstrip(b"\0")
            self.used[path] = len(data)
            for offset in range(0, len(data), 512):
                if (at := heads.get(data[offset : offset + 48])) is not None:
                    self.places[at] = (path, offset)
        self.bodies = bodies

    def hit(self):
        """Whose bytes are not those any more."""
        data = {path: path.read_bytes() for path in self.used}
        return {at for at, (path, offset) in self.places.items() if data[path][offset : offset + len(self.bodies[at])] != self.bodies[at]}


def flip_and_swap(rng, files, flips, swaps, block):
    """Bits anywhere in {path: length}, as many in each file as its share of all; blocks between any two places; both behind
    the first block, which says what the file is."""
    paths, lengths = list(files), list(files.values())
    images = {path: bytearray(path.read_bytes()) for path in paths}
    for path in rng.choices(paths, lengths, k=flips):
        images[path][rng.randrange(block, files[path])] ^= 1 << rng.randrange(8)
    for _ in range(swaps):
        (a, at), (b, other) = ((path, rng.randrange(1, files[path] // block) * block) for path in rng.choices(paths, lengths, k=2))
        one, two = images[a][at : at + block], images[b][other : other + block]
        images[a][at : at + block], images[b][other : other + block] = two, one
    for path, image in images.items():
        path.write_bytes(image)


def scrub(process):
    """The findings of a pass over all disks."""
    told = json.loads(online(process, "disk", "scrub", "start", "--wait", "--json", codes=(0, 6)))
    return [found for disk in told["disks"] for found in disk["findings"] if found["pass"] == disk["pass"]["number"]]


def outcomes(findings):
    """{outcome: objects}"""
    told = collections.defaultdict(set)
    for found in findings:
        told[found["outcome"]].add((found["bucket"], found["key"]))
    return told


def test_bits_and_blocks_over_segments_and_index(start_forebay, tmp_path):
    rng = random.Random(SEED)
    second = tmp_path / "b"
    second.mkdir()

    def start():
        return start_forebay("a", args=(str(second),), settings={"memory.block_cache": "0"}, build="rel")

    process = start()
    bodies = {(bucket, f"k{n:03d}"): rng.randbytes(rng.randint(300_000, 500_000) if n % 8 == 7 else rng.randint(48, 20_000)) for bucket in BUCKETS for n in range(80)}
    for bucket, copies in BUCKETS.items():
        assert plain.ask(process.port, "PUT", bucket).status == 200
        online(process, "bucket", "set", f"s3://{bucket}", "--copies", copies)
    put_all(process.port, bodies)
    process.end()

    # Over the segments of one disk.
    disk = Disk(second, bodies)
    assert len(disk.places) > 100
    flip_and_swap(rng, disk.used, FLIPS, SWAPS, BLOCK)
    for path in disk.used:
        flip_and_swap(rng, {path: 1024}, 1, 0, 1)  # what says which segment it is
    hit = disk.hit()
    assert len(hit) > 20 and {bucket for bucket, _ in hit} == BUCKETS.keys()
    process = start()
    lost = refused(read_all(process.port, bodies))
    assert {at for at in hit if at[0] == "one"} <= lost and {bucket for bucket, _ in lost} == {"one"}
    told = outcomes(scrub(process))
    assert told.keys() == {"open", "repaired"} and told["open"] == lost
    assert outcomes(scrub(process)) == {"open": lost}
    process.end()
    named = run(process, "disk", "check", second, codes=(6,))
    assert all(f'"{key}"' in named for _, key in lost), named
    print(f"segments: {len(hit)} bodies hit; of one copy {len(lost)} are refused; scrub repaired {len(told['repaired'])}")
    run(process, "disk", "check", "--repair", "--drop-damaged", "--yes", second, codes=(0, 6))
    left = [line for line in run(process, "disk", "check", second, codes=(0, 6)).splitlines() if line.startswith("DAMAGED")]
    assert all(line.startswith("DAMAGED native/log-") for line in left), left  # records that cannot be read any more
    process = start()
    replies = read_all(process.port, bodies)
    assert refused(replies) == lost and {replies[at].status for at in lost} <= {404}
    process.end()

    # Over its index.
    index = second / "index/data.mdb"
    bodies = {at: body for at, body in bodies.items() if at not in lost}
    for _ in range(ROUNDS):
        flip_and_swap(rng, {index: index.stat().st_size}, max(FLIPS // ROUNDS, 4), max(SWAPS // ROUNDS, 1), PAGE)
        process = start()  # an index of this size is verified as a whole, and made again by the same start
        assert refused(read_all(process.port, bodies)) == set(), "a damaged index was believed"
        assert outcomes(scrub(process)) == {}, "a copy that was repaired before was dropped for the damaged one"
        process.end()
        run(process, "disk", "rebuild", second)
        left = [line for line in run(process, "disk", "check", second, codes=(0, 6)).splitlines() if line.startswith("DAMAGED")]
        assert all(line.startswith("DAMAGED native/log-") for line in left), left
    process = start()
    assert refused(read_all(process.port, bodies)) == set()


def index_state(process):
    """What the server says of its index, once it knows."""
    told = []

    def known():
        told[:] = json.loads(online(process, "disk", "ls", "--json"))["disks"]
        return told[0]["index"] != "unproven" or told[0]["health"] == "failed"

    process.wait_until(known, what="prove its index")
    return told[0]


def test_a_large_index_of_an_older_state(start_forebay, tmp_path):
    """Pages as they were some commits before, in an index that no start reads as a whole: found behind the start, and from then on
    nothing that was written is said to be missing, nor left out of a listing; after a kill all of it is there. Protects I5."""
    index = tmp_path / "node/index/data.mdb"
    rng = random.Random(SEED)
    bodies = {("large", f"k{n:03d}"): rng.randbytes(2_000) for n in range(300)}
    images = []

    def start():
        return start_forebay("node", settings={"memory.block_cache": "0"}, env={"FOREBAY_TEST_INDEX_WHOLE": "0"})

    for fourth in range(4):
        process = start()
        assert plain.ask(process.port, "PUT", "large").status in (200, 409)
        put_all(process.port, {at: body for n, (at, body) in enumerate(bodies.items()) if n % 4 == fourth})
        process.end()
        images.append(index.read_bytes())
    older, newer = images[-2:]
    states = collections.Counter()
    changed = [at for at in range(2 * PAGE, len(older), PAGE) if older[at : at + PAGE] != newer[at : at + PAGE]]
    for at in rng.sample(changed, min(len(changed), 8)):
        index.write_bytes(newer[:at] + older[at : at + PAGE] + newer[at + PAGE :])
        process = start()
        told = index_state(process)
        states[told["index"]] += 1
        lost = refused(read_all(process.port, bodies))
        if told["index"] == "proven":
            assert lost == set(), f"page {at // PAGE} (seed {SEED})"
            process.end()
        else:
            missing = [key for bucket, key in lost if plain.get(process.port, bucket, key).status == 404]
            assert missing == [], f"page {at // PAGE} (seed {SEED})"
            assert plain.ask(process.port, "GET", "large").status >= 500
            if told["health"] != "failed":
                assert "its index is DAMAGED" in online(process, "disk", "ls")
                process.wait_until((tmp_path / "node/index/damaged").exists, what="mark its index")
            process.kill()
            process = start()
            assert refused(read_all(process.port, bodies)) == set()
            assert index_state(process)["index"] == "proven"
            listed = plain.ask(process.port, "GET", "large")
            assert listed.status == 200 and all(f"<Key>{key}</Key>".encode() in listed.body for _, key in bodies)
            process.end()
        index.write_bytes(newer)
    print(f"{len(changed)} pages of {len(newer) // PAGE} changed; {dict(states)}")
    assert states["damaged"] > 0
