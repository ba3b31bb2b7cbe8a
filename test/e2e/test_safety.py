"""Safe to expose: TLS and its renewal, reload, users and their grants, what the audit log holds, and where secrets are not."""

import base64
import contextlib
import datetime
import hmac
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
import uuid

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError
from rigs import forebay
from rigs.process import PATIENCE, http_get

from conftest import boto


def cli(server, *args, status=0, keys=None, env=None):
    """Runs `forebay` as the server's administrator, or with (key, secret[, token])."""
    key = keys or server.keys()
    environment = forebay.server_env({"FOREBAY_ENDPOINT": server.endpoint, "AWS_ACCESS_KEY_ID": key[0], "AWS_SECRET_ACCESS_KEY": key[1], **(env or {})})
    if len(key) > 2:
        environment["AWS_SESSION_TOKEN"] = key[2]
    done = subprocess.run([str(a) for a in (server.binary, *args)], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    for word in forebay.BAD_WORDS:
        assert word not in done.stderr, done.stderr
    assert done.returncode == status, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def make_key(server, *args, keys=None):
    made = json.loads(cli(server, *args, "--json", keys=keys))
    return tuple(made[n] for n in ("access_key", "secret_key", "session_token") if n in made)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that asks everybody, with an audit log."""
    folder = tmp_path_factory.mktemp("guarded")
    with forebay.Forebay(folder / "data", args=["--auth"], settings={"log.audit": folder / "audit.jsonl", "log.access": "true"}) as process:
        process.audit = folder / "audit.jsonl"
        process.wait_ready()
        yield process
        process.end()


# ---- TLS ----


@pytest.fixture
def pair(tmp_path):
    """(certificate, key) made by `forebay tls selfsign`, and a function that makes them again."""

    def make():
        subprocess.run([str(forebay.binary()), "tls", "selfsign", "--force", "--cert", tmp_path / "tls.crt", "--key", tmp_path / "tls.key"], check=True, capture_output=True)
        return tmp_path / "tls.crt", tmp_path / "tls.key"

    make()
    return make


def test_s3_over_tls(start_forebay, pair):
    """S9: HTTPS with the certificate that `tls selfsign` made; plain HTTP is not answered."""
    server = start_forebay(tls=pair(), args=["--auth"])
    certificate = server.tls[0]
    assert f"https://127.0.0.1:{server.port}" in server.log()
    s3 = boto3.client("s3", endpoint_url=server.endpoint, aws_access_key_id=server.keys()[0], aws_secret_access_key=server.keys()[1], region_name="us-east-1", verify=str(certificate), config=botocore.config.Config(signature_version="s3v4"))
    s3.create_bucket(Bucket="over-tls")
    body = os.urandom(9_000_000)
    s3.put_object(Bucket="over-tls", Key="k", Body=body)  # aws-chunked with a trailer
    assert s3.get_object(Bucket="over-tls", Key="k")["Body"].read() == body
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "over-tls", "Key": "k"})
    assert subprocess.run(["curl", "-sSf", "--cacert", certificate, url], capture_output=True, check=True).stdout == body
    assert "over-tls" in cli(server, "ls", env={"AWS_CA_BUNDLE": str(certificate)})
    assert "over-tls" in cli(server, "ls", "--ca-bundle", certificate)
    assert "certificate" in cli(server, "ls", status=4)
    assert f"AWS_CA_BUNDLE='{certificate}'" in cli(server, "env", "--ca-bundle", os.path.relpath(certificate))  # wherever one stands later
    assert "with TLS?" in cli(server, "ls", "--endpoint-url", "https://127.0.0.1:1", status=5)
    assert "without TLS?" in cli(server, "ls", "--endpoint-url", f"http://127.0.0.1:{server.port}", status=5)
    assert "over-tls" in cli(server, "ls", "--no-verify-tls")
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        plain.sendall(b"GET /_/livez HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"200" not in plain.recv(100)


@pytest.mark.parametrize("options", ({}, {"args": ["--auth"]}, {"tls": True, "address": "0.0.0.0"}), ids=("loopback", "keys", "tls-everywhere"))
def test_the_line_to_try_can_be_pasted(start_forebay, pair, tmp_path, options):
    """What the server prints to type next works unchanged, also where it listens on all addresses."""
    address = options.get("address", "127.0.0.1")
    server = start_forebay(tls=pair() if "tls" in options else None, args=options.get("args", ()), address=address)
    server.wait_until(lambda: "Try: " in server.log(), PATIENCE, "say what to try")
    line = next(line for line in server.log().splitlines() if line.startswith("Try: ")).removeprefix("Try: ")
    assert "0.0.0.0" not in line
    (tmp_path / "README.md").write_text("hello")
    env = forebay.server_env({"HOME": str(tmp_path)})
    done = subprocess.run(["bash", "-ec", f"{line}; {server.binary} cat s3://test/README.md"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and done.stdout.endswith("hello"), done.stdout + done.stderr


def test_old_tls_is_refused(start_forebay, pair):
    """S9: 1.2 at least, AEAD only."""
    server = start_forebay(tls=pair())

    def shake(**wish):
        context = ssl.create_default_context(cafile=str(server.tls[0]))
        context.minimum_version = wish.get("version", ssl.TLSVersion.TLSv1_2)
        context.maximum_version = wish.get("version", ssl.TLSVersion.TLSv1_3)
        context.set_ciphers(wish.get("ciphers", "DEFAULT") + ":@SECLEVEL=0")
        with socket.create_connection(("127.0.0.1", server.port)) as s, context.wrap_socket(s, server_hostname="localhost") as t:
            return t.version(), t.cipher()[0]

    assert shake()[0] == "TLSv1.3"
    version, cipher = shake(version=ssl.TLSVersion.TLSv1_2)
    assert version == "TLSv1.2" and ("GCM" in cipher or "CHACHA20" in cipher)
    for wish in ({"version": ssl.TLSVersion.TLSv1_1}, {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "AES128-SHA"}, {"version": ssl.TLSVersion.TLSv1_2, "ciphers": "ECDHE-ECDSA-AES128-SHA"}):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            shake(**wish)


def serial(server, cafile):
    context = ssl.create_default_context(cafile=str(cafile))
    with socket.create_connection(("127.0.0.1", server.port)) as s, context.wrap_socket(s, server_hostname="localhost") as t:
        return t.getpeercert()["serialNumber"]


def test_a_certificate_is_renewed_without_dropping_anybody(start_forebay, pair, tmp_path):
    """S9: a changed file is taken, a bad one is not, and a connection that is open stays."""
    server = start_forebay(tls=pair())
    first = serial(server, server.tls[0])
    shutil.copy(server.tls[0], tmp_path / "old.crt")
    context = ssl.create_default_context(cafile=str(server.tls[0]))
    with socket.create_connection(("127.0.0.1", server.port)) as s, context.wrap_socket(s, server_hostname="localhost") as kept:
        pair()
        server.wait_until(lambda: "tls.renewed" in server.log(), PATIENCE, "take the new certificate")
        assert serial(server, server.tls[0]) != first
        second = serial(server, server.tls[0])
        kept.sendall(b"GET /_/livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in kept.recv(1000)
    shutil.copy(server.tls[0], tmp_path / "second.crt")
    pathlib.Path(server.tls[0]).write_text("no certificate")
    server.wait_until(lambda: "tls.not_renewed" in server.log(), PATIENCE, "refuse the bad certificate")
    assert serial(server, tmp_path / "second.crt") == second
    server.tls = (tmp_path / "second.crt", server.tls[1])  # for the fixture's own requests


def test_off_loopback_with_tls_needs_no_switch(pair, tmp_path):
    process = subprocess.Popen(
        [str(forebay.binary()), "serve", tmp_path / "data", "--listen", "0.0.0.0:0", "--set=disk.segment_bytes=64MiB", "--set=index.map_size=1GiB", "--tls-cert", pair()[0], "--tls-key", pair()[1]],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=forebay.server_env(),
    )  # fmt: skip
    try:
        lines = []
        while not any("https://0.0.0.0:" in line for line in lines):
            line = process.stdout.readline()
            assert line, "".join(lines)
            lines.append(line)
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(timeout=PATIENCE) == 0


# ---- reload ----


def test_reload_is_all_or_nothing(start_forebay, tmp_path):
    users, conf = tmp_path / "users", tmp_path / "forebay.toml"

    def write_users(name, secret):
        users.write_text(f"[{name}]\naws_access_key_id = KEYOF{name.upper()}\naws_secret_access_key = {secret}\n")
        users.chmod(0o600)

    def reload(event):
        before = server.log().count(event)
        server.popen.send_signal(signal.SIGHUP)
        server.wait_until(lambda: server.log().count(event) > before, PATIENCE, f"log {event}")

    write_users("anna", "a-secret")
    conf.write_text(f'credentials = "{users}"\n[log]\nlevel = "info"\n')
    server = start_forebay(args=["--config", conf, "--auth"])
    anna, bert = boto(server.endpoint, ("KEYOFANNA", "a-secret")), boto(server.endpoint, ("KEYOFBERT", "b-secret"))
    anna.create_bucket(Bucket="reloaded")
    with pytest.raises(ClientError):
        bert.list_buckets()

    write_users("bert", "b-secret")
    conf.write_text(f'credentials = "{users}"\ns3.region = "eu-1"\n[log]\nlevel = "debug"\naccess = true\n')
    reload("conf.reloaded")
    assert [b["Name"] for b in bert.list_buckets()["Buckets"]] == ["reloaded"]
    with pytest.raises(ClientError):
        anna.list_buckets()
    server.wait_until(lambda: "conf.waits" in server.log(), PATIENCE, "say what waits for a restart")
    said = [line for line in server.log().splitlines() if "event=conf." in line]
    assert any("conf.changed" in line and "option=log.level" in line for line in said), said
    assert any("conf.waits" in line and "option=s3.region" in line for line in said), said
    server.wait_until(lambda: "event=http.request" in server.log(), what="log a request")

    users.chmod(0o644)  # others can read it: refused, and nothing else of the file is taken
    conf.write_text(f'credentials = "{users}"\n[log]\nlevel = "error"\n')
    reload("conf.not_reloaded")
    assert "mode 0644" in server.log()
    assert bert.list_buckets()["Buckets"]
    conf.write_text('log.level = "loud"\n')
    reload("conf.not_reloaded")
    assert bert.list_buckets()["Buckets"]
    server.wait_until(lambda: server.log().count("event=http.request") > 1, what="log requests still")


# ---- users ----


def test_users_and_grants(guarded):
    admin = boto(guarded.endpoint, guarded.keys())
    admin.create_bucket(Bucket="shards")
    for key in ("train/1", "val/1"):
        admin.put_object(Bucket="shards", Key=key, Body=b"x")
    keys = make_key(guarded, "user", "add", "alice", "-g", "read,list:s3://shards/train/")
    alice = boto(guarded.endpoint, keys)
    assert alice.get_object(Bucket="shards", Key="train/1")["Body"].read() == b"x"
    assert [o["Key"] for o in alice.list_objects_v2(Bucket="shards", Prefix="train/")["Contents"]] == ["train/1"]
    for call in (
        lambda: alice.get_object(Bucket="shards", Key="val/1"),
        lambda: alice.list_objects_v2(Bucket="shards"),
        lambda: alice.put_object(Bucket="shards", Key="train/2", Body=b""),
        lambda: alice.copy_object(Bucket="shards", Key="train/2", CopySource="shards/val/1"),
        lambda: alice.create_bucket(Bucket="mine"),
    ):
        with pytest.raises(ClientError) as refused:
            call()
        assert refused.value.response["Error"]["Code"] == "AccessDenied"
    assert "read,list on s3://shards/train/" in cli(guarded, "user", "ls")
    cli(guarded, "user", "grant", "alice", "write", "s3://shards/train/")
    alice.put_object(Bucket="shards", Key="train/2", Body=b"")
    # a batch deletes what may be deleted, and says which may not
    answer = alice.delete_objects(Bucket="shards", Delete={"Objects": [{"Key": "train/2"}, {"Key": "val/1"}]})
    assert [d["Key"] for d in answer["Deleted"]] == ["train/2"]
    assert [(e["Key"], e["Code"]) for e in answer["Errors"]] == [("val/1", "AccessDenied")]
    cli(guarded, "user", "revoke", "alice", "write", "s3://shards/train/")
    with pytest.raises(ClientError):
        alice.put_object(Bucket="shards", Key="train/2", Body=b"")
    cli(guarded, "user", "ls", keys=keys, status=4)
    fresh = make_key(guarded, "user", "rotate", "alice", "--keep", "1h")
    assert boto(guarded.endpoint, fresh).get_object(Bucket="shards", Key="train/1") and alice.get_object(Bucket="shards", Key="train/1")
    make_key(guarded, "user", "rotate", "alice")
    with pytest.raises(ClientError) as refused:
        alice.get_object(Bucket="shards", Key="train/1")
    assert refused.value.response["Error"]["Code"] == "InvalidAccessKeyId"
    cli(guarded, "user", "rm", "alice")
    cli(guarded, "user", "rm", "alice", status=3)
    cli(guarded, "user", "add", "a/b", status=2)
    cli(guarded, "user", "grant", "bob", "reed", "s3://shards", status=2)


def test_limits_of_a_user(guarded):
    """Over a limit of his own a user gets SlowDown before the body; others are not; without the limit all is as before."""
    admin = boto(guarded.endpoint, guarded.keys())
    admin.create_bucket(Bucket="metered")
    admin.put_object(Bucket="metered", Key="k", Body=b"x" * 5000)
    mary = boto(guarded.endpoint, make_key(guarded, "user", "add", "mary", "-g", "all:s3://metered"))

    def sign(client, operation, **more):
        return client.generate_presigned_url(operation, Params={"Bucket": "metered", "Key": "k", **more}, ExpiresIn=3600)

    def put(url, body=b"part"):
        connection = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=PATIENCE)
        connection.request("PUT", url.split(str(guarded.port), 1)[1], body)
        return connection.getresponse().status

    url = sign(mary, "get_object")
    cli(guarded, "user", "set", "mary", "--bytes-per-second", "1")
    guarded.wait_until(lambda: http_get(url)[0] == 503, PATIENCE, "refuse")  # the first 5,000 are paid for an hour
    body = http_get(url)[1]
    assert b"SlowDown" in body and b"mary" in body and b"bytes a second" in body
    assert put(sign(mary, "put_object")) == 503 and http_get(sign(admin, "get_object"))[0] == 200
    assert "limit  1 bytes/s" in cli(guarded, "user", "ls")
    cli(guarded, "user", "set", "mary", "--bytes-per-second", "none", "--parts", "1")
    assert http_get(url)[0] == 200

    upload = mary.create_multipart_upload(Bucket="metered", Key="k")["UploadId"]
    first, second = (sign(mary, "upload_part", UploadId=upload, PartNumber=n) for n in (1, 2))
    held = socket.create_connection(("127.0.0.1", guarded.port), PATIENCE)
    path = first.split(str(guarded.port), 1)[1]
    held.sendall(f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{guarded.port}\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n".encode())
    assert b" 100 " in held.recv(4096)  # it is under way, and the one part that may be
    held.sendall(b"half")
    assert put(second) == 503
    assert http_get(url)[0] == 200  # which is no part
    held.sendall(b"other")
    assert b" 200 " in held.recv(4096)
    held.close()
    guarded.wait_until(lambda: put(second) == 200, PATIENCE, "take the second part")
    cli(guarded, "user", "set", "mary", "--parts", "0", status=2)
    cli(guarded, "user", "set", "mary", status=2)
    cli(guarded, "user", "set", "ghost", "--parts", "1", status=3)


def test_temporary_keys(guarded):
    """With their token, until their end."""
    admin = boto(guarded.endpoint, guarded.keys())
    admin.create_bucket(Bucket="temp")
    make_key(guarded, "user", "add", "tom", "-g", "all:s3://temp")
    keys = make_key(guarded, "user", "temp", "tom", "--expires", "1h")
    assert len(keys) == 3

    def presigned(client):
        return client.generate_presigned_url("get_object", Params={"Bucket": "temp", "Key": "k"}, ExpiresIn=3600)

    client = boto3_with_token(guarded, keys)
    client.put_object(Bucket="temp", Key="k", Body=b"1")
    url = presigned(client)
    assert http_get(url) == (200, b"1")
    for token, code in ((None, "InvalidAccessKeyId"), ("x" * 64, "InvalidToken")):
        with pytest.raises(ClientError) as refused:
            boto3_with_token(guarded, (keys[0], keys[1], token)).get_object(Bucket="temp", Key="k")
        assert refused.value.response["Error"]["Code"] == code
    ended = make_key(guarded, "user", "temp", "tom", "--expires", "1s")
    time.sleep(1.1)  # the key's end is what is tested
    client = boto3_with_token(guarded, ended)
    url = presigned(client)
    with pytest.raises(ClientError) as refused:
        client.get_object(Bucket="temp", Key="k")
    assert refused.value.response["Error"]["Code"] == "ExpiredToken"
    status, body = http_get(url)
    assert status == 400 and b"ExpiredToken" in body


def boto3_with_token(server, keys):
    return boto3.client(
        "s3", endpoint_url=server.endpoint, aws_access_key_id=keys[0], aws_secret_access_key=keys[1], aws_session_token=keys[2], region_name="us-east-1",
        config=botocore.config.Config(signature_version="s3v4", retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )  # fmt: skip


def test_share(guarded, tmp_path):
    admin = boto(guarded.endpoint, guarded.keys())
    admin.create_bucket(Bucket="share")
    admin.put_object(Bucket="share", Key="dir/ü &+%.txt", Body=b"shared")
    url = cli(guarded, "share", "s3://share/dir/ü &+%.txt", "--expires", "1h").strip()
    assert cli(guarded, "presign", "s3://share/dir/ü &+%.txt").startswith(guarded.endpoint)
    assert http_get(url) == (200, b"shared")
    assert http_get(url.replace("X-Amz-Expires=3600", "X-Amz-Expires=3601"))[0] == 403
    put = cli(guarded, "share", "s3://share/up", "--put").strip()
    (tmp_path / "up").write_bytes(b"uploaded")
    subprocess.run(["curl", "-sSf", "-T", tmp_path / "up", put], check=True)
    assert admin.get_object(Bucket="share", Key="up")["Body"].read() == b"uploaded"
    assert http_get(put)[0] == 403  # signed for PUT
    cli(guarded, "share", "s3://share/up", "--expires", "8d", status=2)


def test_anonymous_read(guarded):
    """For a WebDataset reader that cannot sign."""
    admin = boto(guarded.endpoint, guarded.keys())
    admin.create_bucket(Bucket="public")
    admin.put_object(Bucket="public", Key="s-0.tar", Body=b"tar")
    url = f"{guarded.endpoint}/public/s-0.tar"
    assert http_get(url)[0] == 403
    cli(guarded, "bucket", "set", "s3://public", "--anonymous-read", "on")
    assert http_get(url) == (200, b"tar")
    assert b"<Key>s-0.tar</Key>" in http_get(f"{guarded.endpoint}/public?list-type=2")[1]
    for method, path in (("PUT", "/public/x"), ("DELETE", "/public/s-0.tar"), ("POST", "/public/x?uploads"), ("GET", "/shards"), ("GET", "/_/users")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(guarded.endpoint + path, method=method))
        assert refused.value.code == 403
    for _ in range(3):  # also when the answer was kept
        assert http_get(url) == (200, b"tar")
    cli(guarded, "bucket", "set", "s3://public", "--anonymous-read", "off")
    assert http_get(url)[0] == 403
    cli(guarded, "bucket", "set", "s3://public", "--anonymous-read", "maybe", status=2)
    cli(guarded, "bucket", "set", "s3://not-there", "--anonymous-read", "on", status=3)


# ---- browsers ----


def post_form(url, fields, data, name="a b.txt", origin=None, type="text/plain"):
    """(status, headers, body) of a browser's form; redirects are not followed. `fields`: a dict, or a list of pairs."""
    mark = uuid.uuid4().hex
    pairs = fields.items() if isinstance(fields, dict) else fields
    parts = [f'--{mark}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in pairs]
    parts.append(f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {type}\r\n\r\n'.encode() + data + f"\r\n--{mark}--\r\n".encode())
    request = urllib.request.Request(url, data=b"".join(parts), headers={"Content-Type": f"multipart/form-data; boundary={mark}", **({"Origin": origin} if origin else {})})

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *a):
            return None

    try:
        reply = urllib.request.build_opener(Stay).open(request)
        return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def test_browser_upload(guarded):
    s3 = boto(guarded.endpoint, guarded.keys())
    s3.create_bucket(Bucket="forms")
    allowed = s3.generate_presigned_post(
        "forms", "up/${filename}", Fields={"success_action_status": "201", "x-amz-meta-who": "me"},
        Conditions=[{"success_action_status": "201"}, {"x-amz-meta-who": "me"}, ["content-length-range", 1, 1_000_000]],
    )  # fmt: skip
    url, fields = allowed["url"], allowed["fields"]
    body = os.urandom(900_000)
    status, headers, answer = post_form(url, fields, body)
    assert status == 201 and b"<Key>up/a b.txt</Key>" in answer and headers["Location"].endswith("/forms/up/a%20b.txt")
    assert headers["x-amz-checksum-crc64nvme"] and headers["x-amz-checksum-type"] == "FULL_OBJECT"
    stored = s3.get_object(Bucket="forms", Key="up/a b.txt")
    assert stored["Body"].read() == body and stored["Metadata"] == {"who": "me"} and stored["ContentType"] == "binary/octet-stream"
    for change, data, code in (
        ({}, b"", b"EntityTooSmall"),
        ({}, b"x" * 1_000_001, b"EntityTooLarge"),
        ({"x-amz-meta-who": "you"}, b"1", b"AccessDenied"),
        ({"key": "elsewhere"}, b"1", b"AccessDenied"),
        ({"extra": "1"}, b"1", b"Extra input fields: extra"),
        ({"x-amz-signature": "0" * 64}, b"1", b"SignatureDoesNotMatch"),
        ({"policy": fields["policy"][:-4]}, b"1", b"SignatureDoesNotMatch"),
        ({"x-amz-credential": fields["x-amz-credential"].replace(guarded.keys()[0], "STRANGER")}, b"1", b"InvalidAccessKeyId"),
    ):
        status, _, answer = post_form(url, {**fields, **change}, data, name="refused")
        assert status in (400, 403) and code in answer, (change, answer)
    assert post_form(f"{guarded.endpoint}/forms", {"key": "unsigned"}, b"1")[0] == 403
    assert b"named 'policy'" in post_form(url, {name: value for name, value in fields.items() if name != "policy"}, b"1")[2]
    there = s3.generate_presigned_post("forms", "r", Fields={"success_action_redirect": "http://site.example/done?a=1"}, Conditions=[["starts-with", "$success_action_redirect", "http://site.example/"]])
    status, headers, _ = post_form(there["url"], there["fields"], b"1")
    assert status == 303 and headers["Location"].startswith("http://site.example/done?a=1&bucket=forms&key=r&etag=%22")
    late = s3.generate_presigned_post("forms", "late", ExpiresIn=-1)
    assert b"Policy expired" in post_form(late["url"], late["fields"], b"1")[2]
    assert [o["Key"] for o in s3.list_objects_v2(Bucket="forms")["Contents"]] == ["r", "up/a b.txt"]


def form_v2(keys, bucket, fields, conditions=(), seconds=600):
    """The fields of a form with a signature of Version 2, as old pages have it."""
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    said = [{"bucket": bucket}, *({name: value} for name, value in fields.items()), *conditions]
    policy = base64.b64encode(json.dumps({"expiration": until.strftime("%Y-%m-%dT%H:%M:%SZ"), "conditions": said}).encode())
    signature = base64.b64encode(hmac.new(keys[1].encode(), policy, "sha1").digest())
    return {"AWSAccessKeyId": keys[0], "policy": policy.decode(), "signature": signature.decode(), **fields}


def test_form_signed_by_version_2(guarded):
    """Forms only: everywhere else Version 2 is refused. Conditions, expiry, keys and tokens as with Version 4."""
    s3 = boto(guarded.endpoint, guarded.keys())
    s3.create_bucket(Bucket="forms-2")
    url = f"{guarded.endpoint}/forms-2"
    good = form_v2(guarded.keys(), "forms-2", {"acl": "private"}, [["starts-with", "$key", "up/"]])
    assert post_form(url, {"key": "up/${filename}", **good}, b"old", name="f")[0] == 204
    assert s3.get_object(Bucket="forms-2", Key="up/f")["Body"].read() == b"old"
    for change, code in (
        ({"key": "elsewhere/${filename}"}, b"AccessDenied"),
        ({"acl": "public-read"}, b"AccessDenied"),
        ({"signature": good["signature"][::-1]}, b"SignatureDoesNotMatch"),
        ({"signature": good["signature"][:-1]}, b"SignatureDoesNotMatch"),
        ({"signature": ""}, b"named 'signature'"),
        ({"AWSAccessKeyId": "STRANGER"}, b"InvalidAccessKeyId"),
        ({"x-amz-security-token": "none"}, b"InvalidToken"),
        ({"x-amz-signature": "0" * 64}, b"Only one auth mechanism"),
        ({"policy": ""}, b"named 'policy'"),
    ):
        status, _, answer = post_form(url, {"key": "up/x", **good, **change}, b"2")
        assert status in (400, 403) and code in answer, (change, answer)
    late = form_v2(guarded.keys(), "forms-2", {"key": "late"}, seconds=-1)
    assert b"Policy expired" in post_form(url, late, b"3")[2]
    other = form_v2(guarded.keys(), "another", {"key": "k"})
    assert post_form(url, other, b"4")[0] == 403
    # A checksum needs no condition: it asks for more, and gives nothing.
    summed = {**form_v2(guarded.keys(), "forms-2", {"key": "summed"}), "x-amz-checksum-crc32": "y/Q5Jg=="}
    assert post_form(url, summed, b"123456789")[0] == 204
    assert b"BadDigest" in post_form(url, summed, b"123456780")[2]
    assert [o["Key"] for o in s3.list_objects_v2(Bucket="forms-2")["Contents"]] == ["summed", "up/f"]


def test_an_empty_authorization_is_no_authorization(guarded):
    """A header without a claim is a caller without a key, and a claim that is none of ours is refused: neither gets in."""
    s3 = boto(guarded.endpoint, guarded.keys())
    s3.create_bucket(Bucket="claims")
    for claim in ("", " ", "AWS4-HMAC-SHA256", "Basic YTpi", "AWS a:b", "none"):
        for method, path in (("PUT", "/new-bucket"), ("PUT", "/claims/k"), ("GET", "/claims"), ("GET", "/")):
            request = urllib.request.Request(guarded.endpoint + path, method=method, headers={"Authorization": claim})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            assert refused.value.code in (400, 403), (claim, method, path)
            assert claim.strip() or b"AccessDenied" in refused.value.read()
    assert "Contents" not in s3.list_objects_v2(Bucket="claims") and "new-bucket" not in [b["Name"] for b in s3.list_buckets()["Buckets"]]


def test_a_form_says_each_thing_once(guarded):
    """S3: the policy applies to what the server uses, whichever of two fields that is."""
    s3 = boto(guarded.endpoint, guarded.keys())
    for bucket in ("form-mine", "form-other"):
        s3.create_bucket(Bucket=bucket)
    fields = {"Content-Type": "image/png", "acl": "private", "success_action_status": "201", "success_action_redirect": "", "x-amz-meta-a": "1"}
    allowed = s3.generate_presigned_post("form-mine", "up/k", Fields=fields, Conditions=[{k: v} for k, v in fields.items()])
    pairs = list(allowed["fields"].items())
    assert post_form(allowed["url"], pairs, b"1")[0] == 201
    for name, second in [("bucket", "form-mine"), *pairs]:
        for spelled in (name, name.upper()):
            for value in (second, "form-other", "text/html"):
                for order in ([*pairs, (spelled, value)], [(spelled, value), *pairs]):
                    for bucket in ("form-mine", "form-other"):
                        if name == "bucket" and value == bucket == "form-mine":
                            continue  # a field that repeats the URL, once
                        status, _, answer = post_form(f"{guarded.endpoint}/{bucket}", order, b"2")
                        assert status in (400, 403), (order, bucket, answer)
    assert s3.get_object(Bucket="form-mine", Key="up/k")["Body"].read() == b"1" and s3.list_objects_v2(Bucket="form-other")["KeyCount"] == 0
    tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>"
    tagged = s3.generate_presigned_post("form-mine", "tagged", Fields={"tagging": tags}, Conditions=[{"tagging": tags}])
    assert post_form(tagged["url"], tagged["fields"], b"1")[0] == 204
    assert s3.get_object_tagging(Bucket="form-mine", Key="tagged")["TagSet"] == [{"Key": "a", "Value": "1"}]
    assert post_form(tagged["url"], {**tagged["fields"], "tagging": tags.replace("1", "2")}, b"2")[0] == 403
    nothing = s3.generate_presigned_post("form-mine", "bad", Fields={"tagging": "<x"}, Conditions=[{"tagging": "<x"}])
    assert b"MalformedXML" in post_form(nothing["url"], nothing["fields"], b"1")[2]
    # The type of the file's own part is stored where the policy speaks of it, and must match it.
    typed = s3.generate_presigned_post("form-mine", "typed", Conditions=[["starts-with", "$Content-Type", "image/"]])
    assert post_form(typed["url"], typed["fields"], b"1", type="text/html")[0] == 403
    assert post_form(typed["url"], typed["fields"], b"1", type="image/png")[0] == 204
    assert s3.head_object(Bucket="form-mine", Key="typed")["ContentType"] == "image/png"


def test_cors(guarded):
    s3 = boto(guarded.endpoint, guarded.keys())
    s3.create_bucket(Bucket="cors")
    with pytest.raises(ClientError) as none:
        s3.get_bucket_cors(Bucket="cors")
    assert none.value.response["Error"]["Code"] == "NoSuchCORSConfiguration"
    rules = [{"AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["http://*.example"], "AllowedHeaders": ["content-*"], "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 30}]
    s3.put_bucket_cors(Bucket="cors", CORSConfiguration={"CORSRules": rules})
    assert s3.get_bucket_cors(Bucket="cors")["CORSRules"] == rules

    def ask(method, origin="http://a.example", **headers):
        request = urllib.request.Request(f"{guarded.endpoint}/cors/k", method=method, headers={"Origin": origin, **{k.replace("_", "-"): v for k, v in headers.items()}})
        try:
            reply = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            reply = error
        return reply.status, reply.headers

    status, headers = ask("OPTIONS", Access_Control_Request_Method="PUT", Access_Control_Request_Headers="content-type")
    assert status == 200 and headers["Access-Control-Allow-Origin"] == "http://a.example" and headers["Access-Control-Max-Age"] == "30"
    assert headers["Access-Control-Allow-Headers"] == "content-type" and "PUT" in headers["Access-Control-Allow-Methods"] and "Origin" in headers["Vary"]
    for origin, method, wanted in (("http://evil", "PUT", ""), ("http://a.example", "DELETE", ""), ("http://a.example", "PUT", "authorization")):
        status, headers = ask("OPTIONS", origin, Access_Control_Request_Method=method, Access_Control_Request_Headers=wanted)
        assert status == 403 and headers["Access-Control-Allow-Origin"] is None
    assert ask("OPTIONS")[0] == 400
    status, headers = ask("GET")  # refused, and the page may read why
    assert status == 403 and headers["Access-Control-Allow-Origin"] == "http://a.example" and headers["Access-Control-Expose-Headers"] == "ETag"
    assert ask("GET", "http://evil")[1]["Access-Control-Allow-Origin"] is None
    assert ask("GET", Access_Control_Request_Method="DELETE")[1]["Access-Control-Allow-Origin"] is None
    s3.delete_bucket_cors(Bucket="cors")
    assert ask("GET")[1]["Access-Control-Allow-Origin"] is None


# ---- secrets, the audit log, what is quoted ----


def all_files(folder):
    return [p for p in pathlib.Path(folder).rglob("*") if p.is_file()]


def test_planted_secrets_are_nowhere(start_forebay, tmp_path):
    """S10: keys, tokens, signatures and bodies are in no log, error, metric, page, audit line or readable file."""
    planted = tmp_path / "planted"
    planted.write_text("[planted]\naws_access_key_id = PLANTEDKEY\naws_secret_access_key = PLANTEDSECRETOFAFILE\n")
    planted.chmod(0o600)
    audit = tmp_path / "audit"
    server = start_forebay(args=["--auth", "--credentials", planted], settings={"log.audit": audit, "log.level": "debug", "log.access": "true"})
    s3 = boto(server.endpoint, ("PLANTEDKEY", "PLANTEDSECRETOFAFILE"))
    secrets = ["PLANTEDSECRETOFAFILE", server.keys()[1], "PLANTEDBODY", "PLANTEDREMOTESECRET", "PLANTEDTOKEN"]
    made = make_key(server, "user", "add", "u", "-g", "all:*")
    temporary = make_key(server, "user", "temp", "u")
    secrets += [made[1], temporary[1], temporary[2]]
    s3.create_bucket(Bucket="planted")
    s3.put_object(Bucket="planted", Key="k", Body=b"PLANTEDBODY" * 10)
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "planted", "Key": "k"})
    signature = url.split("X-Amz-Signature=")[1][:64].encode()
    assert http_get(url)[0] == 200
    answers = [http_get(url.replace("/k?", "/other?"))[1], http_get(server.endpoint + "/?X-Amz-Security-Token=PLANTEDTOKEN")[1]]
    client = boto3_with_token(server, (temporary[0], temporary[1], "PLANTEDTOKEN"))
    with pytest.raises(ClientError):
        client.list_buckets()
    for wrong in (boto(server.endpoint, ("PLANTEDKEY", "wrong")), boto(server.endpoint, ("STRANGER", "PLANTEDREMOTESECRET"))):
        with pytest.raises(ClientError) as refused:
            wrong.list_buckets()
        answers.append(str(refused.value.response).encode())
    # keys of a remote that cannot be reached
    attach = cli(server, "bucket", "attach", "s3://nowhere", "--endpoint", "http://127.0.0.1:1", "--store-credentials", status=5,
                 env={"FOREBAY_ACCESS_KEY_ID": server.keys()[0], "FOREBAY_SECRET_ACCESS_KEY": server.keys()[1], "AWS_SECRET_ACCESS_KEY": "PLANTEDREMOTESECRET"})  # fmt: skip
    answers.append(attach.encode())
    for page in ("/_/metrics", "/_/stat", "/_/users", "/_/buckets", "/_/"):
        reply = subprocess.run(["curl", "-sS", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", ":".join(server.keys()), server.endpoint + page], capture_output=True, check=True)
        answers.append(reply.stdout)
    command_line = pathlib.Path(f"/proc/{server.popen.pid}/cmdline").read_bytes()
    limits = pathlib.Path(f"/proc/{server.popen.pid}/limits").read_text()
    core = next(line.split()[4:6] for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core == ["0", "0"], "core dumps are off"
    cli(server, "rm", "s3://planted/k", keys=("PLANTEDKEY", "PLANTEDSECRETOFAFILE"))
    server.end()
    seen = {"log": server.log().encode(), "audit": audit.read_bytes(), "answers": b"\n".join(answers), "command line": command_line}
    for secret in secrets:
        for where, text in seen.items():
            assert secret.encode() not in text, f"{secret[:12]}... is in the {where}"
    assert signature not in seen["log"] and signature not in seen["audit"]  # its sender gets it back
    for path in all_files(server.data_dir):
        assert path.stat().st_mode & 0o077 == 0, f"{path} can be read by others"
    assert audit.stat().st_mode & 0o777 == 0o600


def test_audit_log(guarded):
    """S12: who did what, from where, and what came of it; a line each, whatever the names hold."""
    admin = boto(guarded.endpoint, guarded.keys())
    before = len(guarded.audit.read_bytes())
    admin.create_bucket(Bucket="audited")
    odd = 'a"b\n\r\x01\x7f</x>\u2028'
    admin.put_object(Bucket="audited", Key=odd, Body=b"1")
    admin.delete_object(Bucket="audited", Key=odd)
    admin.delete_objects(Bucket="audited", Delete={"Objects": [{"Key": "x"}, {"Key": "y"}]})
    make_key(guarded, "user", "add", "carol")
    cli(guarded, "user", "grant", "carol", "read", "s3://audited")
    cli(guarded, "user", "rm", "carol")
    with pytest.raises(ClientError):
        boto(guarded.endpoint, ("NOBODYATALL", "x")).list_buckets()
    http_get(guarded.endpoint + "/audited?list-type=2&X-Amz-Signature=PLANTED")
    admin.delete_bucket(Bucket="audited")

    def mine():  # of refusals and deleted objects the lines come behind the answers
        lines = guarded.audit.read_bytes()[before:].split(b"\n")
        rows[:] = [json.loads(line) for line in lines[:-1]]
        return [r for r in rows if r.get("bucket") == "audited" or r.get("target") == "carol" or r.get("key") == "NOBODYATALL"] if lines[-1] == b"" else []

    rows = []
    changes = [("bucket.create", "ok"), ("user.add", "ok"), ("user.grant", "ok"), ("user.remove", "ok"), ("bucket.delete", "ok")]
    refusals = [("auth.refused", "AuthorizationQueryParametersError"), ("auth.refused", "InvalidAccessKeyId")]
    guarded.wait_until(lambda: len(mine()) >= len(changes) + 3 + len(refusals), what="write all lines")
    told = [(r["event"], r["outcome"]) for r in mine()]
    assert [line for line in told if line in changes] == changes  # each before its answer
    assert sorted(line for line in told if line not in changes) == [*refusals, *[("object.delete", "ok")] * 3]
    assert [r["object"] for r in mine() if r["event"] == "object.delete"] == [odd, "x", "y"]  # asked for over one connection
    for row in rows:
        assert {"time", "id", "event", "user", "peer", "method", "path", "outcome"} <= row.keys()
        assert row["peer"].startswith("127.0.0.1:") and "?" not in row["path"]
    assert b"PLANTED" not in guarded.audit.read_bytes()


def test_what_is_quoted_is_escaped(guarded):
    """Every answer that carries a request's text escapes it."""
    hurt = "%3Cscript%3Ealert(1)%3C/script%3E%22%27%26"
    admin = boto(guarded.endpoint, guarded.keys())
    admin.create_bucket(Bucket="quoted")
    sign = ["curl", "-sS", "--path-as-is", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", ":".join(guarded.keys())]
    for target in (
        f"/quoted/{hurt}", f"/quoted?list-type=2&prefix={hurt}&delimiter={hurt}", f"/quoted?uploads&prefix={hurt}", f"/{hurt}", f"/quoted/k?uploadId={hurt}",
        f"/quoted?list-type=2&max-keys={hurt}", f"/quoted?versions&prefix={hurt}&key-marker={hurt}", f"/_/{hurt}", f"/quoted/k?versionId={hurt}", f"/?prefix={hurt}",
    ):  # fmt: skip
        for command in (sign, ["curl", "-sS", "--path-as-is"]):
            answer = subprocess.run([*command, guarded.endpoint + target], capture_output=True, check=True).stdout
            assert b"<script" not in answer, (target, answer)
    for headers in ("Authorization: AWS4-HMAC-SHA256 Credential=<script>/20261121/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=<script>", "Authorization: <script>", "Range: <script>", "Origin: <script>"):
        answer = subprocess.run(["curl", "-sS", "-H", headers, f"{guarded.endpoint}/quoted/k"], capture_output=True, check=True).stdout
        assert b"<script" not in answer, (headers, answer)
    status, _, answer = post_form(f"{guarded.endpoint}/quoted", {"key": "<script>", "policy": "<script>", "x-amz-credential": "<script>", "x-amz-date": "<script>", "x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-signature": "<script>"}, b"1")
    assert status in (400, 403) and b"<script" not in answer


def test_clock_skew(start_forebay):
    """S3: the option says how far a client's clock may be off, 15 minutes unless told otherwise."""

    def ask(server, off):
        when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + off))
        import botocore.auth
        import botocore.awsrequest
        import botocore.credentials

        request = botocore.awsrequest.AWSRequest("GET", server.endpoint + "/", headers={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
        signer = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(*server.keys()), "s3", "us-east-1")
        request.context["timestamp"] = when
        request.headers["X-Amz-Date"] = when
        canonical = signer.canonical_request(request)
        request.headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=%s, SignedHeaders=%s, Signature=%s" % (
            signer.scope(request), signer.signed_headers(signer.headers_to_sign(request)), signer.signature(signer.string_to_sign(request, canonical), request),
        )  # fmt: skip
        done = subprocess.run(["curl", "-sS", *[a for k, v in request.headers.items() for a in ("-H", f"{k}: {v}")], server.endpoint + "/"], capture_output=True, check=True)
        return done.stdout

    usual, strict = start_forebay("usual", args=["--auth"]), start_forebay("strict", args=["--auth"], settings={"s3.clock_skew": "1m"})
    assert b"ListAllMyBucketsResult" in ask(usual, -800) and b"ListAllMyBucketsResult" in ask(usual, 800)
    answer = ask(usual, -1000)
    assert b"RequestTimeTooSkewed" in answer and b"<MaxAllowedSkewMilliseconds>900000<" in answer
    assert b"ListAllMyBucketsResult" in ask(strict, -30)
    assert b"<MaxAllowedSkewMilliseconds>60000<" in ask(strict, 100)
