#!/usr/bin/env python3
"""cli_small: 10,000 files of 10 KiB up and down, and 1 GiB: `forebay cp`, rclone and the AWS CLI against one server, in turn.

    cli_small.py [--files N] [--size BYTES] [--large MIB] [--rounds N] [--forebay PATH] [--skip aws,rclone]

Wall seconds, and CPU seconds of the client: the least of the rounds. The server is the same for all; it lives in a folder of its own.
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


def run(argv, env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run([str(a) for a in argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{argv[0]} ended with {done.returncode}:\n{done.stderr.decode()[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tools(binary, endpoint, keys, skip):
    """name: (up, down, one up, one down), each a function of (local path, s3 name) that gives an argv."""
    found = {"forebay": [lambda a, b: [binary, "cp", "-r", "-q", a, f"s3://{b}"], lambda a, b: [binary, "cp", "-r", "-q", f"s3://{b}", a]]}
    if "rclone" not in skip and shutil.which("rclone"):
        remote = f":s3,provider=Other,env_auth=true,region=us-east-1,endpoint='{endpoint}':"
        flags = ["--transfers", "32", "--checkers", "32", "--s3-no-check-bucket"]
        found["rclone"] = [lambda a, b: ["rclone", "copy", *flags, a, remote + b], lambda a, b: ["rclone", "copy", *flags, remote + b, a]]
    aws = ROOT / ".venv/bin/aws"
    aws = aws if aws.exists() else shutil.which("aws")
    if "aws" not in skip and aws:
        base = [aws, "--endpoint-url", endpoint, "s3", "cp", "--recursive", "--only-show-errors"]
        found["aws"] = [lambda a, b: [*base, a, f"s3://{b}"], lambda a, b: [*base, f"s3://{b}", a]]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=10_240)
    parser.add_argument("--large", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--forebay", default=ROOT / "build/forebay", type=pathlib.Path)
    parser.add_argument("--skip", default="")
    options = parser.parse_args()
    os.environ["FOREBAY_BIN"] = str(options.forebay)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        folder = pathlib.Path(folder)
        small, large = folder / "small", folder / "large"
        for i in range(options.files):
            path = small / f"{i % 100:02}" / f"{i:06}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(options.size))
        large.mkdir()
        with open(large / "one", "wb") as f:
            for _ in range(options.large):
                f.write(os.urandom(1 << 20))
        with forebay_rig.Forebay(folder / "data", settings={"disk.segment_bytes": "1GiB"}) as server:
            server.wait_ready()
            keys = server.keys()
            env = forebay_rig.server_env({"FOREBAY_ENDPOINT": server.endpoint, "AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1], "AWS_DEFAULT_REGION": "us-east-1", "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")})
            env["PATH"] = os.environ["PATH"]
            least = {}
            kinds = tools(options.forebay, server.endpoint, keys, options.skip.split(","))
            for round_ in range(options.rounds):
                for name, (up, down) in kinds.items():
                    for what, source in (("small", small), ("large", large)):
                        bucket = f"{name}-{what}-{round_}"
                        run([options.forebay, "mb", f"s3://{bucket}"], env)
                        times = {"up": run(up(source, f"{bucket}/x"), env)}
                        target = folder / "back"
                        times["down"] = run(down(target, f"{bucket}/x"), env)
                        count = sum(1 for p in target.rglob("*") if p.is_file())
                        assert count == (options.files if what == "small" else 1), f"{name}: {count} files came back"
                        shutil.rmtree(target)
                        run([options.forebay, "rb", "--force", "-q", f"s3://{bucket}"], env)
                        for way, figure in times.items():
                            old = least.get((what, way, name), figure)
                            least[what, way, name] = tuple(min(x, y) for x, y in zip(old, figure))
            print(f"{'':24}{'wall s':>10}{'client CPU s':>14}{'wall ratio':>12}{'CPU ratio':>12}")
            for (what, way, name), (wall, cpu) in least.items():
                ours = least[what, way, "forebay"]
                label = f"{options.files} x {options.size} B" if what == "small" else f"{options.large} MiB"
                print(f"{label:>14} {way:4} {name:8}{wall:7.2f}{cpu:14.2f}{wall / ours[0]:12.1f}{cpu / max(ours[1], 0.01):12.1f}")
            server.end()


if __name__ == "__main__":
    main()
