"""Jobs: long work that outlives its request. Prefetch by prefix, names, manifest; cancel, resume, kill; and what is refused."""

import concurrent.futures
import json
import subprocess
import threading
import time

import pytest
from rigs import forebay
from rigs.process import PATIENCE

import plain
from conftest import REMOTE_KEYS, boto
from test_cold import PATIENT, attach, wait_for

KIB = 1024


def cli(process, *args, stdin=None, timeout=120):
    env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint})
    return subprocess.run([str(a) for a in (process.binary, *args)], env=env, input=stdin, capture_output=True, text=True, timeout=timeout)


@pytest.fixture
def tier(start_forebay, cloud, remote_bucket):
    """(server, proxy, bucket) with the bucket attached; counted from zero."""
    process = start_forebay(settings=PATIENT)
    done = attach(process, remote_bucket, cloud.endpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    cloud.forget()
    return process, cloud, remote_bucket


def fill(remote_s3, bucket, keys, size=10 * KIB):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: remote_s3.put_object(Bucket=bucket, Key=key, Body=key.encode() * (size // len(key))), keys))


def job(process, job_id, **query):
    reply = plain.ask(process.port, "GET", f"_/jobs/{job_id}", query="&".join(f"{k}={v}" for k, v in query.items()))
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def begin(process, **ask):
    reply = plain.ask(process.port, "POST", "_/jobs", body=json.dumps(ask).encode())
    return reply.status, reply.body.decode()


def ended(process, job_id):
    wait_for(lambda: job(process, job_id, wait=1)["state"] not in ("waiting", "running", "idle"), f"the end of job {job_id}")
    return job(process, job_id)


def test_a_prefix_is_prefetched_once(tier, remote_s3):
    process, cloud, bucket = tier
    keys = [f"p/{n:04d}" for n in range(60)]
    fill(remote_s3, bucket, [*keys, *(f"q/{n}" for n in range(5))])
    done = cli(process, "prefetch", f"s3://{bucket}/p/")
    assert done.returncode == 0, done.stderr
    assert " done: 60 objects, " in done.stdout and cloud.requests() == 60
    for key in keys:
        assert plain.get(process.port, bucket, key).status == 200
    assert cloud.requests() == 60
    again = cli(process, "prefetch", f"s3://{bucket}/p/", "--json")
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert (told["state"], told["objects"], told["present"], told["bytes"]) == ("done", 60, 60, 0)
    assert cloud.requests() == 60


def test_names_with_braces_and_what_is_missing_is_told(tier, remote_s3):
    process, cloud, bucket = tier
    fill(remote_s3, bucket, [f"shard-{n:03d}.tar" for n in range(8)])
    done = cli(process, "prefetch", f"s3://{bucket}/shard-{{000..009}}.tar")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "8 of 10 objects" in done.stdout and "2 failed" in done.stdout
    assert "shard-008.tar: " in done.stderr and "shard-009.tar: " in done.stderr
    assert plain.get(process.port, bucket, "shard-007.tar").status == 200
    assert cloud.stats()["requests"]["GetObject"] == 10


def test_shards_as_webdataset_names_them(tier, remote_s3):
    """Lists joined by ::, commands of a pipe, addresses of this server; each brings what its braces stand for."""
    process, cloud, bucket = tier
    fill(remote_s3, bucket, [f"{kind}/s-{n:02d}.tar" for kind in "abcd" for n in range(3)])
    for shards, count in [
        (f"s3://{bucket}/a/s-{{00..02}}.tar::s3://{bucket}/b/s-00.tar", 4),
        (f"pipe:aws --endpoint-url http://elsewhere:1 s3 cp 's3://{bucket}/c/s-{{00..02}}.tar' - | cat", 3),
        (f"pipe:curl -s -L '{process.endpoint}/{bucket}/d/s-{{00..01}}.tar'::{process.endpoint}/{bucket}/d/s-02.tar", 3),
    ]:
        planned = cli(process, "prefetch", shards, "-n", "--json")
        assert planned.returncode == 0 and json.loads(planned.stdout)["objects"] == count, planned.stdout + planned.stderr
        done = cli(process, "prefetch", shards)
        assert done.returncode == 0 and f"{count} of {count} objects" in done.stdout, done.stdout + done.stderr
    for wrong, says in [
        ("pipe:cat /tmp/x.tar", "no s3://BUCKET/KEY stands"),
        (f"s3://{bucket}/a/s-00.tar::s3://other/b.tar", "is of another bucket"),
        (f"http://elsewhere:1/{bucket}/a.tar", "is not at http"),
        (f"s3://{bucket}/a::", "expected s3://BUCKET/KEY"),
        (f"s3://{bucket}::s3://{bucket}/b", "names no object"),
    ]:
        refused = cli(process, "prefetch", wrong)
        assert refused.returncode == 2 and says in refused.stderr, refused.stderr
    assert cli(process, "evict", f"s3://{bucket}/a/s-{{00..02}}.tar::s3://{bucket}/b/s-00.tar").returncode == 0


def test_progress_tells_the_time_left_where_the_total_is_known(tier, remote_s3):
    """Held at the remote in the middle: done, total and left_ms of a list; of a prefix the total is unknown."""
    process, cloud, bucket = tier
    fill(remote_s3, bucket, [f"{kind}{n:03d}" for kind in "np" for n in range(40)])
    for what, known in [(f"s3://{bucket}/n{{000..039}}", True), (f"s3://{bucket}/p", False)]:
        cloud.rule("stall", op="GetObject", skip=20)
        name = cli(process, "prefetch", what, "--parallel", "2", "--no-wait").stdout.strip()
        cloud.wait_held(2)
        wait_for(lambda: job(process, name)["objects"] >= 20, "half of it")
        told = job(process, name)
        assert told["state"] == "running", told
        if known:
            assert told["total"] == 40 and told["left_ms"] > 0, told
            assert " left" in cli(process, "jobs").stdout
        else:
            assert told["left_ms"] is None, told
        cloud.behave()
        cloud.release()
        assert ended(process, name)["objects"] == 40
        assert job(process, name)["left_ms"] is None


def test_names_from_a_file_and_from_a_manifest(tier, remote_s3):
    process, cloud, bucket = tier
    fill(remote_s3, bucket, [f"k{n}" for n in range(12)])
    done = cli(process, "prefetch", f"s3://{bucket}", "--from-file", "-", stdin="k0\nk{1..3}\r\n\nk4\n")
    assert done.returncode == 0 and "5 of 5 objects" in done.stdout, done.stdout + done.stderr
    remote_s3.put_object(Bucket=bucket, Key="list", Body=b"k{0..11}\n")
    done = cli(process, "prefetch", f"s3://{bucket}", "--manifest", "list")
    assert done.returncode == 0 and "12 of 12 objects" in done.stdout and "5 were here" in done.stdout, done.stdout + done.stderr


def test_cancelled_then_resumed_it_goes_on_where_it_was(tier, remote_s3):
    process, cloud, bucket = tier
    fill(remote_s3, bucket, [f"k{n:03d}" for n in range(80)])
    cloud.rule("stall", op="GetObject", skip=10)
    told = cli(process, "prefetch", f"s3://{bucket}/", "--parallel", "2", "--no-wait")
    assert told.returncode == 0, told.stderr
    name = told.stdout.strip()
    wait_for(lambda: job(process, name)["objects"] >= 10, "ten objects")
    cloud.wait_held(2)
    assert name in cli(process, "jobs").stdout
    done = cli(process, "cancel", name)
    assert done.returncode == 0 and ("cancelled" in done.stdout or "is ending" in done.stdout), done.stdout + done.stderr
    cloud.behave()
    cloud.release()
    before = ended(process, name)
    assert before["state"] == "cancelled" and 10 <= before["objects"] <= 12
    assert name not in cli(process, "jobs").stdout and name in cli(process, "jobs", "--all").stdout
    assert cli(process, "jobs", name, "--resume").returncode == 0
    waited = cli(process, "wait", name)
    assert waited.returncode == 0 and " done: " in waited.stdout, waited.stdout + waited.stderr
    after = job(process, name)
    assert after["objects"] + 0 >= 80 and after["present"] <= 2  # what was under way is looked at again
    assert cloud.requests() <= 82


def test_cancelled_while_the_remote_says_nothing(start_forebay, cloud, remote_bucket, remote_s3):
    """It does not wait for the fetches that are under way, on whichever loop they are; nor does the next start of it."""
    hour = {"backend.timeout": "1h", "backend.retry_time": "1h"}
    process = start_forebay(settings=hour)
    assert attach(process, remote_bucket, cloud.endpoint).returncode == 0
    fill(remote_s3, remote_bucket, [f"k{n:03d}" for n in range(20)])
    cloud.rule("stall", op="GetObject", after=100)
    name = cli(process, "prefetch", f"s3://{remote_bucket}/", "--parallel", "16", "--no-wait").stdout.strip()
    cloud.wait_held(16)
    assert cli(process, "cancel", name).returncode == 0
    assert ended(process, name)["state"] == "cancelled"
    cloud.behave()
    assert cli(process, "jobs", name, "--resume").returncode == 0
    assert ended(process, name)["objects"] == 20
    cloud.release()


def test_it_makes_way_for_readers(start_forebay, fake):
    """While one waits for the remote, one object is fetched at a time; when none does, as many as were asked for."""
    lock, gate, together = threading.Lock(), threading.Event(), [0, 0]

    def held(request):
        gate.wait(PATIENCE)
        request._object(fake)

    def counted(request):
        with lock:
            together[0] += 1
            together[1] = max(together)
        if gate.is_set() and request.path.startswith("/remote/q"):
            full.wait(PATIENCE)  # eight are here at once, or this breaks
        with lock:
            together[0] -= 1  # before the answer: who has it may ask for the next one at once
        request._object(fake)

    full = threading.Barrier(8)
    fake.put("/remote", b"")
    for key in ["slow", *(f"p{n:02d}" for n in range(40)), *(f"q{n:02d}" for n in range(8))]:
        fake.put(f"/remote/{key}", key.encode() * 100)
        fake.on("GET", f"/remote/{key}", held if key == "slow" else counted)
    process = start_forebay(settings=PATIENT)
    assert attach(process, "remote", fake.endpoint).returncode == 0
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        reader = pool.submit(plain.get, process.port, "remote", "slow")
        wait_for(lambda: fake.seen["GET /remote/slow"] == 1, "the reader")
        try:
            assert cli(process, "prefetch", "s3://remote/p{00..39}", "--parallel", "8").returncode == 0
            assert together[1] == 1
        finally:
            gate.set()
        assert reader.result().status == 200
    assert cli(process, "prefetch", "s3://remote/q{00..07}", "--parallel", "8").returncode == 0
    assert together[1] == 8


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_it_goes_on_after_a_restart(tier, remote_s3, start_forebay, how):
    process, cloud, bucket = tier
    fill(remote_s3, bucket, [f"k{n:03d}" for n in range(60)])
    cloud.rule("stall", op="GetObject", skip=5)
    name = cli(process, "prefetch", f"s3://{bucket}/", "--parallel", "2", "--no-wait").stdout.strip()
    wait_for(lambda: job(process, name)["objects"] >= 5, "five objects")
    cloud.wait_held(2)
    if how == "stop":
        process.end()  # it does not wait for what stands still
    else:
        process.kill()
    cloud.behave()
    cloud.release()
    again = start_forebay(settings=PATIENT)
    told = ended(again, name)
    assert told["state"] == "done" and told["objects"] >= 60
    before = cloud.requests()
    for n in range(60):
        assert plain.get(again.port, bucket, f"k{n:03d}").body == f"k{n:03d}".encode() * (10 * KIB // 4)
    assert cloud.requests() == before
    if how == "stop":  # its place was stored: nothing but what was under way came twice
        assert before <= 62


def test_a_dead_backend_ends_it_with_a_reason(tier, remote_s3):
    process, cloud, bucket = tier
    fill(remote_s3, bucket, [f"k{n:03d}" for n in range(80)])
    cloud.rule("error", op="GetObject", status=500)
    done = cli(process, "prefetch", f"s3://{bucket}/k{{000..079}}", "--parallel", "64")
    assert done.returncode == 5, done.stdout + done.stderr
    assert " failed" in done.stderr and "one after the other" in done.stderr and "--resume" in done.stderr
    cloud.behave()


def test_a_full_cache_ends_it_with_a_reason(start_forebay, cloud, remote_bucket, remote_s3):
    process = start_forebay(settings={**PATIENT, "cache.budget": "8MiB"})
    assert attach(process, remote_bucket, cloud.endpoint).returncode == 0
    fill(remote_s3, remote_bucket, [f"k{n:03d}" for n in range(300)], size=40 * KIB)
    done = cli(process, "prefetch", f"s3://{remote_bucket}/", "-p", "1")
    assert done.returncode == 5 and "cache.budget" in done.stderr, done.stdout + done.stderr


def test_what_is_refused(tier, s3_of=boto):
    process, cloud, bucket = tier
    s3_of(process.endpoint, process.keys()).create_bucket(Bucket="native")
    for ask, word in (
        ({"kind": "nothing"}, "no kind of job"),
        ({"kind": "prefetch"}, "names its"),
        ({"kind": "prefetch", "args": {"bucket": bucket}}, "one of"),
        ({"kind": "prefetch", "args": {"bucket": bucket, "prefix": ""}, "list": "k"}, "one of"),
        ({"kind": "prefetch", "args": {"bucket": "native", "prefix": ""}}, "not attached"),
        ({"kind": "prefetch", "args": {"bucket": bucket, "speed": 1}}, "no argument"),
        ({"kind": "prefetch", "args": {"bucket": bucket, "prefix": "", "rate": "fast"}}, "a number"),
        ({"kind": "prefetch", "args": {"bucket": bucket, "prefix": "", "parallel": 1000}}, "at most 256"),
        ({"kind": "prefetch", "args": {"bucket": bucket}, "list": "{a,b}" * 65}, "more than"),
        ({"kind": "evict", "args": {"bucket": "native", "prefix": ""}}, "not attached"),
        ({"kind": "evict", "args": {"bucket": bucket, "prefix": "", "rate": 1}}, "no argument"),
        ({"kind": "prefetch", "args": {"bucket": bucket}, "list": "{1..9999999999}"}, "more than"),
        ({"kind": "prefetch", "args": []}, "object"),
        ({"kind": "prefetch", "args": {"bucket": bucket}, "list": "x\n" * (5 * KIB * KIB)}, None),
    ):
        status, text = begin(process, **ask)
        assert 400 <= status < 500, (ask, status, text)
        assert word is None or word in text, (ask, text)
    status, text = begin(process, kind="prefetch", args={"bucket": "nowhere", "prefix": ""})
    assert status == 404 and "nowhere" in text
    assert plain.ask(process.port, "GET", "_/jobs/nothing").status == 404
    assert cli(process, "wait", "nothing").returncode == 3
    assert json.loads(plain.ask(process.port, "GET", "_/jobs").body) == {"jobs": []}


def test_history_is_kept_and_can_be_forgotten(tier, remote_s3, start_forebay):
    process, cloud, bucket = tier
    fill(remote_s3, bucket, ["a"])
    name = json.loads(begin(process, kind="prefetch", args={"bucket": bucket, "prefix": ""})[1])["id"]
    assert ended(process, name)["state"] == "done"
    assert plain.ask(process.port, "POST", f"_/jobs/{name}", body=b'{"action": "resume"}').status == 400
    assert plain.ask(process.port, "POST", f"_/jobs/{name}", body=b'{"action": "dance"}').status == 400
    process.end()
    again = start_forebay(settings=PATIENT)
    assert job(again, name)["state"] == "done" and job(again, name)["objects"] == 1
    assert plain.ask(again.port, "DELETE", f"_/jobs/{name}").status == 200
    assert plain.ask(again.port, "GET", f"_/jobs/{name}").status == 404


def test_the_rate_is_kept_within_one_object_until_somebody_reads_it(tier, remote_s3):
    """16 MiB in a whole object would take four minutes; a reader gets it as fast as it comes, and so does the job then."""
    process, cloud, bucket = tier
    size = 16 * 1024 * KIB
    fill(remote_s3, bucket, ["large"], size=size)
    cloud.forget()
    status, told = begin(process, kind="prefetch", args={"bucket": bucket, "prefix": "", "rate": 64 * KIB})
    assert status in (200, 202), told
    number = json.loads(told)["id"]
    wait_for(lambda: job(process, number)["state"] == "running", "its begin")
    time.sleep(2)
    assert job(process, number)["state"] == "running"  # at full speed it would have been over many times
    reply = plain.get(process.port, bucket, "large")
    assert reply.status == 200 and reply.body == b"large" * (size // 5)
    assert ended(process, number)["state"] == "done"  # and no client waited four minutes for it


def test_the_rate_is_kept(tier, remote_s3):
    """Ten times loose: 4 MiB at 1 MiB a second take a second at the least."""
    process, cloud, bucket = tier
    fill(remote_s3, bucket, [f"k{n:02d}" for n in range(16)], size=256 * KIB)
    begun = time.monotonic()
    done = cli(process, "prefetch", f"s3://{bucket}/", "--rate", "1MiB", "--parallel", "1")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun > 1


def here(process, bucket, **query):
    reply = plain.ask(process.port, "GET", f"_/buckets/{bucket}/here", query="&".join(f"{k}={v}" for k, v in query.items()))
    return json.loads(reply.body) if reply.status == 200 else None


def test_what_is_kept_is_shown_and_evicted(tier, remote_s3):
    """Of a prefix, of names, but not what is pinned; the next read fetches it again."""
    process, cloud, bucket = tier
    fill(remote_s3, bucket, [*(f"p/{n:03d}" for n in range(30)), *(f"q/{n}" for n in range(6)), "z/cold"])
    planned = cli(process, "prefetch", "-n", f"s3://{bucket}/p/")
    assert planned.returncode == 0 and f"would fetch s3://{bucket}/p/000" in planned.stdout and "would fetch 30 objects" in planned.stderr
    assert cli(process, "prefetch", f"s3://{bucket}/{{p/{{000..029}},q/{{0..5}}}}").returncode == 0
    assert cli(process, "pin", f"s3://{bucket}/p/00").returncode == 0
    shown = cli(process, "ls", "-rc", f"s3://{bucket}", "--json")
    assert shown.returncode == 0, shown.stderr
    states = {e["key"]: e["cached"] for e in json.loads(shown.stdout)}
    assert states["p/000"] == "pinned" and states["p/010"] == "cached" and states["q/5"] == "cached" and states["z/cold"] == "-"
    table = cli(process, "ls", "-c", "--summarize", f"s3://{bucket}/q/")
    assert table.stdout.count(" cached ") == 6 and "6 of them here" in table.stdout, table.stdout + table.stderr

    assert "would fetch 0 objects; 30 stay" in cli(process, "prefetch", "-n", f"s3://{bucket}/p/{{000..029}}").stderr
    assert json.loads(cli(process, "evict", "-n", "--json", f"s3://{bucket}/p/").stdout)["objects"] == 20  # and 10 that are pinned
    done = cli(process, "evict", f"s3://{bucket}/p/")
    assert done.returncode == 0 and " done: 30 of 30 objects, " in done.stdout and "10 stay" in done.stdout, done.stdout + done.stderr
    assert [e["key"] for e in here(process, bucket, prefix="p/")["keys"]] == [f"p/{n:03d}" for n in range(10)]
    done = cli(process, "evict", f"s3://{bucket}/q/{{2..9}}", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["total"], told["objects"], told["present"]) == (0, 8, 8, 4), done.stdout + done.stderr
    done = cli(process, "evict", f"s3://{bucket}", "--from-file", "-", stdin="q/0\nnothing/like/it\n{,q/1}\n")
    assert done.returncode == 0 and "4 of 4 objects" in done.stdout, done.stdout + done.stderr
    assert here(process, bucket, prefix="q/")["keys"] == []
    cloud.forget()
    assert plain.get(process.port, bucket, "q/3").body == b"q/3" * (10 * KIB // 3)
    assert plain.get(process.port, bucket, "p/003").status == 200
    assert cloud.requests() == 1


def test_what_is_known_of_one_object(tier, remote_s3, s3_of=boto):
    process, cloud, bucket = tier
    fill(remote_s3, bucket, ["a", "big"])
    before = cli(process, "stat", "-v", f"s3://{bucket}/a")
    assert before.returncode == 0 and "cached    no" in before.stdout, before.stdout + before.stderr
    for _ in range(3):
        assert plain.get(process.port, bucket, "a").status == 200
    after = cli(process, "stat", "-v", f"s3://{bucket}/a")
    assert after.returncode == 0, after.stderr
    for words in ("a copy of the remote's object, on disk ", "segment   log ", "since     after 20", "reads     ", "expires   never", "evicted   "):
        assert words in after.stdout, after.stdout
    assert cli(process, "pin", f"s3://{bucket}/a").returncode == 0
    assert cli(process, "bucket", "set", f"s3://{bucket}", "--ttl", "10m").returncode == 0
    told = json.loads(cli(process, "stat", "-v", f"s3://{bucket}/a", "--json").stdout)["here"]
    assert told["pin"] == "a" and told["eviction"] == "stays" and "pinned" in told["why"] and told["ttl_left_ms"] > 0  # stat itself asked the remote
    assert plain.get(process.port, bucket, "a").status == 200
    assert 0 < here(process, bucket, key="a")["ttl_left_ms"] <= 600000
    assert json.loads(cli(process, "stat", "-v", f"s3://{bucket}/big", "--json").stdout)["here"] is None

    native = s3_of(process.endpoint, process.keys())
    native.create_bucket(Bucket="native")
    native.put_object(Bucket="native", Key="k", Body=b"x", ChecksumAlgorithm="SHA256")
    own = cli(process, "stat", "-v", "s3://native/k").stdout
    assert "the object itself" in own and "checksum  SHA256 " in own and "copies    1" in own and "\nreads " not in own
    assert " native " in cli(process, "ls", "-c", "s3://native").stdout
    for query, status in (({}, 400), ({"key": ""}, 400), ({"key": "a", "prefix": "b"}, 400), ({"key": "nothing"}, 404)):
        asked = plain.ask(process.port, "GET", f"_/buckets/{bucket}/here", query="&".join(f"{k}={v}" for k, v in query.items()))
        assert asked.status == status, (query, asked.body)
    assert plain.ask(process.port, "GET", "_/buckets/nowhere/here", query="prefix=").status == 404
    assert plain.ask(process.port, "GET", f"_/buckets/{bucket}", query="prefix=").status == 404


def test_pages_of_what_is_kept(tier, remote_s3):
    """In order, bounded, with keys that are no UTF-8; a listing of many works all the same."""
    process, cloud, bucket = tier
    keys = [f"k{n:04d}" for n in range(40)]
    fill(remote_s3, bucket, keys)
    assert cli(process, "prefetch", f"s3://{bucket}/k{{0000..0039..2}}").returncode == 0
    # A prefetch has the bytes of all objects; the last ones may still be on their way into the index.
    wait_for(lambda: len(here(process, bucket, prefix="k")["keys"]) == 20, "20 objects that are kept")
    got, begin = [], ""
    while True:
        page = here(process, bucket, prefix="k", **{"from": begin}, max=7)
        got += [e["key"] for e in page["keys"]]
        assert len(page["keys"]) <= 7
        if not page["more"]:
            break
        begin = page["keys"][-1]["key"] + "%00"
    assert got == keys[::2]
    listed = json.loads(cli(process, "ls", "-c", f"s3://{bucket}", "--json").stdout)
    assert [e["cached"] for e in listed] == ["cached", "-"] * 20


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_an_eviction_goes_on_after_a_restart(tier, remote_s3, start_forebay, how):
    process, cloud, bucket = tier
    keys = [f"k{n:03d}" for n in range(600)]
    fill(remote_s3, bucket, keys, size=64)
    assert cli(process, "prefetch", f"s3://{bucket}/", "-p", "64").returncode == 0
    name = cli(process, "evict", f"s3://{bucket}/", "--no-wait").stdout.strip()
    if how == "stop":
        process.end()
    else:
        process.kill()
    again = start_forebay(settings=PATIENT)
    told = ended(again, name)
    assert told["state"] == "done" and (how == "kill" or told["objects"] >= 600), told
    assert here(again, bucket, prefix="")["keys"] == []
    assert plain.get(again.port, bucket, "k599").body == b"k599" * 16


def test_rights_of_the_bucket_decide(start_forebay, cloud, remote_bucket, remote_s3):
    """S4: the right to read a prefix allows its prefetch, the right to write its eviction; a job belongs to its creator."""
    process = start_forebay(settings=PATIENT, args=["--auth"])
    keys = process.keys()

    def run(who, *args):
        env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint, "FOREBAY_ACCESS_KEY_ID": who[0], "FOREBAY_SECRET_ACCESS_KEY": who[1]})
        return subprocess.run([str(a) for a in (process.binary, *args)], env=env, capture_output=True, text=True, timeout=120)

    def user(name, *grants):
        done = run(keys, "user", "add", name, "--json", *(word for g in grants for word in ("-g", g)))
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        return made["access_key"], made["secret_key"]

    attached = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint, "FOREBAY_ACCESS_KEY_ID": keys[0], "FOREBAY_SECRET_ACCESS_KEY": keys[1], "AWS_ACCESS_KEY_ID": REMOTE_KEYS[0], "AWS_SECRET_ACCESS_KEY": REMOTE_KEYS[1]})
    done = subprocess.run([str(process.binary), "bucket", "attach", f"s3://{remote_bucket}", "--endpoint", cloud.endpoint, "--store-credentials"], env=attached, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    fill(remote_s3, remote_bucket, ["p/a", "p/b", "q/a"])
    reader = user("reader", f"read,list:s3://{remote_bucket}/p/")
    writer = user("writer", f"write:s3://{remote_bucket}")
    owner = user("owner", f"admin:s3://{remote_bucket}")

    done = run(reader, "prefetch", f"s3://{remote_bucket}/p/", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    name = json.loads(done.stdout)["id"]
    for who, *refused in (
        (reader, "prefetch", f"s3://{remote_bucket}/"),
        (reader, "prefetch", f"s3://{remote_bucket}/{{p/a,p/b}}"),
        (reader, "evict", f"s3://{remote_bucket}/p/"),
        (writer, "prefetch", f"s3://{remote_bucket}/p/"),
        (reader, "ls", "-c", f"s3://{remote_bucket}/q/"),
        (writer, "stat", "-v", f"s3://{remote_bucket}/p/a"),
        (reader, "prefetch", "s3://nowhere"),
        (writer, "evict", f"s3://{remote_bucket}", "--manifest", "p/a"),
    ):
        done = run(who, *refused)
        assert done.returncode == 4, (refused, done.stdout, done.stderr)
    shown = run(reader, "ls", "-c", f"s3://{remote_bucket}/p/")
    assert shown.stdout.count(" cached ") == 2, shown.stdout + shown.stderr
    assert "on disk" in run(reader, "stat", "-v", f"s3://{remote_bucket}/p/a").stdout
    assert str(process.data_dir) not in run(reader, "stat", "-v", f"s3://{remote_bucket}/p/a").stdout
    assert str(process.data_dir) in run(keys, "stat", "-v", f"s3://{remote_bucket}/p/a").stdout
    for who, sees in ((reader, True), (writer, False), (owner, True), (keys, True)):
        assert (name in run(who, "jobs", "--all").stdout) == sees
        assert run(who, "jobs", name).returncode == (0 if sees else 3)
        assert run(who, "wait", name).returncode == (0 if sees else 3)
    assert run(writer, "cancel", name).returncode == 3
    done = run(writer, "evict", f"s3://{remote_bucket}/p/")
    assert done.returncode == 0 and "2 of 2 objects" in done.stdout, done.stdout + done.stderr
    denied = subprocess.run([str(process.binary), "jobs"], env=forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint}), capture_output=True, text=True, timeout=60)
    assert denied.returncode == 4, denied.stdout + denied.stderr
