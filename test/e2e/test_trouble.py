"""Disks in trouble under a running server: what fails is noticed, told and counted, the node stays, and scrubs name
exactly what is damaged. Protects D9, F2, F3, I3, and "SIGBUS in the index takes the disk out and keeps the node"."""

import errno
import json
import os
import shutil
import subprocess

import botocore.exceptions
import pytest
from conftest import boto
from rigs import faults
from rigs.process import PATIENCE, http_get

BODY = os.urandom(3_000_000)
SMALL = os.urandom(5000)


@pytest.fixture
def sick(start_forebay, tmp_path):
    """(server, client, faults): a bucket `trouble` with a large and a small object, nothing of them in memory."""
    page = faults.DiskFaults(tmp_path / "faults")
    process = start_forebay(env=page.env, settings={"memory.block_cache": "0", "disk.errors": "20", "disk.slow": "1m"})  # a slow machine is no slow disk
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="trouble")
    client.put_object(Bucket="trouble", Key="large", Body=BODY)
    client.put_object(Bucket="trouble", Key="small", Body=SMALL)
    return process, client, page


def status_of(call, **arguments):
    try:
        call(Bucket="trouble", **arguments)
        return 200
    except botocore.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


def get(client, key):
    return client.get_object(Bucket="trouble", Key=key)["Body"].read()


def disk_of(process):
    (disk,) = json.loads(http_get(process.endpoint + "/_/stat")[1])["disks"]
    return disk


def wait_for_state(process, state):
    process.wait_until(lambda: disk_of(process)["state"] == state, PATIENCE, f"say that its disk is {state}")
    return disk_of(process)["why"]


def all_in_the_index(process):
    """And nothing of it in the tail that a server keeps in memory."""
    process.wait_until(lambda: json.loads(http_get(process.endpoint + "/_/stat")[1])["disk"]["memtable_bytes"] == 0, what="bring its tail into the index")


def forebay(process, *arguments):
    return subprocess.run([process.binary, *arguments, "--endpoint-url", process.endpoint], capture_output=True, text=True, timeout=PATIENCE)


def test_read_errors_are_counted_and_take_the_disk_out_at_the_limit(sick):
    process, client, page = sick
    page.break_(faults.READ, count=1)
    assert status_of(client.get_object, Key="small") == 500
    page.mend()
    assert get(client, "small") == SMALL, "one bad sector takes nothing out"
    assert disk_of(process)["state"] == "ok" and disk_of(process)["read_errors"] == 1
    metrics = process.metrics()
    assert metrics[f'forebay_disk_errors_total{{disk="{process.data_dir}",op="read"}}'] == 1
    page.break_(faults.READ)
    while disk_of(process)["state"] == "ok":
        assert status_of(client.get_object, Key="small") == 500
    page.mend()
    assert disk_of(process)["why"]
    assert status_of(client.get_object, Key="small") >= 500
    assert http_get(process.endpoint + "/_/livez")[0] == 200, "the node stays"
    assert process.metrics()[f'forebay_disk_state{{disk="{process.data_dir}",state="failed"}}'] == 1


def test_a_sync_that_fails_refuses_the_write_and_all_that_follow(sick):
    """D9: refused, never tried again on that file; what was acknowledged can be read, now and after the next start."""
    process, client, page = sick
    page.break_(faults.SYNC)  # the first to sync: a log may be made ahead just now
    assert status_of(client.put_object, Key="lost", Body=SMALL) >= 500
    page.mend()
    assert disk_of(process)["state"] == "read-only" and "sync failed" in disk_of(process)["why"]
    assert status_of(client.put_object, Key="lost", Body=SMALL) >= 500
    assert get(client, "large") == BODY
    process.end()


def test_a_read_only_file_system_still_reads(sick):
    process, client, page = sick
    page.break_(faults.WRITE, faults.SPACE, error=errno.EROFS)
    assert status_of(client.put_object, Key="new", Body=SMALL) >= 500
    assert wait_for_state(process, "read-only") == "the file system is read-only"
    assert get(client, "large") == BODY and get(client, "small") == SMALL
    assert [o["Key"] for o in client.list_objects_v2(Bucket="trouble")["Contents"]] == ["large", "small"]
    page.mend()


def test_a_folder_that_is_taken_away(sick):
    process, client, page = sick
    away = process.data_dir.with_name("away")
    process.data_dir.rename(away)
    assert wait_for_state(process, "failed") == "its folder is gone"
    assert status_of(client.get_object, Key="small") >= 500
    assert http_get(process.endpoint + "/_/livez")[0] == 200
    away.rename(process.data_dir)


def test_an_index_cut_under_its_map_keeps_the_node(sick):
    """SIGBUS: the disk goes, the process stays; the next start rebuilds the index from the logs."""
    process, client, page = sick
    for i in range(300):
        client.put_object(Bucket="trouble", Key=f"k{i:03}", Body=b"x")
    all_in_the_index(process)
    os.truncate(process.data_dir / "index/data.mdb", 0)
    process.wait_until(lambda: [status_of(client.head_object, Key=f"n{i}") for i in range(50)][-1] >= 500, PATIENCE, "meet the missing pages")
    assert disk_of(process)["state"] == "failed" and "SIGBUS" in disk_of(process)["why"]
    assert disk_of(process)["index_faults"] == 1
    assert http_get(process.endpoint + "/_/livez")[0] == 200
    assert http_get(process.endpoint + "/_/metrics")[0] == 200


def test_a_slow_disk_is_told(start_forebay, tmp_path):
    page = faults.DiskFaults(tmp_path / "faults")
    process = start_forebay(env=page.env, settings={"memory.block_cache": "0", "disk.slow": "200ms"})
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="trouble")
    client.put_object(Bucket="trouble", Key="small", Body=SMALL)
    page.break_(faults.READ, error=0, delay_us=400_000)
    process.wait_until(lambda: get(client, "small") == SMALL and disk_of(process)["state"] == "slow", PATIENCE, "say that its disk is slow")
    assert "reads take too long" in disk_of(process)["why"]
    page.mend()
    process.wait_until(lambda: get(client, "small") == SMALL and disk_of(process)["state"] == "ok", PATIENCE, "be well again")


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x20]))


def test_scrub_names_exactly_what_is_damaged(sick):
    """I3: one pass finds all, by name; what is repaired is not found again."""
    process, client, _ = sick
    assert forebay(process, "disk", "scrub", "start", "--wait").returncode == 0
    (segment,) = process.data_dir.glob("native/body-*.tar")
    flip(segment, 4096 + 4096 + 50 * 16384 + 17)
    done = forebay(process, "disk", "scrub", "start", "--wait", "--json")
    assert done.returncode == 6, done.stderr
    (disk,) = json.loads(done.stdout)["disks"]
    assert [(f["bucket"], f["key"], f["block"], f["outcome"]) for f in disk["findings"]] == [("trouble", "large", 50, "open")]
    assert "s3://trouble/large" in forebay(process, "disk", "scrub", "status").stdout
    client.put_object(Bucket="trouble", Key="large", Body=BODY)
    done = forebay(process, "disk", "scrub", "start", "--wait", "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["disks"][0]["pass"]["findings"] == 0


def test_a_damaged_cached_copy_is_fetched_anew(start_forebay, fake_free_remote):
    process, client, remote = fake_free_remote
    body = os.urandom(2_000_000)
    remote.put_object(Bucket="origin", Key="k", Body=body)
    for _ in range(2):  # the first has it before the disk has it; the second waits for that
        assert client.get_object(Bucket="cached", Key="k")["Body"].read() == body
    (segment,) = process.data_dir.glob("cached/body-*.tar")
    flip(segment, 4096 + 4096 + 17)
    done = forebay(process, "disk", "scrub", "start", "--wait", "--json")
    assert done.returncode == 0, done.stdout
    (finding,) = json.loads(done.stdout)["disks"][0]["findings"]
    assert (finding["key"], finding["outcome"]) == ("k", "dropped")
    assert client.get_object(Bucket="cached", Key="k")["Body"].read() == body
    assert json.loads(forebay(process, "disk", "scrub", "start", "--wait", "--json").stdout)["disks"][0]["pass"]["findings"] == 0


@pytest.fixture
def fake_free_remote(start_forebay):
    """(server, its client, the remote's client): a second server is the remote."""
    origin = start_forebay("origin")
    remote = boto(origin.endpoint, origin.keys())
    remote.create_bucket(Bucket="origin")
    process = start_forebay(settings={"memory.block_cache": "0"})
    keys = origin.keys()
    env = {**os.environ, "AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1]}
    attached = subprocess.run(
        [process.binary, "bucket", "attach", "s3://origin", "--as", "cached", "--endpoint", origin.endpoint, "--store-credentials", "--endpoint-url", process.endpoint],
        env=env,
        capture_output=True,
        text=True,
    )
    assert attached.returncode == 0, attached.stderr
    return process, boto(process.endpoint, process.keys()), remote


@pytest.fixture
def two_disks(start_forebay, tmp_path):
    """(server, client, faults, the disks' folders): a bucket `trouble` with two copies of each of ten objects."""
    page = faults.DiskFaults(tmp_path / "faults")
    second = tmp_path / "second"
    process = start_forebay("first", env=page.env, settings={"memory.block_cache": "0", "disk.errors": "20", "disk.slow": "1m"}, args=[second])
    client = boto(process.endpoint, process.keys())
    client.create_bucket(Bucket="trouble")
    made = subprocess.run([process.binary, "bucket", "set", "s3://trouble", "--copies", "2", "--endpoint-url", process.endpoint], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    for i in range(10):
        client.put_object(Bucket="trouble", Key=f"k{i}", Body=BODY)
    return process, client, page, (process.data_dir, second)


def test_a_rotten_copy_is_repaired_from_the_other_disk(two_disks):
    """I3, D4: found by name, repaired from the copy, and not found again; the bytes are right all the time."""
    process, client, _, folders = two_disks
    (segment,) = folders[1].glob("native/body-*.tar")
    flip(segment, 4096 + 4096 + 50 * 16384 + 17)
    done = forebay(process, "disk", "scrub", "start", "--wait", "--json")
    assert done.returncode == 0, done.stdout
    findings = [f for d in json.loads(done.stdout)["disks"] for f in d["findings"]]
    assert len(findings) == 1 and findings[0]["outcome"] == "repaired" and findings[0]["bucket"] == "trouble"
    assert get(client, findings[0]["key"]) == BODY
    again = json.loads(forebay(process, "disk", "scrub", "start", "--wait", "--json").stdout)
    assert [d["pass"]["findings"] for d in again["disks"]] == [0, 0]


def test_an_index_cut_on_one_disk_leaves_the_other_to_serve(two_disks):
    """SIGBUS on one disk: it leaves, and every object is read from the other."""
    process, client, _, folders = two_disks
    all_in_the_index(process)
    os.truncate(folders[1] / "index/data.mdb", 0)

    def one_is_out():
        for i in range(50):
            status_of(client.head_object, Key=f"n{i}")
        return [d["state"] for d in json.loads(forebay(process, "disk", "ls", "--json").stdout)["disks"]].count("out") == 1

    process.wait_until(one_is_out, PATIENCE, "lose one disk")
    stat = {d["path"]: d for d in json.loads(http_get(process.endpoint + "/_/stat")[1])["disks"]}
    assert stat[str(folders[0])]["state"] == "ok" and "SIGBUS" in stat[str(folders[1])]["why"]
    for i in range(10):
        process.wait_until(lambda i=i: status_of(client.get_object, Key=f"k{i}") == 200, PATIENCE, "read from the other disk")
        assert get(client, f"k{i}") == BODY
    assert http_get(process.endpoint + "/_/livez")[0] == 200


def test_a_disk_that_fails_every_read_is_read_around(two_disks):
    """F2: EIO on one disk is served from the other copy, counted, and takes the disk out at its limit."""
    process, client, page, _ = two_disks
    for i in range(40):  # the disks' names are chance, and they say which is asked first: of so many both are
        client.put_object(Bucket="trouble", Key=f"small{i}", Body=SMALL)
    page.break_(faults.READ, disk=2)

    def met():
        for i in range(10):
            assert get(client, f"k{i}") == BODY
        for i in range(40):
            assert get(client, f"small{i}") == SMALL
        return sum(v for k, v in process.metrics().items() if k.startswith("forebay_disk_errors_total") and 'op="read"' in k) > 0

    process.wait_until(met, what="meet the disk that fails")
    page.mend()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own on a loop device; skipped, in words, where that cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("no root: no file system of our own")
    for tool in ("losetup", "mkfs.xfs", "xfs_io", "mount"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    image, mount = tmp_path / "image", tmp_path / "mnt"
    with open(image, "wb") as file:
        file.truncate(700 << 20)
    mount.mkdir()
    made = subprocess.run(["mkfs.xfs", "-q", str(image)], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"mkfs.xfs: {made.stderr.strip()}")
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(mount)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"mount -o loop: {mounted.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_file_system_that_is_shut_down_under_load(small_disk, start_forebay, tmp_path):
    """A real one: every operation is EIO from one moment on. The disk goes by itself, the node stays and ends in order."""
    from rigs import forebay as rig

    process = rig.Forebay(small_disk / "data", log_dir=tmp_path / "log", settings={"memory.block_cache": "0"}).wait_ready()
    try:
        client = boto(process.endpoint, process.keys())
        client.create_bucket(Bucket="trouble")
        client.put_object(Bucket="trouble", Key="large", Body=BODY)
        subprocess.run(["xfs_io", "-x", "-c", "shutdown", str(small_disk)], check=True)
        process.wait_until(lambda: status_of(client.get_object, Key="large") >= 500 and disk_of(process)["state"] == "failed", PATIENCE, "lose its disk")
        assert status_of(client.put_object, Key="more", Body=SMALL) >= 500
        assert http_get(process.endpoint + "/_/livez")[0] == 200
        assert process.stop(timeout=PATIENCE) == 0
        process.check_log()
    finally:
        process.stop()
