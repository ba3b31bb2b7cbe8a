"""`forebay bench train`: what it tells hangs together, whatever the machine; never how fast anything is. With bottlenecks made on purpose it
names them."""

import contextlib
import functools
import http.server
import json
import re
import threading
import time
import xml.etree.ElementTree as tree
from typing import ClassVar

import pytest
from rigs.fakeremote import FakeRemote

from conftest import REMOTE_KEYS
from test_cli_transfers import Cli
from test_cold import PATIENT, attach

# A small model: 4 samples of 20 KB each 20 ms, so that one of them is easy to feed.
SMALL = ("--batch", "4", "--step", "20", "--sample", "20KB", "--data", "1MiB", "--duration", "700ms", "--probe", "100ms")
CEILINGS = {"network", "path", "disk", "server_cpu", "client_cpu", "machine_cpu", "backend", "in_flight"}


@pytest.fixture
def cli(server, tmp_path):
    return Cli(server, tmp_path)


def hangs_together(told):
    """What must hold of every result."""
    profile = told["profile"]
    for trial in told["trials"] + [told["roofline"]["reported"]]:
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


def test_runs_behind_one_that_warms_up(cli, bucket):
    flags = (*SMALL, "--floor", "1", "--runs", "3", "--epochs", "0", "-q")
    told = hangs_together(json.loads(cli("bench", "train", f"s3://{bucket}", *flags, "--most", "2", "--from", "2", "-o", "json")))
    (measured,) = [t for t in told["trials"] if "runs" in t]
    assert measured["accelerators"] == told["best"]["accelerators"] and len(measured["runs"]) == 3
    rates = sorted(r["samples_per_second"] for r in measured["runs"])
    assert measured["spread"] == pytest.approx((rates[2] - rates[0]) / measured["samples_per_second"], abs=1e-6)
    assert measured["steady"] == (measured["spread"] <= 0.05)
    assert told["trials"][0]["accelerators"] == 2  # --from
    text = cli("bench", "train", f"s3://{bucket}", *flags, "-a", "1")  # a number of one's own is measured as well
    assert text.count("warm-up") == 1 and text.count("\nrun ") == 3, text
    assert "between 3 runs, behind one that warmed up" in text and "3 runs (one to warm up and 5 wanted)" in text


def test_columns_of_rows(cli, bucket):
    """What DLRM reads: of each row group the chunks of some columns."""
    told = json.loads(cli("bench", "train", f"s3://{bucket}", "--model", "dlrm-b200", "--batch", "1000", "--step", "20", "--per-file", "4000", "--data", "7MB", "-a", "1", "--probe", "100ms", "-q", "-o", "json"))  # fmt: skip
    assert told["files"] == 2 and told["data_bytes"] == 2 * 4000 * 761
    for trial in told["trials"]:
        assert trial["requests"] == 2 * 4 * 40  # chunks of 1,000 rows in 40 columns
        assert trial["bytes"] == 2 * 4000 * 160
        assert trial["samples"] == 2 * 4000


def test_several_loops_read_each_file_once(cli, bucket):
    told = hangs_together(json.loads(cli("bench", "train", f"s3://{bucket}", *SMALL, "-a", "3", "--loops", "3", "-q", "-o", "json")))
    assert told["loops"] == 3
    for trial in told["trials"]:
        assert trial["requests"] == 52 and trial["bytes"] == 52 * 20_000
    assert "of 3 cores" in told["roofline"]["ceilings"]["client_cpu"]["how"] or "hardly" in told["roofline"]["ceilings"]["client_cpu"]["how"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass


def test_the_second_epoch_asks_nobody_behind(start_forebay, tmp_path):
    """A slow source behind a Forebay: the first epoch comes from there, the second one from here, and the report names both."""
    with FakeRemote() as remote:
        remote.put("/remote", b"")
        body = b"\1" * 20_000
        for i in range(40):
            remote.put(f"/remote/k{i}", body)
            remote.on("GET", f"/remote/k{i}", lambda r: (time.sleep(0.05), r.server.remote.handlers.pop(("GET", r.path), None), r._object(r.server.remote)))
        process = start_forebay(settings=PATIENT)
        done = attach(process, "remote", remote.endpoint)
        assert done.returncode == 0, done.stdout + done.stderr
        there = Cli(process, tmp_path)
        (tmp_path / "names").write_text("".join(f"k{i}\n" for i in range(40)))
        told = hangs_together(json.loads(there("bench", "train", "s3://remote/", *SMALL[:6], "--keys", "names", "-a", "1", "--probe", "100ms", "-q", "-o", "json")))
        first, second = told["trials"]
        assert first["backend_bytes"] >= 40 * 20_000 and second["backend_bytes"] == 0
        assert first["bytes"] == second["bytes"] == 40 * 20_000
        assert first["seconds"] >= 40 / 8 * 0.05  # eight readers
        assert told["second_epoch_over_first"] == pytest.approx(second["bytes_per_second"] / first["bytes_per_second"])


# ---- checkpoints ----

# 2.1 MB of each of 8 ranks; or 21 MB of each of 3, in parts.
PLAIN = ("--model", "checkpoint-8b", "--scale", "1/6250", "--probe", "100ms", "-q", "-o", "json")
PARTS = ("--model", "checkpoint-8b", "--scale", "1/625", "-a", "3", "--request", "5MiB", "--probe", "100ms", "-q", "-o", "json")


@pytest.mark.parametrize("flags, share, ranks, requests", [(PLAIN, 2_100_000, 8, 1), (PARTS, 21_000_000, 3, 5)])
def test_a_checkpoint(cli, bucket, flags, share, ranks, requests):
    told = json.loads(cli("bench", "train", f"s3://{bucket}/x", *flags, "--runs", "2", "--loops", "2"))
    assert told["ranks"] == ranks and told["share_bytes"] == share and told["checkpoint_bytes"] == share * ranks
    for name in ("write", "read"):
        phase = told[name]
        assert phase["bytes"] == 2 * ranks * share and phase["errors"] == 0
        assert len(phase["runs"]) == 2
        assert phase["seconds"] == pytest.approx(share * ranks / phase["bytes_per_second"])
        assert phase["steady"] == (phase["spread"] <= 0.05)
        assert phase["rank"]["max_ms"] >= phase["request"]["p50_ms"]
        assert set(phase["roofline"]["ceilings"]) == CEILINGS
        assert phase["roofline"]["ceilings"]["disk"]["how"]
        assert phase["server_cpu_seconds"] > 0
    parts = 2 if requests > 1 else 0  # an upload begins and is completed
    assert told["write"]["requests"] == 2 * ranks * (requests + parts)
    assert told["read"]["requests"] == 2 * ranks * requests
    assert told["read"]["verified_bytes"] == 3 * ranks * share  # the one that warms up is compared too
    assert "bytes to disk for each" in told["write"]["roofline"]["ceilings"]["disk"]["how"]
    assert cli("find", f"s3://{bucket}") == ""  # it cleans up behind itself


def test_a_checkpoint_in_words(cli, bucket):
    text = cli("bench", "train", f"s3://{bucket}", *PLAIN[:-3], "-q", "--runs", "1")
    for says in ("1/6250 of its size: 8 ranks write 2.0 MiB each", "written", "read back", "ranks write", "content", "read back unchanged", "scaled"):
        assert says in text, text


def test_writers_beside_readers(cli, bucket):
    told = hangs_together(json.loads(cli("bench", "train", f"s3://{bucket}", *SMALL, "-a", "1", "--beside", "checkpoint-8b", "--scale", "1/100000", "-q", "-o", "json")))
    beside = told["beside"]
    assert beside["checkpoints"] > 0 and beside["bytes"] == beside["checkpoints"] * 1_050_000  # whole ones: 8 ranks of 131,250 bytes
    trial = beside["trial"]  # in 0.7 s; of a machine that stands still so long there may be no step
    assert trial["accelerators"] == 1 and 0 <= trial["au"] <= 1 and trial["samples"] == 4 * trial["steps"] <= trial["requests"]
    assert [t.get("epoch") for t in told["trials"]] == [1, 2]  # it is none of them
    assert cli("find", f"s3://{bucket}") == ""


def test_another_server(server, seaweed, remote_s3, remote_bucket, tmp_path):
    """Any S3 server: signed, in parts; what it does not tell is not known."""
    there = Cli(server, tmp_path, endpoint=seaweed.endpoint, env={"AWS_ACCESS_KEY_ID": REMOTE_KEYS[0], "AWS_SECRET_ACCESS_KEY": REMOTE_KEYS[1]})
    told = json.loads(there("bench", "train", f"s3://{remote_bucket}/x", *PARTS, "--runs", "1"))
    assert told["read"]["verified_bytes"] == 2 * 3 * 21_000_000
    assert "server_cpu_seconds" not in told["write"]
    assert "--disk" in told["write"]["roofline"]["ceilings"]["disk"]["how"]
    assert remote_s3.list_objects_v2(Bucket=remote_bucket)["KeyCount"] == 0


def test_many_ranks(cli, bucket):
    """More PUTs at once than the server may have room for: it says so, and they come again."""
    flags = ("--model", "checkpoint-1t", "--scale", "1/1000000", "--probe", "100ms", "--runs", "1", "-q", "-o", "json")
    told = json.loads(cli("bench", "train", f"s3://{bucket}", *flags))
    assert told["ranks"] == 1024 and told["write"]["bytes"] == told["read"]["bytes"] == 1024 * 17_578


class Liar(Quiet):
    """Keeps what is put, and gives one byte of it back otherwise."""

    kept: ClassVar[dict] = {}

    def do_PUT(self):
        body = bytearray(self.rfile.read(int(self.headers["Content-Length"])))
        body[len(body) // 2] ^= 1
        self.kept[self.path] = bytes(body)
        self.answer(200, b"", ETag='"x"')

    def do_GET(self):
        self.answer(200 if self.path in self.kept else 404, self.kept.get(self.path, b""))

    def do_DELETE(self):
        self.kept.pop(self.path, None)
        self.answer(204, b"")

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_content_that_came_back_otherwise_is_told(server, tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar) as liar:
        liar.daemon_threads = True
        threading.Thread(target=liar.serve_forever, daemon=True).start()
        there = Cli(server, tmp_path, endpoint=f"http://127.0.0.1:{liar.server_address[1]}")
        there("bench", "train", "s3://data", *PLAIN, "--runs", "1", status=6)
        assert "is not as it was written" in there.stderr
        liar.shutdown()
    assert Liar.kept == {}  # gone all the same


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
    assert told["roofline"]["reported"]["au"] < 0.9
    assert told["roofline"]["ceilings"]["in_flight"]["used"] > 0.8
    assert told["roofline"]["limit"] in CEILINGS
    assert told["best"] is None


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
        (("--loops", "0"), "--loops"),
        (("--memory", "1KiB"), "--memory"),
        (("--from", "9", "--most", "8"), "--from"),
        (("--scale", "1/10"), "--scale is for checkpoints"),
        (("--beside", "vgg-1"), "there are checkpoint-8b"),
        (("--model", "checkpoint-8b", "--scale", "2"), "--scale"),
        (("--model", "checkpoint-8b", "--scale", "1/0"), "--scale"),
        (("--model", "checkpoint-8b", "--scale", "1/1e18"), "leaves nothing"),
        (("--model", "checkpoint-8b", "--request", "1MiB"), "5 MiB at least"),
        (("--model", "checkpoint-8b", "--existing"), "--existing is not for a checkpoint"),
        (("--model", "dlrm-b200", "--sample", "100"), "160 bytes of each"),
    ],
)
def test_what_is_wrong_is_said(cli, bucket, flags, says):
    cli("bench", "train", f"s3://{bucket}", *flags, status=2)
    assert says in cli.stderr


def test_nothing_there(cli, bucket):
    cli("bench", "train", f"s3://{bucket}/none", "--existing", "--svg", "roof.svg", status=3)
    assert "no objects to read" in cli.stderr
    assert not (cli.cwd / "roof.svg").exists()  # no empty picture of what was not measured
    (cli.cwd / "old.svg").write_text("old")
    cli("bench", "train", f"s3://{bucket}/none", "--existing", "--svg", "old.svg", status=3)
    assert (cli.cwd / "old.svg").read_text() == "old"


def test_how_far_it_is_at_a_terminal(cli, bucket):
    """Of so many files that the first look at them comes long before the last one is made; then it is interrupted."""
    screen = cli.terminal("bench", "train", f"s3://{bucket}/x", *SMALL[:6], "--data", "2GB", "-a", "1", "--epochs", "1", "--probe", "100ms")
    screen.expect(b" of 100000")
    whole = screen.seen[: screen.seen.rindex(b" of 100000") + 10]  # the last line may be half there
    shown = re.findall(rb"made [0-9.]+ [KM]iB(.*?) of 100000", whole)
    assert shown and all(re.fullmatch(rb", \d+", behind) for behind in shown), shown
    screen.interrupt()
    screen.end()
