"""Transfers of the command line: trees up and down, names that are odd, what breaks on the way, what a person sees at a terminal."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from rigs import cloud as cloud_rig
from rigs import fakeremote, forebay
from rigs.process import PATIENCE
from command import Cli

import plain

MIB = 1 << 20


@pytest.fixture
def cli(server, tmp_path):
    return Cli(server, tmp_path)


@pytest.fixture
def far(server, tmp_path):
    """The same server behind a proxy that can misbehave."""
    with cloud_rig.Cloud(server, tmp_path) as proxy:
        yield proxy.wait_ready()


def make_tree(root, files=40):
    for i in range(files):
        path = root / f"d{i % 3}" / f"f{i}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(i * 100))
    (root / "d.x").mkdir()
    (root / "d.x/before-d-slash").write_bytes(b"order")
    (root / "medium").write_bytes(os.urandom(3 * MIB + 5))
    (root / "new\nline").write_bytes(b"odd")
    return root


def contents(root):
    return {str(p.relative_to(root)): hashlib.md5(p.read_bytes()).hexdigest() for p in sorted(root.rglob("*")) if p.is_file()}


def sums(of):
    return {name: hashlib.md5(body).hexdigest() for name, body in of.items()}


def test_a_tree_goes_up_and_comes_down(cli, bucket, tmp_path):
    tree = make_tree(tmp_path / "tree")
    cli("cp", "-r", tree, f"s3://{bucket}/t")
    cli("cp", "-r", f"s3://{bucket}/t", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tree)
    assert not list((tmp_path / "back").rglob(".*.forebay-part"))
    assert "0 differ, 43 are the same" in (cli("diff", tree, f"s3://{bucket}/t") + cli.stderr)


def test_sync_in_every_direction(cli, bucket, tmp_path):
    tree = make_tree(tmp_path / "tree")
    cli("sync", tree, f"s3://{bucket}/t")
    cli("sync", tree, f"s3://{bucket}/t")
    assert "copied 0, 43 unchanged" in cli.stderr
    (tree / "d0/f0").touch()  # a younger time alone copies nothing
    cli("sync", tree, f"s3://{bucket}/t")
    assert "copied 0, 43 unchanged" in cli.stderr
    (tree / "d1/f1").write_bytes(os.urandom(100))  # the same size
    (tree / "new").write_bytes(b"new")
    assert cli("sync", "-n", tree, f"s3://{bucket}/t").count("would copy") == 2
    cli("sync", tree, f"s3://{bucket}/t")
    assert "copied 2, 42 unchanged" in cli.stderr
    cli("sync", f"s3://{bucket}/t", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tree)
    cli("sync", f"s3://{bucket}/t", f"s3://{bucket}/other")
    cli("diff", f"s3://{bucket}/t", f"s3://{bucket}/other")
    cli("sync", f"s3://{bucket}/t", tmp_path / "back")
    assert "copied 0, 44 unchanged" in cli.stderr


def test_sync_deletes_with_care(cli, bucket, tmp_path):
    tree = make_tree(tmp_path / "tree")
    cli("sync", tree, f"s3://{bucket}/t")
    for i in range(5):
        (tree / f"d{i % 3}/f{i}").unlink()
    cli("sync", tree, f"s3://{bucket}/t", "--delete", status=1)  # no terminal to ask on
    assert "--yes" in cli.stderr
    cli("sync", tree, f"s3://{bucket}/t", "--delete", "--yes", "--max-delete", "4", status=1)
    assert "--max-delete allows 4" in cli.stderr
    assert cli("find", f"s3://{bucket}/t", "-o", "jsonl").count("\n") == 43
    assert cli("sync", tree, f"s3://{bucket}/t", "--delete", "-n").count("would delete") == 5
    cli("sync", tree, f"s3://{bucket}/t", "--delete", "--yes")
    assert cli("find", f"s3://{bucket}/t", "-o", "jsonl").count("\n") == 38
    cli("diff", tree, f"s3://{bucket}/t")


def test_sync_that_failed_deletes_nothing(cli, bucket, tmp_path):
    tree = make_tree(tmp_path / "tree")
    cli("sync", tree, f"s3://{bucket}/t")
    (tree / "d1/f1").unlink()
    (tree / "x").symlink_to("x")  # cannot be read
    (tree / "d0").chmod(0)
    if os.access(tree / "d0", os.R_OK):
        (tree / "d0").chmod(0o755)
        pytest.skip("root reads everything")
    try:
        cli("sync", tree, f"s3://{bucket}/t", "--delete", "--yes", status=1)
    finally:
        (tree / "d0").chmod(0o755)
    assert "nothing is deleted" in cli.stderr
    assert cli("find", f"s3://{bucket}/t", "-o", "jsonl").count("\n") == 43


def test_mv(cli, bucket, tmp_path):
    tree = make_tree(tmp_path / "tree")
    want = contents(tree)
    cli("mv", "-r", tree, f"s3://{bucket}/a")
    assert contents(tree) == {}
    cli("mv", "-r", f"s3://{bucket}/a", f"s3://{bucket}/b")
    assert cli("ls", f"s3://{bucket}/a/") == ""
    cli("mv", "-r", f"s3://{bucket}/b", tmp_path / "back")
    assert contents(tmp_path / "back") == want
    assert cli("ls", "-r", f"s3://{bucket}") == ""


@pytest.mark.parametrize("way", ["down", "across", "between"])
def test_mv_removes_only_what_it_copied(server, far, s3, bucket, tmp_path, way):
    """What another client writes between the copy and the removal stays; what it deletes there is gone, and no failure."""
    cli = Cli(server, tmp_path, far.endpoint)
    to = {"down": (tmp_path / "copy",), "across": (f"s3://{bucket}/copy",), "between": (f"s3://{bucket}/copy", "--to-endpoint-url", server.endpoint)}[way]

    def move(meanwhile, status):
        s3.put_object(Bucket=bucket, Key="k", Body=b"first")
        far.rule("slow", op="PutObject" if way == "across" else "GetObject", key="copy" if way == "across" else "k", ms=3_600_000)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            moved = pool.submit(cli, "mv", f"s3://{bucket}/k", *to, status=status)
            far.wait_held()
            meanwhile()
            far.behave()
            far.release()
            moved.result()
        copy = (tmp_path / "copy").read_bytes() if way == "down" else s3.get_object(Bucket=bucket, Key="copy")["Body"].read()
        assert copy == b"first"

    move(lambda: s3.put_object(Bucket=bucket, Key="k", Body=b"second"), 1)
    assert "copied, but the source is still there" in cli.stderr and "it changed meanwhile" in cli.stderr
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"second"
    move(lambda: s3.delete_object(Bucket=bucket, Key="k"), 0)


def test_mv_from_a_server_that_knows_no_conditions(server, far, s3, bucket, tmp_path):
    cli = Cli(server, tmp_path, far.endpoint)
    s3.put_object(Bucket=bucket, Key="k", Body=b"first")
    far.rule("error", op="DeleteObject", status=501, code="NotImplemented", times=1)
    cli("mv", f"s3://{bucket}/k", tmp_path / "copy")
    assert far.requests("DeleteObject") == 2 and "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_rm_of_many(cli, server, s3, bucket):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert {reply.status for reply in pool.map(lambda i: plain.ask(server.port, "PUT", bucket, f"x/{i:04}", body=b""), range(1205))} == {200}
    s3.put_object(Bucket=bucket, Key="xy", Body=b"")  # is not below x
    cli("rm", "-r", f"s3://{bucket}/x", status=2)
    assert "delete 1205 objects" in cli.stderr and "--yes" in cli.stderr
    assert cli("rm", "-r", "-n", f"s3://{bucket}/x").count("would delete") == 1205
    cli("rm", "--yes", f"s3://{bucket}/x/000?")
    cli("rm", f"s3://{bucket}/x/{{0010..0019}}")
    assert "deleted 10" in cli.stderr
    cli("rm", "-r", "--yes", f"s3://{bucket}/x")
    assert "deleted 1185" in cli.stderr
    assert cli("find", f"s3://{bucket}", "-o", "name") == f"s3://{bucket}/xy\n"
    cli("rm", "--from-file", "-", input=f"s3://{bucket}/xy\n".encode())
    assert cli("find", f"s3://{bucket}", "-o", "name") == ""


def test_names_patterns_and_filters(cli, s3, bucket, tmp_path):
    for key in ("a/1.jpg", "a/2.png", "a/b/3.jpg", "c{x}.jpg", "star*"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert cli("cat", f"s3://{bucket}/a/*.jpg") == "a/1.jpg"
    assert cli("cat", f"s3://{bucket}/a/**.jpg") == "a/1.jpga/b/3.jpg"
    assert cli("cat", f"s3://{bucket}/a/{{1.jpg,2.png}}") == "a/1.jpga/2.png"
    assert cli("cat", f"s3://{bucket}/c{{x}}.jpg") == "c{x}.jpg"
    assert cli("cat", "--literal", f"s3://{bucket}/star*") == "star*"
    cli("cat", f"s3://{bucket}/nothing*", status=3)
    cli("cp", "-r", f"s3://{bucket}", tmp_path / "jpg", "--include", "*.jpg")
    assert sorted(contents(tmp_path / "jpg")) == ["a/1.jpg", "a/b/3.jpg", "c{x}.jpg"]
    cli("cp", "-r", f"s3://{bucket}", tmp_path / "rest", "--exclude", "a/**", "--include", "2.png")
    assert sorted(contents(tmp_path / "rest")) == ["a/2.png", "c{x}.jpg", "star*"]
    assert "3" in cli("du", f"s3://{bucket}/a")
    found = [json.loads(line)["name"] for line in cli("find", f"s3://{bucket}", "--name", "*.jpg", "--smaller", "9", "-o", "jsonl").splitlines()]
    assert found == [f"s3://{bucket}/a/1.jpg", f"s3://{bucket}/c{{x}}.jpg"]
    assert json.loads(cli("find", f"s3://{bucket}", "--older", "1h", "--json")) == []


def test_heads_tails_and_ranges(cli, s3, bucket):
    body = b"".join(b"line %d\n" % i for i in range(100))
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    assert cli("head", f"s3://{bucket}/k").encode() == b"".join(body.splitlines(True)[:10])
    assert cli("head", "-n", "3", f"s3://{bucket}/k").encode() == b"".join(body.splitlines(True)[:3])
    assert cli("head", "-c", "7", f"s3://{bucket}/k").encode() == body[:7]
    assert cli("cat", "--range", "5-9", f"s3://{bucket}/k").encode() == body[5:10]
    assert cli("cat", "--range", "500-", f"s3://{bucket}/k").encode() == body[500:]
    assert cli("cat", "--tail", "11", f"s3://{bucket}/k").encode() == body[-11:]
    cli("cat", "--range", "9-5", f"s3://{bucket}/k", status=2)
    cli("cat", "--range", "99999-", f"s3://{bucket}/k", status=2)


def test_nothing_leaves_the_target_folder(server, tmp_path):
    """A server that lists what it likes: the keys that would be written elsewhere are refused, the others come."""
    with fakeremote.FakeRemote() as evil:
        for key in ("../out", "a/../../out", "/abs", "a//b", "./x", "good", "link/inside"):
            evil.put(f"/bbb/{key}", b"body")
        (tmp_path / "dst").mkdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "dst/link").symlink_to(tmp_path / "elsewhere")
        cli = Cli(server, tmp_path, evil.endpoint)
        cli("cp", "-r", "s3://bbb", tmp_path / "dst", status=1)
        assert "../out" in cli.stderr and "symbolic link" in cli.stderr
        assert (tmp_path / "dst/good").read_bytes() == b"body"
        assert not list((tmp_path / "elsewhere").iterdir())
        assert sorted(p.name for p in tmp_path.iterdir()) == ["dst", "elsewhere"]
        assert sorted(p.name for p in (tmp_path / "dst").iterdir()) == ["good", "link"]


def test_names_that_no_file_can_have(cli, s3, bucket, tmp_path):
    """Each is reported with its reason, the others come; a key that is too long for a name is one of them."""
    for key, why in (("d/../x", "leads out"), ("d/a//x", "two slashes"), ("d/./x", "is no name"), (f"d/{'n' * 256}", "over 255 bytes"), ("d/good", None), (f"d/{'m' * 255}", None)):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    cli("cp", "-r", f"s3://{bucket}/d", tmp_path / "out", status=1)
    for why in ("leads out", "two slashes", "is no name", "over 255 bytes", "copied 2, 4 failed"):
        assert why in cli.stderr, cli.stderr
    assert contents(tmp_path / "out") == sums({"good": b"x", "m" * 255: b"x"})


def test_two_sources_of_one_name(cli, s3, bucket, tmp_path):
    """The first stays, the second is reported, and a move leaves it where it is."""
    for key in ("a/f", "b/f", "b/g"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    cli("cp", f"s3://{bucket}/a/f", f"s3://{bucket}/b/f", f"s3://{bucket}/b/g", f"s3://{bucket}/a/f", tmp_path, status=1)
    assert "another source" in cli.stderr and "named twice" in cli.stderr
    assert (tmp_path / "f").read_bytes() == b"a/f" and (tmp_path / "g").read_bytes() == b"b/g"
    cli("mv", f"s3://{bucket}/{{a,b}}/f", f"s3://{bucket}/c/", status=1)
    assert s3.get_object(Bucket=bucket, Key="c/f")["Body"].read() == b"a/f"
    assert s3.get_object(Bucket=bucket, Key="b/f")["Body"].read() == b"b/f"


# Below its folder no name has upper case: what a file system does that does not tell it apart.
FOLDING = r"""
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
static const char *low(const char *name, char out[512])
{
    snprintf(out, 512, "%s", name);
    for (char *c = out; *c; c++) *c = (char)tolower((unsigned char)*c);
    return out;
}
static _Thread_local char a[512], b[512];
int openat(int dir, const char *name, int flags, ...)
{
    va_list args; va_start(args, flags); mode_t mode = va_arg(args, mode_t); va_end(args);
    int (*real)(int, const char *, int, mode_t) = dlsym(RTLD_NEXT, "openat");
    return real(dir, dir == AT_FDCWD ? name : low(name, a), flags, mode);
}
int fstatat(int dir, const char *name, struct stat *st, int flags)
{
    int (*real)(int, const char *, struct stat *, int) = dlsym(RTLD_NEXT, "fstatat");
    return real(dir, dir == AT_FDCWD ? name : low(name, a), st, flags);
}
int renameat(int from, const char *name, int to, const char *other)
{
    int (*real)(int, const char *, int, const char *) = dlsym(RTLD_NEXT, "renameat");
    return real(from, low(name, a), to, low(other, b));
}
int unlinkat(int dir, const char *name, int flags)
{
    int (*real)(int, const char *, int) = dlsym(RTLD_NEXT, "unlinkat");
    return real(dir, dir == AT_FDCWD ? name : low(name, a), flags);
}
int mkdirat(int dir, const char *name, mode_t mode)
{
    int (*real)(int, const char *, mode_t) = dlsym(RTLD_NEXT, "mkdirat");
    return real(dir, dir == AT_FDCWD ? name : low(name, a), mode);
}
"""


def test_a_file_system_that_does_not_tell_case_apart(cli, server, s3, bucket, tmp_path):
    """Of keys that differ in case alone one comes, and the other is reported; sync --delete does not take the one for the other's rest."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    (tmp_path / "fold.c").write_text(FOLDING)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "fold.so", tmp_path / "fold.c", "-ldl"], check=True)
    folding = Cli(server, tmp_path, env={"LD_PRELOAD": str(tmp_path / "fold.so"), "ASAN_OPTIONS": "verify_asan_link_order=0"})
    for key in ("Read.me", "read.me", "Sub/x", "other"):
        s3.put_object(Bucket=bucket, Key=f"t/{key}", Body=key.encode())
    folding("cp", "-r", f"s3://{bucket}/t", tmp_path / "out", status=1)
    assert "ignores case" in folding.stderr and "copied 3, 1 failed" in folding.stderr
    assert contents(tmp_path / "out") == sums({"read.me": b"Read.me", "sub/x": b"Sub/x", "other": b"other"})
    folding("sync", f"s3://{bucket}/t", tmp_path / "two", "--delete", "--yes", status=1)
    assert contents(tmp_path / "two") == contents(tmp_path / "out")
    s3.delete_object(Bucket=bucket, Key="t/read.me")
    folding("sync", f"s3://{bucket}/t", tmp_path / "two", "--delete", "--yes")
    assert contents(tmp_path / "two") == contents(tmp_path / "out")
    assert not list((tmp_path / "two").glob(".*")) and not list((tmp_path / "out").glob(".*"))
    cli("cp", "-r", f"s3://{bucket}/t", tmp_path / "three")  # and one that does


def test_a_name_that_is_file_and_folder(cli, s3, bucket, tmp_path):
    for key in ("a", "a/b"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    cli("cp", "-r", f"s3://{bucket}", tmp_path / "dst", status=1)
    assert "copied 1, 1 failed" in cli.stderr


def test_damage_is_noticed(cli, far, bucket, s3, server, tmp_path):
    """A bit that flips on the way: asked for again; always: exit code 6, and no file has the name."""
    body = os.urandom(200_000)
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    away = Cli(server, tmp_path, far.endpoint)
    far.rule("flip", op="GetObject", after=1000, times=1)
    away("cp", f"s3://{bucket}/k", tmp_path / "once")
    assert (tmp_path / "once").read_bytes() == body
    far.rule("flip", op="GetObject", after=1000, times=100)
    away("cp", f"s3://{bucket}/k", tmp_path / "always", status=6)
    assert not (tmp_path / "always").exists()
    away("cat", f"s3://{bucket}/k", status=6)


def test_what_breaks_is_tried_again(far, bucket, server, s3, tmp_path):
    away = Cli(server, tmp_path, far.endpoint)
    tree = make_tree(tmp_path / "tree")
    far.rule("error", op="PutObject", status=503, each=2)
    away("cp", "-r", tree, f"s3://{bucket}/t")
    far.behave()
    far.rule("cut", op="GetObject", after=50, each=1)
    far.rule("error", op="ListObjects", status=500, times=1)
    away("cp", "-r", f"s3://{bucket}/t", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tree)
    far.behave()
    body = s3.get_object(Bucket=bucket, Key="t/medium")["Body"].read()
    far.rule("cut", op="GetObject", after=MIB, times=2)
    done = subprocess.run([server.binary, "cat", f"s3://{bucket}/t/medium"], env=away.env, capture_output=True, timeout=PATIENCE)
    assert done.stdout == body and done.returncode == 0


def test_an_upload_goes_on(far, bucket, server, s3, tmp_path):
    """Interrupted at a terminal in the middle of a large file, three of its seven parts are there: they are not sent again."""
    body = os.urandom(100 * MIB)
    (tmp_path / "large").write_bytes(body)
    away = Cli(server, tmp_path, far.endpoint)
    far.rule("jam", op="UploadPart", skip=3, after=MIB)
    screen = away.terminal("cp", tmp_path / "large", f"s3://{bucket}/large", "-j", "3")
    screen.expect(b"s left")
    far.wait_held(3)
    screen.expect(b"[=")
    screen.interrupt()
    assert screen.end() == 7
    assert b"interrupted" in screen.seen and b"resume" in screen.seen and b"[=" in screen.seen
    (upload,) = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    there = s3.list_parts(Bucket=bucket, Key="large", UploadId=upload["UploadId"]).get("Parts", [])
    assert len(there) == 3
    assert len(list(away.notes.iterdir())) == 1
    far.behave()
    far.release()
    far.forget()
    away("cp", tmp_path / "large", f"s3://{bucket}/large")
    assert far.requests("UploadPart") == 7 - len(there)
    assert far.requests("CreateMultipartUpload") == 0
    assert s3.get_object(Bucket=bucket, Key="large")["Body"].read() == body
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    assert not list(away.notes.iterdir())


def test_an_upload_of_a_file_that_changed_begins_anew(far, bucket, server, s3, tmp_path):
    large = tmp_path / "large"
    large.write_bytes(os.urandom(40 * MIB))
    away = Cli(server, tmp_path, far.endpoint)
    far.rule("refuse", op="CompleteMultipartUpload", times=100)
    away("cp", large, f"s3://{bucket}/large", status=5)
    far.behave()
    body = os.urandom(41 * MIB)
    large.write_bytes(body)
    away("cp", large, f"s3://{bucket}/large")
    assert s3.get_object(Bucket=bucket, Key="large")["Body"].read() == body
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


@pytest.mark.parametrize("size, op", [(20 * MIB, "PutObject"), (40 * MIB, "UploadPart")])
def test_a_file_that_changes_meanwhile_makes_no_object(far, bucket, server, s3, tmp_path, size, op):
    file = tmp_path / "file"
    file.write_bytes(os.urandom(size))
    away = Cli(server, tmp_path, far.endpoint)
    far.rule("jam", op=op, after=MIB)
    screen = away.terminal("cp", file, f"s3://{bucket}/file", "-j", "1")
    far.wait_held(1)
    with open(file, "ab") as f:
        f.write(b"more")
    far.behave()
    far.release()
    assert screen.end() == 1
    assert b"changed while it was read" in screen.seen
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket) and "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    assert not away.notes.exists() or not list(away.notes.iterdir())
    away("cp", file, f"s3://{bucket}/file")


def test_a_download_goes_on(far, bucket, server, s3, tmp_path):
    body = os.urandom(100 * MIB)
    (tmp_path / "large").write_bytes(body)
    away = Cli(server, tmp_path, far.endpoint)
    away("cp", tmp_path / "large", f"s3://{bucket}/large")
    far.rule("stall", op="GetObject", skip=4, after=7 * MIB)  # a look at it and three ranges of 16 MiB pass, two stand there
    screen = away.terminal("cp", f"s3://{bucket}/large", tmp_path / "back", "-j", "2", columns=40)
    far.wait_held(2)
    screen.expect(*(b"(%d %%" % percent for percent in range(40, 100)))
    screen.interrupt()
    assert screen.end() == 7
    assert b"resume" in screen.seen
    lines = screen.seen.split(b"forebay:")[0].replace(b"\033[K", b"\r").split(b"\r")
    assert max(map(len, lines)) < 40, "one line, on a narrow terminal too"
    assert not (tmp_path / "back").exists() and len(list(tmp_path.glob(".back.*.forebay-part"))) == 1
    (note,) = away.notes.iterdir()
    have = bytes.fromhex(re.search(rb"\nhave ([0-9a-f]+)\n", note.read_bytes()).group(1).decode())
    blocks = sum(byte.bit_count() for byte in have)
    assert 40 - 8 <= blocks < 100, "of the 40 % that were shown, at most the block of each of 8 ranges is lost"
    far.behave()
    far.release()
    far.wait_alone()
    far.forget()
    away("cp", f"s3://{bucket}/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == body
    assert far.object_bytes() < (100 - blocks + 8) * MIB
    assert not list(tmp_path.glob(".back.*")) and not list(away.notes.iterdir())


def test_a_resumed_download_of_damage_is_thrown_away(far, bucket, server, s3, tmp_path):
    """Another program wrote into the hidden file: the ETag tells, and the next try starts again."""
    body = os.urandom(64 * MIB)
    s3.put_object(Bucket=bucket, Key="large", Body=body)
    away = Cli(server, tmp_path, far.endpoint)
    far.rule("cut", op="GetObject", after=1000, times=1000)
    away("cp", f"s3://{bucket}/large", tmp_path / "back", status=1)
    far.behave()
    (note,) = away.notes.iterdir()
    text = note.read_text().replace("have 00", "have 0f")
    note.write_text(text)
    (hidden,) = tmp_path.glob(".back.*")
    with open(hidden, "r+b") as f:
        f.truncate(64 * MIB)
    away("cp", f"s3://{bucket}/large", tmp_path / "back", status=6)
    assert "discarded" in away.stderr and not (tmp_path / "back").exists()
    away("cp", f"s3://{bucket}/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == body


def test_an_object_that_changes_under_a_download(far, bucket, server, s3, tmp_path):
    s3.put_object(Bucket=bucket, Key="large", Body=os.urandom(48 * MIB))
    away = Cli(server, tmp_path, far.endpoint)
    far.rule("cut", op="GetObject", after=1000, times=1000)
    away("cp", f"s3://{bucket}/large", tmp_path / "back", status=1)
    body = os.urandom(48 * MIB)
    s3.put_object(Bucket=bucket, Key="large", Body=body)
    far.behave()
    away("cp", f"s3://{bucket}/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == body


def test_no_space_here(cli, s3, bucket, tmp_path):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100)
    cli("cp", f"s3://{bucket}/k", "/dev/full/k", status=5)
    cli("cp", f"s3://{bucket}/k", "/proc/k", status=3)


def test_a_question_at_a_terminal(cli, s3, bucket):
    for i in range(3):
        s3.put_object(Bucket=bucket, Key=f"x/{i}", Body=b"1234")
    screen = cli.terminal("rm", "-r", f"s3://{bucket}/x")
    screen.expect(b"delete 3 objects, 12 B? [y/N]").type(b"n\n")
    assert screen.end() == 7
    assert cli("du", f"s3://{bucket}").split()[:2] == ["12", "3"]
    screen = cli.terminal("rm", "-r", f"s3://{bucket}/x")
    screen.expect(b"[y/N]").type(b"\x03")  # Ctrl-C, and no Enter
    assert screen.end() == 7
    assert cli("du", f"s3://{bucket}").split()[:2] == ["12", "3"]
    screen = cli.terminal("rm", "-r", f"s3://{bucket}/x")
    screen.expect(b"[y/N]").type(b"y\n")
    assert screen.end() == 0
    assert cli("du", f"s3://{bucket}").split()[:2] == ["0", "0"]


def test_errors_say_what_to_do(cli, bucket, server, tmp_path):
    cli("cp", "-r", tmp_path, "s3://no-such-bucket-here/x", status=0)  # nothing there to copy
    (tmp_path / "f").write_bytes(b"x")
    cli("cp", tmp_path / "f", "s3://no-such-bucket-here/x", status=3)
    assert "forebay mb" in cli.stderr and "FOREBAY-E1004" in cli.stderr
    cli("cp", tmp_path / "nothing", f"s3://{bucket}/x", status=3)
    cli("cp", tmp_path, f"s3://{bucket}/x", status=2)
    assert "-r copies" in cli.stderr
    wrong = Cli(server, tmp_path, env={"FOREBAY_ACCESS_KEY_ID": server.keys()[0], "FOREBAY_SECRET_ACCESS_KEY": "wrong"})
    wrong("cp", tmp_path / "f", f"s3://{bucket}/x", status=4)
    assert "FOREBAY-E1101" in wrong.stderr
    gone = Cli(server, tmp_path, "http://127.0.0.1:1")
    gone("cp", tmp_path / "f", f"s3://{bucket}/x", status=5)
    assert "Is a server running" in gone.stderr


def test_against_another_server(server, seaweed, remote_s3, remote_bucket, tmp_path):
    """SeaweedFS, with the keys of an AWS profile."""
    credentials = tmp_path / "credentials"
    from rigs import seaweed as seaweed_rig

    credentials.write_text(f"[other]\naws_access_key_id = {seaweed_rig.ACCESS_KEY}\naws_secret_access_key = {seaweed_rig.SECRET_KEY}\n")
    cli = Cli(server, tmp_path, seaweed.endpoint, {"AWS_SHARED_CREDENTIALS_FILE": str(credentials), "AWS_PROFILE": "other"})
    tree = make_tree(tmp_path / "tree")
    (tree / "large").write_bytes(os.urandom(40 * MIB))
    cli("sync", tree, f"s3://{remote_bucket}/t")
    cli("diff", tree, f"s3://{remote_bucket}/t")
    cli("cp", "-r", f"s3://{remote_bucket}/t", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tree)
    cli("cp", "-r", f"s3://{remote_bucket}/t/d0", f"s3://{remote_bucket}/u")
    cli("rm", "-r", "--yes", f"s3://{remote_bucket}/t")
    assert cli("find", f"s3://{remote_bucket}/t") == ""


def test_from_server_to_server(server, s3, bucket, seaweed, remote_s3, remote_bucket, far, tmp_path):
    """cp, mv and sync between Forebay and SeaweedFS: metadata and the parts of the source go along, what was interrupted goes on."""
    from rigs import seaweed as seaweed_rig

    config = tmp_path / ".config/forebay/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[profiles.weed]\nendpoint = "{seaweed.endpoint}"\naccess_key = "{seaweed_rig.ACCESS_KEY}"\nsecret_key = "{seaweed_rig.SECRET_KEY}"\n')
    config.chmod(0o600)
    cli = Cli(server, tmp_path)
    tree = make_tree(tmp_path / "tree", files=12)
    (tree / "large").write_bytes(os.urandom(40 * MIB))
    cli("sync", tree, f"s3://{bucket}/t")
    s3.put_object(Bucket=bucket, Key="t/meta", Body=b"m", ContentType="text/x-odd", CacheControl="no-cache", Metadata={"a": "b"}, Tagging="one=1%202&two=%C3%A9")

    cli("cp", "-r", f"s3://{bucket}/t", f"s3://{remote_bucket}/t", "--to-profile", "weed")
    head = remote_s3.head_object(Bucket=remote_bucket, Key="t/meta")
    assert (head["ContentType"], head["CacheControl"], head["Metadata"]) == ("text/x-odd", "no-cache", {"a": "b"})
    tags = [{"Key": "one", "Value": "1 2"}, {"Key": "two", "Value": "é"}]
    assert remote_s3.get_object_tagging(Bucket=remote_bucket, Key="t/meta")["TagSet"] == tags
    cli("cp", f"s3://{bucket}/t/meta", f"s3://{remote_bucket}/bare", "--to-profile", "weed", "--no-tags")
    assert remote_s3.get_object_tagging(Bucket=remote_bucket, Key="bare")["TagSet"] == []
    remote_s3.delete_object(Bucket=remote_bucket, Key="bare")
    assert remote_s3.head_object(Bucket=remote_bucket, Key="t/large")["ETag"] == s3.head_object(Bucket=bucket, Key="t/large")["ETag"]
    assert "copied 0, 17 unchanged" in cli("sync", f"s3://{bucket}/t", f"s3://{remote_bucket}/t", "--to-profile", "weed") + cli.stderr
    s3.delete_object(Bucket=bucket, Key="t/meta")
    s3.put_object(Bucket=bucket, Key="t/more", Body=b"more")
    cli("sync", f"s3://{bucket}/t", f"s3://{remote_bucket}/t", "--to-profile", "weed", "--delete", "--yes")
    assert remote_s3.get_object(Bucket=remote_bucket, Key="t/more")["Body"].read() == b"more"
    keys = {e["Key"] for e in remote_s3.list_objects_v2(Bucket=remote_bucket)["Contents"]}
    assert "t/meta" not in keys and s3.get_object(Bucket=bucket, Key="t/more")["Body"].read() == b"more"

    # Back, by --profile for the source; the target's keys are the first one's where it has none of its own.
    cli("mv", "-r", f"s3://{remote_bucket}/t", f"s3://{bucket}/back", "--profile", "weed", "--to-endpoint-url", server.endpoint, "--parallel", "4", status=4)
    keys_of = {"AWS_ACCESS_KEY_ID": server.keys()[0], "AWS_SECRET_ACCESS_KEY": server.keys()[1]}
    config.write_text(config.read_text() + f'[profiles.here]\nendpoint = "{server.endpoint}"\naccess_key = "{keys_of["AWS_ACCESS_KEY_ID"]}"\nsecret_key = "{keys_of["AWS_SECRET_ACCESS_KEY"]}"\n')
    cli("mv", "-r", f"s3://{remote_bucket}/t", f"s3://{bucket}/back", "--profile", "weed", "--to-profile", "here")
    assert "Contents" not in remote_s3.list_objects_v2(Bucket=remote_bucket)
    cli("cp", "-r", f"s3://{bucket}/back", tmp_path / "back")
    assert (tmp_path / "back/large").read_bytes() == (tree / "large").read_bytes() and (tmp_path / "back/more").read_bytes() == b"more"

    # What was interrupted: only parts that did not arrive are fetched and sent again.
    body = os.urandom(70 * MIB)
    (tmp_path / "plain").write_bytes(body)
    cli("cp", tmp_path / "plain", f"s3://{bucket}/plain")
    away = Cli(server, tmp_path, far.endpoint)
    far.rule("stall", op="GetObject", skip=3, after=4 * MIB)  # three of five parts pass, two stand there
    screen = away.terminal("cp", f"s3://{bucket}/plain", f"s3://{remote_bucket}/plain", "--to-profile", "weed", "-j", "2")
    far.wait_held(2)
    screen.expect(*(b"(%d %%" % percent for percent in range(60, 100)))
    screen.interrupt()
    assert screen.end() == 7
    far.behave()
    far.release()
    far.wait_alone()
    far.forget()
    away("cp", f"s3://{bucket}/plain", f"s3://{remote_bucket}/plain", "--to-profile", "weed")
    assert far.object_bytes() == 22 * MIB  # the two that did not arrive
    assert remote_s3.get_object(Bucket=remote_bucket, Key="plain")["Body"].read() == body
    assert remote_s3.head_object(Bucket=remote_bucket, Key="plain")["ETag"] == s3.head_object(Bucket=bucket, Key="plain")["ETag"]
    assert not list(away.notes.iterdir()) and "Uploads" not in remote_s3.list_multipart_uploads(Bucket=remote_bucket)

    # One without parts goes in one piece, whatever its size, and has the ETag that it had.
    s3.put_object(Bucket=bucket, Key="whole", Body=body[: 40 * MIB])
    cli("cp", f"s3://{bucket}/whole", f"s3://{remote_bucket}/whole", "--to-profile", "weed")
    assert remote_s3.head_object(Bucket=remote_bucket, Key="whole")["ETag"] == s3.head_object(Bucket=bucket, Key="whole")["ETag"]

    cli("cp", tree / "medium", f"s3://{remote_bucket}/x", "--to-profile", "weed", status=2)
    assert "from server to server" in cli.stderr
    cli("cp", f"s3://{bucket}/plain", f"s3://{remote_bucket}/x", "--to-profile", "nothing", status=2)


def test_a_source_without_an_etag_that_changes(server, s3, bucket, fake, tmp_path):
    """Between servers, in parts: its time is all that tells."""
    size, asked = 257 * MIB, []

    def changing(request):
        first, last = 0, size - 1
        if "tagging" in request.query:
            return request.send(501, {}, b"")
        if request.command == "GET":
            first, last = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
            asked.append(first)
        head = {"Last-Modified": f"Wed, 01 Jan 2025 00:00:0{min(len(asked), 2)} GMT"}
        if request.command == "HEAD":
            head["Last-Modified"] = "Wed, 01 Jan 2025 00:00:01 GMT"
            return request.send(200, head, b"", length=size)
        try:
            request.send(206, {**head, "Content-Range": f"bytes {first}-{last}/{size}"}, bytes(last - first + 1))
        except OSError:
            request.close_connection = True

    fake.put("/other/k", b"", ETag=None)
    for method in ("GET", "HEAD"):
        fake.on(method, "/other/k", changing)
    config = tmp_path / ".config/forebay/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[profiles.far]\nendpoint = "{fake.endpoint}"\naccess_key = "a"\nsecret_key = "{"b" * 20}"\n')
    config.chmod(0o600)
    cli = Cli(server, tmp_path)
    keys = server.keys()
    config.write_text(config.read_text() + f'[profiles.here]\nendpoint = "{server.endpoint}"\naccess_key = "{keys[0]}"\nsecret_key = "{keys[1]}"\n')
    cli("cp", "s3://other/k", f"s3://{bucket}/k", "--profile", "far", "--to-profile", "here", status=1)
    assert "changed while it was copied" in cli.stderr, cli.stderr
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
