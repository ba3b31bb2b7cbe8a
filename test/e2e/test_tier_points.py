"""D5, D6: a server that dies as by kill -9 at a fault point of an eviction, a prefetch or a write-through gives out no wrong byte afterwards, and no
old version of what it acknowledged. What the remote has is the judge; the object whose write was under way may be either version, but the remote's."""

import hashlib
import http.client
import subprocess

import pytest
from rigs import forebay
from rigs.process import PATIENCE

import plain
from test_cold import PATIENT, attach

KIB = 1024
SIZES = (3 * KIB, 40 * KIB, 300 * KIB)  # in the log, in the log and in a body of its own

EVICT = ("record.delete", "log.before", "log.written", "log.synced", "commit.visible", "commit.answered")
PREFETCH = ("record.put", "body.reserved", "body.written", "log.written", "commit.visible")
THROUGH = ("record.doubt", "body.written", "log.before", "log.written", "log.synced", "commit.visible", "record.commit", "commit.answered")
CASES = [("evict", p) for p in EVICT] + [("prefetch", p) for p in PREFETCH] + [("write-through", p) for p in THROUGH]


def body_of(key, version):
    seed = hashlib.sha256(f"{key} {version}".encode()).digest()
    size = SIZES[int(key[1:]) % len(SIZES)]
    return (seed * (size // len(seed) + 1))[:size]


def cli(process, *args):
    env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint})
    return subprocess.run([str(a) for a in (process.binary, *args)], env=env, capture_output=True, text=True, timeout=PATIENCE)


def overwrite(process, bucket, keys):
    """Until the server is gone; the keys whose new version it acknowledged."""
    taken = set()
    for key in keys:
        try:
            if plain.ask(process.port, "PUT", bucket, key, body=body_of(key, 2)).status == 200:
                taken.add(key)
        except (OSError, http.client.HTTPException):
            break
    return taken


@pytest.mark.parametrize("what,point", CASES, ids=[f"{w}-{p}" for w, p in CASES])
def test_killed_in_the_middle(start_forebay, cloud, remote_s3, remote_bucket, what, point):
    keys = [f"k{n:03d}" for n in range(12)]
    process = start_forebay("node", settings=PATIENT)
    assert attach(process, remote_bucket, cloud.endpoint).returncode == 0
    for key in keys:
        remote_s3.put_object(Bucket=remote_bucket, Key=key, Body=body_of(key, 1))
    if what != "prefetch":
        done = cli(process, "prefetch", f"s3://{remote_bucket}/")
        assert done.returncode == 0, done.stdout + done.stderr
    process.end()

    process = start_forebay("node", settings=PATIENT, env={"FOREBAY_FAULT": f"{point}:{1 if what == 'evict' else 2}:kill"})
    taken = set()
    if what == "write-through":
        taken = overwrite(process, remote_bucket, keys)
    else:
        cli(process, what, f"s3://{remote_bucket}/", "--no-wait")
    assert process.popen.wait(PATIENCE) == -9, f"nobody passed {point}"

    process = start_forebay("node", settings=PATIENT)
    for _ in range(2):  # from wherever it is, and then from here
        for key in keys:
            there = remote_s3.get_object(Bucket=remote_bucket, Key=key)["Body"].read()
            got = plain.get(process.port, remote_bucket, key)
            assert got.status == 200 and got.body == there, key
            assert there == body_of(key, 2) if key in taken else there in (body_of(key, 1), body_of(key, 2)), key
    listed = {e["Key"] for e in remote_s3.list_objects_v2(Bucket=remote_bucket)["Contents"]}
    assert listed == set(keys)
    process.end()
