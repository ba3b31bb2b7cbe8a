"""A server that is killed under load, and then one bit of a file flips: of a log, the index, a superblock, the node's state. What
it answers after the start is what was acknowledged, or an error: D1, D4, I5. And ordinary use leaves a disk that the check calls
sound: I3."""

import http.client
import os
import random
import subprocess

import pytest
from rigs import forebay, ledger
from rigs.process import PATIENCE, Ended

import plain
from conftest import boto

ROUNDS = int(os.environ.get("FLIPS", "1"))  # of each test; `make soak`: 40
SEED = int(os.environ.get("SEED", "20261124"))
SIZES = (0, 700, 20_000, 262_145)
KINDS = {"put": 60, "delete": 14, "delete-many": 4, "only-if-new": 4, "copy": 4}


def files_below(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size > 0 and not p.name.startswith("ballast"))


def flip_a_bit(rng, disks):
    """In a log, the index, a file that describes the disk, or the node's state: of one disk. Says where."""
    disk = rng.choice(disks)
    where = rng.choice(("native", "native", "native", "index", ".forebay", ".forebay/node"))
    if where == ".forebay/node":
        disk = next(d for d in disks if (d / where).exists())
    files = [p for p in files_below(disk / where) if where != ".forebay" or "node" not in p.relative_to(disk).parts]
    files = [p for p in files if p.name not in ("credentials", "lock.mdb")]
    path = rng.choice(files)
    size = path.stat().st_size
    bit = rng.randrange(min(size, 200_000 if rng.random() < 0.7 else size) * 8)
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))
    return f"{path.relative_to(disk.parent)}, byte {bit // 8}, bit {bit % 8}"


def errors_in(port, book):
    """Each key is as acknowledged, or an error; a list has all of them, or is an error. How many are errors."""
    errors, there, connection = [], {}, http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for key, entry in book.entries().items():
        reply = plain.get(port, book.bucket, key, connection=connection)
        if reply.status in (200, 404) and reply.whole:
            found = book._match(key, entry, reply)
            if found is not None:
                there[key] = found.size
        else:
            assert reply.status >= 500 or not reply.whole, (key, reply)
            errors.append(key)
    try:
        listed = book.listing(port)
    except ledger.Lost as lost:
        assert "listing answered 5" in str(lost), lost
        errors.append("the list")
    else:
        for key in set(listed) ^ set(there):  # of a key in error the list may say what is acknowledged
            assert key in errors and (key not in listed or listed[key] in [w.size for w in book.entries()[key].possible() if w]), key
    return errors


@pytest.mark.parametrize("disks", [1, 3])
def test_a_bit_flips_in_a_killed_server(start_forebay, tmp_path, disks):
    rng = random.Random(SEED * 10 + disks)
    refused = in_error = 0
    for number in range(ROUNDS):
        folders = [tmp_path / f"{number}-{d}" for d in range(disks)]
        args = [str(f) for f in folders[1:]]
        book = ledger.Ledger(writers=3, keys=8)
        process = start_forebay(folders[0].name, args=args)
        assert plain.ask(process.port, "PUT", book.bucket).status == 200
        if disks > 1:
            set_copies = [str(process.binary), "bucket", "set", f"s3://{book.bucket}", "--copies", "2", "--endpoint-url", process.endpoint]
            subprocess.run(set_copies, check=True, env=forebay.server_env(), capture_output=True)
        load = ledger.Load(process.port, book, rng, kinds=KINDS, sizes=SIZES)
        load.wait_acks(rng.randint(40, 150))
        process.kill_alive()
        load.join()
        where = flip_a_bit(rng, folders)
        print(f"round {number} of seed {SEED}: {where}")
        try:
            process = start_forebay(folders[0].name, args=args)
        except Ended as ended:
            assert ended.status > 0, f"{where}: {ended}"  # no signal: a sentence
            refused += 1
            continue
        in_error += bool(errors_in(process.port, book))
        process.kill_alive()
        process = start_forebay(folders[0].name, args=args)
        in_error += bool(errors_in(process.port, book))
        process.kill()
        for folder in folders:
            subprocess.run(["rm", "-r", str(folder)], check=True)
    print(f"{disks} disks: {ROUNDS} rounds, {refused} starts refused, {in_error} looks with errors")


def use_versions(client, rng, bucket):
    """What users of versions do, at random."""
    key = f"k{rng.randrange(6)}"
    kind = rng.choices(("put", "large", "delete", "version", "tag", "copy", "parts", "suspend", "enable"), (30, 4, 14, 20, 6, 4, 6, 2, 4))[0]
    if kind in ("put", "large"):
        client.put_object(Bucket=bucket, Key=key, Body=rng.randbytes(300_000 if kind == "large" else rng.randrange(9000)))
    elif kind == "delete":
        client.delete_object(Bucket=bucket, Key=key)
    elif kind == "version":
        page = client.list_object_versions(Bucket=bucket, Prefix=key)
        some = page.get("Versions", []) + page.get("DeleteMarkers", [])
        for one in rng.sample(some, min(len(some), rng.randrange(1, 4))):
            client.delete_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])
    elif kind in ("suspend", "enable"):
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended" if kind == "suspend" else "Enabled"})
    elif kind == "parts":
        upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        at = {"Bucket": bucket, "Key": key, "UploadId": upload}
        tags = [client.upload_part(**at, PartNumber=n, Body=rng.randbytes(5 << 20 if n == 1 else 1000))["ETag"] for n in (1, 2)]
        if rng.random() < 0.5:
            client.abort_multipart_upload(**at)
        else:
            client.complete_multipart_upload(**at, MultipartUpload={"Parts": [{"PartNumber": n + 1, "ETag": t} for n, t in enumerate(tags)]})
    else:
        there = [o["Key"] for o in client.list_objects_v2(Bucket=bucket).get("Contents", [])]
        if there and kind == "tag":
            client.put_object_tagging(Bucket=bucket, Key=rng.choice(there), Tagging={"TagSet": [{"Key": "a", "Value": str(rng.random())}]})
        elif [other for other in there if other != key]:
            there = [other for other in there if other != key]
            client.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": rng.choice(there)})


def test_ordinary_use_stays_sound(start_forebay, tmp_path):
    """Versions, markers, uploads, restarts and kills, small segments that are compacted: the check finds no fault, online and stopped."""
    rng = random.Random(SEED)
    for number in range(ROUNDS + 1):
        process = start_forebay(settings={"disk.segment_bytes": "16MiB"})
        client = boto(process.endpoint, process.keys())
        for bucket in ("plain", "versioned"):
            if number == 0:
                client.create_bucket(Bucket=bucket)
            for _ in range(60):
                use_versions(client, rng, bucket)
        process.kill() if number % 2 else process.end()
        check = [str(process.binary), "disk", "check", str(process.data_dir)]
        checked = subprocess.run(check, capture_output=True, text=True, env=forebay.server_env({"TMPDIR": str(tmp_path)}))
        assert checked.returncode == 0, f"round {number} of seed {SEED}: {checked.stdout}{checked.stderr}"
