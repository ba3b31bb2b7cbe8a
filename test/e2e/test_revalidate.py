"""What others change at the remote behind our back: times to live, asking for the latest, a remote that cannot be asked."""

import concurrent.futures
import subprocess

import pytest
from rigs import forebay

import plain
from test_cold import PATIENT, attach, wait_for


def setting(process, bucket, *flags):
    done = subprocess.run([str(process.binary), "bucket", "set", f"s3://{bucket}", *flags], env=forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint}), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def changing(start_forebay, cloud, remote_bucket, remote_s3):
    process = start_forebay(settings=PATIENT)
    assert attach(process, remote_bucket, cloud.endpoint).returncode == 0
    remote_s3.put_object(Bucket=remote_bucket, Key="k", Body=b"old" * 1000)
    for _ in range(2):  # the first has it before our disk has it; the second waits for that
        assert plain.get(process.port, remote_bucket, "k").body == b"old" * 1000
    return process, cloud, remote_bucket


def test_without_a_time_to_live_nobody_asks(changing, remote_s3):
    process, cloud, bucket = changing
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"new" * 1000)
    cloud.forget()
    for _ in range(3):
        assert plain.get(process.port, bucket, "k").body == b"old" * 1000
    assert cloud.stats()["requests"] == {}


def test_what_others_change_is_noticed_when_its_time_is_over(changing, remote_s3):
    """One HEAD asks; the same ETag: nothing is fetched; another one: the new version, and never the old one again."""
    process, cloud, bucket = changing
    setting(process, bucket, "--ttl", "always")
    cloud.forget()
    for _ in range(3):
        assert plain.get(process.port, bucket, "k").body == b"old" * 1000
    assert cloud.requests("HeadObject") == 3 and cloud.requests() == 0
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"new" * 1000)
    reply = plain.get(process.port, bucket, "k")
    assert reply.body == b"new" * 1000 and reply.headers["x-forebay-cache"] == "miss"
    setting(process, bucket, "--ttl", "never")
    assert plain.get(process.port, bucket, "k").body == b"new" * 1000
    assert cloud.requests() == 1
    process.kill()


def test_the_old_version_does_not_come_back_after_a_kill(changing, remote_s3, start_forebay):
    process, cloud, bucket = changing
    setting(process, bucket, "--ttl", "always")
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"new" * 1000)
    assert plain.get(process.port, bucket, "k").body == b"new" * 1000
    setting(process, bucket, "--ttl", "never")
    process.kill()
    again = start_forebay(settings=PATIENT)
    assert plain.get(again.port, bucket, "k").body == b"new" * 1000


def test_what_is_deleted_at_the_remote_goes(changing, remote_s3):
    process, cloud, bucket = changing
    setting(process, bucket, "--ttl", "always")
    remote_s3.delete_object(Bucket=bucket, Key="k")
    assert plain.get(process.port, bucket, "k").status == 404
    assert plain.ask(process.port, "HEAD", bucket, "k").status == 404


def test_within_its_time_it_is_not_asked(changing):
    process, cloud, bucket = changing
    setting(process, bucket, "--ttl", "1h")
    assert plain.get(process.port, bucket, "k").status == 200  # unknown when it came: asked
    cloud.forget()
    for _ in range(5):
        assert plain.get(process.port, bucket, "k").status == 200
    assert cloud.stats()["requests"] == {}


def test_one_question_for_all_who_wait(changing):
    process, cloud, bucket = changing
    setting(process, bucket, "--ttl", "1h")
    cloud.settings(latency_ms=300)
    cloud.forget()
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda _: plain.get(process.port, bucket, "k").status, range(20)))
    assert replies == [200] * 20 and cloud.requests("HeadObject") == 1


def test_a_remote_that_cannot_be_asked(changing):
    process, cloud, bucket = changing
    setting(process, bucket, "--ttl", "always")
    cloud.rule("error", op="HeadObject", status=500)
    reply = plain.get(process.port, bucket, "k")
    assert reply.status == 200 and reply.body == b"old" * 1000 and reply.headers["x-forebay-stale"] == "backend-down"
    setting(process, bucket, "--stale", "fail")
    assert plain.get(process.port, bucket, "k").status >= 500
    cloud.behave()
    reply = plain.get(process.port, bucket, "k")
    assert reply.status == 200 and "x-forebay-stale" not in reply.headers


def mv(process, bucket, to, status):
    env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint, "HOME": str(to.parent)})
    done = subprocess.run([str(process.binary), "mv", f"s3://{bucket}/k", str(to)], env=env, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr


def test_what_may_be_old_is_not_moved_away(changing, remote_s3, tmp_path):
    """`mv` of what is kept while the remote cannot be asked: the remote's newer version is not deleted."""
    process, cloud, bucket = changing
    setting(process, bucket, "--ttl", "always")
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"new" * 1000)
    cloud.rule("error", op="HeadObject", status=500)
    told = mv(process, bucket, tmp_path / "copy", 1)
    assert "copied, but the source is still there" in told and "does not respond" in told
    assert (tmp_path / "copy").read_bytes() == b"old" * 1000 and cloud.requests("DeleteObject") == 0
    assert remote_s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new" * 1000
    cloud.behave()
    wait_for(lambda: "x-forebay-stale" not in plain.get(process.port, bucket, "k").headers, "the remote's answer")
    mv(process, bucket, tmp_path / "copy", 0)
    assert (tmp_path / "copy").read_bytes() == b"new" * 1000 and "Contents" not in remote_s3.list_objects_v2(Bucket=bucket)


def test_a_version_that_only_the_remote_has_is_not_moved_away(start_forebay, s3, server, bucket, tmp_path):
    """Within the time to live no request asks: the remote itself, here a Forebay, compares at the removal."""
    before = start_forebay("before", settings=PATIENT)
    assert attach(before, bucket, server.endpoint, keys=server.keys()).returncode == 0
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    for _ in range(2):
        assert plain.get(before.port, bucket, "k").body == b"old"
    s3.put_object(Bucket=bucket, Key="k", Body=b"new")
    assert "it changed meanwhile" in mv(before, bucket, tmp_path / "copy", 1)
    assert (tmp_path / "copy").read_bytes() == b"old" and s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new"


def test_a_remote_that_cannot_ask_its_own(changing, start_forebay, remote_s3):
    """A Forebay: what it has of a remote that is down is no word of that remote."""
    process, cloud, bucket = changing
    remote_s3.put_object(Bucket=bucket, Key="other", Body=b"other" * 1000)
    for _ in range(2):
        assert plain.get(process.port, bucket, "other").body == b"other" * 1000
    before = start_forebay("before", settings=PATIENT)
    assert attach(before, bucket, process.endpoint, keys=process.keys()).returncode == 0
    setting(process, bucket, "--ttl", "always")
    setting(before, bucket, "--ttl", "1h")
    for _ in range(2):
        reply = plain.get(before.port, bucket, "k")
        assert reply.body == b"old" * 1000 and "x-forebay-stale" not in reply.headers
    cloud.rule("error", op="HeadObject", status=500)
    assert plain.ask(before.port, "HEAD", bucket, "other").headers["x-forebay-stale"] == "backend-down"
    for _ in range(3):  # it is not fresh for an hour from then on
        reply = plain.get(before.port, bucket, "other")
        assert reply.body == b"other" * 1000 and reply.headers["x-forebay-stale"] == "backend-down"
    assert plain.get(before.port, bucket, "k", headers={"x-forebay-latest": "1"}).status >= 500
    setting(before, bucket, "--ttl", "always")
    assert plain.get(before.port, bucket, "k").headers["x-forebay-stale"] == "backend-down"
    setting(before, bucket, "--stale", "fail")
    assert plain.get(before.port, bucket, "k").status >= 500
    cloud.behave()

    def is_fresh():
        reply = plain.get(before.port, bucket, "k")
        return reply.status == 200 and "x-forebay-stale" not in reply.headers

    wait_for(is_fresh, "the remote to be asked")


def test_the_latest_on_request(changing, remote_s3):
    process, cloud, bucket = changing
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"new" * 1000)
    assert plain.get(process.port, bucket, "k").body == b"old" * 1000
    assert plain.get(process.port, bucket, "k", headers={"x-forebay-latest": "1"}).body == b"new" * 1000
    assert plain.get(process.port, bucket, "k").body == b"new" * 1000  # and our disk has it: no reader joins that fetch any more
    remote_s3.put_object(Bucket=bucket, Key="k", Body=b"now" * 1000)
    env = forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint})
    for flags, body in ((("--quiet",), b"new"), (("--latest",), b"now")):
        done = subprocess.run([str(process.binary), "cat", f"s3://{bucket}/k", *flags], env=env, capture_output=True)
        assert done.returncode == 0 and done.stdout == body * 1000, done.stderr
    cloud.rule("error", op="HeadObject", status=500)
    # A reader right behind the fetch joins it: that is the latest there is.
    wait_for(lambda: plain.get(process.port, bucket, "k", headers={"x-forebay-latest": "1"}).status >= 500, "a question that fails")
    assert plain.get(process.port, bucket, "k").body == b"now" * 1000
    cloud.behave()


def test_times_to_live_are_checked(changing):
    process, _, bucket = changing
    for flags, word in ((("--ttl", "0s"), "always"), (("--ttl", "soon"), "soon"), (("--stale", "maybe"), "serve or fail")):
        done = subprocess.run([str(process.binary), "bucket", "set", f"s3://{bucket}", *flags], env=forebay.server_env({"FOREBAY_ENDPOINT": process.endpoint}), capture_output=True, text=True)
        assert done.returncode == 2 and word in done.stderr, done.stderr
