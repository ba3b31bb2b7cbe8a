"""The command line beside transfers: batch, bench, explain, completion, the manual page."""

import json
import subprocess
import threading
import time

import pytest
from rigs.process import PATIENCE
from test_cli_transfers import Cli


@pytest.fixture
def cli(server, tmp_path):
    return Cli(server, tmp_path)


def test_batch(cli, bucket, tmp_path):
    lines = []
    for i in range(200):
        (tmp_path / f"f {i}").write_bytes(b"x" * i)
        lines.append(f"cp 'f {i}' \"s3://{bucket}/f {i}\" # {i}")
    (tmp_path / "commands").write_text("\n".join(lines) + "\n\n# nothing\n")
    cli("batch", "-f", "commands", "-q")
    assert cli("du", f"s3://{bucket}").split()[:2] == [str(sum(range(200))), "200"]
    assert b"x" * 7 == cli("batch", "-q", input=f"cat 's3://{bucket}/f 7'\n".encode()).encode()
    cli("batch", "-k", input=f"rm 's3://{bucket}/f 1'\nfoo\nrm s3://{bucket}/'f 2\ncat s3://{bucket}/none\n".encode(), status=1)
    for says in ('line 2: "foo" cannot be used', "line 3: a quote is not closed", "line 4", "1 done, 3 failed"):
        assert says in cli.stderr, cli.stderr
    cli("batch", input=f"rm -r s3://{bucket}\n".encode(), status=2)  # no terminal to ask on
    assert "--yes" in cli.stderr


def test_explain(cli):
    assert "FOREBAY-E1203" in cli("explain", "e1203") and "exit" in cli("explain", "FOREBAY-E1203")
    assert "FOREBAY_CACHE__BUDGET" in cli("explain", "cache.budget")
    cli("explain", "nonsense", status=3)
    codes = [line.split()[0] for line in cli("explain").splitlines()]
    assert len(codes) == len(set(codes)) > 20


def test_completion(cli, bucket, s3):
    s3.put_object(Bucket=bucket, Key="dir/key", Body=b"")
    assert cli("completion", "words", "--", "sy") == "sync\n"
    assert "check" in cli("completion", "words", "--", "disk", "").split()
    assert "--dry-run" in cli("completion", "words", "--", "cp", "--dry").split()
    assert f"s3://{bucket}/" in cli("completion", "words", "--", "ls", f"s3://{bucket[:-1]}").split()
    assert cli("completion", "words", "--", "ls", f"s3://{bucket}/d") == f"s3://{bucket}/dir/\n"
    assert cli("completion", "words", "--", "ls", f"s3://{bucket}/dir/") == f"s3://{bucket}/dir/key\n"
    script = 'forebay() { "$BIN" "$@"; }; eval "$(forebay completion bash)"; COMP_LINE="forebay ls s3://$B/d"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(forebay ls "s3://$B/d"); COMP_CWORD=2; compopt() { :; }; _forebay; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script], env={**cli.env, "BIN": str(cli.binary), "B": bucket}, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == f"//{bucket}/dir/\n", done.stdout + done.stderr
    for shell in ("zsh", "fish"):
        assert "forebay completion words" in cli("completion", shell)
    cli("completion", "tcsh", status=2)


def test_the_manual_page(cli):
    page = cli("man")
    overview = cli("--help")
    for verb in ("sync", "batch", "bench", "disk\\ check", "explain"):
        assert f".SS {verb}" in page.replace("disk check", "disk\\ check"), verb
    assert "--max-delete" in page.replace("\\-", "-") and "sync" in overview


def test_bench_of_many_kinds(cli, bucket):
    mixed = json.loads(cli("bench", "mixed", f"s3://{bucket}", "--count", "300", "--objects", "50", "--size", "1KiB:50,2KiB-9KiB:50", "--seed", "7", "--json"))
    assert mixed["requests"] == 300 and mixed["errors"] == 0
    assert {"get", "put", "head", "list", "delete"} <= set(mixed) and mixed["get"]["p999_us"] > 0
    assert mixed["server_cpu_seconds"] >= 0
    epochs = json.loads(cli("bench", "get", f"s3://{bucket}", "--objects", "40", "--epochs", "3", "--json"))
    assert epochs["requests"] == 120
    open_loop = json.loads(cli("bench", "get", f"s3://{bucket}", "--objects", "10", "--rate", "100", "--count", "50", "--json"))
    assert open_loop["requests"] == 50 and open_loop["seconds"] >= 0.45
    cli("bench", "mixed", f"s3://{bucket}", "--mix", "get", status=2)
    cli("bench", "put", f"s3://{bucket}", "--epochs", "2", status=2)
    cli("bench", "get", f"s3://{bucket}", "--size", "9KiB-1KiB", status=2)
    assert cli("find", f"s3://{bucket}") == ""  # it cleans up behind itself


def test_ls_in_every_form(cli, s3, bucket):
    for key in ("a/1", "a/b/2", "c", "odd\x1b[2J"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"12345")
    assert cli("ls", f"s3://{bucket}").split("\n")[0].endswith("PRE a/")
    assert "odd\\x1b[2J" in cli("ls", f"s3://{bucket}")
    assert "827ccb0eea8a706c4c34a16891f84e7b" in cli("ls", "-l", f"s3://{bucket}/c")
    assert cli("ls", "--tree", f"s3://{bucket}/a/").split() == ["1", "b/", "2"]
    assert cli("ls", "-o", "name", f"s3://{bucket}/**2") == f"s3://{bucket}/a/b/2\n"
    assert [json.loads(line)["key"] for line in cli("ls", "-r", "-o", "jsonl", f"s3://{bucket}/a").splitlines()] == ["a/1", "a/b/2"]
    assert "4 objects, 20 B" in cli("ls", "-r", "--summarize", f"s3://{bucket}")
    assert json.loads(cli("ls", "--json", f"s3://{bucket}/none")) == []


def test_standard_output_that_takes_no_more(cli, bucket, s3):
    """A reader that has enough is no failure; a full disk is; a closed descriptor never becomes another file."""
    s3.put_object(Bucket=bucket, Key="k", Body=bytes(1 << 20))
    for i in range(3):
        s3.put_object(Bucket=bucket, Key=f"d/{i}", Body=b"x")

    def shell(text):
        done = subprocess.run(["bash", "-c", f'set -o pipefail; f() {{ "{cli.binary}" "$@"; }}; {text}'], env=cli.env, cwd=cli.cwd, capture_output=True, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr.decode()

    assert shell(f"f cat s3://{bucket}/k s3://{bucket}/k | head -c 3") == (0, bytes(3), "")
    for argv in (f"cat s3://{bucket}/k", f"ls s3://{bucket}", f"cp -r s3://{bucket}/d/ down"):
        code, _, says = shell(f"f {argv} > /dev/full")
        assert code == 5 and "standard output: No space left" in says
    for argv in ("stat", "ls", "cat", "du", "rm"):  # no name reaches a terminal as it is
        _, out, says = shell(f"f {argv} $'s3://{bucket}/esc\\e[31m\\xff' --literal" if argv != "stat" else f"f stat $'s3://{bucket}/esc\\e[31m\\xff'")
        assert b"\033" not in out and "\033" not in says
    assert shell(f"f get s3://{bucket}/k back >&- && cmp -n 1048576 back /dev/zero && f ls >&-")[0] == 0
    cli("mv", f"s3://{bucket}/k", "-", status=2)


def test_top(cli, bucket, s3):
    over = threading.Event()

    def read():
        while not over.is_set():
            s3.list_objects_v2(Bucket=bucket)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        end, lists = time.monotonic() + PATIENCE, 0
        while not (lists and view["buckets"]) and time.monotonic() < end:  # half a second may be over before one is answered
            view = json.loads(cli("top", "--once", "--json", "-i", "500ms"))
            lists = view["operations"]["list"]["requests_per_second"]
    finally:
        over.set()
        reader.join()
    assert view["requests_per_second"] > 0 and view["resident_bytes"] > 1e6 and "p99_ms" in view["operations"]["list"]
    assert view["disks"][0]["ok"] and view["disks"][0]["free_bytes"] > 0
    assert view["buckets"][0]["name"] == bucket and view["buckets"][0]["requests_per_second"] > 0 and view["clients"][0]["name"] == "127.0.0.1"
    assert "requests" in cli("top", "--once", "-i", "100ms")
    screen = cli.terminal("top", "-i", "200ms")
    screen.expect(b"requests/s").interrupt()
    assert screen.end() == 0


def test_trace(cli, bucket, s3, start_forebay, tmp_path):
    """Requests are shown while a client watches, without queries, and to administrators only."""
    screen = cli.terminal("trace", "--bucket", bucket, "-o", "jsonl", "-n", "3")
    end = time.monotonic() + PATIENCE
    while screen.seen.count(b"\n") < 3 and time.monotonic() < end:
        s3.put_object(Bucket=bucket, Key="watched", Body=b"12345")
        s3.list_objects_v2(Bucket=bucket, Prefix="secret-prefix")
        screen._read(0.1)
    assert screen.end() == 0
    seen = [json.loads(line) for line in screen.seen.decode().splitlines()]
    assert len(seen) == 3 and {"PUT", "GET"} & {r["method"] for r in seen}
    put = next((r for r in seen if r["method"] == "PUT"), None)
    if put:
        assert put["path"] == f"/{bucket}/watched" and put["in"] == 5 and put["status"] == 200 and put["us"] > 0
    assert b"secret-prefix" not in screen.seen
    node = start_forebay(args=["--auth"])
    anonymous = Cli(node, tmp_path, node.endpoint)
    anonymous("trace", status=4)


def test_profiles_and_where_each_setting_is_from(cli, server, tmp_path):
    """Flags before the environment, that before the file's profile, that before AWS's files; a profile by flag is a flag."""
    (tmp_path / ".config/forebay").mkdir(parents=True)
    (tmp_path / ".aws").mkdir()
    file = tmp_path / ".config/forebay/config.toml"
    text = f"""profile = "lab"
[profiles.lab]
endpoint = "{server.endpoint}"
region = "eu-9"
access_key = "{server.keys()[0]}"
secret_key = "{server.keys()[1]}"
[profiles.bare]
endpoint = "http://127.0.0.1:2"
aws_profile = "work"
"""
    (tmp_path / ".aws/credentials").write_text("[work]\naws_access_key_id = WK\naws_secret_access_key = WS\n[default]\naws_access_key_id = DK\naws_secret_access_key = DS\n")

    def write(content, mode=0o600):
        file.write_text(content)
        file.chmod(mode)

    def origin(*args, **env):
        held = dict(cli.env)
        cli.env.pop("FOREBAY_ENDPOINT", None)
        cli.env.update(env)
        rows = {line.split()[0]: line.split(None, 2)[1:] for line in cli("env", "--origin", *args).splitlines()}
        cli.env = held
        return rows

    write(text)
    assert origin() == {"endpoint": [server.endpoint, "profile"], "region": ["eu-9", "profile"], "keys": [server.keys()[0], "profile"], "profile": ["lab", str(file)]}
    assert server.keys()[1] not in cli("env", "--origin")
    held = origin(FOREBAY_ENDPOINT="http://e", AWS_ACCESS_KEY_ID="E", AWS_SECRET_ACCESS_KEY="S")
    assert held["endpoint"] == ["http://e", "FOREBAY_ENDPOINT"] and held["keys"] == ["E", "AWS_ACCESS_KEY_ID"] and held["region"][0] == "eu-9"
    held = origin("--profile", "lab", FOREBAY_ENDPOINT="http://e", FOREBAY_ACCESS_KEY_ID="E", FOREBAY_SECRET_ACCESS_KEY="S")
    assert held["endpoint"] == [server.endpoint, "profile"] and held["keys"][0] == server.keys()[0]
    held = origin("--endpoint-url", "http://f", FOREBAY_PROFILE="bare")
    assert held["endpoint"] == ["http://f", "--endpoint-url"] and held["keys"] == ["WK", "AWS's files"]
    assert origin("--profile", "work")["keys"] == ["WK", "AWS's files"]
    cli.env.pop("FOREBAY_ENDPOINT")
    cli("ls")
    for content, mode, status, says in (
        (text, 0o644, 4, "chmod 600"),
        (text.replace("region", "regoin"), 0o600, 2, 'did you mean "region"'),
        (text.replace('= "lab"', '= "lib"'), 0o600, 2, 'chooses profile "lib"'),
        (text.replace("secret_key", "# secret_key"), 0o600, 2, "both are needed"),
        ("profile = [", 0o600, 2, "config.toml:1"),
        ('profiles.lab.no_verify_tls = "yes"\n', 0o644, 2, "true or false"),
    ):
        write(content, mode)
        cli("ls", status=status)
        assert says in cli.stderr, cli.stderr
        if "both" not in says:  # which only its user gets
            cli("config", "check", "--client", status=status)
            assert says in cli.stderr, cli.stderr
    write(text)
    assert cli("config", "check") == f"ok\n{file}: ok\n"
    cli("config", "check", "--client", tmp_path / "none.toml", status=3)
    cli("ls", "--profile", "ghost", status=2)
    assert "ghost" in cli.stderr
    file.unlink()
    assert origin()["endpoint"] == ["http://127.0.0.1:9000", "default"] and origin()["keys"][0] == "DK"


def test_ping_ready_doctor(cli, server, tmp_path, seaweed):
    assert "answers in" in cli("ping", "-n", "1") and "is ready" in cli("ready", "--wait", "5s")
    told = json.loads(cli("ping", "-n", "2", "--json"))
    assert told["answers"] == 2 and 0 < told["least_ms"] <= told["mean_ms"] <= told["most_ms"]
    looked = {row["what"]: row for row in json.loads(subprocess.run([server.binary, "doctor", "--json"], env=cli.env, capture_output=True, timeout=PATIENCE).stdout)}
    assert looked["server"]["ok"] and looked["ready"]["ok"] and looked["keys"]["ok"] and looked["disk"]["ok"] and "space" in looked
    wrong = Cli(server, tmp_path, env={"FOREBAY_ACCESS_KEY_ID": "FBNOBODY", "FOREBAY_SECRET_ACCESS_KEY": "x"})
    assert "fix:" in wrong("doctor", status=1) and "WRONG  keys" in wrong("doctor", status=1)
    gone = Cli(server, tmp_path, "http://127.0.0.1:1")
    for verb in ("ping", "ready", "doctor"):
        gone(verb, status=5)
        assert "Is a server running" in gone.stderr
    other = Cli(server, tmp_path, seaweed.endpoint)
    assert "is no Forebay" in other("ping", "-n", "1")
    other("ready", status=2)
    cli("ping", "-n", "0", status=2)


def test_units_and_colour(cli, bucket, s3):
    s3.put_object(Bucket=bucket, Key="d/k", Body=b"x" * 1500)
    assert "1.5 KiB" in cli("ls", "-h", f"s3://{bucket}/d/") and "1.5 kB" in cli("ls", "--units", "si", f"s3://{bucket}/d/")
    assert " 1500 " in cli("du", "--units", "raw", f"s3://{bucket}") and "1.5 kB" in cli("stat", "--units", "si", f"s3://{bucket}/d/k")
    cli("ls", "--units", "miles", status=2)
    assert "\033" not in cli("ls", f"s3://{bucket}")
    cli.env["CLICOLOR_FORCE"] = "1"
    assert "\033[34md/\033[0m" in cli("ls", f"s3://{bucket}")
    cli.env["NO_COLOR"] = "1"
    assert "\033" not in cli("ls", f"s3://{bucket}")
    del cli.env["CLICOLOR_FORCE"], cli.env["NO_COLOR"]
    cli.env["TERM"] = "xterm"
    screen = cli.terminal("ls", f"s3://{bucket}")
    assert screen.end() == 0 and b"\033[34md/\033[0m" in screen.seen
    cli.env["TERM"] = "dumb"
    screen = cli.terminal("ls", f"s3://{bucket}")
    assert screen.end() == 0 and b"\033" not in screen.seen


def test_json_of_verbs_with_forms_of_their_own(cli, server, tmp_path):
    """env, config, version and doctor do not share the others' way to print."""
    assert json.loads(cli("env", "--json")) == json.loads(cli("env", "--format", "json")) == json.loads(cli("env", "-o", "json"))
    assert json.loads(cli("env", "--json"))["AWS_ENDPOINT_URL"] == server.endpoint
    assert cli("env", "-o", "json", "--format", "dotenv").startswith("AWS_ENDPOINT_URL=")
    origin = json.loads(cli("env", "--origin", "--json"))
    assert origin == json.loads(cli("config", "show", "--client", "--json")) and origin["endpoint"]["value"] == server.endpoint
    cli("env", "-o", "name", status=2)
    assert "--format has others" in cli.stderr
    told = json.loads(cli("version", "-o", "jsonl"))
    assert told == json.loads(cli("version", "--json"))
    assert f'commit="{told["commit"]}"' in str(server.get("/_/metrics")[1])
    cli("version", "-o", "yaml", status=2)
    for args in ((), ("--client",)):
        assert json.loads(cli("config", "check", *args, "--json")) == {"ok": True}
    assert "no file of profiles" in cli("config", "check", "--client")
    cli("config", "explain", "listen", "--json", status=2)
    # Whether there is space left is this machine's business.
    whole = json.loads(cli("doctor", "--json", status=(0, 1)))
    lines = [json.loads(line) for line in cli("doctor", "-o", "jsonl", status=(0, 1)).splitlines()]
    assert [row["what"] for row in lines] == [row["what"] for row in whole] and all(row["ok"] for row in lines if row["what"] != "space")
    gone = Cli(server, tmp_path, "http://127.0.0.1:1")
    (row,) = json.loads(gone("doctor", "--json", status=5))
    assert row["what"] == "server" and not row["ok"] and "127.0.0.1:1" in row["says"] and row["fix"]


# What programs read: members may be added, none may go or change its name (docs/cli.md, "Output").
FORMS = {
    ("ls", "-o", "jsonl", "s3://{b}/d/"): {"key", "size", "modified", "etag"},
    ("find", "-o", "jsonl", "s3://{b}"): {"name", "size", "modified", "etag"},
    ("stat", "--json", "s3://{b}/d/k"): {"bucket", "key", "size", "modified", "etag", "content_type", "metadata"},
    ("du", "--json", "s3://{b}"): {"name", "objects", "bytes"},
    ("cp", "-n", "--json", "s3://{b}/d/k", "s3://{b}/e"): {"did", "found", "done", "failed", "left_out", "unchanged", "bytes", "seconds"},
    ("cp", "-n", "-o", "jsonl", "s3://{b}/d/k", "s3://{b}/e"): {"did", "from", "to", "bytes"},
    ("share", "--json", "s3://{b}/d/k"): {"url"},
    ("user", "ls", "--json"): {"users"},
    ("disk", "ls", "--json"): {"disks", "converged"},
    ("config", "show", "--client", "--json"): {"endpoint", "region", "keys"},
}


def test_forms_for_programs_stay(cli, server, bucket, s3):
    s3.put_object(Bucket=bucket, Key="d/k", Body=b"x", Metadata={"m": "1"})
    keyed = {"AWS_ACCESS_KEY_ID": server.keys()[0], "AWS_SECRET_ACCESS_KEY": server.keys()[1]}
    cli.env.update(keyed)
    missing = {}
    for argv, members in FORMS.items():
        doc = json.loads(cli(*(a.format(b=bucket) for a in argv)).splitlines()[0])
        doc = doc[0] if isinstance(doc, list) else doc
        if members - doc.keys():
            missing[argv] = (members - doc.keys(), doc)
    assert not missing, missing
