"""The command line beside transfers: batch, bench, explain, completion, the manual page."""

import json
import subprocess
import threading
import time

import pytest
from rigs.process import PATIENCE
from test_cli_transfers import Cli


@pytest.fixture
def cli(server, tmp_path):
    return Cli(server, tmp_path)


def test_batch(cli, bucket, tmp_path):
    lines = []
    for i in range(200):
        (tmp_path / f"f {i}").write_bytes(b"x" * i)
        lines.append(f"cp 'f {i}' \"s3://{bucket}/f {i}\" # {i}")
    (tmp_path / "commands").write_text("\n".join(lines) + "\n\n# nothing\n")
    cli("batch", "-f", "commands", "-q")
    assert cli("du", f"s3://{bucket}").split()[:2] == [str(sum(range(200))), "200"]
    assert b"x" * 7 == cli("batch", "-q", input=f"cat 's3://{bucket}/f 7'\n".encode()).encode()
    cli("batch", "-k", input=f"rm 's3://{bucket}/f 1'\nfoo\nrm s3://{bucket}/'f 2\ncat s3://{bucket}/none\n".encode(), status=1)
    for says in ('line 2: "foo" cannot stand', "line 3: a quote is not closed", "line 4", "1 done, 3 failed"):
        assert says in cli.stderr, cli.stderr
    cli("batch", input=f"rm -r s3://{bucket}\n".encode(), status=2)  # nobody to ask
    assert "--yes" in cli.stderr


def test_explain(cli):
    assert "FOREBAY-E1203" in cli("explain", "e1203") and "exit" in cli("explain", "FOREBAY-E1203")
    assert "FOREBAY_CACHE__BUDGET" in cli("explain", "cache.budget")
    cli("explain", "nonsense", status=3)
    codes = [line.split()[0] for line in cli("explain").splitlines()]
    assert len(codes) == len(set(codes)) > 20


def test_completion(cli, bucket, s3):
    s3.put_object(Bucket=bucket, Key="dir/key", Body=b"")
    assert cli("completion", "words", "--", "sy") == "sync\n"
    assert "check" in cli("completion", "words", "--", "disk", "").split()
    assert "--dry-run" in cli("completion", "words", "--", "cp", "--dry").split()
    assert f"s3://{bucket}/" in cli("completion", "words", "--", "ls", f"s3://{bucket[:-1]}").split()
    assert cli("completion", "words", "--", "ls", f"s3://{bucket}/d") == f"s3://{bucket}/dir/\n"
    assert cli("completion", "words", "--", "ls", f"s3://{bucket}/dir/") == f"s3://{bucket}/dir/key\n"
    script = 'forebay() { "$BIN" "$@"; }; eval "$(forebay completion bash)"; COMP_LINE="forebay ls s3://$B/d"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(forebay ls "s3://$B/d"); COMP_CWORD=2; compopt() { :; }; _forebay; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script], env={**cli.env, "BIN": str(cli.binary), "B": bucket}, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == f"//{bucket}/dir/\n", done.stdout + done.stderr
    for shell in ("zsh", "fish"):
        assert "forebay completion words" in cli("completion", shell)
    cli("completion", "tcsh", status=2)


def test_the_manual_page(cli):
    page = cli("man")
    overview = cli("--help")
    for verb in ("sync", "batch", "bench", "disk\\ check", "explain"):
        assert f".SS {verb}" in page.replace("disk check", "disk\\ check"), verb
    assert "--max-delete" in page.replace("\\-", "-") and "sync" in overview


def test_bench_of_many_kinds(cli, bucket):
    mixed = json.loads(cli("bench", "mixed", f"s3://{bucket}", "--count", "300", "--objects", "50", "--size", "1KiB:50,2KiB-9KiB:50", "--seed", "7", "--json"))
    assert mixed["requests"] == 300 and mixed["errors"] == 0
    assert {"get", "put", "head", "list", "delete"} <= set(mixed) and mixed["get"]["p999_us"] > 0
    assert mixed["server_cpu_seconds"] >= 0
    epochs = json.loads(cli("bench", "get", f"s3://{bucket}", "--objects", "40", "--epochs", "3", "--json"))
    assert epochs["requests"] == 120
    open_loop = json.loads(cli("bench", "get", f"s3://{bucket}", "--objects", "10", "--rate", "100", "--count", "50", "--json"))
    assert open_loop["requests"] == 50 and open_loop["seconds"] >= 0.45
    cli("bench", "mixed", f"s3://{bucket}", "--mix", "get", status=2)
    cli("bench", "put", f"s3://{bucket}", "--epochs", "2", status=2)
    cli("bench", "get", f"s3://{bucket}", "--size", "9KiB-1KiB", status=2)
    assert cli("find", f"s3://{bucket}") == ""  # it cleans up behind itself


def test_ls_in_every_form(cli, s3, bucket):
    for key in ("a/1", "a/b/2", "c", "odd\x1b[2J"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"12345")
    assert cli("ls", f"s3://{bucket}").split("\n")[0].endswith("PRE a/")
    assert "odd\\x1b[2J" in cli("ls", f"s3://{bucket}")
    assert "827ccb0eea8a706c4c34a16891f84e7b" in cli("ls", "-l", f"s3://{bucket}/c")
    assert cli("ls", "--tree", f"s3://{bucket}/a/").split() == ["1", "b/", "2"]
    assert cli("ls", "-o", "name", f"s3://{bucket}/**2") == f"s3://{bucket}/a/b/2\n"
    assert [json.loads(line)["key"] for line in cli("ls", "-r", "-o", "jsonl", f"s3://{bucket}/a").splitlines()] == ["a/1", "a/b/2"]
    assert "4 objects, 20 B" in cli("ls", "-r", "--summarize", f"s3://{bucket}")
    assert json.loads(cli("ls", "--json", f"s3://{bucket}/none")) == []


def test_top(cli, bucket, s3):
    over = threading.Event()

    def read():
        while not over.is_set():
            s3.list_objects_v2(Bucket=bucket)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        view = json.loads(cli("top", "--once", "--json", "-i", "500ms"))
    finally:
        over.set()
        reader.join()
    assert view["requests_per_second"] > 0 and view["resident_bytes"] > 1e6 and "p99_ms" in view["operations"]["list"]
    assert "requests" in cli("top", "--once", "-i", "100ms")
    screen = cli.terminal("top", "-i", "200ms")
    screen.expect(b"requests/s").interrupt()
    assert screen.end() in (0, 7)


def test_trace(cli, bucket, s3, start_forebay, tmp_path):
    """What is asked for while somebody watches is told, without queries; who is no administrator sees nothing."""
    screen = cli.terminal("trace", "--bucket", bucket, "-o", "jsonl", "-n", "3")
    end = time.monotonic() + PATIENCE
    while screen.seen.count(b"\n") < 3 and time.monotonic() < end:
        s3.put_object(Bucket=bucket, Key="watched", Body=b"12345")
        s3.list_objects_v2(Bucket=bucket, Prefix="secret-prefix")
        screen._read(0.1)
    assert screen.end() == 0
    seen = [json.loads(line) for line in screen.seen.decode().splitlines()]
    assert len(seen) == 3 and {"PUT", "GET"} & {r["method"] for r in seen}
    put = next((r for r in seen if r["method"] == "PUT"), None)
    if put:
        assert put["path"] == f"/{bucket}/watched" and put["in"] == 5 and put["status"] == 200 and put["us"] > 0
    assert b"secret-prefix" not in screen.seen
    node = start_forebay(args=["--auth"])
    anonymous = Cli(node, tmp_path, node.endpoint)
    anonymous("trace", status=4)
