"""One etcd-server, Debian's, for a cluster of nodes on loopback. It does not sync: its machine does not lose power."""

import pathlib
import shutil

from .process import PATIENCE, ROOT, Process, free_ports, http_get


def find():
    """The program, or None: tools/unpack.sh etcd-server puts it into .tools."""
    local = ROOT / ".tools/usr/bin/etcd"
    return local if local.exists() else shutil.which("etcd")


class Etcd(Process):
    """Answers at .endpoint. The same ports and folder again: the same etcd, restarted."""

    def __init__(self, data_dir, ports=None):
        self.data_dir = pathlib.Path(data_dir)
        self.ports = ports or free_ports(2)
        self.endpoint, peer = (f"http://127.0.0.1:{port}" for port in self.ports)
        super().__init__(
            "etcd",
            [
                find(),
                "--name=one",
                f"--data-dir={self.data_dir}",
                f"--listen-client-urls={self.endpoint}",
                f"--advertise-client-urls={self.endpoint}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=one={peer}",
                "--unsafe-no-fsync",
            ],
            self.data_dir.parent,
        )

    def wait_ready(self, timeout=PATIENCE):
        self.wait_until(lambda: http_get(self.endpoint + "/health")[0] == 200, timeout, "answer")
        return self

    def again(self):
        """After stop() or kill()."""
        return Etcd(self.data_dir, self.ports)
