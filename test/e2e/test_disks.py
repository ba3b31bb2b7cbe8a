"""Several disks, and copies over them: D4, D8, F2 and C6 as far as one node goes."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import time

import pytest
from rigs import faults, forebay, ledger
from rigs.process import PATIENCE, Patience

import plain
from conftest import boto

KILLS = int(os.environ.get("KILLS", "10")) // 2  # `make soak`: 50
SEED = int(os.environ.get("SEED", "20261121"))


def cli(process, *args, status=0):
    """`forebay ARGS` against a server; its output, and what it said where it was refused."""
    done = subprocess.run(
        [forebay.binary(), *args, "--endpoint-url", process.endpoint],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=forebay.server_env(),
    )
    assert done.returncode == status, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def disks(process):
    return json.loads(cli(process, "disk", "ls", "--json"))


def converged(process):
    patience = Patience()
    while True:
        now = disks(process)
        if now["converged"] and now["repairs_waiting"] == 0:
            return now
        assert not patience.is_over(), f"not converged: {now}"
        time.sleep(0.2)


def body(number):
    """Small ones lie in logs, large ones in bodies."""
    size = 300_000 + number * 1000 if number % 5 == 0 else 100 + number * 700
    return random.Random(number).randbytes(size)


def put_all(client, bucket, numbers):
    for number in numbers:
        client.put_object(Bucket=bucket, Key=f"k{number:03}", Body=body(number), Metadata={"n": str(number)})


def check_all(client, bucket, numbers):
    for number in numbers:
        answer = client.get_object(Bucket=bucket, Key=f"k{number:03}")
        assert answer["Body"].read() == body(number), f"k{number:03}"
        assert answer["Metadata"] == {"n": str(number)}
    keys = [row["Key"] for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 7}) for row in page["Contents"]]
    assert keys == [f"k{number:03}" for number in numbers]


def test_kills_with_two_copies(start_forebay, tmp_path):
    """D1, D3, D4: kill -9 under load on three disks with two copies, and each time another disk is left out of reads at the end."""
    rng = random.Random(SEED)
    book = ledger.Ledger(writers=4)
    folders = [tmp_path / name for name in ("b", "c")]
    for folder in folders:
        folder.mkdir()
    for kill in range(KILLS):
        process = start_forebay("a", args=[str(folder) for folder in rng.sample(folders, 2)])
        if kill == 0:
            assert plain.ask(process.port, "PUT", book.bucket).status == 200
            cli(process, "bucket", "set", f"s3://{book.bucket}", "--copies", "2")
        book.resolve(process.port)
        load = ledger.Load(process.port, book, rng)
        load.wait_acks(rng.randint(11, 50))
        process.kill()
        load.join()
    process = start_forebay("a", args=[str(folder) for folder in folders])
    book.resolve(process.port)
    converged(process)  # a delete that was cut may be seen on one disk only until then (D4 is about a clean set)
    process.end()
    lost, left = rng.sample(folders, 2)
    process = start_forebay("a", args=[str(left), "--without", str(lost)])
    book.resolve(process.port)
    assert book.acks > KILLS * 10


@pytest.fixture
def three(start_forebay, tmp_path):
    """A server on three folders, a client, and a bucket with two copies."""
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
    process = start_forebay("a", args=(str(tmp_path / "b"), str(tmp_path / "c")))
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="copies")
    cli(process, "bucket", "set", "s3://copies", "--copies", "2")
    return process, client


def test_disks_come_and_go_under_load(start_forebay, tmp_path):
    """D8, C6: add, drain, remove while a ledger writes; nothing is lost, nothing comes back, and the removed disk is refused."""
    rng = random.Random(SEED)
    book = ledger.Ledger(writers=4)
    (tmp_path / "b").mkdir()
    process = start_forebay("a", args=(str(tmp_path / "b"),))
    assert plain.ask(process.port, "PUT", book.bucket).status == 200
    load = ledger.Load(process.port, book, rng)
    load.wait_acks(50)
    cli(process, "disk", "add", "--create", str(tmp_path / "c"))
    load.wait_acks(50)
    cli(process, "disk", "remove", str(tmp_path / "b"), status=4)  # in use
    cli(process, "disk", "drain", str(tmp_path / "b"), "--no-wait")
    load.wait_acks(50)
    load.stop()
    now = converged(process)
    assert [disk["state"] for disk in now["disks"]] == ["active", "drained", "active"]
    book.resolve(process.port)
    cli(process, "disk", "remove", str(tmp_path / "b"))
    book.resolve(process.port)
    assert book.acks > 100
    process.end()

    refused = subprocess.run([forebay.binary(), "serve", tmp_path / "a", tmp_path / "b", tmp_path / "c", "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 4 and "was removed" in refused.stderr
    refused = subprocess.run([forebay.binary(), "serve", tmp_path / "a", "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 4 and "is missing: name its folder too" in refused.stderr
    again = start_forebay("a", args=(str(tmp_path / "c"),))
    book.resolve(again.port)


def test_files_of_one_disk_are_deleted_under_the_server(three, tmp_path):
    """D4: every object still reads, and a pass brings the second copies back."""
    process, client = three
    numbers = range(30)
    put_all(client, "copies", numbers)
    for file in (tmp_path / "b/native").iterdir():
        file.unlink()
    check_all(client, "copies", numbers)
    put_all(client, "copies", range(30, 40))
    check_all(client, "copies", range(40))


def flip(folder):
    """One bit in each 4 KiB of what is not zero, behind the header of each segment; the server reads by O_DIRECT."""
    flipped = 0
    for file in sorted(pathlib.Path(folder).iterdir()):
        data = bytearray(file.read_bytes()[: 8 << 20])
        with open(file, "r+b") as out:
            for at in range(9000, len(data), 4096):
                if data[at]:
                    out.seek(at)
                    out.write(bytes([data[at] ^ 0x10]))
                    flipped += 1
            os.fsync(out.fileno())
    return flipped


def test_bits_of_one_disk_are_flipped_under_the_server(three, start_forebay, tmp_path):
    """D4, F2, I1: every read is right, what was read is repaired, and after a scrub that disk alone has everything that was on it."""
    process, client = three
    numbers = range(40)
    put_all(client, "copies", numbers)
    assert flip(tmp_path / "b/native") > 20
    for _ in range(2):
        check_all(client, "copies", numbers)
    assert converged(process)["repaired"] > 0
    check_all(client, "copies", numbers)


def test_a_lost_disk(three, start_forebay, tmp_path):
    """D4, D8, C6: a disk is gone at the start: refused in words, left out on purpose, made good, ended; an old one that comes back is refused."""
    process, client = three
    numbers = range(30)
    put_all(client, "copies", numbers)
    client.create_bucket(Bucket="single")
    put_all(client, "single", numbers)
    process.end()
    (tmp_path / "b").rename(tmp_path / "kept")
    (tmp_path / "b").mkdir()
    command = [forebay.binary(), "serve", tmp_path / "c", tmp_path / "a", tmp_path / "b", "--listen", "127.0.0.1:0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 4 and "not mounted" in refused.stderr and "--without" in refused.stderr

    process = start_forebay("a", args=(str(tmp_path / "c"), "--without", str(tmp_path / "b")))
    client = boto(process.endpoint, process.keys())
    check_all(client, "copies", numbers)
    lost = 0
    for number in numbers:
        status = plain.ask(process.port, "GET", f"single/k{number:03}").status
        assert status in (200, 503)  # never 404: unknown
        lost += status == 503
    assert 0 < lost < len(numbers)
    assert plain.ask(process.port, "GET", "single", query="list-type=2").status == 503
    converged(process)
    looked = cli(process, "doctor", status=1).splitlines()
    (at,) = (number for number, line in enumerate(looked) if f"{tmp_path / 'b'} is failed" in line)
    assert looked[at].startswith("WRONG  disk") and "forebay disk remove" in looked[at + 1] and "drain" not in looked[at + 1]
    assert "only copy" in cli(process, "disk", "remove", str(tmp_path / "b"), status=4)
    cli(process, "disk", "remove", str(tmp_path / "b"), "--force")
    now = converged(process)
    assert [disk["state"] for disk in now["disks"]] == ["active", "active"]
    check_all(client, "copies", numbers)
    assert sum(plain.ask(process.port, "GET", f"single/k{number:03}").status == 404 for number in numbers) == lost
    process.end()

    shutil.rmtree(tmp_path / "b")
    (tmp_path / "kept").rename(tmp_path / "b")
    refused = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 4 and "was removed from this node" in refused.stderr


def test_a_slow_disk_is_read_around(start_forebay, tmp_path):
    """F3: with a copy elsewhere no read waits for a disk that takes seconds. How few reads are asked twice sim_hedge checks, in virtual time: of a
    machine that stutters all disks are slow."""
    page = faults.DiskFaults(tmp_path / "faults")
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
    process = start_forebay("a", args=(str(tmp_path / "b"), str(tmp_path / "c")), env=page.env, settings={"memory.block_cache": "0"})
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="copies")
    cli(process, "bucket", "set", "s3://copies", "--copies", "2")
    numbers = range(1, 60)
    put_all(client, "copies", numbers)
    check_all(client, "copies", numbers)  # learns what is usual
    before = process.metrics()["forebay_reads_hedged_total"]
    page.break_(faults.READ, error=0, disk=2, delay_us=5_000_000)
    begun = time.monotonic()
    for _ in range(3):
        check_all(client, "copies", numbers)
    took, hedged = time.monotonic() - begun, process.metrics()["forebay_reads_hedged_total"] - before
    assert hedged > 0, "no read met the slow disk"
    waited = len(numbers) * 5  # by who reads each object of a third of them once, and thrice, from there
    assert took < waited / 2, f"{took:.1f} s; each read of that disk takes 5 s, and a third of the objects lies there first"
    page.mend()


def test_what_moves_is_told_as_a_job(start_forebay, tmp_path):
    """D6, D10: changing copies is a job: listed, with progress, waited for; a kill in the middle of it, and it ends at the next start. So are drains."""
    (tmp_path / "b").mkdir()
    process = start_forebay("a", args=(str(tmp_path / "b"), "--set=disk.rebalance_rate=64KiB"))
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="copies")
    put_all(client, "copies", range(20))
    client.put_object(Bucket="copies", Key="large", Body=bytes(32 << 20))  # of which the copy takes eight minutes
    job = json.loads(cli(process, "bucket", "set", "s3://copies", "--copies", "2", "--json"))["job"]
    told = json.loads(cli(process, "jobs", job, "--json"))
    assert told["kind"] == "copies" and told["state"] in ("waiting", "running", "idle") and "2 copies" in told["what"], told
    assert f"{job}  copies" in cli(process, "jobs")
    assert "cannot be cancelled" in cli(process, "cancel", job, status=2)
    process.kill()

    process = start_forebay("a", args=(str(tmp_path / "b"),))
    assert f"{job} done" in cli(process, "wait", job)
    patience = Patience()
    while [disk["objects"] for disk in disks(process)["disks"]] != [21, 21]:  # some seconds old
        assert not patience.is_over(), disks(process)
        time.sleep(0.2)
    told = json.loads(cli(process, "jobs", job, "--json"))
    assert told["state"] == "done" and told["objects"] == told["total"] > 0 and told["failed"] == 0, told

    assert "done" in cli(process, "bucket", "set", "s3://copies", "--copies", "1", "--wait")
    drained = json.loads(cli(process, "disk", "drain", str(tmp_path / "b"), "--no-wait", "--json"))["job"]
    assert f"{drained} done" in cli(process, "wait", drained)
    told = json.loads(cli(process, "jobs", drained, "--json"))
    assert told["kind"] == "drain" and told["what"] == str(tmp_path / "b") and told["bytes"] > 0, told
    client = boto(process.endpoint, process.keys())
    client.delete_object(Bucket="copies", Key="large")
    check_all(client, "copies", range(20))
    reply = plain.ask(process.port, "POST", "_/jobs", body=b'{"kind": "copies", "args": {"bucket": "copies", "copies": 2}}')
    assert reply.status == 400 and b"PATCH" in reply.body


def test_what_is_wrong_with_disks_is_said(start_forebay, tmp_path):
    """D8: a disk of another cluster in the place of one of ours is named as what it is; and what was typed wrong is quoted."""
    process = start_forebay("other", args=(str(tmp_path / "foreign"),))
    process.end()
    process = start_forebay("a", args=(str(tmp_path / "b"),))
    boto(process.endpoint, process.keys()).create_bucket(Bucket="copies")
    assert "2 of the node's disks take objects" in cli(process, "bucket", "set", "s3://copies", "--copies", "3", status=2)
    cli(process, "bucket", "set", "s3://copies", "--copies", "3", "--min-copies", "2")
    assert "/proc/none" in cli(process, "disk", "add", "/proc/none", status=3)
    assert '"ghost" is no disk of this node' in cli(process, "disk", "drain", "ghost", status=3)
    process.end()
    shutil.rmtree(tmp_path / "b")
    shutil.copytree(tmp_path / "foreign", tmp_path / "b")
    done = subprocess.run([process.binary, "serve", process.data_dir, tmp_path / "b", "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE, env=forebay.server_env())
    assert done.returncode == 4 and "disk of another cluster" in done.stderr, done.stderr
