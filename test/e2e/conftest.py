"""Fixtures of the end-to-end tests: real clients, real servers, all on loopback.

    server         one Forebay for a test file: no password, as on loopback
    start_forebay  a function that starts more, with flags; each is ended and its log read after the test
    s3             boto3 (newest) at `server`, signed
    seaweed        SeaweedFS, one for the run
    cloud          a cloudproxy in front of it, one for the test
    remote_s3      boto3 straight at SeaweedFS
    fake           a remote whose answers the test writes

The server is build/dev/forebay (ASan, UBSan), or FOREBAY_BIN. A sanitizer's report in a log fails the test.
"""

import itertools
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
for name in [name for name in os.environ if name.startswith(("AWS_", "FOREBAY_")) and name not in ("AWS_CA_BUNDLE", "FOREBAY_BIN")]:
    del os.environ[name]
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

import boto3  # noqa: E402
import botocore.config  # noqa: E402
import pytest  # noqa: E402
from rigs import cloud as cloud_rig  # noqa: E402
from rigs import fakeremote, forebay, seaweed as seaweed_rig  # noqa: E402
from lanes import pytest_runtestloop  # noqa: E402, F401


def boto(endpoint, keys, **config):
    """A boto3 client; no retries, so that a test sees what the server said first."""
    config = {"signature_version": "s3v4", "retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}, "max_pool_connections": 256, **config}
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
        region_name="us-east-1",
        config=botocore.config.Config(**config),
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with forebay.Forebay(tmp_path_factory.mktemp("server") / "data") as process:
        process.wait_ready()
        yield process
        process.end()


@pytest.fixture
def start_forebay(tmp_path):
    started = []

    def start(name="data", **options):
        process = forebay.Forebay(tmp_path / name, log_dir=tmp_path / f"log-{name}", **options)
        started.append(process)
        return process.wait_ready()

    yield start
    for process in started:
        if process.popen.poll() is None:
            process.end()
        process.check_log()


@pytest.fixture(scope="module")
def s3(server):
    return boto(server.endpoint, server.keys())


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory):
    with seaweed_rig.Seaweed(tmp_path_factory.mktemp("seaweed")) as process:
        yield process.wait_ready()


@pytest.fixture(scope="session")
def remote_s3(seaweed):
    return boto(seaweed.endpoint, REMOTE_KEYS)


@pytest.fixture
def cloud(seaweed, tmp_path):
    with cloud_rig.Cloud(seaweed, tmp_path) as process:
        yield process.wait_ready()


@pytest.fixture
def fake():
    with fakeremote.FakeRemote() as remote:
        yield remote


REMOTE_KEYS = (seaweed_rig.ACCESS_KEY, seaweed_rig.SECRET_KEY)


bucket_numbers = itertools.count(1)


def new_bucket(client, node):
    """A bucket named after the test, and no two alike."""
    words = re.sub("[^a-z0-9]+", "-", node.name.removeprefix("test_").lower())[:40].strip("-")
    name = f"{words}-{next(bucket_numbers)}"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def bucket(s3, request):
    """A new bucket at `server`."""
    return new_bucket(s3, request.node)


@pytest.fixture
def remote_bucket(remote_s3, request):
    """A new bucket at SeaweedFS."""
    return new_bucket(remote_s3, request.node)
