"""Remotes behind a proxy, and where the name of an endpoint must not lead (promise S8)."""

import contextlib
import hashlib
import ipaddress
import json
import os
import pathlib
import socket
import subprocess

import pytest
from rigs import forebay
from rigs.connectproxy import ConnectProxy
from rigs.fakeremote import FakeRemote

import plain
from test_cold import PATIENT, attach
from test_jobs import cli

NAME = "s3.example.test"  # which only the proxy can resolve
USER = "corp:pass%w0rd-planted"
LISTING = b'<?xml version="1.0"?><ListBucketResult><Name>there</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>'


def fill(remote):
    remote.headers_seen = []

    def listing(request):
        remote.headers_seen.append(dict(request.headers.items()))
        request.send(200, {}, LISTING)

    remote.on("GET", "/there", listing)
    body = os.urandom(300_000)
    remote.put("/there/key", body)
    return body


@pytest.fixture
def tls_remote(tmp_path):
    pair = (tmp_path / "remote.crt", tmp_path / "remote.key")
    subprocess.run([str(forebay.binary()), "tls", "selfsign", "--name", NAME, "--cert", pair[0], "--key", pair[1]], check=True, capture_output=True)
    with FakeRemote(tls=pair) as remote:
        yield remote, pair[0]


def planted_nowhere(process, text):
    """The password stands in no file that the server wrote, nor in its pages."""
    for path in pathlib.Path(process.data_dir).parent.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # one that the server has replaced meanwhile
            assert not path.is_file() or text.encode() not in path.read_bytes(), path
    for page in ("/_/metrics", "/_/stat", "/_/buckets"):
        assert text.encode() not in process.get(page)[1], page


def test_http_through_a_proxy_of_the_environment(start_forebay, fake):
    body = fill(fake)
    with ConnectProxy(user=USER, names={f"{NAME}:80": ("127.0.0.1", fake.port)}) as proxy:
        process = start_forebay(settings=PATIENT, env={"HTTP_PROXY": proxy.url})
        done = attach(process, "there", f"http://{NAME}")
        assert done.returncode == 0, done.stderr
        reply = plain.get(process.port, "there", "key")
        assert reply.status == 200 and hashlib.md5(reply.body).digest() == hashlib.md5(body).digest()
        assert ("GET", f"http://{NAME}/there/key") in proxy.seen
        assert all(target.startswith(f"http://{NAME}/") for _, target in proxy.seen)
    # What the proxy receives is not for the remote; the signature is for the remote's own name.
    assert all(h["Host"] == NAME and "Proxy-Authorization" not in h for h in fake.headers_seen)
    planted_nowhere(process, "w0rd-planted")


def test_https_through_tunnels(start_forebay, tls_remote, tmp_path):
    """CONNECT, credentials from a file, our own authority; the proxy sees no request."""
    remote, authority = tls_remote
    body = fill(remote)
    secret = tmp_path / "proxy-credentials"
    secret.write_text("corp:pass%w0rd\n")
    with ConnectProxy(user="corp:pass%w0rd", names={f"{NAME}:443": ("127.0.0.1", remote.port)}) as proxy:
        settings = {**PATIENT, "backend.https_proxy": f"http://127.0.0.1:{proxy.port}", "backend.proxy_credentials": secret, "backend.ca_file": authority}
        secret.chmod(0o644)
        with pytest.raises(Exception, match="chmod 600"):
            start_forebay("refused", settings=settings)
        secret.chmod(0o600)
        process = start_forebay(settings=settings, env={"HTTPS_PROXY": "http://127.0.0.1:9"})  # the option goes first
        done = attach(process, "there", f"https://{NAME}")
        assert done.returncode == 0, done.stderr
        assert plain.get(process.port, "there", "key").body == body
        assert set(proxy.seen) == {("CONNECT", f"{NAME}:443")}
    shown = cli(process, "config", "show", "--json")
    assert "w0rd" not in shown.stdout


@pytest.mark.parametrize(
    "rig, says",
    [
        ({"user": "other:other"}, "wants other credentials (407)"),
        ({"answer": "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"}, "refused the tunnel: 403 Forbidden"),
        ({"answer": "HTTP/1.1 200 OK\r\n\r\nhello"}, "sent 5 bytes of its own into the tunnel"),
        ({"answer": "SSH-2.0-proxy\r\n"}, "does not speak HTTP"),
        ({"answer": None}, "closed the connection before its answer"),
        ({"answer": "HTTP/1.1 200 OK\r\nX: " + "a" * 9000}, "closed the connection before its answer"),
    ],
)
def test_errors_name_the_proxy(start_forebay, rig, says):
    with ConnectProxy(**rig) as proxy:
        process = start_forebay(settings={**PATIENT, "backend.retries": 0}, env={"HTTPS_PROXY": f"http://corp:w0rd-planted@127.0.0.1:{proxy.port}"})
        done = attach(process, "there", f"https://{NAME}")
    assert done.returncode != 0
    assert f"the proxy 127.0.0.1:{proxy.port}, on the way to {NAME}:443: " in done.stderr and says in done.stderr, done.stderr
    assert "w0rd" not in done.stderr + process.log()


def test_a_proxy_that_refuses_plain_http_is_named(start_forebay):
    with ConnectProxy(user="other:other") as proxy:
        process = start_forebay(settings={**PATIENT, "backend.retries": 0}, env={"http_proxy": f"http://127.0.0.1:{proxy.port}"})
        done = attach(process, "there", f"http://{NAME}")
    assert done.returncode != 0 and f"through the proxy 127.0.0.1:{proxy.port}" in done.stderr and "407" in done.stderr, done.stderr


def test_a_proxy_that_is_not_there_is_named(start_forebay):
    process = start_forebay(settings={**PATIENT, "backend.retries": 0}, env={"HTTPS_PROXY": "http://127.0.0.1:9"})
    done = attach(process, "there", f"https://{NAME}")
    assert done.returncode != 0 and "the proxy 127.0.0.1:9: connecting to" in done.stderr, done.stderr


def test_what_goes_without(start_forebay, fake):
    """Loopback and NO_PROXY never go through it, and the metadata service is asked directly."""
    fill(fake)
    with ConnectProxy() as proxy:
        process = start_forebay(settings=PATIENT, env={"HTTP_PROXY": proxy.url, "HTTPS_PROXY": proxy.url, "NO_PROXY": ".example.test", "AWS_EC2_METADATA_DISABLED": "false", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"})
        done = attach(process, "there", fake.endpoint)
        assert done.returncode == 0, done.stderr
        assert plain.get(process.port, "there", "key").status == 200
        done = attach(process, "other", f"http://{NAME}")
        assert done.returncode != 0 and "resolving" in done.stderr, done.stderr
        # No keys given: the instance's metadata are asked for some.
        cli(process, "bucket", "attach", "s3://third", "--endpoint", fake.endpoint)
        assert proxy.seen == []


def test_a_proxy_that_cannot_be_used_is_refused_at_the_start(start_forebay):
    for env, settings, says in [
        ({"HTTPS_PROXY": "socks5://u:w0rd@h:1"}, {}, 'of kind "socks5"'),
        ({}, {"backend.http_proxy": "http://u:w0rd@h:1"}, "credentials do not stand in the configuration"),
        ({}, {"backend.https_proxy": "http://h:99999"}, "a port is"),
    ]:
        with pytest.raises(Exception, match=says) as error:
            start_forebay(f"refused-{len(says)}", settings=settings, env=env)
        assert "w0rd" not in str(error.value).replace("--set=backend.http_proxy=http://u:w0rd@h:1", "")


# ---- S8: where names lead ----


def own_private_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = ipaddress.ip_address(s.getsockname()[0])
    return address if not address.is_global and not address.is_loopback else None


@pytest.fixture
def listener():
    """A closed port."""
    with socket.create_server(("0.0.0.0", 0)) as s:
        s.settimeout(0.2)
        yield s
        with pytest.raises(TimeoutError):
            s.accept()


@pytest.mark.parametrize(
    "name, says",
    [("127.1", "which is loopback"), ("0x7f000001", "which is loopback"), ("017700000001", "which is loopback"), ("2852039166", "which is link-local"), ("0", "which is not for hosts")],
)
def test_a_name_that_leads_home_is_not_followed(start_forebay, listener, name, says):
    """These are no addresses but names that the resolver makes addresses of, as a foreign DNS would."""
    process = start_forebay(settings={**PATIENT, "backend.retries": 0})
    done = attach(process, "there", f"http://{name}:{listener.getsockname()[1]}")
    assert done.returncode != 0 and says in done.stderr, done.stderr
    done = cli(process, "bucket", "attach", f"ht://{name}:{listener.getsockname()[1]}/x", "--as", "web")
    assert done.returncode != 0 and says in done.stderr, done.stderr
    assert json.loads(process.get("/_/buckets")[1])["buckets"] == []


def test_what_the_administrator_names_is_allowed(start_forebay, fake):
    body = fill(fake)
    process = start_forebay(settings=PATIENT)
    for number, (endpoint, more) in enumerate([(fake.endpoint, []), (f"http://localhost:{fake.port}", []), (f"http://127.1:{fake.port}", ["--network", "any"])]):
        done = attach(process, "there", endpoint, "--as", f"bucket-{number}", *more)
        assert done.returncode == 0, done.stderr
        assert plain.get(process.port, f"bucket-{number}", "key").body == body
    done = attach(process, "there", "http://2852039166", "--as", "none", "--network", "any")  # a name of a cloud's metadata address
    assert done.returncode != 0 and "link-local" in done.stderr, done.stderr
    done = attach(process, "there", fake.endpoint, "--as", "none", "--network", "everywhere")
    assert done.returncode != 0 and "public, private or any" in done.stderr
    done = attach(process, "there", fake.endpoint, "--as", "no")
    assert done.returncode != 0 and "InvalidBucketName" in done.stderr, done.stderr


def test_a_private_network_is_where_it_was_attached_to(start_forebay):
    address = own_private_address()
    if address is None:
        pytest.skip("this machine has no private address")
    with FakeRemote(address=str(address)) as there:
        fill(there)
        process = start_forebay(settings={**PATIENT, "backend.retries": 0})
        name = f"http://{int(address)}:{there.port}"  # a name that the resolver makes this address of
        done = attach(process, "there", name)
        assert done.returncode == 0, done.stderr
        assert json.loads(process.get("/_/buckets")[1])["buckets"][0]["remote"]["network"] == "private"
        assert plain.get(process.port, "there", "key").status == 200
        done = attach(process, "there", name, "--as", "none", "--network", "public")
        assert done.returncode != 0 and "which is private" in done.stderr, done.stderr


def test_a_region_is_no_way_to_another_host(start_forebay):
    process = start_forebay(settings={**PATIENT, "backend.retries": 0})
    for region in ("evil.example/", "a.b", "x#"):
        done = cli(process, "bucket", "attach", "s3://there", "--remote-region", region)
        assert done.returncode != 0 and f'region "{region}"' in done.stderr, done.stderr
