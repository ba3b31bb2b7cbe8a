"""A training job, as a store sees it: digits are read from an attached bucket, batch by batch, in random order, and held
against what was put there; meanwhile checkpoints and metrics are written to a bucket of our own, noted in a ledger."""

import pathlib
import random
import subprocess
import sys
import threading
import time

from . import forebay, ledger, plain, seaweed
from .process import PATIENCE, ROOT

sys.path.insert(0, str(ROOT / "demo"))
BUCKET = "digits"
CHECKPOINTS = (2_000, 40_000, 300_000, 3_000_000)  # metrics, a log, a small and a large state
WRITES = {"put": 70, "delete": 10, "delete-many": 5, "parts": 15}


class Remote(seaweed.Seaweed):
    """SeaweedFS that holds the digits; .objects: {key: bytes}."""

    def fill(self):
        import boto3  # noqa: PLC0415
        import botocore.config  # noqa: PLC0415
        import data  # noqa: PLC0415

        config = botocore.config.Config(s3={"addressing_style": "path"}, max_pool_connections=16)
        client = boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id=seaweed.ACCESS_KEY, aws_secret_access_key=seaweed.SECRET_KEY,
                              region_name="us-east-1", config=config)  # fmt: skip
        rows = data.samples()
        data.fill(client, BUCKET, rows)
        self.objects = {data.image_key(name, label): png for name, png, label in rows}
        return self


def attach(server, remote):
    env = forebay.server_env({"FOREBAY_ENDPOINT": server.endpoint, "AWS_ACCESS_KEY_ID": seaweed.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": seaweed.SECRET_KEY})
    command = [server.binary, "bucket", "attach", f"s3://{BUCKET}", "--endpoint", remote.endpoint, "--store-credentials"]
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"bucket attach ended with {done.returncode}: {done.stdout}{done.stderr}")


class Reader(threading.Thread):
    """Reads samples until told to stop or the server is gone. A wrong byte is an error for whoever joins."""

    def __init__(self, port, objects, seed):
        super().__init__(daemon=True)
        self.port, self.objects, self.rng = port, objects, random.Random(seed)
        self.stopping = threading.Event()
        self.read, self.failed, self.refused = 0, None, 0

    def run(self):
        keys = list(self.objects)
        while not self.stopping.is_set():
            key = self.rng.choice(keys)
            reply = plain.get(self.port, BUCKET, key, timeout=PATIENCE)
            if reply.status == 200 and reply.whole:
                self.read += 1
                if reply.body != self.objects[key]:
                    self.failed = ledger.Lost(f"{key}: {len(reply.body)} bytes that are not the sample's")
                    return
            elif reply.status == 0 or not reply.whole:
                return
            elif reply.status == 503:  # a busy machine, or a remote that gave no answer in time: come again
                self.refused += 1
            else:
                self.failed = ledger.Lost(f"{key}: {reply.status} {reply.body[:300]!r}")
                return


class Job:
    """Readers and writers at one server. stop() ends it in order, gone() after the server went away; before either, still_going()
    says that all of them were at work until then."""

    def __init__(self, server, remote, book, rng, readers=3):
        self.readers = [Reader(server.port, remote.objects, rng.random()) for _ in range(readers)]
        self.load = ledger.Load(server.port, book, rng, kinds=WRITES, sizes=CHECKPOINTS)
        for reader in self.readers:
            reader.start()

    def _join(self):
        for reader in self.readers:
            reader.join(PATIENCE)
            if reader.failed is not None:
                raise reader.failed
        return sum(reader.read for reader in self.readers)

    def still_going(self):
        self.load.still_going()
        for reader in self.readers:
            if reader.failed is not None:
                raise reader.failed
            if not reader.is_alive() or reader.read <= reader.refused:
                gone = "" if reader.is_alive() else ", and got no answer then"
                raise ledger.Stuck(f"a reader has read {reader.read} samples, was refused {reader.refused}{gone}")

    def gone(self):
        self.load.join()
        for reader in self.readers:
            reader.stopping.set()
        return self._join()

    def stop(self):
        for reader in self.readers:
            reader.stopping.set()
        self.load.stop()
        return self._join()


def read_all(server, remote):
    """Every sample once; all must come, right."""
    for key, png in remote.objects.items():
        reply = plain.get(server.port, BUCKET, key)
        if reply.status != 200 or reply.body != png:
            raise ledger.Lost(f"{key}: {reply.status}, {len(reply.body)} bytes")
    return len(remote.objects)


class Log:
    """What is said stands on the screen and in a file, with the seconds since the beginning."""

    def __init__(self, path):
        self.file = open(pathlib.Path(path), "w", buffering=1)  # noqa: SIM115
        self.begun = time.monotonic()

    def __call__(self, line):
        line = f"{time.monotonic() - self.begun:6.1f} s  {line}"
        print(line, flush=True)
        self.file.write(line + "\n")
