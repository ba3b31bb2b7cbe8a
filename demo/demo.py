#!/usr/bin/env python3
"""make demo: a model is trained four ways from one bucket that is far away.

A SeaweedFS server plays the remote; a proxy before it adds a cloud's latency and bandwidth. Forebay stands in front
and has the bucket attached. All of it runs on loopback, in .demo, and is gone afterwards (--keep leaves the logs).
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "demo")]

import boto3  # noqa: E402
import botocore.config  # noqa: E402
import data  # noqa: E402
import train  # noqa: E402
from rigs import cloud, forebay, seaweed  # noqa: E402

HOME = ROOT / ".demo"
BUCKET = "digits"
REMOTE_KEYS = (seaweed.ACCESS_KEY, seaweed.SECRET_KEY)
LATENCY_MS, MIB_S = 25, 50  # to the first byte, and of each stream: an object store in the same region
EPOCHS, WORKERS, SEED = 3, 4, 7
GOOD_ACCURACY = 0.85  # less after three epochs means that it was fed something else than digits


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="leave logs and data in .demo")
    parser.add_argument("--direct-only", action="store_true", help="train straight from the remote only; needs no build")
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name in [name for name in os.environ if name.startswith(("AWS_", "FOREBAY_")) and name != "FOREBAY_BIN"]:
        del os.environ[name]  # a person's own keys and endpoints have no part in this
    shutil.rmtree(HOME, ignore_errors=True)  # of a run that was killed
    HOME.mkdir()
    try:
        return run(args)
    except KeyboardInterrupt:
        print("\ndemo: stopped; servers and data are gone")
        return 130
    finally:
        if not args.keep:
            shutil.rmtree(HOME, ignore_errors=True)


def run(args):
    rows = data.samples()
    print(f"remote: SeaweedFS, seen from {LATENCY_MS} ms away at {MIB_S} MiB/s a stream")
    with seaweed.Seaweed(HOME / "seaweed") as remote:
        remote.wait_ready()
        objects, size = data.fill(boto(remote.endpoint), BUCKET, rows)
        print(f"bucket: s3://{BUCKET}, {objects} objects, {size / 1e6:.1f} MB: {len(rows)} digits as PNG files, and again as shards")
        with cloud.Cloud(remote, HOME, LATENCY_MS, MIB_S) as far:
            far.wait_ready()
            if args.direct_only:
                return report(direct(far), rows)
            with forebay.Forebay(HOME / "forebay", HOME, build="rel") as server:
                server.wait_ready()
                attach(server, far)
                print(f"forebay: {server.endpoint}, s3://{BUCKET} attached\n")
                figures = through(server, far) + direct(far)
                server.end()
    return report(figures, rows)


def through(server, far):
    """Trains from Forebay: object by object, then a batch in a request, then from shards, each read cold once."""
    loader = train.object_loader(server.endpoint, server.keys(), BUCKET, WORKERS, SEED)
    figures = measure("objects through Forebay", loader, far)
    command(server, "evict", f"s3://{BUCKET}/images/")  # cold again
    batches = train.batch_loader(server.endpoint, server.keys(), BUCKET, WORKERS, SEED)
    figures += measure("batches through Forebay", batches, far)
    # What people type: brace ranges, plain HTTP.
    last = data.shard_count(len(loader.dataset)) - 1
    shards = f"{server.endpoint}/{BUCKET}/shards/digits-{{{0:06d}..{last:06d}}}.tar"
    return figures + measure("shards through Forebay", train.shard_loader(shards, WORKERS, SEED), far)


def direct(far):
    return measure("objects from the remote", train.object_loader(far.endpoint, REMOTE_KEYS, BUCKET, WORKERS, SEED), far)


def attach(server, far):
    """The one command that puts Forebay in front of a bucket; the keys it hands over are the remote's."""
    command(server, "bucket", "attach", f"s3://{BUCKET}", "--endpoint", far.endpoint, "--store-credentials")


def command(server, *words):
    env = forebay.server_env({
        "FOREBAY_ENDPOINT": server.endpoint,
        "AWS_ACCESS_KEY_ID": REMOTE_KEYS[0],
        "AWS_SECRET_ACCESS_KEY": REMOTE_KEYS[1],
    })  # fmt: skip
    done = subprocess.run([str(server.binary), *words], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"forebay {words[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")


def measure(way, loader, far):
    """Trains and notes each epoch, with what the remote was asked for meanwhile."""
    figures = []
    far.forget()

    def after_epoch(number, epoch):
        counted = far.forget()
        epoch.update(way=way, number=number)
        epoch["gets"] = counted["requests"].get("GetObject", 0)
        epoch["remote_bytes"] = counted["bytes_out"].get("GetObject", 0)
        figures.append(epoch)
        print(f"  {way}, epoch {number}: {epoch['seconds']:.1f} s", flush=True)

    train.train(loader, EPOCHS, SEED, after_epoch)
    return figures


def report(figures, rows):
    """Prints the table; 1 if what it shows is not what Forebay is for."""
    print(f"\n{'':26}{'epoch':>6}{'seconds':>9}{'samples/s':>11}{'remote GETs':>13}{'remote bytes':>14}{'accuracy':>10}")
    way = None
    for f in figures:
        name = f["way"] if f["way"] != way else ""
        way = f["way"]
        print(f"{name:26}{f['number']:>6}{f['seconds']:>9.2f}{f['samples'] / f['seconds']:>11,.0f}"
              f"{f['gets']:>13,}{f['remote_bytes']:>14,}{f['accuracy']:>9.1%}")  # fmt: skip
    wrong = list(complaints(figures, data.checksum(png for _, png, _ in rows), len(rows)))
    for sentence in wrong:
        print(f"demo: {sentence}", file=sys.stderr)
    cold, warm = (next((f for f in figures if "Forebay" in f["way"] and f["number"] == n), None) for n in (1, 2))
    if cold and not wrong:
        print(f"\nEpoch 1 fetched each object once. From epoch 2 on the remote was asked for nothing: it took "
              f"{warm['seconds']:.1f} s instead of {cold['seconds']:.1f} s.")  # fmt: skip
        batches = [f["seconds"] for f in figures if f["way"].startswith("batches")]
        print(f"A batch of {train.BATCH} samples in one request: {batches[0]:.1f} s cold, {min(batches[1:]):.1f} s local, in the same random order.\n"
              "Every epoch of every way read the same bytes.")  # fmt: skip
        print("\nWhere to look next: README.md (a server of your own, a bucket of your own), demo/train.py (the loops),\n"
              "ARCHITECTURE.md (how a GET runs), `make demo KEEP=1` (leaves the logs in .demo), `make check`.")  # fmt: skip
    return 1 if wrong else 0


def complaints(figures, checksum, count):
    for f in figures:
        where = f"{f['way']}, epoch {f['number']}"
        if f["samples"] != count or f["checksum"] != checksum:
            yield f"{where}: {f['samples']} samples, checksum {f['checksum']}; wanted {count}, {checksum}"
        if "Forebay" in f["way"] and f["number"] > 1 and (f["remote_bytes"] or f["gets"]):
            yield f"{where}: {f['remote_bytes']} bytes in {f['gets']} GETs from the remote; wanted none"
        if f["number"] == EPOCHS and f["accuracy"] < GOOD_ACCURACY:
            yield f"{where}: accuracy {f['accuracy']:.3f}, wanted {GOOD_ACCURACY}"


def boto(endpoint):
    config = botocore.config.Config(s3={"addressing_style": "path"}, max_pool_connections=16)
    return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=REMOTE_KEYS[0], aws_secret_access_key=REMOTE_KEYS[1],
                        region_name="us-east-1", config=config)  # fmt: skip


if __name__ == "__main__":
    begun = time.monotonic()
    status = main()
    if status == 0:
        print(f"demo: {time.monotonic() - begun:.0f} s, cleaned up")
    sys.exit(status)
