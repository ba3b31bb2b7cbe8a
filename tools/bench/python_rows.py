"""The Python package: __getitems__ of a batch, beside the same batch through libforebay from C."""

import json
import pathlib
import subprocess
import sys

from . import servers
from .batch_rows import put_many
from .rows import KIB, MIB, row

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUND = """
import sys, time
import forebay
endpoint, prefix, count, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
client = forebay.Client(endpoint, unsigned=True)
names = [f"{prefix}{i:04d}" for i in range(count)]
best = {}
for way, transform in (("views", lambda _, data: data), ("bytes", None)):
    dataset = forebay.MapDataset(names, bucket="bench", client=client, transform=transform)
    best[way] = 1e9
    cpu = time.process_time()
    for _ in range(rounds):
        begun = time.perf_counter()
        got = dataset.__getitems__(range(count))
        best[way] = min(best[way], time.perf_counter() - begun)
        assert len(got) == count
        del got
    best[way + " cpu"] = (time.process_time() - cpu) / rounds
print(*best.values())
"""


@row("python", "512 objects of 100 KB and of 16 KiB by forebay.MapDataset.__getitems__, beside libforebay from C; one connection")
def python(context):
    server = context.keep_running(servers.Forebay(context, context.dir / "data", f"--set=memory.block_cache={512 * MIB}"))
    server.make_bucket("bench")
    endpoint = f"http://127.0.0.1:{server.port}"
    wheel = subprocess.run([sys.executable, ROOT / "python/build_backend.py", context.dir], capture_output=True, text=True, check=True).stdout.strip()
    site = context.dir / "site"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, site], check=True)
    rounds = context.rounds * 5
    print(f"  python: one batch at a time, best of {rounds} rounds; views are memoryviews, bytes are copies")
    for name, count, size in (("100k", 512, 100_000), ("16k", 512, 16 * KIB)):
        put_many(server.port, [f"/bench/{name}/{i:04d}" for i in range(count)], size)
        command = [context.tools / "libload", endpoint, "bench", f"{name}/", count, rounds]
        told = json.loads(subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout)
        command = [sys.executable, "-c", ROUND, endpoint, f"{name}/", str(count), str(rounds)]
        c, c_cpu = told["batch_s"], told["cpu_s"]
        views, views_cpu, copies, copies_cpu = map(float, subprocess.run(command, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True).stdout.split())
        print(f"    {count} x {size:,} bytes: views {c / views:.2f}x of C (goal 0.80x), bytes {c / copies:.2f}x; CPU of the client {views_cpu / c_cpu:.2f}x, {copies_cpu / c_cpu:.2f}x; C {count * size / c / MIB:,.0f} MiB/s, {count / c:,.0f} items/s")
        context.keep("python", name, {"views": c / views, "bytes": c / copies, "views_cpu": views_cpu / c_cpu, "bytes_cpu": copies_cpu / c_cpu})
