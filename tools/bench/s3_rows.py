"""Rows about S3 beyond GET, PUT and lists: uploads in parts."""

import http.client
import time
import xml.etree.ElementTree as tree

from . import servers
from .duel import Contestant, load, table
from .rows import MIB, errors_of, row, write_paths

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


def ask(port, method, target, body=None):
    """One small request; the document of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, target, body=body)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    assert reply.status == 200, f"{method} {target}: {reply.status} {text[:300]}"
    return tree.fromstring(text)


def complete(port, target):
    """Names all the parts there are; (seconds, ETag)."""
    parts = [(p.find(f"{NAMESPACE}PartNumber").text, p.find(f"{NAMESPACE}ETag").text) for p in ask(port, "GET", target).iter(f"{NAMESPACE}Part")]
    listed = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{e}</ETag></Part>" for n, e in parts)
    begun = time.perf_counter()
    done = ask(port, "POST", target, f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode())
    return len(parts), time.perf_counter() - begun, done.find(f"{NAMESPACE}ETag").text


@row("multipart", "uploads of 1 GiB in 64 parts of 16 MiB by 8 clients, then Complete")
def multipart(context):
    size, count, conns = 16 * MIB, 64, 8
    server = context.keep_running(servers.Forebay(context, context.dir / "data", "--set=memory.hot=0"))
    server.make_bucket("bench")
    us = Contestant(f"forebay, {conns} clients", server, None, size)
    ends, rates = [], []
    for r in range(context.rounds):
        upload = ask(server.port, "POST", f"/bench/o{r}?uploads").find(f"{NAMESPACE}UploadId").text
        paths = write_paths(context, "parts", [f"/bench/o{r}?partNumber={n}&uploadId={upload}" for n in range(1, count + 1)])
        begun = time.perf_counter()
        us.samples.append(load(context, us.port, paths, "-c", conns, "-a", 1, "-b", size, pids=server.pids()))
        rates.append(count * size / MIB / (time.perf_counter() - begun))
        parts, seconds, etag = complete(server.port, f"/bench/o{r}?uploadId={upload}")
        assert parts == count and etag.strip('"').endswith(f"-{count}"), f"{parts} parts, ETag {etag}"
        ends.append(seconds * 1000)
        http.client.HTTPConnection("127.0.0.1", server.port).request("DELETE", f"/bench/o{r}")
    print(f"  multipart: {context.rounds} rounds; every part synced before its reply, MD5 and CRC64NVME of each")
    table([us])
    errors_of(context, [us])
    middle = context.rounds // 2
    mib_s, end_ms = sorted(rates)[middle], sorted(ends)[middle]
    a_gib = us.median("us_per_request") * count / 1e6
    print(f"    {mib_s:,.0f} MiB/s, {a_gib:.2f} s of CPU a GiB; Complete takes {end_ms:.1f} ms")
    context.keep("multipart", f"c={conns}", {"mib_s": mib_s, "cpu_s_per_gib": a_gib, "complete_ms": end_ms})
