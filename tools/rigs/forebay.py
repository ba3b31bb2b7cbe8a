"""Our server as a child process: started, watched, ended, and its log read for what must not be there."""

import configparser
import os
import pathlib
import signal
import time

from .process import PATIENCE, ROOT, Patience, Process, free_ports, http_get

# Words of the sanitizers, of assert(), and of a NULL for "%s"; a log that holds one is a failure whatever the client saw.
BAD_WORDS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:", "WARNING: ThreadSanitizer", "Assertion `", "(null)")
# A segment is reserved whole: many servers side by side want small ones. And tests that count what a remote is asked for number
# their keys: what is fetched ahead they ask for themselves. A machine that stutters has no slow disk.
USUAL = {"disk.segment_bytes": "64MiB", "index.map_size": "1GiB", "cache.readahead": "0", "disk.slow": "1m"}


def binary(build="dev"):
    """FOREBAY_BIN, else build/forebay (rel) or build/PRESET/forebay."""
    default = ROOT / "build/forebay" if build == "rel" else ROOT / "build" / build / "forebay"
    return pathlib.Path(os.environ.get("FOREBAY_BIN", default))


class Forebay(Process):
    """`forebay serve DIR`; answers at .endpoint. `args` are more flags, `settings` become --set (None: the server's own default), `tls` a certificate and its key; `address` is where it listens."""

    def __init__(self, data_dir, log_dir=None, args=(), settings=None, port=None, env=None, build="dev", tls=None, address="127.0.0.1"):
        self.data_dir = pathlib.Path(data_dir)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.port = port or free_ports(1)[0]
        self.tls = tls  # (certificate, key)
        self.endpoint = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        if tls:
            args = (*args, "--tls-cert", str(tls[0]), "--tls-key", str(tls[1]))
        self.binary = binary(build)
        flags = [f"--set={name}={value}" for name, value in {**USUAL, **(settings or {})}.items() if value is not None]
        super().__init__(
            "forebay",
            [self.binary, "serve", self.data_dir, "--listen", f"{address}:{self.port}", *flags, *args],
            log_dir or self.data_dir.parent,
            env=server_env(env),
        )

    def wait_ready(self, timeout=PATIENCE):
        self.wait_until(lambda: self.get("/_/readyz")[0] == 200, timeout, "become ready")
        return self

    def get(self, path):
        return http_get(self.endpoint + path, cafile=self.tls[0] if self.tls else None)

    def keys(self):
        """(access key, secret key) that the first start wrote."""
        file = configparser.ConfigParser()
        file.read(self.data_dir / ".forebay/credentials")
        section = file[file.sections()[0]] if file.sections() else file["DEFAULT"]
        return section["aws_access_key_id"], section["aws_secret_access_key"]

    def metrics(self):
        """{name with labels: value} of /_/metrics; who is turned away because too many are there comes again."""
        patience = Patience()
        status, body = http_get(self.endpoint + "/_/metrics")
        while status in (0, 503) and self.popen.poll() is None and not patience.is_over():
            time.sleep(0.05)
            status, body = http_get(self.endpoint + "/_/metrics")
        if status != 200:
            raise RuntimeError(f"/_/metrics answered {status}")
        rows = (line.rsplit(" ", 1) for line in body.decode().splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    def rss_anon_kib(self):
        for line in pathlib.Path(f"/proc/{self.popen.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
        raise RuntimeError("no RssAnon in /proc/PID/status")

    def end(self):
        """SIGTERM as an operator would: it must go, with status 0 and a clean log."""
        status = self.stop(timeout=PATIENCE)
        self.check_log()
        assert status == 0, f"ended with {status} after SIGTERM ({signal_name(status)}); its log:\n{self.log()[-8000:]}"

    def check_log(self):
        log = self.log()
        for word in BAD_WORDS:
            assert word not in log, f"the server's log has {word!r}:\n{log[log.index(word) - 2000 if log.index(word) > 2000 else 0:][:12000]}"


def signal_name(status):
    return signal.Signals(-status).name if status < 0 else "no signal"


def server_env(more=None):
    """Ours, without anybody's AWS variables, with the sanitizers set to speak up."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "FOREBAY_"))}
    env["ASAN_OPTIONS"] = "detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=0"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
    env["AWS_EC2_METADATA_DISABLED"] = "true"
    env.update(more or {})
    return env
