"""Requests to any node of a cluster of three real processes, with Debian's etcd: boto3 through a gateway that changes with
every request, and the death of the node that owns a key."""

import itertools
import signal
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError
from conftest import boto
from rigs import etcd as etcd_rig
from test_cluster import Cluster

pytestmark = pytest.mark.skipif(etcd_rig.find() is None, reason="there is no etcd: tools/unpack.sh etcd-server")

BOX = {"Bucket": "box"}


class Gateways:
    """A boto3 client that goes to the next node with every request."""

    def __init__(self, nodes):
        self.clients = [boto(node.endpoint, node.keys(), retries={"total_max_attempts": 12}) for node in nodes]
        self.turn = itertools.cycle(self.clients)

    def __getattr__(self, name):
        return getattr(next(self.turn), name)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("gateways"))
    nodes = [made.start(name, wait=False) for name in ("n1", "n2", "n3")]
    for node in nodes:
        node.wait_ready()
    made.all = nodes
    made.s3 = Gateways(nodes)
    wait_until_writable(made)
    yield made
    made.end()


def wait_until_writable(made):
    """A map counts once all nodes have acknowledged it: until then keys that a node gained are 503, and the client retries."""
    made.s3.create_bucket(**BOX)
    for i, client in enumerate(made.s3.clients * 8):
        client.put_object(**BOX, Key=f"first/{i}", Body=b"x")
    made.s3.delete_objects(**BOX, Delete={"Objects": [{"Key": f"first/{i}"} for i in range(24)]})


def body_of(answer):
    return answer["Body"].read()


def test_objects_through_every_gateway(three):
    s3 = three.s3
    for i, size in enumerate((0, 10, 5000, 300_000, 3_000_000, 7, 8, 9, 10)):
        body = bytes((i + n) % 256 for n in range(251)) * (size // 251 + 1)
        s3.put_object(**BOX, Key=f"o/{i}", Body=body[:size], Metadata={"n": str(i)})
        for _ in range(3):
            got = s3.get_object(**BOX, Key=f"o/{i}")
            assert body_of(got) == body[:size] and got["Metadata"] == {"n": str(i)}
        assert s3.head_object(**BOX, Key=f"o/{i}")["ContentLength"] == size
    assert body_of(s3.get_object(**BOX, Key="o/3", Range="bytes=251-260")) == bytes((3 + n) % 256 for n in range(10))
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(**BOX, Key="o/1", Body=b"x", IfNoneMatch="*")
    with pytest.raises(ClientError, match="NoSuchKey"):
        s3.get_object(**BOX, Key="o/none")


def test_lists_uploads_and_deletes(three):
    s3 = three.s3
    names = [f"l/{i:03}" for i in range(40)]
    for name in names:
        s3.put_object(**BOX, Key=name, Body=b"x")
    for _ in range(3):
        assert [o["Key"] for o in s3.list_objects_v2(**BOX, Prefix="l/")["Contents"]] == names
    found, after = [], ""
    while True:
        page = s3.list_objects_v2(**BOX, Prefix="l/", MaxKeys=7, StartAfter=after)
        found += [o["Key"] for o in page["Contents"]]
        if not page["IsTruncated"]:
            break
        after = found[-1]
    assert found == names
    part = b"p" * (5 << 20)
    upload = s3.create_multipart_upload(**BOX, Key="l/upload")["UploadId"]
    assert [u["UploadId"] for u in s3.list_multipart_uploads(**BOX)["Uploads"]] == [upload]
    parts = [{"PartNumber": n, "ETag": s3.upload_part(**BOX, Key="l/upload", UploadId=upload, PartNumber=n, Body=body)["ETag"]} for n, body in ((1, part), (2, b"end"))]
    s3.complete_multipart_upload(**BOX, Key="l/upload", UploadId=upload, MultipartUpload={"Parts": parts})
    assert body_of(s3.get_object(**BOX, Key="l/upload")) == part + b"end"
    gone = s3.delete_objects(**BOX, Delete={"Objects": [{"Key": name} for name in reversed(names)]})
    assert [d["Key"] for d in gone["Deleted"]] == names[::-1] and "Errors" not in gone
    assert [o["Key"] for o in s3.list_objects_v2(**BOX, Prefix="l/")["Contents"]] == ["l/upload"]


def test_copies_between_owners(three):
    s3 = three.s3
    for i in range(8):
        s3.put_object(**BOX, Key=f"c/from-{i}", Body=str(i).encode() * 1000, Metadata={"n": str(i)})
        s3.copy_object(**BOX, Key=f"c/to-{i}", CopySource={**BOX, "Key": f"c/from-{i}"})
        got = s3.get_object(**BOX, Key=f"c/to-{i}")
        assert body_of(got) == str(i).encode() * 1000 and got["Metadata"] == {"n": str(i)}
    with pytest.raises(ClientError, match="NoSuchKey"):
        s3.copy_object(**BOX, Key="c/none", CopySource={**BOX, "Key": "c/absent"})
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.copy_object(**BOX, Key="c/none", CopySource={**BOX, "Key": "c/from-1"}, CopySourceIfMatch='"0"')


def test_a_wrong_signature_is_refused_by_every_gateway(three):
    for node in three.all:
        key, secret = node.keys()[:2]
        wrong = boto(node.endpoint, (key, secret[:-1] + ("a" if secret[-1] != "a" else "b")))
        for i in range(4):
            with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
                wrong.put_object(**BOX, Key=f"w/{i}", Body=b"x")
    assert "Contents" not in three.s3.list_objects_v2(**BOX, Prefix="w/")


def test_presigned_requests_and_versions(three):
    s3 = three.s3
    for i in range(3):
        s3.put_object(**BOX, Key=f"p/{i}", Body=b"signed")
        url = s3.generate_presigned_url("get_object", {**BOX, "Key": f"p/{i}"})
        assert urllib.request.urlopen(url).read() == b"signed"
    s3.create_bucket(Bucket="old")
    s3.put_bucket_versioning(Bucket="old", VersioningConfiguration={"Status": "Enabled"})
    ids = [s3.put_object(Bucket="old", Key=f"v/{n % 4}", Body=str(n).encode())["VersionId"] for n in range(12)]
    for n, version in enumerate(ids):
        assert body_of(s3.get_object(Bucket="old", Key=f"v/{n % 4}", VersionId=version)) == str(n).encode()
    s3.delete_object(Bucket="old", Key="v/1")
    listed = s3.list_object_versions(Bucket="old")
    assert len(listed["Versions"]) == 12 and len(listed["DeleteMarkers"]) == 1
    assert [v["VersionId"] for v in listed["Versions"] if v["Key"] == "v/2"] == [ids[10], ids[6], ids[2]]
    with pytest.raises(ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket="old")
    s3.create_bucket(Bucket="empty")
    s3.delete_bucket(Bucket="empty")
    with pytest.raises(ClientError, match="NoSuchBucket"):
        s3.list_objects_v2(Bucket="empty")


def test_keys_of_a_killed_node_are_unavailable_and_not_absent(three):
    """The last test of this file: it kills a node."""
    s3, lost = three.s3, three.all[1]
    for i in range(12):
        s3.put_object(**BOX, Key=f"k/{i}", Body=b"here")
    lost.popen.send_signal(signal.SIGKILL)
    lost.popen.wait()
    seen = set()
    url = [three.s3.clients[0].generate_presigned_url("get_object", {**BOX, "Key": f"k/{i}"}) for i in range(12)]
    for one in url:
        try:
            assert urllib.request.urlopen(one).read() == b"here"
            seen.add(200)
        except urllib.error.HTTPError as e:
            assert e.code == 503 and e.headers["Retry-After"]
            seen.add(503)
    assert seen == {200, 503}
