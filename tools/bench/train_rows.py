"""Emulated accelerators beside nginx."""

import collections
import json
import shutil
import statistics
import subprocess

from . import machine, servers
from .duel import Contestant, compare
from .more_rows import filled, write_files
from .rows import MIB, errors_of, keys, row, settle

TRAIN_MODELS = (("retinanet-b200", 322_957, 500), ("cosmoflow-h100", 2_830_000, 60))  # name, bytes, files
TRAIN_TRIES = 8  # a round


# Samples end in 1 MiB over and over: with more than its cache has, the client's own copying would be what is measured.
def train_once(context, server, names, model, accelerators):
    argv = ["taskset", "-c", context.cores[1], context.binary, "bench", "train", "s3://bench/", "--keys", names, "--endpoint-url", f"http://127.0.0.1:{server.port}",
            "--model", model, "-a", accelerators, "--epochs", 0, "--duration", f"{max(int(context.seconds * 200), 300)}ms", "--probe", "20ms", "--memory", "1MiB", "-q", "-o", "json"]  # fmt: skip
    for pid in server.pids():
        argv += ["--pid", pid]
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, env=context.env)
    if done.returncode != 0:
        raise RuntimeError(f"bench train: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


class Staircase:
    """The largest number of accelerators that one side keeps busy, of many short tries: up by a thirtieth where a try passed, down where it did not, by more where
    the last three said the same. What others do to one try moves the answer by one step, not by all that a search would have left."""

    def __init__(self, server):
        self.server, self.next = server, 4
        self.tried, self.limits = [], collections.Counter()
        self.turns = 0  # how often the one before said otherwise

    @property
    def near(self):
        return self.turns > 1

    def one(self, context, names, model):
        told = train_once(context, self.server, names, model, self.next)
        (trial,) = told["trials"]
        passed = trial["passed"]
        self.turns += bool(self.tried) and passed != self.tried[-1]["passed"]
        self.tried.append(trial)
        self.limits[told["roofline"]["limit"]] += 1
        profile = told["profile"]
        hope = int(trial["samples_per_second"] / (profile["batch"] / profile["step_ms"] * 1000 * profile["floor"]))
        alike = len({t["passed"] for t in self.tried[-3:]}) == 1
        step = max(1, self.next // 30) * (4 if alike else 1)
        if self.turns == 0 and passed:
            self.next *= 2
        elif self.turns < 2 and not passed:
            self.next = max(min(hope, self.next - 1), 1)
        else:
            self.next = self.next + step if passed else max(self.next - step, 1)

    def sample(self, tries):
        """Of the latest: the number at which as many pass as do not, what came there, and the server's CPU for it."""
        latest = self.tried[-tries:]
        cpu, requests, size = (sum(t[what] for t in latest) for what in ("server_cpu_seconds", "requests", "bytes"))
        return {
            "accelerators": statistics.mean(t["accelerators"] - (not t["passed"]) for t in latest),
            "rps": statistics.median(t["samples_per_second"] for t in latest),
            "mib_s": statistics.median(t["bytes_per_second"] for t in latest) / MIB,
            "us_per_request": cpu / max(requests, 1) * 1e6,
            "s_per_gib": cpu / max(size, 1) * (1 << 30),
            "p99_wait_ms": statistics.median(t["batch_wait"]["p99_ms"] for t in latest),
            "errors": sum(t["errors"] for t in latest),
        }


def train_model(context, model, names, sides):
    """Try by try in turn, so that what the host does for a second falls on all alike."""
    stairs = {c.name: Staircase(c.server) for c in sides}
    while not all(s.near for s in stairs.values()):  # these count for nothing
        for s in stairs.values():
            if not s.near:
                s.one(context, names, model)
    for turn in range(context.rounds):
        if context.patient:
            machine.wait_quiet()
        for i in range(TRAIN_TRIES):
            for c in sides if i % 2 == 0 else reversed(sides):
                stairs[c.name].one(context, names, model)
        for c in sides:
            sample = stairs[c.name].sample(TRAIN_TRIES)
            c.samples.append(sample)
            print(f"    {c.name:<8} {sample['accelerators']:5.1f} accelerators, {sample['rps']:,.0f} samples/s ({sample['mib_s'] / 1024:.2f} GiB/s), server CPU "
                  f"{sample['us_per_request'] / 1000:.3f} s per 1,000 objects, {sample['s_per_gib'] / 1.073741824:.3f} s per GB")  # fmt: skip
    for c in sides:
        print(f"    {c.name}: its tries were limited by " + ", ".join(f"{limit} ({n})" for limit, n in stairs[c.name].limits.most_common()))


@row("train", "emulated accelerators (forebay bench train) on us and on nginx with sendfile: how many are kept busy")
def train(context):
    if servers.nginx_binary() is None:
        context.skip("nginx is not installed (tools/unpack.sh nginx): nothing to train beside")
        return
    for model, size, count in TRAIN_MODELS:
        server, ours = filled(context, size, count)
        root = context.dir / f"files-{size}"
        write_files(root / "bench", keys(count), size)
        nginx = servers.Nginx(context, root)
        us, rival = Contestant("forebay", server, ours, size), Contestant("nginx", nginx, ours, size)
        settle(context, [us, rival])
        names = context.dir / "names"
        names.write_text("".join(f"{k}\n" for k in keys(count)))
        try:
            train_model(context, model, names, [us, rival])
        finally:
            server.stop(30)
            nginx.stop()
        errors_of(context, [us, rival])
        key = f"train {model}"
        print(f"  {key}: {context.rounds} rounds of {TRAIN_TRIES} tries of {context.seconds / 5:.1f} s; stretch 1.3x")
        for c in (us, rival):
            context.keep(key, c.name, {f: c.median(f) for f in c.samples[0]})
        compare(context, key, us, rival, "accelerators", "accelerators", must=1.0)
        compare(context, key, us, rival, "rps", "samples/s")
        compare(context, key, us, rival, "s_per_gib", "CPU a GB", at_most=True)
        compare(context, key, us, rival, "us_per_request", "CPU per 1,000 objects", at_most=True)
        shutil.rmtree(context.dir / "data")
        shutil.rmtree(context.dir / "nginx")
