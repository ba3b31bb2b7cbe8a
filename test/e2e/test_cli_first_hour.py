"""What cost a new user data, time or trust: what removes says where, and what is not there is an error."""

import json

import pytest
from rigs import fakeremote

from command import Cli

NOTE = "at the remote"


@pytest.fixture
def cli(server, tmp_path):
    return Cli(server, tmp_path)


@pytest.fixture
def remote():
    """A bucket "far" at a remote, with objects; it takes writes."""
    with fakeremote.FakeRemote(writable=True) as far:
        for name in ("a", "b", "d/c"):
            far.put(f"/far/{name}", name.encode() * 10)
        yield far


@pytest.fixture
def attached(cli, remote, request):
    """The name of a bucket that stands for it."""
    name = f"att-{abs(hash(request.node.name)) % 10**9}"
    cli("bucket", "attach", "s3://far", "--as", name, "--endpoint", remote.endpoint, "--anonymous")
    return name


def at_remote(remote):
    return sorted(path for path in remote.objects if path.startswith("/far/"))


ALL = ["/far/a", "/far/b", "/far/d/c"]


# ---- what removes says where ----


def test_detach_leaves_the_remote_alone(cli, remote, attached):
    cli("cat", f"s3://{attached}/a")
    assert f"would detach s3://{attached}" in cli("bucket", "detach", "-n", f"s3://{attached}")
    told = cli("bucket", "detach", f"s3://{attached}")
    assert f"detached s3://{attached}" in told and remote.endpoint in told and "far" in told and "stays as it is" in told
    cli("stat", f"s3://{attached}", status=3)
    assert at_remote(remote) == ALL
    cli("mb", "s3://own-one")
    cli("bucket", "detach", "s3://own-one", status=2)
    assert "not attached" in cli.stderr and "forebay rb" in cli.stderr
    cli("bucket", "detach", "s3://own-none", status=3)


def test_rb_of_an_attached_bucket_names_detach(cli, remote, attached):
    for flags in ([], ["--force"], ["--force", "--yes"], ["--yes"], ["-n", "--force"]):
        cli("rb", f"s3://{attached}", *flags, status=2)
        assert f"forebay bucket detach s3://{attached}" in cli.stderr and remote.endpoint in cli.stderr
    cli("rb", f"s3://{attached}", "--remote", status=2)
    assert "--force" in cli.stderr
    assert at_remote(remote) == ALL
    cli("rb", f"s3://{attached}", "--force", "--remote", status=2)  # no terminal to ask on
    for word in (remote.endpoint, "bucket far", "delete 3 objects", "--yes"):
        assert word in cli.stderr, cli.stderr
    assert at_remote(remote) == ALL
    planned = cli("rb", f"s3://{attached}", "--force", "--remote", "-n")
    assert planned.count(f"would delete s3://{attached}/") == 3 and planned.count(f"{NOTE} {remote.endpoint}, bucket far") == 3
    assert f"would detach s3://{attached}" in planned
    assert "detached" in cli("rb", f"s3://{attached}", "--force", "--remote", "--yes")
    assert at_remote(remote) == []
    cli("mb", "s3://own-two")
    cli("rb", "s3://own-two", "--force", "--remote", "--yes", status=2)
    assert "is not attached" in cli.stderr
    cli("rb", "s3://own-two")


def test_the_question_names_endpoint_bucket_and_count(cli, remote, attached):
    asked = cli.terminal("rb", f"s3://{attached}", "--force", "--remote", columns=400)
    asked.expect(b"[y/N]").type(b"n\n")
    assert asked.end() == 7
    assert f"delete 3 objects at the remote {remote.endpoint}, bucket far, and detach".encode() in asked.seen
    asked = cli.terminal("rm", "-r", f"s3://{attached}/", columns=400)
    asked.expect(b"[y/N]").type(b"n\n")
    assert asked.end() == 7
    assert f"delete 3 objects, 50 B, at the remote {remote.endpoint}, bucket far? [y/N]".encode() in asked.seen
    assert at_remote(remote) == ALL


@pytest.mark.parametrize("verb", ["rm", "mv", "sync"])
def test_every_removing_verb_says_at_the_remote(cli, remote, attached, tmp_path, verb):
    (tmp_path / "empty").mkdir()
    words = {
        "rm": ("rm", "-r", "--yes", f"s3://{attached}/"),
        "mv": ("mv", "-r", f"s3://{attached}/", tmp_path / "down"),
        "sync": ("sync", "--delete", "--yes", tmp_path / "empty", f"s3://{attached}"),
    }[verb]
    planned = cli(*words, "-n")
    said = planned + cli.stderr
    assert f"{NOTE} {remote.endpoint}, bucket far" in said, said
    assert at_remote(remote) == ALL
    if verb != "mv":
        assert planned.count(f"{NOTE} {remote.endpoint}") == 3
    cli(*words)
    assert f"note: s3://{attached} is attached" in cli.stderr and f"{NOTE} {remote.endpoint}, bucket far" in cli.stderr
    assert at_remote(remote) == []


def test_a_bucket_of_this_server_has_no_remote(cli, bucket, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    cli("cp", tmp_path / "f", f"s3://{bucket}/d/f")
    assert NOTE not in cli("rm", "-r", "-n", f"s3://{bucket}/d") + cli.stderr
    cli("rm", "-r", "--yes", f"s3://{bucket}/d")
    assert NOTE not in cli.stderr


# ---- what is not there ----


@pytest.fixture
def tree(cli, bucket, tmp_path):
    for name in ("d/f1", "d/f2", "e"):
        path = tmp_path / "up" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    cli("cp", "-r", tmp_path / "up", f"s3://{bucket}")
    return f"s3://{bucket}"


@pytest.mark.parametrize("verb,does", [("cp", "copies"), ("mv", "moves")])
def test_a_prefix_wants_r_and_a_name_wants_an_object(cli, tree, tmp_path, verb, does):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("d", "d/"):
        cli(verb, f"{tree}/{name}", out, status=3)
        assert f"there is no object {tree}/{name}" in cli.stderr and f"-r {does} what is below" in cli.stderr, cli.stderr
    for name in ("none", "none/"):
        cli(verb, f"{tree}/{name}", out, status=3)
        assert f"there is no object {tree}/{name}" in cli.stderr and "what is below" not in cli.stderr
    for name in ("none", "none/"):
        cli(verb, "-r", f"{tree}/{name}", out, status=3)
        assert f"nothing is below {tree}/none/" in cli.stderr
    cli(verb, "-r", f"{tree}/e", out, status=3)
    assert "an object has that name" in cli.stderr and "without -r" in cli.stderr
    cli(verb, f"{tree}/*.none", out, status=3)
    assert "nothing matches" in cli.stderr
    cli(verb, "-r", f"{tree}/none", f"{tree}/d", out, status=1)  # the other one goes on
    assert f"nothing is below {tree}/none/" in cli.stderr and sorted(p.name for p in out.rglob("f*")) == ["f1", "f2"]
    assert len(json.loads(cli("ls", "-r", tree, "-o", "json"))) == (3 if verb == "cp" else 1)


def test_sync_of_a_source_that_is_not_there(cli, tree, tmp_path):
    keep = tmp_path / "keep"
    keep.mkdir()
    (keep / "mine").write_bytes(b"mine")
    for source, words in ((f"{tree}/none", f"nothing is below {tree}/none/"), (f"{tree}/e", "an object has that name"), (tmp_path / "gone", "is no folder")):
        for flags in ([], ["--delete", "--yes"], ["--delete", "-n"]):
            printed = cli("sync", source, keep if "s3" in str(source) else tree, *flags, status=3)
            assert words in cli.stderr and "would delete" not in printed, cli.stderr
    assert (keep / "mine").exists() and len(json.loads(cli("ls", "-r", tree, "-o", "json"))) == 3
    cli("sync", f"{tree}/d", keep, "--exclude", "*")  # all left out is not missing
    assert (keep / "mine").exists()


def test_rm_of_a_name_that_is_not_there(cli, tree):
    cli("rm", f"{tree}/none", status=3)
    assert f"there is no object {tree}/none" in cli.stderr
    cli("rm", f"{tree}/d", status=3)
    assert "-r deletes what is below" in cli.stderr
    cli("rm", "-r", "--yes", f"{tree}/none", status=3)
    assert f"nothing is below {tree}/none/" in cli.stderr
    cli("rm", f"{tree}/none", f"{tree}/e", status=1)  # the other one goes
    assert f"there is no object {tree}/none" in cli.stderr
    assert [o["key"] for o in json.loads(cli("ls", "-r", tree, "-o", "json"))] == ["d/f1", "d/f2"]
