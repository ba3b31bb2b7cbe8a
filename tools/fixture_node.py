#!/usr/bin/env python3
"""fixture_node.py PROGRAM: makes test/fixtures/node-COMMIT: the whole state of a node of two disks, as PROGRAM leaves it when it is
killed. fixture.py keeps what segments must hold for ever; this keeps everything else that a later program finds: index, memtable still in
the log, list of disks, users, bucket settings, an attached bucket with a cached object and a write in doubt, a finished job.
test/e2e/test_fixtures_node.py opens each one."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
PROGRAM = os.environ["FOREBAY_BIN"] = str(pathlib.Path(sys.argv[1]).resolve())
from rigs import forebay  # noqa: E402

sys.path.insert(0, str(ROOT / "test/e2e"))
from conftest import boto  # noqa: E402

ALIGN = 4096
SETTINGS = {"disk.segment_bytes": "16MiB", "index.map_size": "64MiB"}


def body(name, size):
    line = f"{name} of the node fixture\n".encode()
    return (line * (size // len(line) + 1))[:size]


def run(process, *words):
    access, secret = process.keys()
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "FOREBAY_ENDPOINT": process.endpoint, "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def fill_remote(remote):
    client = boto(remote.endpoint, remote.keys())
    client.create_bucket(Bucket="far")
    for key in ("cached", "in-doubt", "not-cached"):
        client.put_object(Bucket="far", Key=key, Body=body(key, 70_000))


def fill(process, remote):
    """What a test may ask for: {"objects": {bucket/key: sha256}, ...}."""
    client, objects = boto(process.endpoint, process.keys()), {}

    def put(bucket, key, content, **more):
        client.put_object(Bucket=bucket, Key=key, Body=content, **more)
        objects[f"{bucket}/{key}"] = hashlib.sha256(content).hexdigest()

    client.create_bucket(Bucket="one")
    client.create_bucket(Bucket="two")
    run(process, "bucket", "set", "s3://two", "--copies", "2")
    run(process, "bucket", "set", "s3://one", "--quota-bytes", "1GiB", "--anonymous-read", "on")
    for bucket in ("one", "two"):
        for size in (0, 100, 40_000, 300_000):
            put(bucket, f"size/{size}", body(f"{bucket} {size}", size))
        put(bucket, "tagged", b"tagged", Tagging="colour=green", Metadata={"kept": "yes"})
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        client.put_object(Bucket=bucket, Key="versioned", Body=b"older")
        put(bucket, "versioned", b"newer")
        client.delete_object(Bucket=bucket, Key="size/100")
        del objects[f"{bucket}/size/100"]
        upload = client.create_multipart_upload(Bucket=bucket, Key="unfinished")["UploadId"]
        client.upload_part(Bucket=bucket, Key="unfinished", UploadId=upload, PartNumber=3, Body=b"three")
    run(process, "user", "add", "alice", "-g", "read,list:s3://one")
    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = remote.keys()
    access, secret = remote.keys()
    credentials = process.data_dir.parent / "aws-credentials"
    credentials.write_text(f"[far]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n")
    os.environ["AWS_SHARED_CREDENTIALS_FILE"] = str(credentials)
    env = os.environ | {"FOREBAY_ENDPOINT": process.endpoint}
    words = [PROGRAM, "bucket", "attach", "s3://far", "--endpoint", remote.endpoint, "--network", "any", "--store-credentials"]
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"attach: {done.stdout}{done.stderr}")
    run(process, "prefetch", "s3://far/cached")
    objects["far/cached"] = hashlib.sha256(body("cached", 70_000)).hexdigest()
    client.get_object(Bucket="far", Key="in-doubt")["Body"].read()
    return objects


def trim(folder):
    for path in folder.rglob("*.tar"):
        data = path.read_bytes().rstrip(b"\0")
        os.truncate(path, (len(data) + 2 * ALIGN) // ALIGN * ALIGN)
    for path in (*folder.rglob("lock.mdb"), *folder.rglob("ballast")):
        path.unlink()


def main():
    program = subprocess.run([PROGRAM, "version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        with forebay.Forebay(scratch / "remote", log_dir=scratch / "log-remote") as remote:
            remote.wait_ready()
            fill_remote(remote)
            (scratch / "disk2").mkdir()
            with forebay.Forebay(scratch / "disk1", log_dir=scratch / "log", args=(scratch / "disk2",), settings=SETTINGS) as process:
                process.wait_ready()
                told = {"program": program, "objects": fill(process, remote)}
                remote.kill()
                try:
                    boto(process.endpoint, process.keys()).put_object(Bucket="far", Key="in-doubt", Body=b"outcome unknown")
                    sys.exit("a PUT was acknowledged without its remote")
                except Exception as error:  # botocore's, whatever its class: there is no remote
                    told["in_doubt"] = str(error)
                os.kill(process.popen.pid, signal.SIGKILL)
                process.popen.wait()
        target = ROOT / "test/fixtures" / f"node-{sys.argv[2] if len(sys.argv) > 2 else '1'}"
        target.mkdir(parents=True)
        for disk in ("disk1", "disk2"):
            trim(scratch / disk)
        with tarfile.open(target / "data.tar.xz", "w:xz", preset=9) as tar:
            for disk in ("disk1", "disk2"):
                tar.add(scratch / disk, disk)
        (target / "objects.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    print(f"{target}: {sum(f.stat().st_size for f in target.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
