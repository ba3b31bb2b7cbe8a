"""Rounds of load: A-B-A-B, a sample each, and what they come to.

A round is cut into slices, each turn in another order: what the host does for a second, or a minute, falls on all sides alike. A round in which others
took too much counts for nobody, and that is said.
"""

import json
import mmap
import os
import random
import signal
import statistics
import subprocess
import sys
import time

from . import machine


SLICE_S = 0.4  # about; of each side before it is another's turn
SLICE_WARMUP_S = 0.15  # of all slices but a round's first: its connections are new, its caches are not
DISTURBED = 0.4  # of one core by others: more than that and a round counts for nobody
SUMS = ("requests", "seconds", "mib", "cpu_s", "client_cpu_s", "refused", "errors", "untimed")
MORE_IS_BETTER = ("rps", "mib_s", "accelerators")  # of them nothing is a figure too


class Contestant:
    """One way to be asked: a server, a port of it, the file of paths, what each answer must be."""

    def __init__(self, name, server, paths, size, port=None, flags=()):
        self.name, self.server, self.paths, self.size = name, server, paths, size
        self.port = port or server.port
        self.flags = [str(f) for f in flags]
        self.samples, self.slices = [], []  # a sample of each round; the short slices of each round, where it was cut into such

    def median(self, figure):
        return statistics.median(s[figure] for s in self.samples)


def httpload(context, port, paths, *flags, seconds=None, core=None):
    """Runs the load generator on the client's core, unless another is named; yields once when it begins to count, then returns its figures."""
    argv = ["taskset", "-c", context.cores[1] if core is None else core, context.tools / "httpload", "-p", paths, *flags]
    if seconds is not None:
        argv += ["-d", seconds]
    argv += ["127.0.0.1", port, "-"]
    child = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, text=True)
    return child


def load(context, port, paths, *flags, pids=(), seconds=None, core=None, beside=None):
    """One run: the generator's figures, with the server's CPU and what others took of the machine. `beside`: what is done with its id before
    it begins to count."""
    child = httpload(context, port, paths, *flags, seconds=seconds, core=core)
    try:
        if beside is not None:
            beside(child.pid)
        if child.stdout.readline() != "begin\n":
            raise RuntimeError("httpload ended before it began; what it said is above")
        cpu, busy, begun = machine.cpu_s(pids), machine.busy_s(), time.monotonic()
        line = child.stdout.readline()
        cpu, busy, took = machine.cpu_s(pids) - cpu, machine.busy_s() - busy, time.monotonic() - begun
    finally:
        child.wait(30)
    sample = json.loads(line)
    sample["cpu_s"] = cpu
    sample["mib"] = sample["mib_s"] * sample["seconds"]
    sample["others"] = max(busy - cpu - sample["client_cpu_s"], 0) / took if took > 0 else 0
    return assessed(sample)


# ---- rounds in slices: a run each ----


def assessed(sample):
    """With what follows from its sums."""
    sample["us_per_request"] = sample["cpu_s"] / max(sample["requests"], 1) * 1e6
    sample["s_per_gib"] = sample["cpu_s"] / sample["mib"] * 1024 if sample["mib"] > 0 else 0
    return sample


def quantile(counts, share):
    """Of [[value, how many of it], ...], ascending."""
    want, seen = share * sum(n for _, n in counts), 0
    for value, n in counts:
        seen += n
        if seen > want:
            return value
    return counts[-1][0] if counts else 0


def merged(slices):
    """One sample of a round's slices: as if they had been one run."""
    counts = {}
    for s in slices:
        for value, n in s.pop("latencies", ()):
            counts[value] = counts.get(value, 0) + n
    if len(slices) == 1:
        return slices[0]
    counts = sorted(counts.items())
    took = sum(s["seconds"] for s in slices) or 1
    whole = {f: sum(s[f] * s["seconds"] for s in slices) / took for f in slices[0]}
    whole.update({f: sum(s[f] for s in slices) for f in SUMS if f in whole})
    if counts:
        whole.update(p50_us=quantile(counts, 0.5), p99_us=quantile(counts, 0.99), p999_us=quantile(counts, 0.999))
    whole.update(rps=whole["requests"] / took, mib_s=whole["mib"] / took, max_us=max(s.get("max_us", 0) for s in slices))
    return assessed(whole)


def without_disturbed(sides):
    """Rounds in which others took a good part of a core from any side count for nobody, as long as half of them, and three, are left."""
    many = len(sides[0].samples)
    bad = {r for r in range(many) for side in sides if side.samples[r].get("others", 0) > DISTURBED}
    if not bad:
        return
    left = [r for r in range(many) if r not in bad]
    said = f"of {many} rounds {len(bad)} were disturbed (others took more than {DISTURBED:.0%} of a core)"
    if len(left) < max(3, many / 2):
        print(f"    {said}: too many to do without, all count")
        return
    print(f"    {said} and count for nobody")
    for side in sides:
        side.samples = [side.samples[r] for r in left]
        side.slices = [side.slices[r] for r in left] if getattr(side, "slices", []) else []


def shuffled(rng, many):
    """Whose turn it is: where all follow each other in a ring, one side always meets what the same other one left behind."""
    return rng.sample(range(many), many)


def in_turn(context, sides, once):
    """All rounds: they become the .samples of each side. once(side, seconds, warmup) is one run of one of them, a sample."""
    slices = max(1, round(context.seconds / SLICE_S))
    rng = random.Random(1)
    for side in sides:
        side.samples = []
    for _ in range(context.rounds):
        if context.patient:
            machine.wait_quiet()
        got = [[] for _ in sides]
        for n in range(slices):
            for at in shuffled(rng, len(sides)):
                got[at].append(once(sides[at], context.seconds / slices, context.warmup if n == 0 else min(context.warmup, SLICE_WARMUP_S)))
        for side, each in zip(sides, got):
            side.samples.append(merged(each))
    without_disturbed(sides)


# ---- rounds in short slices of loads that stand still between them ----

SHORT_S = 0.06
REST_S = 0.004  # what a load left under way ends before its server's clock is read
DRAWN = 400


class Load:
    """A server with its load, which stands still (SIGSTOP) but for its slices: its connections stay, its caches are as warm as the others' are."""

    def __init__(self, context, server, paths, *flags, port=None):
        told = context.dir / f"told-{port or server.port}"
        told.write_bytes(bytes(16))
        self.server = server
        self.child = httpload(context, port or server.port, paths, "-w", 0, "-P", told, *flags)
        try:
            if self.child.stdout.readline() != "begin\n":
                raise RuntimeError("httpload ended before it began; what it said is above")
            self.child.send_signal(signal.SIGSTOP)
            with open(told, "r+b") as file:
                self.told = mmap.mmap(file.fileno(), 16)
            self.was = {"requests": 0, "client_cpu_s": 0}
            self.since()
        except BaseException:
            self.kill()
            raise

    def errors(self):
        return int.from_bytes(self.told[8:], sys.byteorder)

    def since(self):
        """What was answered since the last time, and the CPU of both sides; of the server since anybody asked: two loads may share it."""
        now = {"requests": int.from_bytes(self.told[:8], sys.byteorder), "client_cpu_s": machine.cpu_s([self.child.pid])}
        was, self.was, cpu_s = self.was, now, machine.cpu_s(self.server.pids())
        cpu_was, self.server.cpu_was = getattr(self.server, "cpu_was", 0), cpu_s
        return {f: now[f] - was[f] for f in now} | {"cpu_s": cpu_s - cpu_was}

    def slice(self, seconds):
        """A sample of one slice."""
        if self.child.poll() is not None:
            raise RuntimeError("a load has ended: fewer --seconds, or more --starts")
        begun = time.monotonic()
        self.child.send_signal(signal.SIGCONT)
        time.sleep(seconds)
        self.child.send_signal(signal.SIGSTOP)
        took = time.monotonic() - begun
        time.sleep(REST_S)
        one = self.since()
        one.update(seconds=took, rps=one["requests"] / took, us_per_request=one["cpu_s"] / max(one["requests"], 1) * 1e6)
        return one

    def run(self, seconds):
        """Microseconds a request, and requests a second."""
        one = self.slice(seconds)
        return one["us_per_request"], one["rps"]

    def end(self):
        """The load's own figures: latencies of all slices, from which those are missing that were asked before a stop and answered after it."""
        self.child.send_signal(signal.SIGTERM)
        self.child.send_signal(signal.SIGCONT)
        return json.loads(self.child.communicate(timeout=30)[0])

    def kill(self):
        self.child.kill()
        self.child.wait()

    def stop(self):
        self.kill()
        self.server.stop(60)


def within(values):
    """Between which 95 % of them lie."""
    values = sorted(values)
    cut = len(values) // 40
    return values[cut], values[-1 - cut]


def bounds(figures):
    """Between which the median of such figures lies with 95 %."""
    rng = random.Random(1)
    return within([statistics.median(rng.choices(figures, k=len(figures))) for _ in range(DRAWN)])


def short_round(context, contestants, conns, flags):
    """One round: loads that begin anew, slices in turn. Its sample and its slices become each contestant's."""
    loads, each = [], [[] for _ in contestants]
    try:
        for c in contestants:
            loads.append(Load(context, c.server, c.paths, "-c", conns, "-d", 3600, "-s", c.size, *c.flags, *flags, port=c.port))
        for one in loads:
            one.slice(min(context.warmup, SLICE_WARMUP_S))  # does not count: its connections are new
        busy, stolen, begun = machine.busy_s(), machine.stolen_s(), time.monotonic()
        rng = random.Random(len(contestants[0].samples))
        for _ in range(max(1, round(context.seconds / SHORT_S))):
            for at in shuffled(rng, len(loads)):
                each[at].append(loads[at].slice(SHORT_S))
        took, ends = time.monotonic() - begun, [one.end() for one in loads]
    finally:
        for one in loads:
            one.kill()
    used = sum(s["cpu_s"] + s["client_cpu_s"] for slices in each for s in slices)
    others, stolen = max(machine.busy_s() - busy - used, 0) / took, (machine.stolen_s() - stolen) / took
    for c, slices, end in zip(contestants, each, ends):
        sample = {f: sum(s[f] for s in slices) for f in ("requests", "seconds", "cpu_s", "client_cpu_s")}
        sample.update(mib=sample["requests"] * c.size / (1 << 20), rps=sample["requests"] / sample["seconds"], others=others, stolen=stolen)
        sample.update({f: end[f] for f in ("p50_us", "p99_us", "p999_us", "max_us", "first_p50_us", "refused", "errors")}, mib_s=sample["mib"] / sample["seconds"])
        sample.update(untimed=end["untimed"], untimed_share=end["untimed"] / max(end["requests"], 1))
        c.samples.append(assessed(sample))
        c.slices.append(slices)


def short_rounds(context, contestants, conns, *flags):
    """As rounds(), in slices of 60 ms: what the host does for half a second falls on all sides alike, so ratios are those of neighbouring slices."""
    for c in contestants:
        c.samples, c.slices = [], []
    for _ in range(context.rounds):
        if context.patient:
            machine.wait_quiet()
        short_round(context, contestants, conns, ["-R"] if context.read else [])
    without_disturbed(contestants)


WRK = """
local requests = {}
function init(args) for line in io.lines("%s") do requests[#requests + 1] = wrk.format("GET", line) end end
function request() return requests[math.random(#requests)] end
function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format('{"requests":%%d,"seconds":%%.6f,"bytes":%%d,"errors":%%d,"p50_us":%%d,"p99_us":%%d,"p999_us":%%d}\\n', summary.requests,
    summary.duration / 1e6, summary.bytes, e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
"""


def wrk_load(context, c, conns, scheme="http"):
    """One run of wrk, for TLS, and to hold our own generator against; a sample as load() makes it. It knows nothing of lengths: the
    bytes that came must be those of the answers."""
    script = context.dir / "wrk.lua"
    script.write_text(WRK % c.paths)
    seconds = max(round(context.seconds), 1)
    argv = ["taskset", "-c", context.cores[1], "wrk", "-t1", f"-c{conns}", f"-d{seconds}s", "-s", script, f"{scheme}://127.0.0.1:{c.port}"]
    cpu, busy, before = machine.cpu_s(c.server.pids()), machine.busy_s(), os.times()
    begun = time.monotonic()
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=seconds + 60)
    took, after = time.monotonic() - begun, os.times()
    cpu, busy = machine.cpu_s(c.server.pids()) - cpu, machine.busy_s() - busy
    line = [text for text in done.stdout.splitlines() if text.startswith("{")]
    if done.returncode != 0 or not line:
        raise RuntimeError(f"wrk: {done.stdout}{done.stderr}")
    s = json.loads(line[-1])
    s["client_cpu_s"] = after.children_user + after.children_system - before.children_user - before.children_system
    s["rps"] = s["requests"] / s["seconds"]
    s["mib_s"] = s["bytes"] / s["seconds"] / (1 << 20)
    if s["requests"] and not c.size <= s["bytes"] / s["requests"] <= c.size + 2000 and c.size < 65536:
        s["errors"] += 1  # heads are part of the bytes; of large bodies the last ones are cut short by the end
    s.update(cpu_s=cpu, others=max(busy - cpu - s["client_cpu_s"], 0) / took, us_per_request=cpu / max(s["requests"], 1) * 1e6)
    gib = s["bytes"] / (1 << 30)
    s["s_per_gib"] = cpu / gib if gib > 0 else 0
    return s


def rounds(context, contestants, conns, *flags):
    """Every contestant in turn, `context.rounds` times."""
    read = ["-R"] if context.read else []

    def once(c, seconds, warmup):
        return load(context, c.port, c.paths, "-c", conns, "-w", warmup, "-s", c.size, "-L", *read, *c.flags, *flags, pids=c.server.pids(), seconds=seconds)

    in_turn(context, contestants, once)


def better(*contestants):
    """The one with more requests a second: opponents are taken at their best setting."""
    return max(contestants, key=lambda c: c.median("rps"))


def a_slices(side, figure):
    slices = getattr(side, "slices", [])
    return bool(slices) and figure in slices[0][0]


def ratios(pairs, figure):
    """A slice in which `a` answers nothing is one of 0 req/s; what an answer cost, or how long it took, has no figure there."""
    return [x[figure] / y[figure] for x, y in pairs if y[figure] > 0 and (x[figure] > 0 or figure in MORE_IS_BETTER)]


def ratio(a, b, figure):
    """Median, least and most of the ratios of each round; of short slices, of those of each turn: their median, and its bounds with 95 %.
    Zeros where there is nothing to divide."""
    if a_slices(a, figure) and a_slices(b, figure):
        each = ratios([pair for ours, theirs in zip(a.slices, b.slices) for pair in zip(ours, theirs)], figure)
        return (statistics.median(each), *bounds(each)) if each else (0, 0, 0)
    each = ratios(zip(a.samples, b.samples), figure)
    return (statistics.median(each), min(each), max(each)) if each else (0, 0, 0)


PARTS = {"rps": ("requests", "seconds"), "us_per_request": ("cpu_s", "requests")}
DISAGREE = 0.05


def ratio_of_sums(a, b, figure):
    """Of all slices together: a side that answers nothing in every third slice has the median of one that always does. None where there are no slices."""
    if figure not in PARTS or not (a_slices(a, figure) and a_slices(b, figure)):
        return None
    over, under = PARTS[figure]
    total = [{f: sum(s[f] for slices in side.slices for s in slices) for f in (over, under)} for side in (a, b)]
    ours, theirs = (t[over] / t[under] if t[under] > 0 else 0 for t in total)
    return ours / theirs if theirs > 0 else None


def assessed_ratio(a, b, figure, at_most=False):
    """What is held against a goal: the worse one of the median and the ratio of sums. None where there is nothing to assess."""
    middle, _, most = ratio(a, b, figure)
    if most <= 0 or (at_most and middle <= 0):
        return None
    sums = ratio_of_sums(a, b, figure)
    return middle if sums is None else (max if at_most else min)(middle, sums)


COLUMNS = (
    ("req/s", "rps", "{:,.0f}", 1),
    ("GiB/s", "mib_s", "{:.3f}", 1 / 1024),
    ("p50 us", "p50_us", "{:,.0f}", 1),
    ("p99 us", "p99_us", "{:,.0f}", 1),
    ("p99.9 us", "p999_us", "{:,.0f}", 1),
    ("CPU ms/1k", "us_per_request", "{:.2f}", 1),
    ("CPU s/GiB", "s_per_gib", "{:.3f}", 1),
    ("client CPU s", "client_cpu_s", "{:.2f}", 1),
    ("others", "others", "{:.0%}", 1),
)


BAR = 20


def table(contestants):
    """Medians over the rounds, one line a contestant; the bar is its requests a second beside the fastest one's."""
    head = ["", *(title for title, *_ in COLUMNS), "errors", ""]
    most = max(c.median("rps") for c in contestants)
    lines = [head]
    for c in contestants:
        figures = [form.format(c.median(name) * scale) for _, name, form, scale in COLUMNS]
        bar = "#" * round(BAR * c.median("rps") / most) if most else ""
        lines.append([c.name, *figures, str(sum(s["errors"] for s in c.samples)), bar.ljust(BAR)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("    " + "  ".join(f.ljust(w) if i == 0 else f.rjust(w) for i, (f, w) in enumerate(zip(line, widths))))


def meets(middle, must, at_most):
    return middle <= must if at_most else middle >= must


UNTIMED = 0.002  # of the requests, and a p99 is that of those that were quick enough


def untimed(side):
    """The share of its requests that have no latency: they were under way when their load was stopped. The slow ones are likelier to be."""
    return max(s.get("untimed_share", 0) for s in side.samples)


def verdict(a, b, figure, must, at_most, missed="MISSED"):
    lost = max(untimed(a), untimed(b)) if figure == "p99_us" else 0
    if lost > UNTIMED:
        return f"NOT ASSESSED, up to {lost:.1%} of a round's requests have no latency: see `tail`"
    assessed = assessed_ratio(a, b, figure, at_most)
    if assessed is None:
        return "NOT ASSESSED, no figures"
    return "met" if meets(assessed, must, at_most) else missed


def compare(context, row, a, b, figure, label, must=None, at_most=False, missed="MISSED"):
    """Prints one ratio and keeps it; `must` is a goal: at least, or at most, that much."""
    middle, least, most = ratio(a, b, figure)
    sums = ratio_of_sums(a, b, figure)
    told = "" if sums is None else f"  all {sums:.2f}x"
    if sums is not None and abs(sums - middle) > DISAGREE * max(sums, middle):
        told += ", slices disagree"
    if must is not None:
        told += f"   {'at most' if at_most else 'at least'} {must:g}: {verdict(a, b, figure, must, at_most, missed)}"
    print(f"    {label + ' / ' + b.name:<34} {middle:5.2f}x  [{least:.2f} .. {most:.2f}]{told}")
    context.keep(row, f"{label} / {b.name}", {"median": middle, "min": least, "max": most, "must": must} | ({} if sums is None else {"sums": sums}))
    return middle
