"""`forebay serve`: what it prints, who is let in, how it starts and ends."""

import contextlib
import http.client
import json
import os
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError
from rigs import forebay
from rigs.process import PATIENCE, ROOT, http_get

from conftest import boto


def serve(*args, timeout=PATIENCE):
    """`forebay serve` that should refuse to start."""
    done = subprocess.run([str(forebay.binary()), "serve", *map(str, args)], capture_output=True, text=True, timeout=timeout, env=forebay.server_env())
    for word in forebay.BAD_WORDS:
        assert word not in done.stderr
    return done


def test_what_it_prints_answers(start_forebay):
    process = start_forebay()
    said = process.log()
    assert process.endpoint in said
    assert ".forebay/credentials" in said
    assert "forebay env" in said or "aws s3" in said  # the next command
    for page in ("/_/livez", "/_/readyz", "/_/metrics"):
        assert http_get(process.endpoint + page)[0] == 200


def test_credentials_file_is_private_and_for_aws(start_forebay):
    """S1, S10: random keys in a 0600 file that AWS clients read."""
    first, second = start_forebay("one"), start_forebay("two")
    path = first.data_dir / ".forebay/credentials"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first.keys() != second.keys() and len(first.keys()[1]) >= 32
    env = {**os.environ, "AWS_SHARED_CREDENTIALS_FILE": str(path), "AWS_ENDPOINT_URL": first.endpoint}
    script = "import boto3; c = boto3.client('s3', region_name='us-east-1'); c.create_bucket(Bucket='by-file'); print(c.list_buckets()['Buckets'][0]['Name'])"
    done = subprocess.run([str(ROOT / ".venv/bin/python"), "-c", script], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "by-file", done.stderr


def test_keys_stay_over_a_restart_on_the_same_port(start_forebay):
    first = start_forebay()
    keys, port = first.keys(), first.port
    boto(first.endpoint, keys).create_bucket(Bucket="stays")
    boto(first.endpoint, keys).put_object(Bucket="stays", Key="k", Body=b"body")
    first.end()
    second = start_forebay(port=port)
    assert second.keys() == keys
    assert boto(second.endpoint, keys).get_object(Bucket="stays", Key="k")["Body"].read() == b"body"


def test_auth_asks_everybody(start_forebay):
    process = start_forebay(args=["--auth"])
    assert http_get(process.endpoint + "/")[0] == 403
    assert http_get(process.endpoint + "/_/livez")[0] == 200
    s3 = boto(process.endpoint, process.keys())
    assert s3.list_buckets()["Buckets"] == []
    s3.create_bucket(Bucket="bucket")
    assert http_get(process.endpoint + "/bucket/key")[0] == 403
    assert http_get(process.endpoint + "/no-bucket/key")[0] == 404  # as AWS: who has no rights may know that


def test_users_of_a_credentials_file(start_forebay, tmp_path):
    file = tmp_path / "users"
    file.write_text("[anna]\naws_access_key_id = ANNASKEY0123456789\naws_secret_access_key = annas-secret-of-forty-characters-0123456\n")
    file.chmod(0o600)
    process = start_forebay(args=["--credentials", file, "--auth"])
    assert boto(process.endpoint, ("ANNASKEY0123456789", "annas-secret-of-forty-characters-0123456")).list_buckets()["Buckets"] == []
    with pytest.raises(ClientError):
        boto(process.endpoint, ("ANNASKEY0123456789", "another-secret-of-forty-characters-01234")).list_buckets()


def test_a_credentials_file_that_others_can_read_is_refused(tmp_path):
    file = tmp_path / "users"
    file.write_text("[anna]\naws_access_key_id = A123456789012345\naws_secret_access_key = B\n")
    file.chmod(0o644)
    done = serve(tmp_path / "data", "--listen", "127.0.0.1:0", "--credentials", file)
    assert done.returncode != 0 and "600" in done.stderr


def test_off_loopback_it_wants_to_be_told(tmp_path):
    """S1: clear text off loopback only if told in words."""
    done = serve(tmp_path / "data", "--listen", "0.0.0.0:0")
    assert done.returncode != 0 and "--insecure-http" in done.stderr


def test_a_foreign_host_header_is_refused(server):
    """S1: a web page that resolves its own name to 127.0.0.1 gets nothing."""
    for host in ("evil.example", "localhost.evil.example"):
        request = urllib.request.Request(server.endpoint + "/", headers={"Host": host})
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(request, timeout=PATIENCE)
        assert error.value.code in (400, 403, 421)
    for host in ("localhost", f"127.0.0.1:{server.port}", f"[::1]:{server.port}"):
        assert urllib.request.urlopen(urllib.request.Request(server.endpoint + "/", headers={"Host": host}), timeout=PATIENCE).status == 200


def test_an_option_that_does_not_exist_is_named(tmp_path):
    done = serve(tmp_path / "data", "--listen", "127.0.0.1:0", "--set", "cache.budgit=1GiB")
    assert done.returncode == 2 and "cache.budgit" in done.stderr and "cache.budget" in done.stderr
    done = serve(tmp_path / "data", "--lissen", "127.0.0.1:0")
    assert done.returncode == 2 and "--listen" in done.stderr


def test_the_folder_is_taken_by_one(server):
    done = serve(server.data_dir, "--listen", "127.0.0.1:0")
    assert done.returncode != 0 and str(server.data_dir) in done.stderr


@pytest.mark.parametrize("name", (".forebay", ".forebay/node", "native"))
def test_a_file_in_the_way_is_named_with_its_folder(tmp_path, name):
    in_the_way = tmp_path / "data" / name
    in_the_way.parent.mkdir(parents=True)
    in_the_way.touch()
    done = serve(tmp_path / "data", "--listen", "127.0.0.1:0")
    assert done.returncode == 5 and f'"{tmp_path}/data": opening' in done.stderr and f"'{in_the_way.name}': Not a directory" in done.stderr, done.stderr


def test_a_taken_port_is_said(server, tmp_path):
    done = serve(tmp_path / "data", "--listen", f"127.0.0.1:{server.port}")
    assert done.returncode != 0 and str(server.port) in done.stderr and "--listen ADDR:PORT" in done.stderr


def test_metrics_please_promtool(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"body")
    s3.get_object(Bucket=bucket, Key="k")["Body"].read()
    _, text = http_get(server.endpoint + "/_/metrics")
    done = subprocess.run([str(ROOT / ".tools/usr/bin/promtool"), "check", "metrics"], input=text, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert len(server.metrics()) > 10


@pytest.mark.parametrize("engine", ["uring", "epoll"])
def test_both_engines_serve(start_forebay, engine):
    process = start_forebay(engine, args=["--engine", engine])
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="engine")
    body = os.urandom(3_000_000)
    client.put_object(Bucket="engine", Key="k", Body=body)
    assert client.get_object(Bucket="engine", Key="k")["Body"].read() == body


def test_drain_lets_a_running_get_finish(start_forebay):
    """SIGTERM: what runs is finished, new work is not taken, the status is 0."""
    process = start_forebay(settings={"drain.timeout": "1h"})
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="drain")
    body = os.urandom(8_000_000)
    client.put_object(Bucket="drain", Key="k", Body=body)
    got = bytearray()
    with socket.create_connection(("127.0.0.1", process.port)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.sendall(b"GET /drain/k HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        got += slow.recv(1000)
        process.popen.terminate()
        while piece := slow.recv(65536):
            got += piece
            time.sleep(0.002)
    assert bytes(got).endswith(body[-1000:]) and len(got) > len(body)
    assert process.popen.wait(PATIENCE) == 0
    process.check_log()


def test_idle_connections_do_not_hold_the_end(start_forebay):
    process = start_forebay(settings={"drain.timeout": "1h"})
    idle = [socket.create_connection(("127.0.0.1", process.port)) for _ in range(50)]
    process.end()
    for connection in idle:
        connection.close()


def test_half_a_request_is_let_go(start_forebay):
    """F7: a header that does not come within its time is closed; others are served meanwhile."""

    def slow_ones(process):
        slow = [socket.create_connection(("127.0.0.1", process.port), timeout=PATIENCE) for _ in range(100)]
        for connection in slow:
            with contextlib.suppress(ConnectionError):  # its second was over before we came so far
                connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        return slow

    patient = start_forebay("patient", settings={"http.header_timeout": "1h"})
    slow = slow_ones(patient)
    assert http_get(patient.endpoint + "/_/readyz")[0] == 200  # with the hundred waiting: an hour is not over
    for connection in slow:
        connection.close()
    process = start_forebay(settings={"http.header_timeout": "1s"})
    begun = time.monotonic()
    for connection in slow_ones(process):
        with contextlib.suppress(ConnectionError):  # where its last bytes came too late
            while connection.recv(4096):
                pass
        connection.close()
    assert time.monotonic() - begun > 0.9


def test_two_requests_that_say_two_lengths(server):
    """S5: what can be read two ways is 400, and the connection closes: nothing behind it is taken for a request."""
    for head in ("Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5\r\nTransfer-Encoding: chunked", "Content-Length : 5", "Transfer-Encoding: chunked, identity"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
            raw.sendall(f"PUT /b/k HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n\r\n0\r\n\r\nGET /_/livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            got = b""
            while piece := raw.recv(65536):
                got += piece
        assert got.startswith(b"HTTP/1.1 400") and got.count(b"HTTP/1.1") == 1, head


@pytest.mark.parametrize("limit, says", [("-n 8", "ulimit -n"), ("-f 1000", "ulimit -f")])
def test_limits_that_are_too_low_are_named(tmp_path, limit, says):
    done = subprocess.run(["bash", "-c", f'ulimit {limit}; exec "$@"', "-", forebay.binary(), "serve", tmp_path / "data"], capture_output=True, text=True, timeout=PATIENCE, env=forebay.server_env())
    assert done.returncode > 0 and says in done.stderr and "raise it" in done.stderr, (done.returncode, done.stderr)


def test_what_no_route_has_is_not_another_route(server, s3, bucket):
    """OPTIONS *, a path without a bucket, flags that are no flags, names that no file system has."""
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)

    def ask(method, path, body=None):
        connection.putrequest(method, path)  # as it is: no client's idea of a path
        connection.putheader("Content-Length", len(body or b""))
        connection.endheaders(body)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()

    status, headers, body = ask("OPTIONS", "*")
    assert (status, body) == (204, b"") and "DELETE" in headers["Allow"]
    for path in (f"//{bucket}/k", "//", f"/%2F{bucket}"):
        status, _, body = ask("GET", path)
        assert status == 400 and b"InvalidURI" in body, path
    for flags in ({"path_style": "no"}, {"plain_http": 1}, {"requester_pays": "false"}, {"dry_run": "yes"}):
        status, _, body = ask("POST", "/_/buckets", json.dumps({"name": "attached", "bucket": "b", "endpoint": "http://127.0.0.1:1", **flags}).encode())
        assert status == 400 and f'"{next(iter(flags))}" is true or false' in body.decode().replace("&quot;", '"'), (flags, body)
    for change in ({"path": "/" + "d" * 300}, {"path": "/tmp", "create": "no"}, {"path": "/tmp", "not_empty": 1}):
        assert ask("POST", "/_/disks", json.dumps(change).encode())[0] == 400, change
    status, _, body = ask("PATCH", f"/_/buckets/{bucket}", b'{"anonymous_read": true, "dry_run": "yes"}')
    assert status == 400 and not [b for b in json.loads(server.get("/_/buckets")[1])["buckets"] if b["name"] == bucket and b.get("anonymous_read")], body
