"""D1, D3: what was acknowledged survives kill -9, whole and in its last version; I1: damaged bytes are never sent."""

import concurrent.futures
import http.client
import os
import pathlib
import random
import re
import subprocess

import pytest
from rigs import forebay, ledger
from rigs.process import PATIENCE

import plain
from conftest import boto

KILLS = int(os.environ.get("KILLS", "10"))  # `make soak`: 100
ACKS = int(os.environ.get("ACKS", "0"))  # `make soak`: 50,000; more kills come until there are so many
LOAD_ACKS = int(os.environ.get("LOAD_ACKS", "60"))  # before a kill, at most: of a machine's speed nothing depends
SEED = int(os.environ.get("SEED", "20261121"))


def test_kills_in_the_middle_of_puts(start_forebay):
    """D1, D3: kill -9 at random moments, again and again on one data folder, with a ledger."""
    rng = random.Random(SEED)
    book = ledger.Ledger(writers=4)
    kill = 0
    while kill < KILLS or book.acks < ACKS:
        process = start_forebay("storm", build="rel")
        if kill == 0:
            assert plain.ask(process.port, "PUT", book.bucket).status == 200
        book.resolve(process.port)
        load = ledger.Load(process.port, book, rng)
        load.wait_acks(rng.randint(11, LOAD_ACKS))
        process.kill_alive()
        load.join()
        kill += 1
    process = start_forebay("storm", build="rel")
    book.resolve(process.port)
    uploads = boto(process.endpoint, process.keys()).list_multipart_uploads(Bucket=book.bucket).get("Uploads", [])
    assert len(uploads) <= kill * 4  # an unfinished upload is no object, and may be aborted
    process.end()
    check = subprocess.run([str(process.binary), "disk", "check", str(process.data_dir)], capture_output=True, text=True, env=forebay.server_env())
    assert check.returncode == 0, check.stdout + check.stderr
    print(f"{kill} kills, {book.acks} acknowledged {book.kinds}, {book.in_doubt} in doubt (seed {SEED})")
    assert book.unread == 0, f"{book.unread} reads were answered by an error"
    assert book.acks > KILLS * 10 and book.in_doubt > KILLS  # it was in the middle of something


def connections(process):
    return sum(value for name, value in process.metrics().items() if name.startswith("forebay_connections{"))


def test_a_broken_put_leaves_nothing(start_forebay):
    """D3: a body that ends early is no object, before and after a restart."""
    process = start_forebay()
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="bucket")
    for size in (10, 100_000, 10_000_000):
        connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=PATIENCE)
        connection.putrequest("PUT", f"/bucket/k{size}")
        connection.putheader("Content-Length", str(size))
        connection.endheaders(os.urandom(size // 2))
        connection.close()
    process.wait_until(lambda: connections(process) <= 2, what="see that they are gone")  # boto3's and ours
    assert client.list_objects_v2(Bucket="bucket")["KeyCount"] == 0
    process.end()
    again = start_forebay()
    assert boto(again.endpoint, again.keys()).list_objects_v2(Bucket="bucket")["KeyCount"] == 0


def allocated(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def test_kills_inside_large_puts_give_their_blocks_back(start_forebay):
    """D3: three bodies of 40 MiB are half there, the server is killed; the next start has what they took again."""
    process = start_forebay("large", build="rel")
    assert plain.ask(process.port, "PUT", "bucket").status == 200
    assert plain.ask(process.port, "PUT", "bucket", "kept", body=b"kept").status == 200
    before = allocated(process.data_dir)
    half = bytes(20 << 20)
    for _ in range(2):
        open_puts = []
        for n in range(3):
            connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=PATIENCE)
            connection.putrequest("PUT", f"/bucket/half-{n}")
            connection.putheader("Content-Length", str(2 * len(half)))
            connection.endheaders(half)
            open_puts.append(connection)
        process.wait_until(lambda: allocated(process.data_dir) > before + 3 * len(half), what="take room for the bodies")
        process.kill()
        for connection in open_puts:
            connection.close()
        process = start_forebay("large", build="rel")
        # Logs are made ahead: one of 16 MiB may have come since; and the index has grown by some pages.
        process.wait_until(lambda: allocated(process.data_dir) <= before + (20 << 20), what="give the blocks back")
        assert plain.get(process.port, "bucket", "kept").body == b"kept"
        assert re.findall(b"<Key>(.*?)</Key>", plain.ask(process.port, "GET", "bucket", query="list-type=2").body) == [b"kept"]


# ---- damage ----


def segments(process):
    return sorted(pathlib.Path(process.data_dir).rglob("*.tar"))


def flip(path, offset, bit):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))
        os.fsync(file.fileno())


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A stopped server's folder with objects whose bodies are found verbatim in its segments:
    (folder, {key: body}, {key: (segment, offset of the body's first 48 bytes)})."""
    folder = tmp_path_factory.mktemp("damage") / "data"
    rng = random.Random(SEED)
    bodies = {f"small/{n:04d}": rng.randbytes(rng.randint(48, 20_480)) for n in range(1900)}
    bodies |= {f"large/{n:02d}": rng.randbytes(rng.randint(100_000, 3_000_000)) for n in range(20)}
    with forebay.Forebay(folder, build="rel") as process:
        process.wait_ready()
        assert plain.ask(process.port, "PUT", "bucket").status == 200
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for reply in pool.map(lambda item: plain.ask(process.port, "PUT", "bucket", item[0], body=item[1]), bodies.items()):
                assert reply.status == 200
        process.end()
        files = segments(process)
    heads, places = {body[:48]: key for key, body in bodies.items()}, {}
    for path in files:
        data = path.read_bytes()
        for at in range(0, len(data), 512):  # a tar member's body begins at a block
            if (key := heads.get(data[at : at + 48])) is not None:
                places[key] = (path, at)
    assert places.keys() == bodies.keys()  # "data of native buckets lies verbatim in *.tar"
    return folder, bodies, places


def read_all(folder, keys):
    """{key: reply} from a freshly started server: nothing is in its memory yet."""
    with forebay.Forebay(folder, log_dir=folder.parent, build="rel") as process:
        process.wait_ready()
        replies = {key: plain.get(process.port, "bucket", key) for key in keys}
        process.end()
    return replies


def test_two_thousand_flipped_bits_are_never_sent(damaged):
    """I1: one bit of each body. There is no second copy, so no read may look whole; mended, all read again."""
    folder, bodies, places = damaged
    rng = random.Random(SEED + 1)
    flips = []
    for key, (path, at) in places.items():
        # A large body's blocks lie one behind the other; its first 16 KiB are certainly its own.
        for _ in range(5 if key.startswith("large/") else 1):
            flips.append((path, at + rng.randrange(min(len(bodies[key]), 16_384)), rng.randrange(8)))
    flips = sorted(set(flips))
    assert len(flips) >= 1990
    for each in flips:
        flip(*each)
    for key, reply in read_all(folder, bodies).items():
        looks_whole = reply.status == 200 and reply.whole
        assert not looks_whole, f"{key}: a damaged body was sent as if whole (seed {SEED})"
        assert bodies[key].startswith(reply.body) or reply.status >= 500, f"{key}: wrong bytes left the server (seed {SEED})"
    for each in flips:
        flip(*each)
    for key, reply in read_all(folder, bodies).items():
        assert reply.status == 200 and reply.body == bodies[key], key


def test_flips_anywhere_send_nothing_wrong(damaged):
    """I1, I5: bits anywhere in the segments, heads and records as well. The server starts and answers each key
    with its own bytes, or with an error; never with others."""
    folder, bodies, places = damaged
    rng = random.Random(SEED + 2)
    files = sorted({path for path, _ in places.values()})
    keys = rng.sample(sorted(bodies), 150)
    for _ in range(6):
        flips = [(path, rng.randrange(path.stat().st_size), rng.randrange(8)) for path in rng.choices(files, k=30)]
        for each in flips:
            flip(*each)
        for key, reply in read_all(folder, keys).items():
            if reply.status == 200 and reply.whole:
                assert reply.body == bodies[key], f"{key} (seed {SEED})"
        for each in reversed(flips):
            flip(*each)


def test_disk_check_and_tar_read_it(damaged):
    """`forebay disk check` is quiet about a sound disk and names what is damaged; tar lists every segment."""
    folder, bodies, places = damaged
    check = [str(forebay.binary("rel")), "disk", "check", str(folder)]
    sound = subprocess.run(check, capture_output=True, text=True, env=forebay.server_env())
    assert sound.returncode == 0, sound.stdout + sound.stderr
    key = "small/0007"
    path, at = places[key]
    flip(path, at + 10, 3)
    damaged_run = subprocess.run(check, capture_output=True, text=True, env=forebay.server_env())
    flip(path, at + 10, 3)
    assert damaged_run.returncode != 0 and key in damaged_run.stdout + damaged_run.stderr
    listed = 0
    for segment in sorted({path for path, _ in places.values()}):
        done = subprocess.run(["tar", "-tf", str(segment)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        listed += len(done.stdout.splitlines())
    assert listed >= len(bodies)
