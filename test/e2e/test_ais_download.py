"""AIS: downloads from web servers (single, range, multi) and from a remote bucket; errors by name; broken transfers go on; a restart
goes on; abort, remove; where links may not lead. The web server runs in this process."""

import http.server
import json
import threading
import time

import pytest
from test_ais_jobs import keys
from test_ais_shards import ask, snapshots

from conftest import boto
from rigs.process import Patience

FILES = {f"/data/shard-{i:03d}.tar": bytes([i]) * (200_000 + i) for i in range(12)} | {"/a b/c%d.bin": b"odd", "/x": b"x"}
PRIVATE = {"ais.download_private": "true"}


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gate = threading.Event()  # cleared: answers stop in the middle
    cut, asked = set(), []

    def do_GET(self):
        path = self.path.replace("%20", " ").replace("%25", "%")
        body = FILES.get(path)
        type(self).asked.append((path, self.headers.get("Range")))
        if body is None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first = int(self.headers["Range"][6:].split("-")[0]) if "Range" in self.headers else 0
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(body) - first))
        self.send_header("ETag", f'"{hash(body):x}-w"')
        self.send_header("Accept-Ranges", "bytes")
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        self.end_headers()
        self.wfile.write(body[first : first + 100_000])
        self.wfile.flush()
        if path in type(self).cut:  # once
            type(self).cut.discard(path)
            self.close_connection = True
            return
        type(self).gate.wait()
        self.wfile.write(body[first + 100_000 :])

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def web():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        Web.gate.set()
        server.shutdown()


@pytest.fixture
def node(start_forebay):
    Web.gate.set()
    Web.cut, Web.asked = set(), []
    return start_forebay("node", settings=PRIVATE)


def download(node, **message):
    status, _, got = ask(node, "POST", "/v1/download", message)
    assert status == 200, got
    job = json.loads(got)["id"]
    assert job.startswith("dnl-")
    return job


def show(node, job):
    status, _, got = ask(node, "GET", "/v1/download", {"id": job})
    assert status == 200, got
    return json.loads(got)


def until_ended(node, job):
    patience = Patience()
    while (shown := show(node, job))["finished_time"].startswith("0001"):
        assert not patience.is_over(), shown
        time.sleep(0.02)
    return shown


def test_single_range_and_multi(node, web):
    s3 = boto(node.endpoint, node.keys())
    ais = {"name": "web", "provider": "ais"}  # is made
    job = download(node, type="single", bucket=ais, link=f"{web}/data/shard-003.tar", description="one of them")
    shown = until_ended(node, job)
    assert (shown["finished_cnt"], shown["error_cnt"], shown["total"], shown["aborted"], shown["all_dispatched"]) == (1, 0, 1, False, True), shown
    assert s3.get_object(Bucket="web", Key="shard-003.tar")["Body"].read() == FILES["/data/shard-003.tar"]
    assert "one of them" in shown["description"]
    (snapshot,) = snapshots(node, id=job)
    assert snapshot["kind"] == "download" and snapshot["stats"]["loc-bytes"] == str(len(FILES["/data/shard-003.tar"]))
    # A range; what is there by ETag and size costs no transfer. A broken transfer goes on where it broke.
    Web.cut = {"/data/shard-002.tar"}
    job = download(node, type="range", bucket=ais, template=web + "/data/shard-{000..005}.tar", subdir="in/here")
    assert until_ended(node, job)["finished_cnt"] == 6
    for i in range(6):
        assert s3.get_object(Bucket="web", Key=f"in/here/shard-{i:03d}.tar")["Body"].read() == FILES[f"/data/shard-{i:03d}.tar"]
    assert ("/data/shard-002.tar", f"bytes=100000-{len(FILES['/data/shard-002.tar']) - 1}") in Web.asked
    again = until_ended(node, download(node, type="range", bucket=ais, template=web + "/data/shard-{000..005}.tar", subdir="in/here"))
    assert (again["finished_cnt"], again["skipped_cnt"]) == (6, 6)
    # Names of one's own, characters that are encoded in a URL, and errors with their names.
    job = download(node, type="multi", bucket=ais, objects={"odd/{1,2}": f"{web}/a%20b/c%25d.bin", "none": f"{web}/none", "q": f"{web}/x?y=1"})
    shown = until_ended(node, job)
    assert (shown["finished_cnt"], shown["error_cnt"]) == (1, 2)
    assert {e["name"].split()[1]: "query" in e["error"] for e in shown["download_errors"]} == {"none": False, "q": True}
    assert s3.get_object(Bucket="web", Key="odd/{1,2}")["Body"].read() == b"odd"
    assert until_ended(node, download(node, type="multi", bucket=ais, objects=[f"{web}/x"]))["finished_cnt"] == 1
    assert set(keys(s3, "web")) == {"shard-003.tar", "odd/{1,2}", "x"} | {f"in/here/shard-{i:03d}.tar" for i in range(6)}
    # Lists: all, by description, the active ones.
    every = json.loads(ask(node, "GET", "/v1/download")[2])
    assert len(every) == 5 and "download_errors" not in every[0]
    assert len(json.loads(ask(node, "GET", "/v1/download", {"regex": "^1 names.*one of"})[2])) == 1
    assert json.loads(ask(node, "GET", "/v1/download", {"only_active_tasks": True})[2]) == []


def test_abort_remove_and_restart(node, web, start_forebay):
    Web.gate.clear()
    everything = {"type": "range", "bucket": {"name": "web"}, "template": web + "/data/shard-%03d.tar", "limits": {"connections": 2}}
    first, second = download(node, **everything), download(node, **(everything | {"bucket": {"name": "web2"}, "template": web + "/data/shard-{000..011}.tar"}))
    patience = Patience()
    while len(Web.asked) < 4:
        assert not patience.is_over()
        time.sleep(0.02)
    assert show(node, first)["total"] == 1000
    assert ask(node, "DELETE", "/v1/download/remove", {"id": first})[0] == 409
    assert ask(node, "DELETE", "/v1/download/abort", {"id": first})[0] == 200
    assert until_ended(node, first)["aborted"]
    patience = Patience()
    while ask(node, "DELETE", "/v1/download/remove", {"id": first})[0] == 409:  # its transfers end first
        assert not patience.is_over()
        time.sleep(0.02)
    for verb in ("abort", "remove"):
        assert ask(node, "DELETE", f"/v1/download/{verb}", {"id": first})[0] == 404
    assert ask(node, "GET", "/v1/download", {"id": first})[0] == 404
    # A kill in the middle: the job goes on, and nothing half was visible.
    s3 = boto(node.endpoint, node.keys())
    assert keys(s3, "web2") == []
    node.kill()
    Web.gate.set()
    node = start_forebay("node", settings=PRIVATE)
    assert until_ended(node, second)["finished_cnt"] == 12
    assert keys(boto(node.endpoint, node.keys()), "web2") == [f"shard-{i:03d}.tar" for i in range(12)]


def test_what_is_refused(node, web, start_forebay):
    link = f"{web}/x"
    for message, status, says in (
        ({}, 400, "single, range, multi or backend"),
        ({"type": "single", "bucket": {"name": "b1"}}, 400, "link"),
        ({"type": "single", "bucket": {"name": "b1"}, "link": "ftp://x/y"}, 400, "http"),
        ({"type": "single", "bucket": {"name": "b1"}, "link": link, "object_name": "a\nb"}, 400, "one line"),
        ({"type": "single", "bucket": {"name": "b1"}, "link": link, "etl_name": "e"}, 501, "etl_name"),
        ({"type": "single", "bucket": {"name": "b1"}, "link": link, "limits": {"bytes_per_hour": 5}}, 501, "bytes_per_hour"),
        ({"type": "single", "bucket": {"name": "b_?"}, "link": link}, 400, "bucket"),
        ({"type": "range", "bucket": {"name": "b1"}, "template": "shard-{0..9}"}, 400, "http"),
        ({"type": "multi", "bucket": {"name": "b1"}, "objects": {}}, 400, "objects"),
        ({"type": "backend", "bucket": {"name": "none", "provider": "aws"}}, 404, "aws://none"),
    ):
        got = ask(node, "POST", "/v1/download", message)
        assert got[0] == status and says in json.loads(got[2])["message"], (message, got[2])
    # Links lead out, not in: neither to this machine nor to metadata of a cloud, unless the operator allows the former.
    for target, settings in ((link, {}), (link.replace("127.0.0.1", "localhost"), {}), (link.replace("127.0.0.1", "127.1"), {}), ("http://169.254.169.254/latest/x", PRIVATE)):
        other = start_forebay("public" if not settings else "private", settings=settings)
        shown = until_ended(other, download(other, type="single", bucket={"name": "b"}, link=target))
        assert shown["error_cnt"] == 1 and any(word in shown["download_errors"][0]["error"] for word in ("is a loopback address", "which is loopback", "is a link-local address")), (target, shown)
        other.end()
