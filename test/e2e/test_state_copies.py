"""The disk with the node's state is lost: a start on the others has buckets, users, keys and objects (D4, I5)."""

import shutil
import subprocess

from rigs import forebay
from rigs.process import PATIENCE

import plain
from conftest import boto
from test_disks import check_all, cli, disks, put_all, converged


def refused(*folders):
    done = subprocess.run([forebay.binary(), "serve", *map(str, folders), "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 4, done.stderr
    return done.stderr


def test_the_disk_with_the_state_is_lost(start_forebay, tmp_path):
    a, b, c = (tmp_path / name for name in "abc")
    for folder in (b, c):
        folder.mkdir()
    process = start_forebay("a", args=(str(b), str(c)))
    keys = process.keys()
    client = boto(process.endpoint, keys)
    client.create_bucket(Bucket="copies")
    cli(process, "bucket", "set", "s3://copies", "--copies", "2")
    put_all(client, "copies", range(20))
    client.create_bucket(Bucket="last")  # nothing is written behind it: its copies are there when it is answered
    converged(process)
    process.kill()

    a.rename(tmp_path / "away")
    assert "is missing: name its folder too" in refused(b, c)
    process = start_forebay("c", args=(str(b), "--without", str(a)))
    assert process.keys() == keys
    client = boto(process.endpoint, keys)
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["copies", "last"]
    check_all(client, "copies", range(20))
    client.create_bucket(Bucket="later")
    converged(process)
    put_all(client, "copies", range(20, 30))
    process.end()

    # What was lost is back, and knows nothing of all that: the state that went on is the node's.
    (tmp_path / "away").rename(a)
    process = start_forebay("a", args=(str(b), str(c)))
    client = boto(process.endpoint, keys)
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["copies", "last", "later"]
    check_all(client, "copies", range(30))
    converged(process)
    check_all(client, "copies", range(30))
    process.end()

    # And once more, with another one gone.
    holder, left = (b, c) if (b / ".forebay/node/identity").exists() else (c, b)
    shutil.rmtree(holder)
    process = start_forebay(left.name, args=(str(a), "--without", str(holder)))
    client = boto(process.endpoint, keys)
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["copies", "last", "later"]
    check_all(client, "copies", range(30))


def test_two_histories_are_refused(start_forebay, tmp_path):
    """Each of two disks went on without the other: the server does not guess which one is right."""
    a, b = tmp_path / "a", tmp_path / "b"
    b.mkdir()
    start_forebay("a", args=(str(b),)).end()
    a.rename(tmp_path / "away")
    start_forebay("b", args=("--without", str(a))).end()
    b.rename(tmp_path / "kept")
    (tmp_path / "away").rename(a)
    start_forebay("a", args=("--without", str(b))).end()
    (tmp_path / "kept").rename(b)
    assert "both hold the state of a node" in refused(a, b)


def test_a_copy_with_a_flipped_bit_is_not_taken(start_forebay, tmp_path):
    a, b, c = (tmp_path / name for name in "abc")
    for folder in (b, c):
        folder.mkdir()
    process = start_forebay("a", args=(str(b), str(c)))
    assert plain.ask(process.port, "PUT", "bucket").status == 200
    process.end()
    shutil.rmtree(a)
    for folder in (b, c):
        file = folder / ".forebay/node.copy"
        assert file.stat().st_mode & 0o777 == 0o600
        whole = bytearray(file.read_bytes())
        if folder == b:
            whole[len(whole) // 2] ^= 1
            file.write_bytes(whole)
    process = start_forebay("b", args=(str(c), "--without", str(a)))
    assert plain.ask(process.port, "HEAD", "bucket").status == 200
    assert (c / ".forebay/node/identity").exists() and not (b / ".forebay/node").exists()
    assert [disk["state"] for disk in disks(process)["disks"]].count("out") == 1
    process.end()
    shutil.rmtree(c)
    text = (b / ".forebay/node.copy").read_bytes()
    (b / ".forebay/node.copy").write_bytes(text[:-3])
    assert "none of these disks holds the node's state" in refused(b)


def test_the_disk_with_the_state_is_rolled_back(start_forebay, tmp_path):
    """Its own list was rolled back with it: the copies on the other disks say so, and the start is refused in words."""
    a, b, c = (tmp_path / name for name in "abc")
    for folder in (b, c):
        folder.mkdir()
    process = start_forebay("a", args=(str(b), str(c)))
    keys = process.keys()
    client = boto(process.endpoint, keys)
    client.create_bucket(Bucket="copies")
    cli(process, "bucket", "set", "s3://copies", "--copies", "2")
    put_all(client, "copies", range(20))
    converged(process)
    process.end()
    shutil.copytree(a, tmp_path / "snapshot")

    process = start_forebay("a", args=(str(b), str(c)))
    client = boto(process.endpoint, keys)
    client.create_bucket(Bucket="later")
    for number in range(10):
        client.delete_object(Bucket="copies", Key=client.list_objects_v2(Bucket="copies", MaxKeys=1)["Contents"][0]["Key"])
    left = [row["Key"] for row in client.list_objects_v2(Bucket="copies")["Contents"]]
    converged(process)
    process.end()

    shutil.rmtree(a)
    (tmp_path / "snapshot").rename(a)
    words = refused(a, b, c)
    assert "was rolled back to a snapshot" in words and f"--without {a}" in words
    process = start_forebay("c", args=(str(b), "--without", str(a)))
    client = boto(process.endpoint, keys)
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["copies", "later"]
    assert [row["Key"] for row in client.list_objects_v2(Bucket="copies")["Contents"]] == left
    for key in left:
        assert client.get_object(Bucket="copies", Key=key)["Body"].read()
