"""Batches: many objects in one answer, beside GETs of the same on one connection."""

import http.client
import json
import subprocess

from . import servers
from .rows import KIB, MIB, row


def put_many(port, paths, size):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for i, path in enumerate(paths):
        connection.request("PUT", path, body=i.to_bytes(4, "big") * (size // 4))
        assert connection.getresponse().read() == b""
    connection.close()


@row("batch", "512 objects of 100 KB, 1,024 of 16 KiB and of 10 KiB: one batch beside GETs one by one, one connection")
def batch(context):
    server = context.keep_running(servers.Forebay(context, context.dir / "data", f"--set=memory.block_cache={512 * MIB}"))
    server.make_bucket("bench")
    print(f"  batch: one connection, best of {context.rounds * 5} rounds, every byte read")
    for name, count, size, want in (("100k", 512, 100_000, 5), ("16k", 1024, 16 * KIB, 12), ("10k", 1024, 10 * KIB, 20)):
        put_many(server.port, [f"/bench/{name}/{i:04d}" for i in range(count)], size)
        command = [context.tools / "batchload", server.port, "bench", f"{name}/", count, context.rounds * 5]
        told = json.loads(subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout)
        print(f"    {count} x {size:,} bytes: {told['ratio']:.2f}x of GETs (goal {want}x), {told['bytes'] / told['batch_s'] / MIB:,.0f} MiB/s, first byte {told['first_ms']:.2f} ms (goal 3)")
        context.keep("batch", name, {"ratio": told["ratio"], "first_ms": told["first_ms"]})
