"""The command line: verbs, output for people and for programs, exit codes (0 ok, 2 usage, 3 not found, 4 denied, 5 unavailable)."""

import json
import os
import subprocess
import types

import pytest
from rigs import forebay
from rigs.process import PATIENCE, ROOT, free_ports


@pytest.fixture
def cli(server):
    """cli(*args, status=0) runs `forebay`, finds `server` by FOREBAY_ENDPOINT, and returns what it printed."""

    def run(*args, status=0, input=None, env=None):
        environment = forebay.server_env({"FOREBAY_ENDPOINT": server.endpoint, **(env or {})})
        done = subprocess.run([str(a) for a in (server.binary, *args)], env=environment, input=input, capture_output=True, timeout=PATIENCE)
        for word in forebay.BAD_WORDS:
            assert word not in done.stderr.decode(errors="replace"), done.stderr.decode()
        assert done.returncode == status, f"{args}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr.decode()}"
        run.stderr = done.stderr.decode()
        return done.stdout

    return run


def test_a_round_trip(cli, tmp_path):
    body = os.urandom(20_000_000)
    (tmp_path / "file").write_bytes(body)
    cli("mb", "s3://round")
    cli("cp", tmp_path / "file", "s3://round/a/b")
    cli("cp", "s3://round/a/b", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == body
    cli("put", tmp_path / "file", "s3://round/put")
    cli("get", "s3://round/put", tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == body
    assert cli("cat", "s3://round/a/b") == body
    assert b"20000000" in cli("stat", "s3://round/a/b")
    assert b"put" in cli("ls", "s3://round")
    cli("rm", "s3://round/a/b")
    cli("cat", "s3://round/a/b", status=3)
    cli("rm", "s3://round/put")
    cli("rb", "s3://round")
    assert b"round" not in cli("ls")


def test_pipes(cli):
    cli("mb", "s3://pipes")
    body = os.urandom(9_000_000)
    cli("cp", "-", "s3://pipes/k", input=body)
    assert cli("cp", "s3://pipes/k", "-") == body


def test_json(cli, tmp_path):
    cli("mb", "s3://json")
    (tmp_path / "file").write_bytes(b"12345")
    cli("cp", tmp_path / "file", "s3://json/k")
    for flag in (["-o", "json"], ["--json"]):
        assert "json" in json.dumps(json.loads(cli("ls", *flag)))
        listed = json.loads(cli("ls", "s3://json", *flag))
        assert '"k"' in json.dumps(listed) and "5" in json.dumps(listed)
        assert "827ccb0eea8a706c4c34a16891f84e7b" in json.dumps(json.loads(cli("stat", "s3://json/k", *flag)))
        assert json.loads(cli("version", *flag))


def test_exit_codes_and_sentences(cli, server):
    cli("cat", "s3://no-such-bucket/k", status=3)
    assert "no-such-bucket" in cli.stderr
    cli("lss", status=2)
    assert "ls" in cli.stderr  # did you mean
    assert "rm" in (cli("delete", "x", status=2), cli.stderr)[1]
    cli("--endpoint", server.endpoint, "-q", "ls", env={"FOREBAY_ENDPOINT": "http://127.0.0.1:1"})
    assert b"ID" in cli(f"--endpoint={server.endpoint}", "disk", "ls")
    cli("-r", "ls", status=2)
    assert "before the verb" in cli.stderr
    cli("-q", status=2)
    assert cli("help", "cp") == cli("cp", "--help")
    for argv in (("mb", "s3://b"), ("stat", "s3://B_"), ("cp", "/etc/hosts", "s3://b/x")):
        cli(*argv, status=2)
        assert "3 to 63" in cli.stderr and '"b' in cli.stderr.lower()
    cli("cp", "/etc/hosts", "s3://bucket/" + "k" * 1025, status=2)
    assert "1025 bytes: at most 1024" in cli.stderr
    cli("cp", status=2)
    cli("cp", "s3://a/b", "--no-such-flag", status=2)
    (port,) = free_ports(1)
    cli("ls", status=5, env={"FOREBAY_ENDPOINT": f"http://127.0.0.1:{port}"})
    assert str(port) in cli.stderr
    cli("ls", status=4, env={"FOREBAY_ACCESS_KEY_ID": server.keys()[0], "FOREBAY_SECRET_ACCESS_KEY": "wrong"})
    assert server.keys()[1] not in cli.stderr


def test_rb_of_a_bucket_that_is_not_empty(cli, tmp_path):
    cli("mb", "s3://full")
    (tmp_path / "file").write_bytes(b"x")
    cli("cp", tmp_path / "file", "s3://full/k")
    cli("rb", "s3://full", status=1)
    assert "full" in cli.stderr
    cli("rb", "--force", "s3://full", status=2)  # no terminal to ask on
    assert "1 object," in cli.stderr and "--yes" in cli.stderr
    assert cli("cat", "s3://full/k") == b"x"
    assert b"would delete s3://full/k" in cli("rb", "--force", "-n", "s3://full")
    assert cli("cat", "s3://full/k") == b"x"
    cli("rb", "--force", "--yes", "s3://full")
    cli("stat", "s3://full", status=3)


def test_rm_of_what_is_not_there(cli, tmp_path):
    cli("mb", "s3://few")
    (tmp_path / "file").write_bytes(b"x")
    cli("cp", tmp_path / "file", "s3://few/folder/k")
    cli("rm", "s3://few/none", status=3)
    assert "no object s3://few/none" in cli.stderr
    cli("rm", "s3://few/folder", status=3)
    assert "-r deletes" in cli.stderr
    cli("rm", "s3://few/folder/k")
    cli("rb", "s3://few")


@pytest.mark.parametrize("name", ["FOREBAY_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
def test_where_it_finds_the_server(server, name):
    env = forebay.server_env({name: server.endpoint})
    done = subprocess.run([str(server.binary), "ls"], env=env, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    flag = subprocess.run([str(server.binary), "ls", "--endpoint-url", server.endpoint], env=forebay.server_env(), capture_output=True, timeout=PATIENCE)
    assert flag.returncode == 0, flag.stderr


def test_env_is_what_aws_clients_need(cli, server):
    """eval $(forebay env) && aws s3 ls: with Debian's AWS CLI, which takes no endpoint from the environment"""
    script = 'set -e; PATH=/usr/bin:/bin; eval $("$0" env); aws s3 mb s3://by-env; aws s3 ls; "$0" env > env.sh; . ./env.sh; aws s3 ls'
    env = forebay.server_env({"FOREBAY_ENDPOINT": server.endpoint, "AWS_CONFIG_FILE": "/dev/null", "PYTHONPATH": ""})
    done = subprocess.run(["bash", "-c", script, str(server.binary)], env=env, cwd=server.data_dir.parent, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "by-env" in done.stdout, done.stdout + done.stderr
    given = {"AWS_ENDPOINT_URL": server.endpoint, "AWS_ACCESS_KEY_ID": server.keys()[0], "AWS_SECRET_ACCESS_KEY": server.keys()[1]}
    assert given.items() <= json.loads(cli("env", "--format", "json")).items()
    python = {"__builtins__": {"__import__": lambda *a: types.SimpleNamespace(environ=told)}}
    told = {}
    exec(cli("env", "--format", "python").decode(), python)
    assert given.items() <= told.items() and python["storage_options"]["key"] == server.keys()[0]
    assert f'  - name: AWS_ENDPOINT_URL\n    value: "{server.endpoint}"\n' in cli("env", "--format", "yaml").decode()
    cli("env", "--format", "toml", status=2)


def test_every_verb_has_help_with_an_example(cli):
    for verb in ("serve", "mb", "rb", "ls", "cp", "put", "get", "cat", "rm", "stat", "bench", "env", "version", "bucket", "disk", "config"):
        text = cli(verb, "--help").decode()
        assert f"forebay {verb}" in text, verb
    assert b"serve" in cli("--help")


def test_bench_prints_figures(cli):
    cli("mb", "s3://bench")
    out = json.loads(cli("bench", "put", "s3://bench", "--size", "4096", "--count", "50", "--json"))
    assert out
    out = json.loads(cli("bench", "get", "s3://bench", "--size", "4096", "--count", "50", "--json"))
    assert "p99" in json.dumps(out)


def test_config_says_where_a_value_comes_from(cli):
    text = cli("config", "show", "--origin").decode()
    assert "cache.budget" in text and "# endpoint " in text and "FOREBAY_ENDPOINT" in text
    cli("config", "check", ROOT / "README.md", status=2)
    held = json.loads(cli("config", "show", "--client", "--json", "--region", "eu-9"))
    assert held["region"] == {"value": "eu-9", "from": "--region"} and held["endpoint"]["from"] == "FOREBAY_ENDPOINT"
