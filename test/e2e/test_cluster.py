"""Nodes of one cluster as real processes, with Debian's etcd: joining, leaving, killed, standing still, etcd gone and back.

What a node says in each of these cases is part of the test: docs/cluster.md has the sentences. Waiting is for conditions.
"""

import json
import os
import signal
import subprocess

import pytest
from conftest import boto
from rigs import etcd as etcd_rig
from rigs.forebay import USUAL, Forebay, binary, server_env
from rigs.process import PATIENCE, free_ports

pytestmark = pytest.mark.skipif(etcd_rig.find() is None, reason="there is no etcd: tools/unpack.sh etcd-server")


def pair_of_ports():
    """For clients, and for other nodes."""
    return tuple(free_ports(2))


class Cluster:
    """An etcd, a key, and nodes that are started by name."""

    def __init__(self, folder):
        self.folder, self.nodes, self.ports = folder, {}, {}
        self.etcd = etcd_rig.Etcd(folder / "etcd")
        self.key = folder / "cluster.key"
        with open(self.key, "w") as out:
            subprocess.run([binary(), "cluster", "key"], stdout=out, check=True)
        self.etcd.wait_ready()

    def flags(self, name, **other):
        data, peer = self.ports.setdefault(other.get("data", name), pair_of_ports())
        given = {
            "etcd": self.etcd.endpoint,
            "cluster": "bay",
            "cluster-key": self.key,
            "node": name,
            "peer-listen": f"127.0.0.1:{peer}",
            **other,
        }
        given.pop("data", None)
        return data, [word for flag, value in given.items() for word in (f"--{flag}", str(value))]

    def start(self, name, wait=True, **other):
        port, flags = self.flags(name, **other)
        folder = other.get("data", name)
        node = Forebay(self.folder / folder, log_dir=self.folder / f"log-{folder}", args=flags, port=port)
        self.nodes[name] = node
        return node.wait_ready() if wait else node

    def refused(self, name, folder, **other):
        """What a start that must fail says."""
        port, flags = self.flags(name, data=folder, **other)
        command = [binary(), "serve", self.folder / folder, "--listen", f"127.0.0.1:{port}", *flags, *(f"--set={k}={v}" for k, v in USUAL.items())]
        done = subprocess.run([str(word) for word in command], env=server_env(), capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode not in (0, None), done.stderr
        return done.stderr.splitlines()[-1] if not done.stderr.splitlines()[-1].startswith(" ") else done.stderr.splitlines()[-2]

    def cli(self, node, *args, status=0):
        done = subprocess.run([binary(), "cluster", *args, "--endpoint-url", node.endpoint], env=server_env(), capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def show(self, node):
        return json.loads(self.cli(node, "show", "-o", "json"))

    def states(self, node):
        return {n["name"]: n["state"] for n in self.show(node)["nodes"]}

    def end(self):
        for node in self.nodes.values():
            if node.popen.poll() is None:
                node.popen.send_signal(signal.SIGCONT)
                node.stop(PATIENCE)
            node.check_log()
        self.etcd.kill()


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.end()


def status_of(node, key):
    return node.get(f"/box/{key}")[0]


def patient(node):
    """As clients are by default: after a change of the map a node answers 503 for keys it has gained, until all nodes know."""
    return boto(node.endpoint, node.keys(), retries={"total_max_attempts": 12})


def put(node, key, body):
    patient(node).put_object(Bucket="box", Key=key, Body=body)


def get(node, key):
    return patient(node).get_object(Bucket="box", Key=key)["Body"].read()


def test_three_nodes_share_buckets_users_and_keys(cluster):
    one, two, three = (cluster.start(name, wait=False) for name in ("n1", "n2", "n3"))
    for node in (one, two, three):
        node.wait_ready()
    cluster.cli(one, "wait", "--nodes", "3")
    shown = cluster.show(two)
    assert shown["whole"] and shown["problems"] == [] and len(shown["nodes"]) == 3
    assert sorted(round(n["keys_percent"]) for n in shown["nodes"]) == [33, 33, 33]
    assert one.keys() == two.keys() == three.keys()
    boto(one.endpoint, one.keys()).create_bucket(Bucket="box")
    assert [b["Name"] for b in boto(three.endpoint, three.keys()).list_buckets()["Buckets"]] == ["box"]
    made = json.loads(subprocess.run([str(binary()), "user", "add", "eve", "-g", "list:s3://box", "-o", "json", "--endpoint-url", one.endpoint], env=server_env(), capture_output=True, check=True).stdout)
    assert boto(three.endpoint, (made["access_key"], made["secret_key"])).list_objects_v2(Bucket="box")["KeyCount"] == 0
    stored = b"".join(path.read_bytes() for path in (cluster.folder / "etcd").rglob("*") if path.is_file())
    assert b"user/eve" in stored and made["secret_key"].encode() not in stored
    for i in range(12):
        put((one, two, three)[i % 3], f"k{i}", b"%d" % i)
    for node in (one, two, three):
        assert [get(node, f"k{i}") for i in range(12)] == [b"%d" % i for i in range(12)]
    # In order: the others need not wait for its lease.
    assert two.stop(PATIENCE) == 0
    assert cluster.states(one)["n2"] == "down"
    assert "node n2 is down" in cluster.cli(three, "wait", "--timeout", "0s", status=1)
    cluster.start("n2")
    cluster.cli(one, "wait", "--nodes", "3")


def test_what_must_not_start_says_why(cluster, tmp_path):
    one = cluster.start("n1")
    alone = subprocess.run([str(binary()), "serve", str(tmp_path / "n1"), "--listen", f"127.0.0.1:{free_ports(1)[0]}"], env=server_env(), capture_output=True, text=True)
    assert alone.returncode != 0 and 'belongs to node "n1" of cluster "bay"' in alone.stderr
    assert "another process runs as node" in cluster.refused("n1", "empty") or "this folder is empty" in cluster.refused("n1", "empty")
    assert 'belongs to cluster "bay"' in cluster.refused("n1", "n1", cluster="sea")
    assert 'is the folder of node "n1"' in cluster.refused("n7", "n1")
    other = tmp_path / "other.key"
    other.write_text("00" * 32)
    other.chmod(0o644)
    assert "cluster.key" not in cluster.refused("n2", "n2", **{"cluster-key": other})
    other.chmod(0o600)
    assert 'is not the key of cluster "bay"' in cluster.refused("n2", "n2", **{"cluster-key": other})
    # A node that ran alone creates clusters, and joins none.
    with Forebay(tmp_path / "lone") as lone:
        lone.wait_ready()
        boto(lone.endpoint, lone.keys()).create_bucket(Bucket="mine")
        lone.end()
    assert "only the first node of a cluster brings data along" in cluster.refused("lone", "lone")
    lone = cluster.start("lone", cluster="own")
    assert [b["Name"] for b in boto(lone.endpoint, lone.keys()).list_buckets()["Buckets"]] == ["mine"]
    # Native buckets exist: who joins now is a gateway.
    late = cluster.start("late", cluster="own")
    shown = cluster.show(late)
    assert [n["keys_percent"] for n in shown["nodes"]] == [100, 0]
    assert "holds no keys" in shown["notes"][0] and shown["whole"]


def test_nodes_that_die_or_stand_still_are_evicted_and_come_back(cluster):
    one, two, three = (cluster.start(name, wait=False) for name in ("n1", "n2", "n3"))
    for node in (one, two, three):
        node.wait_ready()
    boto(one.endpoint, one.keys()).create_bucket(Bucket="box")
    keys = [f"k{i}" for i in range(24)]
    for key in keys:
        put(one, key, key.encode())
    os.kill(two.popen.pid, signal.SIGSTOP)
    three.kill_alive()
    # kill -9: the same name starts again, when the lease of the former process is certainly over.
    three = cluster.start("n3", wait=False)
    one.wait_until(lambda: cluster.states(one)["n2"] == "down", PATIENCE, "evict the node")
    # One replica: what the lost owners hold is unavailable, never missing.
    one.wait_until(lambda: "down" in cluster.states(one).values(), PATIENCE, "see that they are gone")
    assert {status_of(one, key) for key in keys} == {200, 503}
    os.kill(two.popen.pid, signal.SIGCONT)
    cluster.cli(one, "wait", "--nodes", "3")
    for node in (one, two, three):
        assert [get(node, key) for key in keys] == [key.encode() for key in keys]
    assert "this node was evicted" in two.log()
    assert "may still have a lease" in three.log()
    # An operator's word holds over restarts.
    cluster.cli(one, "maintenance", "n2")
    two.wait_until(lambda: two.get("/_/readyz")[0] == 503, PATIENCE, "lose its lease")
    assert two.stop(PATIENCE) == 0
    two = cluster.start("n2", wait=False)
    two.wait_until(lambda: "is in maintenance" in two.log(), PATIENCE, "say what it is in")
    cluster.cli(one, "maintenance", "n2", "--off")
    cluster.cli(one, "wait", "--nodes", "3")
    assert two.stop(PATIENCE) == 0
    refused = subprocess.run([str(binary()), "cluster", "remove", "n2", "--endpoint-url", one.endpoint], env=server_env(), capture_output=True, text=True)
    assert refused.returncode != 0 and "--lost" in refused.stderr
    cluster.cli(one, "remove", "n2", "--lost")
    assert 'node "n2" was removed' in cluster.refused("n2", "n2")


def test_without_etcd_nothing_is_written_and_all_goes_on_after(cluster):
    one = cluster.start("n1")
    boto(one.endpoint, one.keys()).create_bucket(Bucket="box")
    put(one, "k", b"1")
    cluster.etcd.kill()
    one.wait_until(lambda: one.get("/_/readyz")[0] == 503, PATIENCE, "lose its lease")
    with pytest.raises(Exception, match="lease"):
        boto(one.endpoint, one.keys()).put_object(Bucket="box", Key="k", Body=b"2")
    # A start waits, in words.
    two = cluster.start("n2", wait=False)
    three = cluster.start("n3", wait=False)
    for node in (two, three):
        node.wait_until(lambda: "node.waits_for_etcd" in node.log(), PATIENCE, "say that it waits")
    assert three.stop(PATIENCE) != -signal.SIGKILL  # SIGTERM ends a start that waits
    cluster.etcd = cluster.etcd.again()
    one.wait_ready(), two.wait_ready()
    assert get(one, "k") == b"1"
    put(one, "k", b"3")
    assert get(one, "k") == b"3"
