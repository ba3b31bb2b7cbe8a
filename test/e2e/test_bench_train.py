"""`forebay bench train`: what it tells hangs together, whatever the machine; never how fast anything is. With bottlenecks made on purpose it
names them."""

import contextlib
import functools
import http.server
import json
import threading
import xml.etree.ElementTree as tree

import pytest
from test_cli_transfers import Cli

# A small model: 4 samples of 20 KB each 20 ms, so that one of them is easy to feed.
SMALL = ("--batch", "4", "--step", "20", "--sample", "20KB", "--data", "1MiB", "--duration", "700ms", "--probe", "100ms")
CEILINGS = {"network", "path", "disk", "server_cpu", "client_cpu", "machine_cpu", "backend", "in_flight"}


@pytest.fixture
def cli(server, tmp_path):
    return Cli(server, tmp_path)


def hangs_together(told):
    """What must hold of every result."""
    profile = told["profile"]
    for trial in told["trials"] + [told["roofline"]["judged"]]:
        assert 0 <= trial["au"] <= 1, trial
    for trial in told["trials"]:
        demand = trial["accelerators"] * profile["batch"] / (profile["step_ms"] / 1000)
        assert trial["samples_per_second"] <= demand * 1.01
        assert trial["passed"] == (trial["au"] >= profile["floor"])
        assert trial["errors"] == 0
        assert trial["au_of_worst"] <= trial["au"] + 1e-9
        wait = trial["batch_wait"]
        assert wait["p50_ms"] <= wait["p99_ms"] <= wait["max_ms"]
        assert trial["client_cpu_seconds"] > 0
    roofline = told["roofline"]
    assert set(roofline["ceilings"]) == CEILINGS
    for name, ceiling in roofline["ceilings"].items():
        assert ceiling["how"], name
        assert ceiling.get("samples_per_second", 1) > 0, name
    assert roofline["limit"] in CEILINGS | {"accelerators", "latency"}
    assert roofline["verdict"].endswith(".") and len(roofline["verdict"]) > 40
    if told["best"] is not None:
        passed = [t["accelerators"] for t in told["trials"] if t["passed"]]
        assert told["best"]["accelerators"] in passed
    return told


def test_epochs_at_a_number(cli, bucket, tmp_path):
    told = json.loads(cli("bench", "train", f"s3://{bucket}/x", *SMALL, "-a", "2", "--epochs", "3", "--svg", "roof.svg", "-q", "-o", "json"))
    hangs_together(told)
    assert [t.get("epoch") for t in told["trials"]] == [1, 2, 3]
    assert all(t["accelerators"] == 2 for t in told["trials"])
    for trial in told["trials"]:  # every file once, whole batches counted
        assert trial["requests"] == told["files"] == 52
        assert trial["bytes"] == told["data_bytes"] == 52 * 20_000
    ceilings = told["roofline"]["ceilings"]
    assert "not known" not in ceilings["server_cpu"]["how"]  # it may be hardly used
    assert ceilings["network"]["bytes_per_second"] > 1e6
    picture = tree.parse(tmp_path / "roof.svg").getroot()
    assert picture.tag.endswith("}svg")
    text = "".join(picture.itertext())
    assert "network" in text and told["roofline"]["verdict"][:30] in text
    assert cli("find", f"s3://{bucket}") == ""  # it cleans up behind itself


def test_the_largest_number(cli, bucket):
    told = hangs_together(json.loads(cli("bench", "train", f"s3://{bucket}", *SMALL, "--floor", "20", "--most", "3", "-q", "-o", "json")))
    tried = [t["accelerators"] for t in told["trials"] if "epoch" not in t]
    assert tried and set(tried) <= {1, 2, 3} and len(tried) == len(set(tried))
    failed = [t["accelerators"] for t in told["trials"] if "epoch" not in t and not t["passed"]]
    assert told["best"] is None or not failed or told["best"]["accelerators"] == min(failed) - 1
    text = cli("bench", "train", f"s3://{bucket}", *SMALL, "--most", "1", "-q")
    for says in ("epoch 1", "epoch 2", "try", "ceiling", "batch waits", "server CPU", "profile"):
        assert says in text or says == "batch waits", text


def test_shards_are_read_in_ranges(cli, bucket, s3):
    for i in range(3):
        s3.put_object(Bucket=bucket, Key=f"shards/{i}.tar", Body=b"\1" * 100_000)
    told = hangs_together(json.loads(cli("bench", "train", f"s3://{bucket}/shards/", *SMALL[:4], "--sample", "10KB", "--per-file", "10", "--request", "30KB", "--existing", "-a", "1", "--probe", "100ms", "-q", "-o", "json")))  # fmt: skip
    assert told["files"] == 3
    for trial in told["trials"]:
        assert trial["bytes"] <= 300_000 and trial["samples"] in (24, 28)  # 30 samples, 4 a step; the rest of the last batch is left
        assert trial["requests"] > 9


def test_too_few_readers_are_named(cli, bucket):
    # 100 samples a batch in 1 ms by one reader: no machine does that, and a request is always under way.
    told = json.loads(cli("bench", "train", f"s3://{bucket}", "--batch", "100", "--step", "0.5", "--sample", "2KB", "--data", "1MiB", "-r", "1", "-a", "1", "--probe", "100ms", "-q", "-o", "json"))  # fmt: skip
    assert told["roofline"]["judged"]["au"] < 0.9
    assert told["roofline"]["ceilings"]["in_flight"]["used"] > 0.8
    assert told["roofline"]["limit"] in CEILINGS
    assert told["best"] is None


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serve_files(root):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root))) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_plain_server_of_files(server, tmp_path):
    """It lists nothing and is no S3: names come from a file, sizes are asked for."""
    (tmp_path / "www/deep/down").mkdir(parents=True)
    for i in range(12):
        (tmp_path / f"www/deep/down/f{i}").write_bytes(bytes([i]) * 20_000)
    with serve_files(tmp_path / "www") as endpoint:
        there = Cli(server, tmp_path, endpoint=endpoint)
        (tmp_path / "names").write_text("".join(f"f{i}\n" for i in range(12)))
        told = hangs_together(json.loads(there("bench", "train", "s3://deep/down/", *SMALL[:6], "--keys", "names", "-a", "1", "--probe", "100ms", "-q", "-o", "json")))
        assert told["files"] == 12 and told["data_bytes"] == 240_000
        assert "samples_per_second" not in told["roofline"]["ceilings"]["server_cpu"]
        (tmp_path / "names").write_text("f1\nnone\n")
        there("bench", "train", "s3://deep/down/", *SMALL[:6], "--keys", "names", "-q", status=3)


@pytest.mark.parametrize(
    "flags, says",
    [
        (("--model", "vgg-1"), "there are retinanet-b200"),
        (("--step", "0"), "--step"),
        (("--step", "nan"), "--step"),
        (("--floor", "101"), "--floor"),
        (("--readers", "0"), "--readers"),
        (("--accelerators", "many"), "--accelerators"),
        (("--existing", "--data", "1GiB"), "--data is for what is made"),
        (("--files", "3"), "--files is for"),
        (("--keys", "not-there"), "not-there"),
        (("--models", "not-there"), "not-there"),
    ],
)
def test_what_is_wrong_is_said(cli, bucket, flags, says):
    cli("bench", "train", f"s3://{bucket}", *flags, status=2)
    assert says in cli.stderr


def test_nothing_there(cli, bucket):
    cli("bench", "train", f"s3://{bucket}/none", "--existing", status=3)
    assert "there is nothing to read" in cli.stderr
