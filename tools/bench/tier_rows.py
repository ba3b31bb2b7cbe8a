"""Rows of the fast tier: a prefetch beside what the remote gives, and a listing of a million keys that passes through."""

import http.client
import json
import re
import time
import urllib.parse

from . import machine
from .duel import Contestant, compare, load
from .rows import MIB, errors_of, far_remote, row, write_paths

PARALLEL = 16  # as a prefetch does by itself
KEYS, LIST_FAR_MS = 1_000_000, 10


def prefetch(context, server, prefix, count, size):
    """A sample: the job, from the request that begins it to its end."""
    order = json.dumps({"kind": "prefetch", "args": {"bucket": "far", "prefix": prefix, "parallel": PARALLEL}})
    cpu, busy, begun = machine.cpu_s(server.pids()), machine.busy_s(), time.monotonic()
    status, body = server.ask("POST", "/_/jobs", order)
    job = json.loads(body)
    while status in (200, 202) and job["state"] in ("waiting", "running"):
        status, body = server.ask("GET", f"/_/jobs/{job['id']}?wait=20")
        job = json.loads(body)
    took, cpu, busy = time.monotonic() - begun, machine.cpu_s(server.pids()) - cpu, machine.busy_s() - busy
    good = status in (200, 202) and job["state"] == "done" and job["objects"] == count
    if not good:
        print(f"    the job ended with {status} {body!r}")
    return {"mib_s": count * size / MIB / took, "seconds": took, "requests": count, "rps": count / took, "cpu_s": cpu,
            "s_per_gib": cpu / (count * size / MIB / 1024), "us_per_request": cpu / count * 1e6, "others": max(busy - cpu, 0) / took, "errors": 0 if good else 1}


@row("prefetch", "a prefetch of 128 objects of 8 MiB, of a remote 20 ms away with 40 MiB/s a stream, beside 16 streams to it directly")
def prefetch_row(context):
    size, count = 8 * MIB, 128
    remote, server = far_remote(context, size, keys=count)
    us = Contestant("prefetch", server, None, size)
    direct = Contestant(f"direct, {PARALLEL} streams", remote, None, size)
    for r in range(context.rounds):
        us.samples.append(prefetch(context, server, f"r{r}/", count, size))
        paths = write_paths(context, f"prefetch-{r}", [f"/far/r{r}/{n:09}" for n in range(count)])
        direct.samples.append(load(context, direct.port, paths, "-c", PARALLEL, "-a", 1, "-s", size, pids=remote.pids()))
    for c in (us, direct):
        print(f"    {c.name:<20} {c.median('mib_s'):8.0f} MiB/s   {c.median('cpu_s') / (count * size / MIB / 1024):.2f} CPU-s/GiB")
    errors_of(context, [us, direct])
    for c in (us, direct):
        context.keep("prefetch", c.name, {"mib_s": c.median("mib_s"), "cpu_s": c.median("cpu_s")})
    compare(context, "prefetch", us, direct, "mib_s", "bytes a second", must=0.95)


def walk(port):
    """(keys, seconds) of all pages of a listing, one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    token, keys, begun = "", 0, time.monotonic()
    while True:
        more = f"&continuation-token={urllib.parse.quote(token, safe='')}" if token else ""
        connection.request("GET", f"/far?list-type=2&prefix=all/&max-keys=1000{more}")
        reply = connection.getresponse()
        page = reply.read()
        assert reply.status == 200, page[:300]
        keys += page.count(b"<Key>")
        found = re.search(rb"<NextContinuationToken>([^<]*)</NextContinuationToken>", page)
        if found is None:
            connection.close()
            return keys, time.monotonic() - begun
        token = found.group(1).decode()


@row("remote-list", "a million keys of a remote 10 ms away, listed page by page through us and directly; memory before and after")
def remote_list(context):
    remote, server = far_remote(context, 4096, far_ms=LIST_FAR_MS, keys=KEYS)
    us, direct = Contestant("through forebay", server, None, 0), Contestant("direct", remote, None, 0)
    before = machine.rss_anon_kib(server.popen.pid)
    after = []
    for _ in range(context.rounds):
        for c in (us, direct):
            cpu = machine.cpu_s(server.pids())
            keys, took = walk(c.port)
            c.samples.append({"rps": keys / took, "cpu_s": machine.cpu_s(server.pids()) - cpu, "errors": int(keys != KEYS)})
        after.append(machine.rss_anon_kib(server.popen.pid))
    for c in (us, direct):
        print(f"    {c.name:<20} {c.median('rps'):10,.0f} keys/s" + (f"   {c.median('cpu_s') / KEYS * 1e9:.0f} ns of CPU a key" if c is us else ""))
    errors_of(context, [us, direct])
    compare(context, "remote-list", us, direct, "rps", "keys a second", must=0.95)
    grown = (max(after) - before) / 1024
    print(f"    RssAnon {before / 1024:.1f} MiB before, {after[0] / 1024:.1f} after a million keys, {after[-1] / 1024:.1f} after the last round: "
          f"{grown:+.1f} MiB   at most 8: {'met' if grown <= 8 else 'MISSED'}")
    context.keep("remote-list", "RssAnon, more MiB", {"median": grown})
