"""Python's: boto3 (newest, and 1.35 of .venv-old), minio-py, s3fs, pyarrow, deltalake, s3torchconnectorclient, mosaicml-streaming, DuckDB."""

import subprocess
import warnings

import pytest

from conftest import CLIENTS, HERE, ROOT, need

PYTHON = CLIENTS / "venv/bin/python"
WAYS = [(scheme, style) for scheme in ("http", "https") for style in ("path", "virtual")]


@pytest.mark.parametrize(("scheme", "style"), WAYS)
@pytest.mark.parametrize("venv", [".venv", ".venv-old"])
def test_boto3(scenario, venv, scheme, style):
    scenario([ROOT / venv / "bin/python", HERE / "use_boto3.py"], scheme, style)


@pytest.mark.parametrize(("scheme", "style"), WAYS)
@pytest.mark.parametrize("name", ["minio", "s3fs"])
def test_all_ways(scenario, name, scheme, style):
    need(name)
    scenario([PYTHON, HERE / f"use_{name}.py"], scheme, style)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_pyarrow(scenario, scheme):
    need("pyarrow")
    scenario([PYTHON, HERE / "use_pyarrow.py"], scheme)


@pytest.mark.parametrize(("name", "script"), [("deltalake", "deltalake"), ("s3torchconnectorclient", "s3torch"), ("mosaicml-streaming", "streaming")])
def test_over_http(scenario, name, script):
    """These take no certificate authority of ours, or none that a test may set."""
    need(name)
    scenario([PYTHON, HERE / f"use_{script}.py"])


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_aistore(scenario, scheme):
    need("aistore")
    scenario([PYTHON, HERE / "use_aistore.py"], scheme)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_aistore_torch(scenario, scheme):
    """Its datasets beside Debian's torch, with worker processes."""
    need("aistore")
    need("alive-progress")
    need("webdataset")
    scenario([PYTHON, HERE / "use_aistore_torch.py"], scheme)


def test_duckdb(scenario):
    """Its httpfs extension is not in the package: it would be fetched from elsewhere when it is first used."""
    need("duckdb")
    has = subprocess.run([PYTHON, "-c", "import duckdb; print(duckdb.sql(\"select installed from duckdb_extensions() where extension_name = 'httpfs'\").fetchone()[0])"], capture_output=True, text=True)
    if has.stdout.strip() != "True":
        warnings.warn("CLIENT NOT TESTED: duckdb: its package comes without the httpfs extension", stacklevel=1)
        pytest.skip("duckdb's package comes without the httpfs extension")
    scenario([PYTHON, HERE / "use_duckdb.py"])
