"""Latency at a fixed rate, told apart from the machine's: requests that met a moment in which a core was away count on no side.

A host that takes a core for a millisecond makes more of p99.9 than any server does, and so does a thread of the kernel that looks through memory. So
while a slice is measured a thread before all others on each core (test/bench/watch.c) wakes every 0.2 ms and writes down what went wrong. Two kinds of
moments are thrown away, on all sides alike:

- the *interrupt* that should have woken it came STALL_NS late or more. No program keeps interrupts off for so long: the host had the core;
- the *thread that is measured* (a server's loop, the generator) wanted to run and stood in its core's queue for STALL_NS or more, while less than
  half of that went to other threads of its process or to the kernel's for packets: somebody else had the core.

A sleep, a lock, a page fault that waits for the disk, a long turn or system call of a server is none of these: it stays in.

What a stall explains of a request is counted, not only whether they met: the stalls while it was under way, and the backlog of those before it was due. A
stall adds its own length to the backlog, which goes away at 1 / DRAIN of the time that follows. No queue that is served in order delays anybody by more. At 70 %
of the slower one's peak a backlog is gone after 0.7 / (1 - 0.7) = 2.3 times the stall, less for who is faster; DRAIN is the same for all, with room for a core
that is slower than when the peak was measured. Who takes longer than that has no further excuse.

A request of which anything is explained is thrown away, unless what is left of its latency is more than REST times p50: then it counts, with what is left. Its
whole latency would charge the host's part to it; to throw it away, however long, would excuse the longest pauses of a server most surely, since they meet a
stall. REST is the goal of p99.9 / p50: no rest that goes would have missed it. Less would charge sides for what comes with stalls: answers go in the order of
connections, so that one may be overtaken by those of all 16; caches are cold; what is below STALL_NS is not counted.

p99 is compared turn by turn, and the median of these ratios is what counts, as in all rows: a core that is slow for a second, not away, drives who is
nearest to his limit over it, and would be all that is seen in figures of all turns together. p99.9 / p50 is that of all slices together, and told of the median slice beside.
Whatever excuses one side more often than another would be no excuse: the shares of time away and of requests thrown away are printed, and where sides differ nothing is assessed.
"""

import array
import bisect
import collections
import json
import math
import random
import statistics
import subprocess

from . import machine, servers
from .duel import DRAWN, bounds, load, within

SLICE_S, WARMUP_S, PEAK_S = 0.3, 0.15, 0.15
STALL_NS = 150_000
DRAIN = 4
REST = 20  # times p50
ENOUGH = 10_000  # requests of a side: p99.9 stands on ten of them at least
ENOUGH_A_TURN = 500  # p99 of a slice, on five
THROWN_MOST = 2 / 3  # of a side's requests
APART = 2  # a side's share of time away, of requests thrown away, beside another's
STEPS = 100  # a bucket of latencies is a hundredth of its value wide
TAIL_MUST = 20


# ---- arithmetic ----


def stalls_of(gaps):
    """[(from, until)] in ns of gaps as watch.c tells them: those that are the doing of nobody who is measured."""
    out = []
    for _, begin, end, late, kept, waited, theirs in gaps:
        if waited >= STALL_NS and theirs < waited / 2:
            out.append((begin - waited, end))
        elif late - kept >= STALL_NS:
            out.append((begin, end))
    return sorted(out)


class Stalls:
    """What stalls explain of a request's latency. Those of both cores at once count once: while nobody goes on it is no matter how many stand."""

    def __init__(self, stalls, drain=DRAIN):
        self.drain, self.stalls, self.before, self.gone = drain, [], [], []
        for begin, end in sorted(stalls):
            if self.stalls and begin <= self.stalls[-1][1]:
                self.stalls[-1] = (self.stalls[-1][0], max(end, self.stalls[-1][1]))
                continue
            before, gone = self.backlog(begin), self.away_until(begin)
            self.stalls.append((begin, end))
            self.before.append(before)
            self.gone.append(gone)

    def last(self, at):
        return bisect.bisect_right(self.stalls, at, key=lambda s: s[0]) - 1

    def away_until(self, at):
        k = self.last(at)
        return self.gone[k] + min(at, self.stalls[k][1]) - self.stalls[k][0] if k >= 0 else 0

    def away(self, begin, end):
        """How much of begin..end lies in stalls."""
        return self.away_until(end) - self.away_until(begin)

    def backlog(self, at):
        """By how much who comes now is behind."""
        k = self.last(at)
        if k < 0:
            return 0
        begin, end = self.stalls[k]
        return max(0, self.before[k] + min(at, end) - begin - max(at - end, 0) / self.drain)

    def explain(self, begin, end):
        """How much a request may have been delayed that was due and answered then."""
        return self.backlog(begin) + self.away(begin, end)


def bucket_of(us):
    return math.floor(math.log(max(us, 0.1)) * STEPS)


def quantile(counts, share):
    """In us, of {bucket: how many}."""
    want, seen = share * sum(counts.values()), 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen > want:
            return math.exp((bucket + 0.5) / STEPS)
    return 0.0


class Slice:
    """What one run showed: latencies of all requests; of those that met no stall, and what stalls leave unexplained of the others."""

    def __init__(self, spans, gaps):
        stalls = Stalls(stalls_of(gaps))
        self.all, self.calm, met = collections.Counter(), collections.Counter(), []
        for due, answered in spans:
            took, explained = answered - due, stalls.explain(due, answered)
            self.all[bucket_of(took / 1000)] += 1
            if explained > 0:
                met.append(took - explained)
            else:
                self.calm[bucket_of(took / 1000)] += 1
        most = REST * min(quantile(counts, 0.5) for counts in (self.calm, self.all) if counts) if spans else 0
        self.calm.update(bucket_of(rest / 1000) for rest in met if rest / 1000 > most)
        begin, end = (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else (0, 0)
        self.ns, self.away = end - begin, stalls.away(begin, end)
        self.thrown = 1 - sum(self.calm.values()) / max(len(spans), 1)


QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def figures_of(slices):
    """{"all": {"p50": ...}, "calm": ..., "thrown": share, "away": share} of such slices taken together."""
    out = {}
    for which in ("all", "calm"):
        counts = collections.Counter()
        for s in slices:
            counts.update(getattr(s, which))
        out[which] = {"requests": sum(counts.values()), **{name: quantile(counts, share) for name, share in QUANTILES.items()}}
    out["thrown"] = 1 - out["calm"]["requests"] / max(out["all"]["requests"], 1)
    out["away"] = sum(s.away for s in slices) / max(sum(s.ns for s in slices), 1)
    return out


def drawn(sides):
    """[figures of each side] of DRAWN choices of turns, each as many as there were: how else the same minutes might have fallen out."""
    rng, turns = random.Random(1), len(sides[0])
    out = []
    for _ in range(DRAWN):
        chosen = rng.choices(range(turns), k=turns)
        out.append([figures_of([side[t] for t in chosen]) for side in sides])
    return out


def verdict(middle, low, high, must):
    told = "met" if middle <= must else "MISSED"
    return told if (high <= must if middle <= must else low > must) else f"{told}, but a few slices decide"


def apart(ours, theirs):
    """Whether stalls fall on one side more than on another, turn by turn, by more than chance: what a host does in two turns of a dozen is no
    sign, what a server makes comes in all of them. Shares of time of each turn."""
    low, high = bounds([a - b for a, b in zip(ours, theirs)])
    least, most = sorted((statistics.median(ours), statistics.median(theirs)))
    return (low > 0 or high < 0) and most > APART * least


# ---- measuring ----


class Watch:
    """Both cores are watched, on behalf of who is measured on them. Where real-time priority is refused nobody watches."""

    def __init__(self, context, server_pids, client_pid):
        argv = [str(context.tools / "watch")]
        for core, pids in zip(context.cores, (server_pids, [client_pid])):
            argv += [str(core), str(machine.busiest_thread(pids)), ",".join(map(str, [*pids, *machine.kernel_thread(f"ksoftirqd/{core}")]))]
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.there = self.child.stdout.readline() == "ready\n"

    def gaps(self):
        told, _ = self.child.communicate()
        if self.child.returncode not in (0, 3):
            raise RuntimeError("watch ended badly; what it said is above")
        if not self.there:
            return None
        told = json.loads(told)
        if told["lost"]:
            raise RuntimeError(f"{told['lost']} gaps more than watch has room for: this machine is not there at all")
        return told["gaps"]


def spans_of(file):
    """[(due, answered)] in ns."""
    points = array.array("Q", file.read_bytes())
    return list(zip(points[0::4], points[3::4]))


def watched_load(context, c, conns, seconds, warmup, *flags):
    """(sample of load(), gaps or None where nobody could watch). Peaks are watched too: that costs a tenth of a core here."""
    watches = []
    flags = ["-c", conns, "-w", warmup, "-s", c.size, *(["-R"] if context.read else []), *c.flags, *flags]
    pids = c.server.pids()
    sample = load(context, c.port, c.paths, *flags, pids=pids, seconds=seconds, beside=lambda pid: watches.append(Watch(context, pids, pid)))
    context.errors += sample["errors"]
    return sample, watches[0].gaps()


def peak(context, stores, conns):
    """70 % of what the slower one can do now."""
    each = [watched_load(context, c, conns, PEAK_S, WARMUP_S / 2)[0]["rps"] for c in stores]
    return max(1, int(0.7 * min(each)))


def one_slice(context, c, conns, rate):
    """(Slice, whether somebody watched)."""
    each = context.dir / "each"
    _, gaps = watched_load(context, c, conns, SLICE_S, WARMUP_S, "-r", rate, "-E", each)
    return Slice(spans_of(each), gaps or []), gaps is not None


def in_turn(context, sides, conns):
    """(slices of each side, rates, whether somebody watched all the time). Each turn begins with the peaks: a host's cores are faster now and then, and
    70 % of a minute ago may be more than there is. In an order by chance: nobody always follows the same one."""
    rng = random.Random(1)
    stores = [c for c in sides if not c.name.startswith("bare loop")]
    slices, rates, watched = [[] for _ in sides], [], True
    for turn in range(max(4, round(context.rounds * context.seconds / SLICE_S))):
        if context.patient and turn % 8 == 0:
            machine.wait_quiet()
        rates.append(peak(context, stores, conns))
        for at in rng.sample(range(len(sides)), len(sides)):
            one, there = one_slice(context, sides[at], conns, rates[-1])
            watched = watched and there
            slices[at].append(one)
    return slices, rates, watched


def at_a_rate(context, name, conns, finalists, musts):
    """Latency when nobody is at his limit: all at 70 % of the peak of the slower store, counted from when a request was due. `musts`: "p99", of
    ours to nginx's."""
    if machine.throttled(servers.Pinned.favoured):
        context.skip("--favour: a generator that waits for the hour spins, and the kernel takes what runs in real time off its core for 50 ms a second: no tails")
        return
    slices, rates, watched = in_turn(context, finalists, conns)
    key = f"{name} c={conns} at a rate"
    print(f"  {name}: {conns} connections, {statistics.median(rates):,.0f} ({min(rates):,} to {max(rates):,}) requests a second each, {len(rates)} slices of {SLICE_S:g} s each, in turn")
    if not watched:
        print("    no real-time priority for who would watch the cores (root has it): nothing is thrown away")
    assess(context, key, finalists, slices, musts)


def assess(context, key, finalists, slices, musts):
    measured = [figures_of(side) for side in slices]
    chance = drawn(slices)
    say_table(finalists, measured)
    for c, figures in zip(finalists, measured):
        context.keep(key, c.name, figures)
    unfit = unfit_of(finalists[0], measured[0])
    differ = [apart_of(slices[0], c.name, theirs) for c, theirs in zip(finalists[1:], slices[1:])]
    for rival, theirs, figures, why in zip(finalists[1:], slices[1:], measured[1:], differ):
        why = why or unfit or unfit_of(rival, figures)
        must = musts.get("p99") if rival.name.startswith("nginx") else None
        say_ratio(context, key, slices[0], (rival.name, theirs), must, why)
    say_spread(context, key, finalists, slices, measured, chance, unfit or (differ[0] if all(differ) else None))


def say_table(sides, measured):
    print(f"    {'':<22} {'all':>9} {'p50 us':>7} {'p99':>7} {'p99.9':>7}   {'calm':>9} {'p50 us':>7} {'p99':>7} {'p99.9':>7}   core away  thrown away")
    for c, of in zip(sides, measured):
        parts = [f"{of[w]['requests']:>9,} " + " ".join(f"{of[w][q]:>7,.0f}" for q in QUANTILES) for w in ("all", "calm")]
        print(f"    {c.name:<22} {parts[0]}   {parts[1]}   {of['away']:>9.2%}  {of['thrown']:>11.1%}")


def unfit_of(c, figures):
    """Why nothing is assessed of this side: None, or a sentence."""
    if figures["thrown"] > THROWN_MOST:
        return f"{figures['thrown']:.0%} of {c.name}'s requests met a stall"
    if figures["calm"]["requests"] < ENOUGH:
        return f"{figures['calm']['requests']:,} undisturbed requests of {c.name}: p99.9 wants {ENOUGH:,}"
    return None


def apart_of(ours, rival, theirs):
    """Whether a core is away, or requests are thrown away, more often on one side than on the other: a sentence, or None."""
    shares = ("a core was away for", "of time", lambda s: s.away / max(s.ns, 1)), ("thrown away were", "of requests", lambda s: s.thrown)
    for what, whole, share in shares:
        a, b = ([share(s) for s in side] for side in (ours, theirs))
        if apart(a, b):
            a, b = statistics.median(a), statistics.median(b)
            return f"{what} {a:.2%} {whole} in the median turn on our side, {b:.2%} beside {rival}: that may be one side's own doing, nothing is assessed"
    return None


def ratios_of(ours, theirs, which, share):
    """Of each turn in which enough is left on both sides."""
    each = []
    for a, b in zip(ours, theirs):
        a, b = getattr(a, which), getattr(b, which)
        if min(sum(a.values()), sum(b.values())) >= ENOUGH_A_TURN:
            each.append(quantile(a, share) / quantile(b, share))
    return each


def say_ratio(context, key, ours, rival, must, unfit):
    """`rival`: (name, slices). Of all requests, and of undisturbed ones: those are assessed unless something is `unfit`."""
    for which in ("all", "calm"):
        each = ratios_of(ours, rival[1], which, 0.99)
        assessed = must is not None and which == "calm"
        named = f"p99 / {rival[0] + ', ' + ('undisturbed' if which == 'calm' else 'all'):<36}"
        if not each:
            why = f"no turn in which both sides have {ENOUGH_A_TURN} requests"
            print(f"    {named} {why}" + (f"   at most {must:g}: NOT ASSESSED" if assessed else ""))
            context.keep(key, f"p99 / {rival[0]}, {which}", {"median": None, "must": must if assessed else None, "unfit": why})
            continue
        middle, (low, high) = statistics.median(each), bounds(each)
        told = f"   at most {must:g}: {'NOT ASSESSED' if unfit else verdict(middle, low, high, must)}" if assessed else ""
        print(f"    {named} {middle:5.2f}x  [{low:.2f} .. {high:.2f}] with 95 %, {len(each)} turns{told}")
        context.keep(key, f"p99 / {rival[0]}, {which}", {"median": middle, "min": low, "max": high, "must": must if assessed else None, "unfit": unfit})
    if unfit:
        print(f"      {unfit}")


def usual(figures):
    """p50. Slow requests that met a stall stay where quick ones do not: that of those that stay is not to grow by it."""
    return max(min(figures["all"]["p50"], figures["calm"]["p50"]), 0.1)


def say_spread(context, key, sides, slices, measured, chance, unfit):
    """Of all slices together, where a stall that comes once a second is seen, and of the median slice, where a slow second of the host is not."""
    told = {}
    for at, c in enumerate(sides):
        spread = [one[at]["calm"]["p99.9"] / usual(one[at]) for one in (measured, *chance)]
        middle, (low, high) = spread[0], within(spread[1:])
        each = [quantile(s.calm, 0.999) / usual(figures_of([s])) for s in slices[at] if sum(s.calm.values()) >= ENOUGH_A_TURN] or [0]
        whole = measured[at]["all"]["p99.9"] / max(measured[at]["all"]["p50"], 0.1)
        told[c.name] = middle, low, high
        print(f"    p99.9 / p50 of {c.name:<22} {middle:5.1f}x  [{low:.1f} .. {high:.1f}] undisturbed, {statistics.median(each):.1f}x in the median slice; {whole:.1f}x of all")
        context.keep(key, f"p99.9 / p50, {c.name}", {"median": middle, "min": low, "max": high, "median slice": statistics.median(each), "all": whole})
    if sides[0].size <= 256 << 10:
        loops = [of for name, of in told.items() if name.startswith("bare loop")]
        ours = told[sides[0].name]
        beside = ", nor met by the bare loop" if ours[0] > TAIL_MUST and any(of[0] > TAIL_MUST for of in loops) else ""
        print(f"      ours at most {TAIL_MUST}: {f'NOT ASSESSED: {unfit}' if unfit else verdict(*ours, TAIL_MUST) + beside}")
