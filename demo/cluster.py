"""make demo-cluster: one etcd and three nodes on loopback; writes, reads through each, kills one, brings it back.

It shows what an operator would type, what a client sees, and how long each step took. All of it is removed at the end.
"""

import collections
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from rigs import etcd as etcd_rig  # noqa: E402
from rigs.forebay import Forebay, binary, server_env  # noqa: E402
from rigs.process import free_ports, http_get  # noqa: E402

OBJECTS = 60
KEY_BYTES = 100_000


def say(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


class Demo:
    def __init__(self, folder):
        self.folder = folder
        self.began = time.monotonic()
        self.nodes = {}
        self.ports = {}

    def forebay(self, *args, node=None, check=True):
        """Types a command, shows it, and what it prints."""
        words = [str(a) for a in args]
        print(f"$ forebay {' '.join(words)}", flush=True)
        if node:
            words += ["--endpoint-url", node.endpoint]
        done = subprocess.run([binary("rel"), *words], env=server_env(), capture_output=True, text=True)
        print((done.stdout + done.stderr).rstrip(), flush=True)
        if check and done.returncode != 0:
            raise SystemExit(f"forebay {words[0]} ended with {done.returncode}")
        return done

    def start(self, name, show=False):
        data, peer = self.ports.setdefault(name, tuple(free_ports(2)))
        flags = ["--etcd", self.etcd.endpoint, "--cluster", "demo", "--cluster-key", self.folder / "cluster.key"]
        flags += ["--node", name, "--peer-listen", f"127.0.0.1:{peer}"]
        if show:
            print(f"$ forebay serve {name} --listen 127.0.0.1:{data} --etcd {self.etcd.endpoint} --cluster demo --cluster-key cluster.key --node {name}")
        self.nodes[name] = Forebay(self.folder / name, log_dir=self.folder / f"log-{name}", args=flags, port=data, build="rel")
        return self.nodes[name]

    def run(self):
        say("One etcd, one key, three nodes")
        self.etcd = etcd_rig.Etcd(self.folder / "etcd")
        with open(self.folder / "cluster.key", "w") as out:
            subprocess.run([binary("rel"), "cluster", "key"], stdout=out, check=True)
        print("$ forebay cluster key > cluster.key")
        self.etcd.wait_ready()
        nodes = [self.start(name, show=True) for name in ("n1", "n2", "n3")]
        for node in nodes:
            node.wait_ready()
        self.forebay("cluster", "wait", "--nodes", "3", node=nodes[0])
        self.forebay("cluster", "show", node=nodes[0])

        say(f"{OBJECTS} objects go in through one node, and come out through each")
        source = self.folder / "source"
        source.mkdir()
        for i in range(OBJECTS):
            (source / f"{i:03}").write_bytes(bytes([i]) * KEY_BYTES)
        self.forebay("mb", "s3://box", node=nodes[0])
        self.forebay("cp", "-q", "-r", f"{source}/", "s3://box/", node=nodes[0])
        for node in nodes:
            seen = self.look(node)
            print(f"through {node.endpoint}: {seen['right']} of {OBJECTS} read and equal, others: {self.others(seen)}")

        say("kill -9 of one node")
        nodes[2].kill()
        killed = time.monotonic()
        while b'"down"' not in http_get(nodes[0].endpoint + "/_/cluster")[1]:
            time.sleep(0.2)
        print(f"the others have evicted it after {time.monotonic() - killed:.1f} s")
        self.forebay("cluster", "show", node=nodes[0])
        for node in nodes[:2]:
            seen = self.look(node)
            print(f"through {node.endpoint}: {seen['right']} of {OBJECTS} read and equal, others: {self.others(seen)}")
        print("(objects have one replica so far: those of the dead node are 503 until it is back, never 404)")

        say("The same line starts it again")
        self.start("n3", show=True).wait_ready()
        self.forebay("cluster", "wait", "--nodes", "3", node=nodes[0])
        seen = self.look(nodes[0])
        print(f"through {nodes[0].endpoint}: {seen['right']} of {OBJECTS} read and equal, others: {self.others(seen)}")
        say(f"Done in {time.monotonic() - self.began:.0f} s")
        return seen["right"] == OBJECTS

    def look(self, node):
        seen = collections.Counter()
        for i in range(OBJECTS):
            status, body = http_get(f"{node.endpoint}/box/{i:03}")
            seen["right" if status == 200 and body == bytes([i]) * KEY_BYTES else status] += 1
        return seen

    def others(self, seen):
        return ", ".join(f"{n} x {status}" for status, n in seen.items() if status != "right") or "none"

    def end(self):
        for node in self.nodes.values():
            node.stop()
        if hasattr(self, "etcd"):
            self.etcd.kill()


def main():
    if etcd_rig.find() is None:
        raise SystemExit("there is no etcd: tools/unpack.sh etcd-server, or apt-get install etcd-server")
    with tempfile.TemporaryDirectory(prefix="forebay-demo-") as folder:
        demo = Demo(pathlib.Path(folder))
        try:
            whole = demo.run()
        finally:
            demo.end()
    return 0 if whole else 1


if __name__ == "__main__":
    raise SystemExit(main())
