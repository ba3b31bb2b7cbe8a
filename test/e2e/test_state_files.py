"""I5: each file of a disk that is no data (superblocks, index, state of the node, positions) is removed, cut to nothing and to
half, zeroed, and one bit of it flipped, one at a time. The server starts and has everything, or it says in one sentence
why not, changes nothing, and has everything when the file is put back."""

import os
import random
import re
import shutil
import subprocess

import pytest
from rigs import forebay
from rigs.process import PATIENCE, Ended

import plain

SEED = int(os.environ.get("SEED", "20261122"))
ALL = os.environ.get("STATE_FILES") == "all"  # `make soak`; else one kind of damage for each file
BUCKET = "kept"


def half(data):
    return data[: len(data) // 2]


def flipped(data):
    if not data:
        return b"\x01"
    rng = random.Random(SEED + len(data))
    used = len(data.rstrip(b"\0")) or 1
    changed = bytearray(data)
    changed[rng.randrange(used)] ^= 1 << rng.randrange(8)
    return bytes(changed)


DAMAGES = {"removed": None, "empty": lambda data: b"", "half": half, "zeroed": lambda data: bytes(len(data)), "a bit": flipped}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """(folder, {key: body}, credentials): a stopped server's, with something of each kind of file."""
    folder = tmp_path_factory.mktemp("state") / "data"
    rng = random.Random(SEED)
    bodies = {f"k{n:02d}": rng.randbytes(300_000 if n % 5 == 0 else 3000) for n in range(15)}
    with forebay.Forebay(folder, build="rel") as process:
        process.wait_ready()
        assert plain.ask(process.port, "PUT", BUCKET).status == 200
        for key, body in bodies.items():
            assert plain.ask(process.port, "PUT", BUCKET, key, body=body).status == 200
        for verb in (["user", "add", "bob"], ["disk", "scrub", "start", "--wait"]):
            done = subprocess.run([process.binary, *verb, "--endpoint-url", process.endpoint], capture_output=True, text=True, env=forebay.server_env(), timeout=PATIENCE)
            assert done.returncode == 0, done.stderr
        keys = process.keys()
        process.end()
    return folder, bodies, keys


def state_files(folder):
    """All that are no segments, by their path in the folder."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix != ".tar")


def start(folder, logs):
    """A server that is ready; or what it said in one sentence when it refused, and went in order."""
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    process = forebay.Forebay(folder, log_dir=logs, build="rel")
    try:
        return process.wait_ready(), ""
    except Ended:
        status = process.popen.wait()
        said = [line for line in process.log().splitlines() if line.startswith("forebay: ")]
        process.check_log()
        assert 0 < status < 128, f"it died of {status}: {process.log()[-3000:]}"
        assert len(said) == 1 and len(said[0]) > 30, process.log()[-3000:]
        return None, said[0]


def has_everything(process, bodies, keys):
    assert keys is None or process.keys() == keys
    assert re.findall(b"<Name>(.*?)</Name>", plain.ask(process.port, "GET", "").body) == [BUCKET.encode()]
    assert re.findall(b"<Key>(.*?)</Key>", plain.ask(process.port, "GET", BUCKET, query="list-type=2").body) == [key.encode() for key in sorted(bodies)]
    for key, body in bodies.items():
        assert plain.get(process.port, BUCKET, key).body == body, key
    assert plain.ask(process.port, "PUT", BUCKET, "new", body=b"new").status == 200
    users = subprocess.run([process.binary, "user", "ls", "--endpoint-url", process.endpoint], capture_output=True, text=True, env=forebay.server_env(), timeout=PATIENCE)
    assert "bob" in users.stdout, users.stderr
    process.end()


def hurt(path, damage):
    if DAMAGES[damage] is None:
        path.unlink()
    else:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))


def test_each_file_that_is_no_data(original, tmp_path):
    folder, bodies, keys = original
    names, kinds = state_files(folder), list(DAMAGES)
    print([str(name) for name in names])
    assert len(names) >= 8
    for number, name in enumerate(names):
        for damage in kinds if ALL else [kinds[(number + SEED) % len(kinds)]]:
            copy = tmp_path / "data"
            subprocess.run(["cp", "-a", "--sparse=always", str(folder), str(copy)], check=True)
            hurt(copy / name, damage)
            process, said = start(copy, tmp_path / "log")
            print(f"{name}, {damage}: {said or 'served'}")
            if process is None:
                shutil.copy2(folder / name, copy / name)
                process, said = start(copy, tmp_path / "log")
                assert process is not None, f"{name}, {damage}: put back, and still {said}"
            # Keys of which the file is gone are made again; a bit of a secret is another secret.
            has_everything(process, bodies, None if name.name == "credentials" else keys)
            shutil.rmtree(copy)
