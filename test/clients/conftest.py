"""Suites of the clients that people use: each in an environment of its own that tools/clients.sh makes, against a server over
http and https, path and virtual-host style. One that could not be installed is skipped, with the reason, loudly: a warning.

    site(scheme)     a server that asks everybody: .endpoint .keys() .tls
    scenario(...)    runs a script of test/clients in the environment NAME of .clients
"""

import itertools
import os
import pathlib
import subprocess
import sys
import warnings

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
CLIENTS = ROOT / ".clients"
sys.path.insert(0, str(ROOT / "tools"))
from rigs import forebay  # noqa: E402

names = itertools.count(1)
TOKEN_KEY = "the key of tokens of AIS clients"


def need(name):
    """Skips, loudly, when tools/clients.sh could not make `name`; its reason is in .clients/NAME.missing."""
    missing = CLIENTS / f"{name}.missing"
    if missing.exists() or not (CLIENTS / f"{name}.ready").exists():
        why = missing.read_text().strip() if missing.exists() else "tools/clients.sh has not made it"
        warnings.warn(f"CLIENT NOT TESTED: {name}: {why}", stacklevel=2)
        pytest.skip(f"{name}: {why}")


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clients")
    pair = folder / "tls.crt", folder / "tls.key"
    subprocess.run([str(forebay.binary()), "tls", "selfsign", "--cert", pair[0], "--key", pair[1], "-n", "s3.localhost", "-n", "*.s3.localhost", "-n", "127.0.0.1"], check=True, capture_output=True)
    made = {}
    token_key = folder / "token.key"
    token_key.touch(0o600)
    token_key.write_text(TOKEN_KEY)
    for scheme in ("http", "https"):
        made[scheme] = forebay.Forebay(folder / scheme, args=["--auth"], settings={"s3.domains": "s3.localhost", "ais.token_key_file": str(token_key)}, log_dir=folder / f"log-{scheme}", tls=pair if scheme == "https" else None)
        made[scheme].wait_ready()
    yield made
    for server in made.values():
        server.end()


@pytest.fixture
def scenario(servers):
    """scenario(command, scheme="http", style="path"): appends ENDPOINT KEY SECRET BUCKET STYLE CAFILE; its last line is "ok"."""

    def run(command, scheme="http", style="path", timeout=300, env=None):
        server = servers[scheme]
        key, secret = server.keys()
        bucket = f"client-{next(names)}"
        endpoint = server.endpoint.replace("127.0.0.1", "s3.localhost") if style == "virtual" else server.endpoint
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PYTHON"))}
        environment.update({"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1", "TOKEN_KEY": TOKEN_KEY, "PYTHONPATH": str(HERE), **(env or {})})
        cafile = str(server.tls[0]) if server.tls else ""
        done = subprocess.run([str(c) for c in (*command, endpoint, key, secret, bucket, style, cafile)], env=environment, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0 and done.stdout.strip().endswith("ok"), f"{command}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"
        return done.stdout

    return run
