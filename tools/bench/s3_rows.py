"""Rows about S3 beyond GET, PUT and lists: signatures, uploads in parts."""

import configparser
import http.client
import time
import xml.etree.ElementTree as tree

from . import servers
from .duel import Contestant, compare, load, rounds, table
from .rows import KIB, MIB, errors_of, keys, row, settle, write_paths
from .signing import signed_lines

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
    server = context.keep_running(servers.Forebay(context, context.dir / "data", "--set=memory.block_cache=0"))
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


# ---- signatures ----

@row("signed-4k", "warm GETs of 10,000 stored objects of 4 KiB, signed beside unsigned")
def signed_4k(context):
    size, conns = 4 * KIB, 64
    data = context.dir / "data"
    server = context.keep_running(servers.Forebay(context, data, f"--set=memory.block_cache={256 * MIB}"))
    server.make_bucket("bench")
    paths = [f"/bench/{k}" for k in keys(10000)]
    plain = Contestant("unsigned", server, write_paths(context, "plain", paths), size)
    load(context, server.port, plain.paths, "-c", 16, "-a", 1, "-b", size, pids=server.pids())
    file = configparser.ConfigParser()
    file.read(data / ".forebay/credentials")
    user = file[file.sections()[0]]
    lines = signed_lines(user["aws_access_key_id"], user["aws_secret_access_key"], f"127.0.0.1:{server.port}", paths)
    signed = Contestant("signed", server, write_paths(context, "signed", lines), size)
    settle(context, [plain, signed])
    rounds(context, [plain, signed], conns)
    print(f"  signed-4k: {conns} connections, {context.rounds} rounds of {context.seconds:g} s")
    table([plain, signed])
    errors_of(context, [plain, signed])
    compare(context, "signed-4k", signed, plain, "us_per_request", "CPU a request", must=1.2, at_most=True)
    compare(context, "signed-4k", signed, plain, "rps", "req/s", must=0.8)
