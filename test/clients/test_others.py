"""The SDKs for JavaScript and Go, rclone, s5cmd."""

import os
import subprocess

import pytest

from conftest import CLIENTS, HERE, need

WAYS = [(scheme, style) for scheme in ("http", "https") for style in ("path", "virtual")]


@pytest.mark.parametrize(("scheme", "style"), WAYS)
def test_aws_sdk_for_javascript(scenario, scheme, style):
    need("js")
    scenario(["node", CLIENTS / "js/sdk.mjs"], scheme, style)


@pytest.mark.parametrize(("scheme", "style"), WAYS)
def test_aws_sdk_for_go(scenario, scheme, style):
    need("go-sdk")
    scenario([CLIENTS / "bin/go-sdk"], scheme, style)


def make_tree(folder):
    files = {"small": b"x" * 10, "deep/empty": b"", "deep/big": os.urandom(20_000_000), "ü b+c": b"odd", "a%2Fb": b"percent"}
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return files


def run(*command, env, status=0):
    done = subprocess.run([str(c) for c in command], env={k: v for k, v in {**os.environ, **env}.items()}, capture_output=True, text=True, timeout=180)
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_rclone(servers, tmp_path, scheme):
    need("rclone")
    server = servers[scheme]
    key, secret = server.keys()
    env = {
        "RCLONE_CONFIG": str(tmp_path / "none"), "RCLONE_CONFIG_FB_TYPE": "s3", "RCLONE_CONFIG_FB_PROVIDER": "Other", "RCLONE_CONFIG_FB_ACCESS_KEY_ID": key,
        "RCLONE_CONFIG_FB_SECRET_ACCESS_KEY": secret, "RCLONE_CONFIG_FB_ENDPOINT": server.endpoint, "RCLONE_CONFIG_FB_REGION": "us-east-1", "RCLONE_S3_CHUNK_SIZE": "5M",
        "RCLONE_S3_UPLOAD_CUTOFF": "10M", **({"RCLONE_CA_CERT": str(server.tls[0])} if server.tls else {}),
    }  # fmt: skip
    rclone = CLIENTS / "bin/rclone"
    files = make_tree(tmp_path / "up")
    bucket = f"rclone-{scheme}"
    run(rclone, "mkdir", f"fb:{bucket}", env=env)
    run(rclone, "sync", tmp_path / "up", f"fb:{bucket}/tree", env=env)  # multipart, metadata, checksums
    assert sorted(run(rclone, "lsf", "-R", "--files-only", f"fb:{bucket}/tree", env=env).splitlines()) == sorted(files)
    run(rclone, "check", tmp_path / "up", f"fb:{bucket}/tree", env=env)
    run(rclone, "sync", f"fb:{bucket}/tree", tmp_path / "down", env=env)
    for name, body in files.items():
        assert (tmp_path / "down" / name).read_bytes() == body
    run(rclone, "touch", "-t", "2020-01-02T03:04:05", f"fb:{bucket}/tree/small", env=env)  # a copy onto itself with other metadata
    assert run(rclone, "lsf", "--format", "t", f"fb:{bucket}/tree/small", env=env).startswith("2020-01-02")
    run(rclone, "copy", f"fb:{bucket}/tree", f"fb:{bucket}/copy", env=env)  # on the server
    assert run(rclone, "cat", f"fb:{bucket}/copy/small", env=env) == "x" * 10
    (tmp_path / "up/small").unlink()
    run(rclone, "sync", tmp_path / "up", f"fb:{bucket}/tree", env=env)
    assert "small" not in run(rclone, "lsf", f"fb:{bucket}/tree", env=env)
    run(rclone, "purge", f"fb:{bucket}", env=env)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_s5cmd(servers, tmp_path, scheme):
    need("s5cmd")
    server = servers[scheme]
    key, secret = server.keys()
    env = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "us-east-1", "S3_ENDPOINT_URL": server.endpoint}
    s5cmd = [CLIENTS / "bin/s5cmd", *(["--no-verify-ssl"] if server.tls else [])]
    files = make_tree(tmp_path / "up")
    bucket = f"s5cmd-{scheme}"
    run(*s5cmd, "mb", f"s3://{bucket}", env=env)
    run(*s5cmd, "cp", "-p", "5", f"{tmp_path / 'up'}/", f"s3://{bucket}/tree/", env=env)
    listed = run(*s5cmd, "ls", f"s3://{bucket}/tree/*", env=env)
    assert all(name in listed for name in files)
    run(*s5cmd, "cp", f"s3://{bucket}/tree/*", f"{tmp_path / 'down'}/", env=env)
    for name, body in files.items():
        assert (tmp_path / "down" / name).read_bytes() == body
    run(*s5cmd, "cp", f"s3://{bucket}/tree/small", f"s3://{bucket}/copy", env=env)
    run(*s5cmd, "rm", f"s3://{bucket}/*", env=env)
    run(*s5cmd, "rb", f"s3://{bucket}", env=env)
