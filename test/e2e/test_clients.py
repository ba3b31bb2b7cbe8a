"""Other people's clients, as they come with Debian: AWS CLI 2.9, s3cmd, curl; and WebDataset over plain HTTP."""

import hashlib
import io
import os
import subprocess
import tarfile

import pytest
from rigs.process import PATIENCE, ROOT


def run(*command, env=None, status=0, input=None):
    done = subprocess.run([str(c) for c in command], env={**os.environ, **(env or {})}, capture_output=True, input=input, timeout=2 * PATIENCE)
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}"
    return done.stdout


# ---- AWS CLI ----


@pytest.fixture
def aws(server, tmp_path):
    """A function that runs `aws s3...` against `server`, with the keys file of the server."""
    env = {
        "AWS_SHARED_CREDENTIALS_FILE": str(server.data_dir / ".forebay/credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYTHONPATH": "",
    }
    return lambda *args, **more: run("/usr/bin/aws", "--endpoint-url", server.endpoint, *args, env=env, **more).decode()


def test_aws_cli(aws, tmp_path):
    (tmp_path / "up/deep").mkdir(parents=True)
    files = {"small": b"x" * 10, "deep/empty": b"", "deep/big": os.urandom(20_000_000), "ü b+c": b"odd"}
    for name, body in files.items():
        (tmp_path / "up" / name).write_bytes(body)
        os.utime(tmp_path / "up" / name, (1_700_000_000,) * 2)  # older than its object, which has whole seconds
    aws("s3", "mb", "s3://cli")
    aws("s3", "cp", "--no-progress", tmp_path / "up/deep/big", "s3://cli/one")  # multipart
    aws("s3", "sync", "--no-progress", tmp_path / "up", "s3://cli/tree")
    listed = aws("s3", "ls", "--recursive", "s3://cli/")
    assert [line.split(None, 3)[3] for line in listed.splitlines()] == ["one", "tree/deep/big", "tree/deep/empty", "tree/small", "tree/ü b+c"]
    aws("s3", "sync", "--no-progress", "s3://cli/tree", tmp_path / "down")
    for name, body in files.items():
        assert (tmp_path / "down" / name).read_bytes() == body
    assert aws("s3", "sync", "--no-progress", tmp_path / "up", "s3://cli/tree") == ""  # nothing left to do
    assert '"ContentLength": 20000000' in aws("s3api", "head-object", "--bucket", "cli", "--key", "one")
    aws("s3api", "get-object", "--bucket", "cli", "--key", "one", "--range", "bytes=5-9", tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == files["deep/big"][5:10]
    url = aws("s3", "presign", "s3://cli/tree/small").strip()
    assert run("curl", "-sf", url) == files["small"]
    aws("s3", "rm", "--recursive", "--quiet", "s3://cli/")
    aws("s3", "rb", "s3://cli")
    assert "cli" not in aws("s3", "ls")


def test_aws_cli_streams_from_a_pipe(aws):
    """A body of unknown length."""
    body = os.urandom(12_000_000)
    aws("s3", "mb", "s3://pipe")
    aws("s3", "cp", "-", "s3://pipe/k", input=body)
    assert aws("s3api", "list-objects-v2", "--bucket", "pipe", "--query", "Contents[0].Size").strip() == str(len(body))


# ---- s3cmd ----


@pytest.fixture
def s3cmd(server, tmp_path):
    access_key, secret_key = server.keys()
    config = tmp_path / "s3cfg"
    config.write_text(
        f"[default]\naccess_key = {access_key}\nsecret_key = {secret_key}\nhost_base = 127.0.0.1:{server.port}\n"
        f"host_bucket = 127.0.0.1:{server.port}\nuse_https = False\nmultipart_chunk_size_mb = 5\n"
    )
    return lambda *args: run("/usr/bin/s3cmd", "--config", config, "--no-progress", *args).decode()


def test_s3cmd(s3cmd, tmp_path):
    body = os.urandom(12_000_000)
    (tmp_path / "file").write_bytes(body)
    s3cmd("mb", "s3://s3cmd-bucket")
    s3cmd("put", tmp_path / "file", "s3://s3cmd-bucket/dir/file")  # multipart
    assert "s3://s3cmd-bucket/dir/file" in s3cmd("ls", "-r", "s3://s3cmd-bucket")
    assert str(len(body)) in s3cmd("info", "s3://s3cmd-bucket/dir/file")
    s3cmd("get", "s3://s3cmd-bucket/dir/file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == body
    s3cmd("del", "-r", "-f", "s3://s3cmd-bucket/dir")
    s3cmd("rb", "s3://s3cmd-bucket")
    assert "s3cmd-bucket" not in s3cmd("ls")


# ---- curl ----


def test_curl_signs(server, s3, bucket, tmp_path):
    """curl 7.88 sends x-amz-content-sha256 only if told to, as real S3 wants it for a PUT."""
    sign = ["curl", "-sS", "--fail-with-body", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", ":".join(server.keys())]
    s3.put_object(Bucket=bucket, Key="dir/a b.txt", Body=b"body")
    assert run(*sign, f"{server.endpoint}/{bucket}/dir/a%20b.txt") == b"body"
    assert b"<Name>" in run(*sign, f"{server.endpoint}/{bucket}?list-type=2&prefix=dir")
    for payload in ("UNSIGNED-PAYLOAD", hashlib.sha256(b"put").hexdigest()):
        run(*sign, "-X", "PUT", "-H", f"x-amz-content-sha256: {payload}", "--data-binary", "@-", f"{server.endpoint}/{bucket}/put", input=b"put")
        assert run(*sign, f"{server.endpoint}/{bucket}/put") == b"put"
    wrong = [*sign[:-1], f"{server.keys()[0]}:wrong"]
    assert b"SignatureDoesNotMatch" in run(*wrong, f"{server.endpoint}/{bucket}/dir/a%20b.txt", status=22)


def test_curl_reads_and_writes_unsigned_on_loopback(server, bucket):
    body = os.urandom(2_000_000)
    url = f"{server.endpoint}/{bucket}/plain"
    run("curl", "-sSf", "-X", "PUT", "--data-binary", "@-", url, input=body)
    assert run("curl", "-sSf", url) == body
    run("curl", "-sSf", "-T", "-", url + "-chunked", input=body)  # chunked, Expect: 100-continue
    assert run("curl", "-sSf", url + "-chunked") == body
    assert run("curl", "-sSf", "-r", "100-199", url) == body[100:200]
    assert b"200 OK" in run("curl", "-sSfI", url)


# ---- WebDataset ----


def test_webdataset_writes_and_reads_shards(server, bucket, tmp_path):
    """Shards go up by a chunked PUT from a pipe, and come back as WebDataset opens them: by curl."""
    base = f"{server.endpoint}/{bucket}/shards"
    script = tmp_path / "shards.py"
    script.write_text(
        "import sys, webdataset as wds\n"
        "base = sys.argv[1]\n"
        "for shard in range(3):\n"
        "    with wds.TarWriter(f'pipe:curl -sSf -T - {base}/s-{shard:06d}.tar') as sink:\n"
        "        for i in range(50):\n"
        "            sink.write({'__key__': f'{shard:02d}{i:04d}', 'cls': i % 10, 'bin': bytes([shard, i]) * 1000})\n"
        "urls = base + '/s-{000000..000002}.tar'\n"
        "samples = list(wds.WebDataset(urls, shardshuffle=False).decode())\n"
        "assert len(samples) == 150, len(samples)\n"
        "assert [s['__key__'] for s in samples] == [f'{n // 50:02d}{n % 50:04d}' for n in range(150)]\n"
        "assert all(s['bin'] == bytes([n // 50, n % 50]) * 1000 for n, s in enumerate(samples))\n"
        "print('ok')\n"
    )
    assert run(ROOT / ".venv/bin/python", script, base).decode().endswith("ok\n")
    plain = run("curl", "-sSf", f"{base}/s-000001.tar")
    assert len(tarfile.open(fileobj=io.BytesIO(plain)).getnames()) == 100
