"""What cost a new user data, time or trust: what removes says where, and what is not there is an error."""

import json
import os
import random
import subprocess
import tarfile

import pytest
from rigs import fakeremote, forebay
from rigs.process import PATIENCE

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


def test_mb_of_a_folder_is_refused(cli):
    cli("mb", "s3://mb-folder/a", status=2)
    assert "names more than a bucket" in cli.stderr and "mb s3://mb-folder" in cli.stderr
    cli("stat", "s3://mb-folder", status=3)


# ---- disks of a node ----


def run(*args, status=0, input=None):
    done = subprocess.run([str(a) for a in (forebay.binary(), *args)], env=forebay.server_env(), input=input, capture_output=True, timeout=PATIENCE)
    said = (done.stdout + done.stderr).decode(errors="replace")
    for word in forebay.BAD_WORDS:
        assert word not in said, said
    assert done.returncode == status, f"{args}: {done.returncode}\n{said}"
    return said


def test_an_export_is_of_all_disks_or_says_what_is_not_in_it(start_forebay, tmp_path):
    process = start_forebay("a", args=(str(tmp_path / "b"),))
    here = Cli(process, tmp_path)
    here("mb", "s3://data")
    (tmp_path / "up").mkdir()
    for i in range(40):
        (tmp_path / "up" / f"f{i}").write_bytes(b"x" * i)
    here("cp", "-q", "-r", tmp_path / "up", "s3://data")
    process.end()
    for one, other in ((tmp_path / "a", tmp_path / "b"), (tmp_path / "b", tmp_path / "a")):  # the list is in the state, and in its copy
        said = run("disk", "export", one, tmp_path / "half.tar", status=2)
        assert f"1 more disk: {other} (disk " in said and "--partial" in said
        assert not (tmp_path / "half.tar").exists()
    run("disk", "export", tmp_path / "a", tmp_path / "b", tmp_path / "all.tar")
    with tarfile.open(tmp_path / "all.tar") as tar:
        assert len(tar.getnames()) == 40
    (tmp_path / "b").rename(tmp_path / "lost")
    assert "not found there" in run("disk", "export", tmp_path / "a", tmp_path / "half.tar", status=2)
    said = run("disk", "export", "--partial", tmp_path / "a", tmp_path / "half.tar", status=1)
    with tarfile.open(tmp_path / "half.tar") as tar:
        count = len(tar.getnames())
    assert 0 < count < 40
    assert f"({tmp_path / 'b'}, active) is not in the export" in said and f"about {count} by the disks' share" in said
    summary = json.loads(run("disk", "export", "--json", "-n", "--partial", tmp_path / "a", tmp_path / "half2.tar", status=1).splitlines()[0])
    assert summary["disks_missing"] == 1 and summary["objects_missing_about"] == count


def test_a_folder_that_is_not_ours_is_refused(start_forebay, tmp_path):
    mine = tmp_path / "home"
    mine.mkdir()
    (mine / "letter.txt").write_text("mine")
    said = run("serve", mine, "--listen", "127.0.0.1:0", status=2)
    assert '"letter.txt"' in said and "--not-empty" in said and str(mine) in said
    assert sorted(p.name for p in mine.iterdir()) == ["letter.txt"]
    (tmp_path / "a").mkdir()
    (tmp_path / "a/lost+found").mkdir()  # a new file system
    process = start_forebay("a")
    here = Cli(process, tmp_path)
    here("disk", "add", tmp_path / "none", status=3)
    assert "--create" in here.stderr and not (tmp_path / "none").exists()
    here("disk", "add", mine, status=2)
    assert '"letter.txt"' in here.stderr and "--not-empty" in here.stderr
    assert sorted(p.name for p in mine.iterdir()) == ["letter.txt"]
    here("disk", "add", "--create", "--no-wait", tmp_path / "none")
    here("disk", "add", "--not-empty", "--no-wait", mine)
    process.end()
    start_forebay("a", args=(str(mine), str(tmp_path / "none"))).end()  # now it is ours


def test_import_makes_no_bucket_that_nothing_accepts(start_forebay, tmp_path):
    for name in ("My Photos/a", "My Photos/b", "fine/c", "x/d"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    new = tmp_path / "new"
    said = run("disk", "import", new, tmp_path / "in", status=1)
    assert said.count('"My Photos" cannot be a bucket\'s name') == 1 and '--rename "My Photos=NAME"' in said
    assert '"x" cannot be' in said and "imported 1 objects" in said and "3 skipped" in said
    for flags, word in ((["--rename", "x=Y Z"], '"Y Z"'), (["--rename", "x"], "OLD=NEW"), (["--bucket", "B_"], '"B_"')):
        assert word in run("disk", "import", new, tmp_path / "in", *flags, status=2)
    said = run("disk", "import", new, tmp_path / "in", "--rename", "My Photos=my-photos", "--rename", "x=fine")
    assert "imported 3 objects" in said
    here = Cli(start_forebay("new"), tmp_path)
    assert here("ls", "-o", "name").split() == ["s3://fine", "s3://my-photos"]
    assert here("cat", "s3://my-photos/b") == "My Photos/b" and here("cat", "s3://fine/d") == "x/d"


# ---- jobs ----


def test_a_job_that_failed_in_part_says_what_and_why(cli, remote, attached):
    cli("prefetch", f"s3://{attached}/" + "{a,none,b}", status=1)
    assert "none: " in cli.stderr and "--resume" in cli.stderr
    told = next(j for j in json.loads(cli("jobs", "--all", "--json"))["jobs"] if attached in j["what"])
    assert (told["state"], told["objects"], told["failed"]) == ("failed-in-part", 2, 1), told
    assert len(told["errors"]) == 1 and told["errors"][0].startswith("none: ")
    assert "failed in part: 2 of 3 objects" in cli("wait", told["id"], status=1)
    remote.put("/far/none", b"now it is there")
    cli("jobs", told["id"], "--resume", "--json")
    assert f"{told['id']} done: 3 of 3 objects" in cli("wait", told["id"])
    assert cli.stderr == ""


def test_a_prefetch_past_a_budget_names_the_object_and_the_budget(start_forebay, remote, tmp_path):
    process = start_forebay(settings={"cache.budget": "8MiB"})
    here = Cli(process, tmp_path)
    here("bucket", "attach", "s3://far", "--endpoint", remote.endpoint, "--anonymous")
    remote.put("/far/larger", bytes(20 << 20))
    here("prefetch", "s3://far/{a,larger}", status=1)
    assert "larger: the cache has no room for it: cache.budget" in here.stderr
    told = json.loads(here("jobs", "--all", "--json"))["jobs"][0]
    assert told["state"] == "failed-in-part" and len(told["errors"]) == 1
    assert "job.ended" in process.log() and "larger: the cache has no room" in process.log()


# ---- keys ----

REMOTE = {"AWS_ACCESS_KEY_ID": "AKIAREMOTE", "AWS_SECRET_ACCESS_KEY": "of-the-remote"}


def test_keys_of_a_remote_in_the_environment(server, tmp_path, start_forebay):
    """README's own flow: keys of the remote are exported, and the server on loopback needs none."""
    remote_keys = Cli(server, tmp_path, env=REMOTE)
    remote_keys("mb", "s3://keys-of-a-remote")
    assert "does not know the key AKIAREMOTE of AWS_ACCESS_KEY_ID" in remote_keys.stderr and "forebay env" in remote_keys.stderr
    assert "keys-of-a-remote" in remote_keys("ls", "--no-sign") and remote_keys.stderr == ""
    assert "keys-of-a-remote" in remote_keys("ls", "-q") and remote_keys.stderr == ""
    # keys that were chosen for Forebay are never left away
    chosen = Cli(server, tmp_path, env={"FOREBAY_ACCESS_KEY_ID": "AKIAREMOTE", "FOREBAY_SECRET_ACCESS_KEY": "x"})
    chosen("ls", status=4)
    for word in ("AKIAREMOTE", "FOREBAY_ACCESS_KEY_ID", "--no-sign", "forebay env"):
        assert word in chosen.stderr, chosen.stderr
    right = Cli(server, tmp_path, env=dict(zip(REMOTE, server.keys())))
    assert "keys-of-a-remote" in right("ls") and right.stderr == ""
    # nor is a server that wants keys asked without
    guarded = start_forebay("guarded", args=("--auth",))
    wants = Cli(guarded, tmp_path, env=REMOTE)
    wants("ls", status=4)
    assert "AKIAREMOTE" in wants.stderr and "AWS_ACCESS_KEY_ID" in wants.stderr and "note:" not in wants.stderr
    without = Cli(guarded, tmp_path)
    without("ls", status=4)
    assert "no keys" in without.stderr
    assert without("env", status=4) == "" and "wants keys" in without.stderr and "--credentials" in without.stderr
    absent = Cli(server, tmp_path, endpoint="http://127.0.0.1:1")
    assert absent("env", status=5) == "" and "no server answers at http://127.0.0.1:1" in absent.stderr
    assert "AWS_ENDPOINT_URL" in absent("env", "--no-sign")  # without keys no server is needed


# ---- errors ----


def test_hints_fit_the_failure(cli, tree, attached, remote, tmp_path, server):
    (tmp_path / "f").write_bytes(b"x" * 1000)
    cli("cp", "-r", f"{tree}/d", f"{tree}/d", "--to-endpoint-url", "http://127.0.0.1:1", status=5)
    assert "running at http://127.0.0.1:1" in cli.stderr and "--to-endpoint-url" in cli.stderr
    cli("bucket", "set", tree, "--quota-bytes", "10")
    cli("cp", tmp_path / "f", f"{tree}/f", status=4)
    assert "QuotaExceeded" in cli.stderr and "E1102" in cli.stderr and "keys" not in cli.stderr
    cli("user", "rm", "unknown", status=3)
    assert "forebay user ls" in cli.stderr and "forebay ls" not in cli.stderr
    cli("wait", "abcdefghijkl", status=3)
    assert "forebay jobs --all" in cli.stderr
    remote.server.shutdown()
    remote.server.server_close()
    cli("cat", f"s3://{attached}/a", status=5)
    assert "remote of the bucket does not respond" in cli.stderr and "--parallel" not in cli.stderr


def test_a_certificate_of_ones_own(start_forebay, tmp_path):
    run("tls", "selfsign", "-n", "127.0.0.1", "--cert", tmp_path / "c.crt", "--key", tmp_path / "c.key")
    process = start_forebay("tls", tls=(tmp_path / "c.crt", tmp_path / "c.key"))
    here = Cli(process, tmp_path)
    here("ls", status=4)
    assert "certificate" in here.stderr and "--ca-bundle" in here.stderr and "keys" not in here.stderr
    here("ls", "--ca-bundle", tmp_path / "c.crt")


def test_errors_are_json_where_json_was_asked_for(cli, tree, tmp_path):
    def error(*args, status):
        cli(*args, status=status)
        told = [json.loads(line)["error"] for line in cli.stderr.splitlines()]
        assert len(told) == 1 and told[0]["exit"] == status, told
        return told[0]

    told = error("cat", f"{tree}/none", "-o", "json", status=3)
    assert told["code"] == "E1003" and "NoSuchKey" in told["message"] and "forebay ls" in told["hint"]
    assert error("cp", f"{tree}/none", tmp_path, "--json", status=3)["name"] == f"{tree}/none"
    assert error("ls", "--nonsense", "-o", "jsonl", status=2)["code"] == "E1001"
    assert error("rm", "-r", f"{tree}/d", "--json", status=2)["message"].endswith("say --yes")
    told = error("ls", "--json", "--endpoint-url", "http://127.0.0.1:1", status=5)
    assert told["code"] == "E1302" and "http://127.0.0.1:1" in told["hint"]


def test_a_damaged_object_is_named_as_what_it_is(start_forebay, tmp_path):
    process = start_forebay("rotten")
    here = Cli(process, tmp_path)
    here("mb", "s3://rotten")
    bodies = {name: random.Random(size).randbytes(size) for name, size in (("mid", 6_000_000), ("large", 40_000_000))}
    for name, body in bodies.items():
        (tmp_path / name).write_bytes(body)
        here("cp", "-q", tmp_path / name, f"s3://rotten/{name}")
    process.end()
    for body in bodies.values():
        for path in (tmp_path / "rotten/native").iterdir():
            at = path.read_bytes().find(body[3_000_000:3_000_064])
            if at >= 0:
                with open(path, "r+b") as file:
                    file.seek(at)
                    file.write(b"\xff" if body[3_000_000] != 0xFF else b"\0")
    process = start_forebay("rotten")
    here = Cli(process, tmp_path)
    for name in bodies:
        for words in (("cat", f"s3://rotten/{name}"), ("cp", f"s3://rotten/{name}", tmp_path / "back"), ("cat", "--range", "3000000-3000010", f"s3://rotten/{name}")):
            here(*words, status=6, binary=True)
            assert f"s3://rotten/{name} is damaged at the server" in here.stderr and "disk check" in here.stderr, here.stderr
            assert "repeat the command" not in here.stderr.lower()
        assert not (tmp_path / "back").exists()


# ---- what is shown ----


def test_a_large_object_of_which_some_is_here(start_forebay, remote, tmp_path):
    process = start_forebay(settings={"cache.large": "4MiB", "cache.chunk": "1MiB"})
    here = Cli(process, tmp_path)
    here("bucket", "attach", "s3://far", "--endpoint", remote.endpoint, "--anonymous")
    remote.put("/far/huge", random.Random(1).randbytes(12 << 20))
    here("cat", "--range", "0-10", "s3://far/huge", binary=True)
    here("cat", "s3://far/a")
    here("cat", "s3://far/a")
    told = {e["key"]: e for e in json.loads(here("ls", "-c", "-r", "s3://far", "--json"))}
    assert told["huge"]["chunks"] == 12 and 0 < told["huge"]["chunks_here"] < 12, told
    assert "chunks" not in told["a"]
    some = told["huge"]["chunks_here"]
    listed = here("ls", "-c", "-r", "--summarize", "s3://far")
    assert f"cached {some}/12" in listed and "of them here" in listed, listed
    assert "huge" in here("prefetch", "-n", "s3://far/")  # the rest is fetched
    here("bucket", "set", "s3://far", "--ttl", "10m", "--cache-budget", "64MiB")
    here("pin", "s3://far/d/")
    bucket = next(line for line in here("bucket", "ls").splitlines() if "s3://far" in line)
    shown = here("stat", "s3://far")
    for word in ("10m", "64.0 MiB", "d/", remote.endpoint):
        assert word in bucket and word in shown, bucket + shown
    facts = json.loads(here("stat", "s3://far", "--json"))
    assert facts["bucket"] == "far" and facts["ttl_ms"] == 600_000 and facts["cache_budget"] == 64 << 20 and facts["pins"] == ["d/"] and facts["cached_bytes"] > 0


def test_forms_of_output_mean_the_same_for_every_verb(cli, tree, tmp_path):
    def lines(*args):
        return cli(*args).splitlines()

    bucket = tree.removeprefix("s3://")
    for words in (("ls",), ("bucket", "ls"), ("stat", tree), ("mb", "-n", "s3://neu-und"), ("du", tree)):
        named, objects = lines(*words, "-o", "name"), lines(*words, "-o", "jsonl")
        assert named and all(line.startswith("s3://") and " " not in line for line in named), (words, named)
        assert all(isinstance(json.loads(line), dict) for line in objects) and (len(objects) == len(named) or words[0] == "mb"), (words, objects)
    names = [f"{tree}/{key}" for key in ("d/f1", "d/f2", "e")]
    for words in (("ls", "-r", tree), ("find", tree), ("rm", "-r", "-n", tree)):
        assert lines(*words, "-o", "name") == names, words
        assert len(lines(*words, "-o", "jsonl")) == 3 and all(json.loads(line) for line in lines(*words, "-o", "jsonl")), words
    assert lines("cp", "-r", "-n", tree, f"{tree}/copy", "-o", "name") == [f"{tree}/copy/{key}" for key in ("d/f1", "d/f2", "e")]
    assert lines("stat", f"{tree}/e", "-o", "name") == [f"{tree}/e"]
    assert len(lines("disk", "ls", "-o", "name")[0]) == 32 and "id" in json.loads(lines("disk", "ls", "-o", "jsonl")[0])
    assert "default" in lines("user", "ls", "-o", "name") and "name" in json.loads(lines("user", "ls", "-o", "jsonl")[0])
    assert any(json.loads(line)["name"] == bucket for line in lines("bucket", "ls", "-o", "jsonl"))
    for verb in ("ping", "ready", "doctor"):
        cli(verb, "-o", "name", status=2)
        assert "lists nothing that has a name" in cli.stderr


def test_two_gets_of_one_object_into_one_folder(cli, bucket, tmp_path):
    sizes = {"small": 1000, "mid": 3_000_000, "large": 40_000_000}
    bodies = {name: random.Random(name).randbytes(size) for name, size in sizes.items()}
    for name, body in bodies.items():
        (tmp_path / name).write_bytes(body)
        cli("cp", "-q", tmp_path / name, f"s3://{bucket}/{name}")
    (tmp_path / "to").mkdir()
    for name, body in bodies.items():
        many = [subprocess.Popen([str(cli.binary), "get", "-q", f"s3://{bucket}/{name}"], env=cli.env, cwd=tmp_path / "to", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in range(4)]
        for one in many:
            said = one.communicate(timeout=PATIENCE)[1].decode()
            assert one.returncode == 0, said
        assert (tmp_path / "to" / name).read_bytes() == body
    assert sorted(p.name for p in (tmp_path / "to").iterdir()) == sorted(sizes)  # nothing hidden is left


def test_what_is_announced_is_counted_with_q_too(cli, tmp_path):
    cli("mb", "s3://counted")
    names = tmp_path / "names"
    names.write_text("".join(f"s3://counted/none{i}\n" for i in range(30)))
    cli("cp", "-q", "--from-file", names, tmp_path / "out/", status=(1, 3))
    assert "counted at the end" in cli.stderr and "30 failed" in cli.stderr


def test_diff_agrees_with_sync_and_takes_two_servers(cli, tree, tmp_path, start_forebay):
    down = tmp_path / "up"
    (down / "link").symlink_to("missing")
    os.mkfifo(down / "pipe")
    for flags in ([], ["--no-follow"]):  # what sync leaves out is no difference
        cli("sync", *flags, down, tree)
        assert "copied 0, 3 unchanged" in cli.stderr
        said = cli("diff", *flags, down, tree)
        assert said == "" and "0 differ, 3 are the same" in cli.stderr and "pipe: no regular file" in cli.stderr, said + cli.stderr
    other = start_forebay("other")
    there = Cli(other, tmp_path)
    there("mb", tree)
    cli("sync", tree, tree, "--to-endpoint-url", other.endpoint)
    cli("diff", tree, tree, "--to-endpoint-url", other.endpoint)
    there("rm", f"{tree}/e")
    assert cli("diff", tree, tree, "--to-endpoint-url", other.endpoint, status=1) == "< e\n"
    cli("diff", down, tree, "--to-endpoint-url", other.endpoint, status=2)


def test_restore_says_how_many_folders_the_copies_want(start_forebay, tmp_path):
    process = start_forebay("a", args=(str(tmp_path / "b"),))
    here = Cli(process, tmp_path)
    here("mb", "s3://twice")
    here("bucket", "set", "s3://twice", "--copies", "2", "--wait")
    (tmp_path / "f").write_bytes(b"x")
    here("cp", tmp_path / "f", "s3://twice/f")
    here("backup", tmp_path / "all.tar")
    process.end()
    said = run("restore", tmp_path / "all.tar", tmp_path / "new", status=2)
    assert 'bucket "twice" of the backup has 2 copies' in said and "name 2 folders" in said
    assert not (tmp_path / "new").exists()  # nothing was written
    said = run("restore", "-", tmp_path / "piped", status=2, input=(tmp_path / "all.tar").read_bytes())
    assert "name 2 folders" in said
    run("restore", tmp_path / "all.tar", tmp_path / "new", tmp_path / "second")
    again = Cli(start_forebay("new", args=(str(tmp_path / "second"),)), tmp_path)
    assert again("cat", "s3://twice/f") == "x"


# ---- help and completion ----


def test_completion_knows_subcommands_options_and_forms(cli):
    def words(*line):
        return cli("completion", "words", "--", *line).split()

    assert words("bucket", "de") == ["detach"]
    assert words("config", "") == ["show", "check", "explain"]
    assert words("tls", "self") == ["selfsign"] and words("secrets", "ro") == ["rotate"]
    assert "cache.budget" in words("explain", "cache.") and "cache.budget" in words("config", "explain", "cache.b")
    assert words("ls", "-o", "j") == ["json", "jsonl"] and words("ls", "--output", "") == ["table", "json", "jsonl", "name"]
    assert words("ls", "--units", "s") == ["si"]
    assert words("completion", "z") == ["zsh"]
    assert words("env", "--format", "p") == ["python"]
    assert "--remote" in words("rb", "--re")


def test_help_of_a_subcommand_shows_its_own_flags(cli):
    assert "--ttl" in cli("bucket", "set", "--help") and "--ttl TIME" not in cli("bucket", "attach", "--help")
    assert "--store-credentials" in cli("bucket", "attach", "--help") and "--store-credentials" not in cli("bucket", "ls", "--help")
    assert "--origin" in cli("config", "show", "--help") and "--origin" not in cli("config", "check", "--help")
    assert "detach" in cli("bucket", "--help") and "explain" in cli("config", "--help")
