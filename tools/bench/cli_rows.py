"""Rows of the command line: `forebay cp` beside rclone and the AWS CLI against one server."""

import statistics

from rigs.process import ROOT

from .cli_small import WAYS, Contest
from .rows import row

MUST = {"rclone": 2.0, "aws": 10.0}  # of 10,000 files of 10 KiB at a Forebay; the large one, and a server that is slower than each client, are recorded
AWS_ROUNDS = 2  # it takes twenty times as long


def _ratios(context, row_name, contest, what, way, rival):
    ours, theirs = (contest.samples[what, way, name] for name in ("forebay", rival))
    for index, label in ((0, "wall"), (1, "client CPU")):
        each = sorted(t[index] / max(o[index], 0.01) for o, t in zip(ours, theirs))
        middle, must = statistics.median(each), MUST[rival] if what == "small" and index == 0 and row_name == "cli" else None
        told = f"   at least {must:g}: {'met' if middle >= must else 'MISSED'}" if must else ""
        print(f"    {contest.label(what):>16} {way:4} {label + ' of ' + rival:<20} {middle:6.2f}x  [{each[0]:.2f} .. {each[-1]:.2f}]{told}")
        context.keep(row_name, f"{what} {way}, {label} of {rival}", {"median": middle, "min": each[0], "max": each[-1], "must": must})


def _measure(context, row_name, kind):
    contest = Contest(context.dir, context.binary, kind)
    try:
        for name in contest.missing:
            context.skip(f"{name} is not installed: not beside us")
        for number in range(context.rounds):
            contest.round(number, None if number < AWS_ROUNDS else ("forebay", "rclone"))
    finally:
        contest.end()
    print(f"  {contest.bare_text()}")
    context.keep(row_name, "the file system alone", {"us_per_file": contest.bare_us, "in_memory": contest.in_memory})
    for (what, way, name), each in contest.samples.items():
        wall, cpu = (statistics.median(figures) for figures in zip(*each))
        print(f"  {contest.label(what):>16} {way:4} {name:8} {wall:8.2f} s  {cpu:7.2f} CPU-s of the client, {len(each)} rounds")
        context.keep(row_name, f"{what} {way}, {name}", {"wall_s": wall, "cpu_s": cpu})
    for what in contest.sets():
        for way in WAYS:
            for rival in contest.tools:
                if rival != "forebay":
                    _ratios(context, row_name, contest, what, way, rival)


@row("cli", "forebay cp beside rclone and the AWS CLI against one Forebay: 10,000 files of 10 KiB, and 1 GiB, up and down")
def cli(context):
    _measure(context, "cli", "forebay")


@row("cli-seaweed", "the same against SeaweedFS: a server that is not ours")
def cli_seaweed(context):
    if not (ROOT / ".venv/bin/weed").exists():
        context.skip("SeaweedFS is not installed (tools/venv.sh check): no foreign server")
        return
    _measure(context, "cli-seaweed", "seaweed")
