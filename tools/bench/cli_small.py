#!/usr/bin/env python3
"""cli_small: 10,000 files of 10 KiB up and down, and 1 GiB: `forebay cp`, rclone and the AWS CLI against one server, in turn.

    cli_small.py [--files N] [--size BYTES] [--large MIB] [--rounds N] [--server forebay|seaweed] [--forebay PATH] [--skip aws,rclone]

Wall seconds, and CPU seconds of the client: the least of the rounds; `make bench ROW=cli` prints ratios of each round. The server is the same for all; it
lives in a folder of its own. `forebay` compares what comes back with what went up (`diff`).

Small files that came back stay until the end: ext4 gives the inode of a removed file out again only minutes later, and for each new file looks at all of
those (`recently_deleted()`): 0.2 to 0.6 ms a file. Whoever comes next would pay that, and the ratio tell of the file system rather than of the clients.
What a file costs with no client is timed while the sources are made, and printed. Over 100 us others removed many files there lately (a test run does), or
the machine is busy; then files come down to /dev/shm, for all clients alike.
"""

import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from rigs import forebay as forebay_rig  # noqa: E402
from rigs import seaweed as seaweed_rig  # noqa: E402

WAYS = ("up", "down")
BARE_US = 100  # a file of 10 KiB that takes longer with no client between is the file system's affair
MEMORY = pathlib.Path("/dev/shm")


def run(argv, env):
    """(wall, CPU) seconds of a client that ends well."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run([str(a) for a in argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]} ended with {done.returncode}:\n{done.stderr.decode()[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def aws_binary():
    own = ROOT / ".venv/bin/aws"
    return own if own.exists() else shutil.which("aws")


def tools(binary, endpoint, skip=()):
    """name: (up, down), each a function of (local path, s3 name) that gives an argv; and the names of those that are not installed."""
    found, missing = {"forebay": [lambda a, b: [binary, "cp", "-r", "-q", a, f"s3://{b}"], lambda a, b: [binary, "cp", "-r", "-q", f"s3://{b}", a]]}, []
    if "rclone" not in skip and shutil.which("rclone"):
        remote = f":s3,provider=Other,env_auth=true,region=us-east-1,endpoint='{endpoint}':"
        flags = ["--transfers", "32", "--checkers", "32", "--s3-no-check-bucket"]
        found["rclone"] = [lambda a, b: ["rclone", "copy", *flags, a, remote + b], lambda a, b: ["rclone", "copy", *flags, remote + b, a]]
    elif "rclone" not in skip:
        missing.append("rclone")
    if "aws" not in skip and aws_binary():
        base = [aws_binary(), "--endpoint-url", endpoint, "s3", "cp", "--recursive", "--only-show-errors"]
        found["aws"] = [lambda a, b: [*base, a, f"s3://{b}"], lambda a, b: [*base, f"s3://{b}", a]]
    elif "aws" not in skip:
        missing.append("the AWS CLI")
    return found, missing


class Contest:
    """One server and the clients beside each other. `samples`: (set, way, client) to a list of (wall, CPU); the sets are "small" and "large"."""

    def __init__(self, folder, binary, kind="forebay", files=10_000, size=10_240, large=1024, skip=()):
        self.folder, self.binary, self.files, self.size, self.large = pathlib.Path(folder), binary, files, size, large
        self.kind, self.server = kind, self._serve(kind)
        env = {"FOREBAY_ENDPOINT": self.server.endpoint, "AWS_DEFAULT_REGION": "us-east-1", "HOME": str(folder), "XDG_STATE_HOME": str(self.folder / "state")}
        env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"] = self.keys
        self.env = {**forebay_rig.server_env(env), "PATH": os.environ["PATH"]}
        self.tools, self.missing = tools(binary, self.server.endpoint, skip)
        self.samples, self.bare_us = {}, 0.0
        self._make_sets()
        self.in_memory = self.bare_us > BARE_US and MEMORY.is_dir()
        self.back = pathlib.Path(tempfile.mkdtemp(prefix="cli-small-", dir=MEMORY if self.in_memory else folder))

    def _serve(self, kind):
        if kind == "seaweed":
            self.keys = seaweed_rig.ACCESS_KEY, seaweed_rig.SECRET_KEY
            return seaweed_rig.Seaweed(self.folder / "weed").wait_ready()
        os.environ["FOREBAY_BIN"] = str(self.binary)
        server = forebay_rig.Forebay(self.folder / "data", settings={"disk.segment_bytes": "1GiB"})
        server.wait_ready()
        self.keys = server.keys()
        return server

    def _make_sets(self):
        for i in range(self.files):
            path = self.folder / "small" / f"{i % 100:02}" / f"{i:06}"
            path.parent.mkdir(parents=True, exist_ok=True)
            content = os.urandom(self.size)
            begun = time.monotonic()
            path.write_bytes(content)
            self.bare_us += (time.monotonic() - begun) * 1e6 / self.files
        (self.folder / "large").mkdir()
        with open(self.folder / "large/one", "wb") as f:
            for _ in range(self.large):
                f.write(os.urandom(1 << 20))

    def sets(self):
        return ("small", "large") if self.large else ("small",)

    def label(self, what):
        return f"{self.files} x {self.size // 1024} KiB" if what == "small" else f"{self.large} MiB"

    def ours(self, *argv):
        return run([self.binary, *argv], self.env)

    def round(self, number, clients=None):
        for name, (up, down) in self.tools.items():
            for what in self.sets() if clients is None or name in clients else ():
                bucket = f"{name}-{what}-{number}"
                target = (self.back if what == "small" else self.folder / "back") / bucket
                self.ours("mb", f"s3://{bucket}")
                self.samples.setdefault((what, "up", name), []).append(run(up(self.folder / what, f"{bucket}/x"), self.env))
                self.samples.setdefault((what, "down", name), []).append(run(down(target, f"{bucket}/x"), self.env))
                if number == 0:  # what came back is what there is, and what there is went up
                    self.ours("diff", "-q", target, f"s3://{bucket}/x")
                    self.ours("diff", "-q", self.folder / what, f"s3://{bucket}/x")
                count = sum(1 for p in target.rglob("*") if p.is_file())
                assert count == (self.files if what == "small" else 1), f"{name}: {count} files came back"
                if what == "large" or self.in_memory:  # else small ones stay: see above
                    shutil.rmtree(target)
                if self.kind == "forebay":  # another's may take a minute for a thousand keys; its folder goes as a whole
                    self.ours("rb", "--force", "--yes", "-q", f"s3://{bucket}")

    def bare_text(self):
        told = f"the file system alone takes {self.bare_us:.0f} us a file"
        return told + f", over {BARE_US}: small files come down to {MEMORY}" if self.in_memory else told

    def end(self):
        shutil.rmtree(self.back)
        self.server.end() if hasattr(self.server, "end") else self.server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=10_240)
    parser.add_argument("--large", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server", default="forebay", choices=("forebay", "seaweed"))
    parser.add_argument("--forebay", default=ROOT / "build/forebay", type=pathlib.Path)
    parser.add_argument("--skip", default="")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        contest = Contest(folder, o.forebay, o.server, o.files, o.size, o.large, o.skip.split(","))
        try:
            for number in range(o.rounds):
                contest.round(number)
        finally:
            contest.end()
        print(contest.bare_text())
        print(f"{'':24}{'wall s':>10}{'client CPU s':>14}{'wall ratio':>12}{'CPU ratio':>12}")
        least = {k: [min(figures) for figures in zip(*v)] for k, v in contest.samples.items()}
        for (what, way, name), (wall, cpu) in least.items():
            ours = least[what, way, "forebay"]
            print(f"{contest.label(what):>14} {way:4} {name:8}{wall:7.2f}{cpu:14.2f}{wall / ours[0]:12.1f}{cpu / max(ours[1], 0.01):12.1f}")


if __name__ == "__main__":
    main()
