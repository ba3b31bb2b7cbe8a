"""S6: keys are bytes. What looks like a path, a trick or a mistake is stored faithfully, listed, and deleted."""

import http.client
import os
import pathlib
import urllib.parse

import pytest
from rigs.process import PATIENCE

ODD = {
    "dots": "..",
    "climbing": "../../../etc/passwd",
    "dots inside": "a/../b/./c",
    "slashes": "//",
    "leading slash": "/a",
    "many slashes": "a///b//",
    "trailing slash": "a/",
    "percent": "%2e%2e%2f%252e",
    "plus and space": "a+b c",
    "query-like": "a?b=c&uploads#d",
    "xml": "<a>&amp;\"'</a>",
    "control": "a\x01b\x1fc\x7f",
    "newlines": "a\r\nb\tc",
    "two bytes": "é\u00ff\u07ff",
    "three bytes": "\u0800€\uffff",
    "four bytes": "𝄞\U0010ffff",
    "not composed": "e\u0301",
    "right to left": "\u202eabc",
    "our own folder": ".forebay/credentials",
    "our own port": "_/metrics",
    "long": "k" * 1024,
    "long in three bytes": "€" * 341,
    "a file name too long": "d" * 300 + "/" + "e" * 300,
}


def raw(server, method, path, body=None):
    """One request whose path goes out as it is; unsigned, as loopback allows. (status, body)"""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.putrequest(method, path, skip_accept_encoding=True)
    connection.putheader("Content-Length", str(len(body or b"")))
    connection.endheaders(body)
    reply = connection.getresponse()
    answer = reply.status, reply.read()
    connection.close()
    return answer


@pytest.mark.parametrize("name", ODD)
def test_odd_key_is_kept_as_it_is(server, s3, bucket, name):
    key, body = ODD[name], os.urandom(100)
    path = f"/{bucket}/" + urllib.parse.quote(key, safe="")
    assert raw(server, "PUT", path, body)[0] == 200
    assert raw(server, "GET", path) == (200, body)
    assert [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == body
    s3.delete_object(Bucket=bucket, Key=key)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_all_odd_keys_live_side_by_side(server, s3, bucket):
    for name, key in ODD.items():
        s3.put_object(Bucket=bucket, Key=key, Body=name.encode())
    listed = [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == sorted(ODD.values(), key=lambda k: k.encode())
    for name, key in ODD.items():
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == name.encode()


def test_odd_keys_that_xml_can_say_go_by_the_batch(s3, bucket):
    """Control characters and U+FFFF cannot stand in XML 1.0, not even escaped: DeleteObjects cannot name them."""
    keys = [key for name, key in ODD.items() if name not in ("control", "three bytes")]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    assert sorted(row["Key"] for row in done["Deleted"]) == sorted(keys)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_dots_that_come_unescaped_are_not_a_path(server, s3, bucket):
    assert raw(server, "PUT", f"/{bucket}/x/../../y", b"body")[0] == 200
    assert [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["x/../../y"]


@pytest.mark.parametrize(
    "path",
    ["%c0%ae%c0%ae", "%ff", "%ed%a0%80", "%f4%90%80%80", "%e2%82", "k" * 1025, "%zz", "a%2"],
    ids=["overlong", "no lead byte", "surrogate", "beyond unicode", "cut short", "1,025 bytes", "bad escape", "half an escape"],
)
def test_what_is_no_key_is_400_and_stores_nothing(server, s3, bucket, path):
    status, _ = raw(server, "PUT", f"/{bucket}/{path}", b"body")
    assert status == 400
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_nothing_was_written_outside_the_data_folder(server):
    """After all of the above: no file beside the data folder, and the credentials are the server's own."""
    folder = pathlib.Path(server.data_dir)
    assert sorted(p.name for p in folder.parent.iterdir()) == sorted([folder.name, "forebay.log"])
    assert b"aws_secret_access_key" in (folder / ".forebay/credentials").read_bytes()
