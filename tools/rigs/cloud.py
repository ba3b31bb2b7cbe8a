"""The handle of a cloudproxy process."""

import json
import pathlib
import urllib.request

from .process import PATIENCE, ROOT, Process, free_ports, http_get


class Cloud(Process):
    """A cloudproxy in front of `upstream` (a server with .port), answering at .endpoint."""

    def __init__(self, upstream, log_dir, latency_ms=0, mib_s=0):
        (self.port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{self.port}"
        super().__init__(
            "cloudproxy",
            [
                ROOT / ".venv/bin/python",
                pathlib.Path(__file__).with_name("cloudproxy.py"),
                f"--listen={self.port}",
                f"--upstream=127.0.0.1:{upstream.port}",
                f"--latency-ms={latency_ms}",
                f"--mib-s={mib_s}",
            ],
            log_dir,
        )

    def wait_ready(self, timeout=PATIENCE):
        self.wait_until(lambda: http_get(self.endpoint + "/_proxy/stats")[0] == 200, timeout)
        return self

    def _control(self, method, what, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.endpoint}/_proxy/{what}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return json.load(reply)

    def stats(self):
        return self._control("GET", "stats")

    def forget(self):
        """Counts from zero; returns what was counted."""
        return self._control("DELETE", "stats")

    def requests(self, op="GetObject"):
        return self.stats()["requests"].get(op, 0)

    def object_bytes(self):
        """Body bytes of objects that were read through it."""
        return self.stats()["bytes_out"].get("GetObject", 0)

    def rule(self, fault, **rule):
        self._control("POST", "rules", {"fault": fault, **rule})

    def behave(self):
        self._control("DELETE", "rules")

    def wait_held(self, count=1):
        """Until so many transfers stand where a rule with hold=True stopped them."""
        self.wait_until(lambda: self.stats()["held"] >= count, what=f"hold {count} transfers")

    def wait_alone(self):
        """Until nobody else has a connection: what was released counts no more bytes."""
        self.wait_until(lambda: self.stats()["open"] == 1, what="let the others go")

    def release(self):
        """What is held, and what stalls, goes on; rules stay."""
        self._control("POST", "release")

    def settings(self, **settings):
        self._control("POST", "settings", settings)
