"""SeaweedFS in one process: the S3 server that plays the remote."""

import json
import os
import pathlib

from .process import PATIENCE, ROOT, Process, free_ports, http_get

ACCESS_KEY = "remote-access-key"
SECRET_KEY = "remote-secret-key"  # of a server that lives for one test, on loopback


class Seaweed(Process):
    """Keeps its data in data_dir; answers S3 at .endpoint to ACCESS_KEY and SECRET_KEY only."""

    def __init__(self, data_dir, log_dir=None):
        data_dir = pathlib.Path(data_dir)
        data_dir.mkdir(parents=True, exist_ok=True)
        config = data_dir / "s3.json"
        config.write_text(json.dumps(_identities()))
        config.chmod(0o600)
        names = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")
        ports = dict(zip(names, free_ports(len(names))))
        flags = [f"-{name.replace('.grpc', '.port.grpc') if '.grpc' in name else name + '.port'}={port}" for name, port in ports.items()]
        super().__init__(
            "seaweedfs",
            [
                ROOT / ".venv/bin/weed",
                f"-logdir={data_dir}",
                "server",
                "-s3",
                f"-s3.config={config}",
                f"-dir={data_dir}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                "-master.volumeSizeLimitMB=1024",
                "-master.electionTimeout=1s",
                "-volume.max=2000",
                "-volume.preStopSeconds=0",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                *flags,
            ],
            log_dir or data_dir,
            env={k: v for k, v in os.environ.items() if not k.startswith("AWS_")},
        )
        self.port = ports["s3"]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._volume = ports["master"]

    def wait_ready(self, timeout=PATIENCE):
        """Until S3 answers and there is a volume server to write to."""
        self.wait_until(lambda: http_get(self.endpoint + "/")[0] in (200, 403), timeout, "answer S3")
        assign = f"http://127.0.0.1:{self._volume}/dir/assign"
        self.wait_until(lambda: b'"fid"' in http_get(assign)[1], timeout, "offer a volume")
        return self

    def stop(self, timeout=0.0):
        """Its data is thrown away, and it takes ten seconds to say goodbye: no waiting."""
        return self.kill()


def _identities():
    return {
        "identities": [
            {
                "name": "trainer",
                "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
                "actions": ["Admin", "Read", "List", "Tagging", "Write"],
            }
        ]
    }
