"""AIS: buckets of the providers aws, gcp, azure, oci and ht, which are kept at another Forebay on loopback: attached with properties
or by the environment, read, written, listed, prefetched, evicted, downloaded as blobs; the remote keeps what is evicted."""

import json

import pytest
from test_ais_jobs import start, wait
from test_ais_shards import ask
from test_batch import make_tar, put_many

from conftest import boto
from rigs import forebay
from rigs.process import Patience

NAMES = [f"d/{i:02d}" for i in range(30)]
S3_PROVIDERS = ("aws", "gcp", "azure", "oci")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """(the node under test, a client of its remote, the remote)"""
    folder = tmp_path_factory.mktemp("pair")
    with forebay.Forebay(folder / "remote", log_dir=folder / "log-remote") as remote:
        keys = remote.wait_ready().keys()
        env = {"AWS_ENDPOINT_URL": remote.endpoint, "AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1], "AWS_REGION": "us-east-1"}
        with forebay.Forebay(folder / "node", log_dir=folder / "log-node", env=env) as node:
            yield node.wait_ready(), boto(remote.endpoint, keys), remote
            node.end()
        remote.end()


def fill(client, name):
    client.create_bucket(Bucket=name)
    put_many(client, name, [(key, key.encode() * 1000) for key in NAMES] + [("s.tar", make_tar([("m", b"member")]))])


def attach(node, remote, name, provider):
    extra = {} if provider == "aws" else {"extra": {provider: {"endpoint": remote.endpoint, "cloud_region": "us-east-1"}}}
    if provider == "ht":
        extra = {"extra": {"http": {"original_url": f"{remote.endpoint}/{name}/"}}}
    return ask(node, "POST", f"/v1/buckets/{name}?provider={provider}", {"action": "create-bck", "value": extra})


def names(node, bucket, provider, **value):
    status, _, got = ask(node, "GET", f"/v1/buckets/{bucket}?provider={provider}", {"action": "list", "value": value})
    assert status == 200, got
    return {e["name"]: e["flags"] for e in json.loads(got)["entries"]}


def until_listed(node, bucket, provider, want):
    """A reader has the last byte before the object is kept."""
    patience = Patience()
    while names(node, bucket, provider, flags="1") != want:
        assert not patience.is_over(), names(node, bucket, provider, flags="1")


@pytest.mark.parametrize("provider", S3_PROVIDERS)
def test_a_bucket_of_each_provider(pair, provider):
    node, client, remote = pair
    name = f"of-{provider}"
    assert attach(node, remote, name, provider)[0] == 404  # the remote has no such bucket
    fill(client, name)
    assert attach(node, remote, name, provider)[0] == 200 and attach(node, remote, name, provider)[0] == 409
    query = f"?provider={provider}"
    assert {"name": name, "provider": provider} == {k: v for k, v in json.loads(ask(node, "GET", f"/v1/buckets{query}")[2])[0].items() if k != "namespace"}
    props = json.loads(ask(node, "HEAD", f"/v1/buckets/{name}{query}")[1]["Ais-Bucket-Props"])
    assert props["provider"] == provider and props["extra"][provider]["endpoint"] == remote.endpoint
    assert names(node, name, provider) == dict.fromkeys([*NAMES, "s.tar"], 0)  # nothing is here yet
    assert names(node, name, provider, flags="8")["s.tar"] == 0  # and no archive is fetched for a listing
    assert ask(node, "GET", f"/v1/objects/{name}/d/07{query}")[2] == b"d/07" * 1000
    assert ask(node, "GET", f"/v1/objects/{name}/s.tar{query}&archpath=m")[2] == b"member"
    until_listed(node, name, provider, {"d/07": 64, "s.tar": 64})
    assert len(names(node, name, provider, flags="512")) == 29
    assert names(node, name, provider, flags="8")["s.tar/m"] == 64 | 128
    assert ask(node, "GET", f"/v1/objects/{name}/d/99{query}")[0] == 404
    # Writes go through, and deletes.
    assert ask(node, "PUT", f"/v1/objects/{name}/new{query}", "x")[0] == 200
    assert client.get_object(Bucket=name, Key="new")["Body"].read() == b'"x"'
    assert ask(node, "DELETE", f"/v1/objects/{name}/new{query}")[0] == 200
    assert "new" not in [o["Key"] for o in client.list_objects_v2(Bucket=name)["Contents"]]


def test_prefetch_and_evict(pair):
    node, client, remote = pair
    fill(client, "warm")
    assert attach(node, remote, "warm", "aws")[0] == 200
    path = "/v1/buckets/warm?provider=aws"
    assert wait(node, start(node, "POST", path, "prefetch-listrange", {"template": "d/{05..09}"}))["err"] == ""
    assert wait(node, start(node, "POST", path, "prefetch-listrange", {"objnames": ["d/20", "d/21"]}))["err"] == ""
    status, _, got = ask(node, "POST", "/v1/download", {"type": "backend", "bucket": {"name": "warm", "provider": "aws"}, "prefix": "d/1"})
    assert status == 200 and wait(node, json.loads(got)["id"])["err"] == ""
    here = {f"d/{i:02d}": 64 for i in (5, 6, 7, 8, 9, *range(10, 20), 20, 21)}
    assert names(node, "warm", "aws", flags="1") == here
    one = "/v1/objects/warm/d/05?provider=aws"
    assert ask(node, "DELETE", one, {"action": "evict-listrange"})[0] == 200
    assert ask(node, "DELETE", one, {"action": "evict-listrange"})[0] == 404
    assert wait(node, start(node, "DELETE", path, "evict-listrange", {"template": "d/{06..07}"}))["err"] == ""
    assert names(node, "warm", "aws", flags="1") == {k: 64 for k in here if k not in ("d/05", "d/06", "d/07")}
    assert ask(node, "DELETE", path + "&keep_bck_md=true", {"action": "evict-remote-bck"})[0] == 200
    assert names(node, "warm", "aws", flags="1") == {} and len(names(node, "warm", "aws")) == 31
    assert ask(node, "DELETE", path, {"action": "evict-remote-bck"})[0] == 200
    assert ask(node, "HEAD", path)[0] == 404 and len(client.list_objects_v2(Bucket="warm")["Contents"]) == 31


def test_a_web_server(pair):
    node, client, remote = pair
    fill(client, "web")
    assert attach(node, remote, "web", "ht")[0] == 200
    for _ in range(2):
        got = ask(node, "GET", "/v1/objects/web/d/03?provider=ht")
        assert got[2] == b"d/03" * 1000, got
    assert ask(node, "GET", "/v1/objects/web/none?provider=ht")[0] == 404
    assert ask(node, "PUT", "/v1/objects/web/d/03?provider=ht", "x")[0] in (400, 405, 501)
    assert ask(node, "DELETE", "/v1/objects/web/d/03?provider=ht", {"action": "evict-listrange"})[0] == 200


def test_a_bucket_of_ours_with_a_remote_behind(pair):
    node, client, remote = pair
    fill(client, "behind")
    path = "/v1/buckets/front"
    for backend, status, says in (({"name": "x", "provider": "ais"}, 400, 'backend bucket \\"ais://x\\" must be remote'), ({"name": "none", "provider": "aws"}, 404, "aws://none")):
        got = ask(node, "POST", path, {"action": "create-bck", "value": {"backend_bck": backend}})
        assert got[0] == status and says in got[2].decode(), got
    assert ask(node, "POST", path, {"action": "create-bck", "value": {"backend_bck": {"name": "behind", "provider": "aws"}}})[0] == 200
    props = json.loads(ask(node, "HEAD", path)[1]["Ais-Bucket-Props"])
    assert props["provider"] == "ais" and props["backend_bck"]["name"] == "behind" and props["backend_bck"]["provider"] == "aws"
    assert ask(node, "GET", "/v1/objects/front/d/04")[2] == b"d/04" * 1000
    assert ask(node, "PUT", "/v1/objects/front/n", 1)[0] == 200 and client.get_object(Bucket="behind", Key="n")["Body"].read() == b"1"
    assert ask(node, "PATCH", path, {"action": "set-bprops", "value": {"backend_bck": {"name": "other", "provider": "aws"}}})[0] == 501
    assert ask(node, "DELETE", path, {"action": "evict-remote-bck"})[0] == 200
    assert len(client.list_objects_v2(Bucket="behind")["Contents"]) == 32


def test_blob_download(pair):
    node, client, remote = pair
    fill(client, "blobs")
    assert attach(node, remote, "blobs", "aws")[0] == 200
    status, _, got = ask(node, "POST", "/v1/objects/blobs?provider=aws", {"action": "blob-download", "name": "d/11", "value": {"num-workers": 4}})
    assert status == 200 and wait(node, got.decode())["err"] == ""
    assert names(node, "blobs", "aws", flags="1") == {"d/11": 64}
