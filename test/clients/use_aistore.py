"""NVIDIA's Python SDK for AIStore, unmodified: cluster, buckets, objects, uploads, appends, listings, summaries; with a token."""

import io
import json
import os
import pathlib
import sys
import tarfile
import tempfile

for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # they would win over ca_cert
    os.environ.pop(variable, None)
import xxhash
from aistore import Client
from aistore.sdk import ArchiveConfig
from aistore.sdk.archive_config import ArchiveMode
from aistore.sdk.errors import AISError, ErrBckAlreadyExists, ErrBckNotFound
from aistore.sdk.list_object_flag import ListObjectFlag
from aistore.sdk.multiobj import ObjectRange

from ais_token import token

endpoint, _, _, name, _, cafile = sys.argv[1:]


def connect(**claims):
    return Client(endpoint, token=token(**claims), ca_cert=cafile or None, timeout=60)


def fails(status, call, kind=AISError):
    try:
        call()
    except kind as e:
        assert e.status_code == status, e
        return e
    raise AssertionError(f"no error {status}")


client = connect(admin=True)
cluster = client.cluster()
smap = cluster.get_info()
assert len(smap.tmap) == 1 and smap.proxy_si.daemon_id in smap.pmap and cluster.is_ready()
assert cluster.get_performance()
bucket = client.bucket(name)

# Buckets
bucket.create()
fails(409, lambda: bucket.create(exist_ok=False), ErrBckAlreadyExists)
assert name in [b.name for b in cluster.list_buckets("ais")]
assert json.loads(bucket.head()["Ais-Bucket-Props"])["checksum"]["type"] == "xxhash2"
for odd in ("*", ".", "", " ", "bucket/badname", "bucket and name", "#badname", "$badname", "~badname"):
    for call in (client.bucket(odd).create, client.bucket(odd).delete):
        try:
            call()
            raise AssertionError(odd)
        except AISError as e:
            assert 400 <= e.status_code < 500, (odd, e)

# Objects: names, bytes, ranges, checksums, versions
for odd in ("%", "%25", "%3D", "yHvMJM(s\\(0hR\\3\\)", "audio/raw/file.wav", "file_#@!$%^&*()_+.mp3", "track?name=lofi&v=1", "my audio file .m4a", "你好世界", "-hidden.ogg", ".audio_hidden.wav", "MiXeD"):
    o = bucket.object(odd)
    o.get_writer().put_content(odd.encode() * 10)
    assert o.get_reader().read_all() == odd.encode() * 10
    assert odd in [e.name for e in bucket.list_all_objects()]
    o.delete()
data = os.urandom(1_000_000)
o = bucket.object("o")
o.get_writer().put_content(data)
assert (o.props.checksum_value, o.props.obj_version, o.props.size) == (xxhash.xxh64(data).hexdigest(), "1", len(data))
o.get_writer().put_content(data + b"x")
assert o.props.obj_version == "2" and o.get_reader(byte_range="bytes=10-19").read_all() == data[10:20]
assert o.get_reader(direct=True).read_all() == data + b"x"
with o.get_reader(num_workers=4).read_all() as whole:
    assert bytes(whole.buf[: len(whole)]) == data + b"x"
assert b"".join(o.get_reader()) == data + b"x"
with o.get_reader().as_file() as f:
    assert f.read(5) + f.read() == data + b"x"
head = o.head("etag,last-modified")
assert head.etag and head.last_modified and not o.head("size").etag
fails(404, bucket.object("nothing").delete)
fails(404, lambda: client.bucket(name + "-no").object("x").get_writer().put_content(b"x"), ErrBckNotFound)

# Custom properties
o.get_writer().set_custom_props({"k1": "v1"})
o.get_writer().set_custom_props({"k2": "v2"})
assert o.props.custom_metadata == {"k1": "v1", "k2": "v2"}
o.get_writer().set_custom_props({"k3": "v3"}, replace_existing=True)
assert o.props.custom_metadata == {"k3": "v3"}

# Append and flush
a, handle = bucket.object("appended"), ""
for i in range(3):
    handle = a.get_writer().append_content(b"part%d" % i, handle=handle)
fails(404, a.delete)  # nothing is there before the flush
a.get_writer().append_content(b"", handle=handle, flush=True)
assert a.get_reader().read_all() == b"part0part1part2"
with bucket.object("file").get_writer().as_file(mode="w") as f:
    f.write(b"hello")
    f.write(b"world")
with bucket.object("file").get_writer().as_file(mode="a") as f:
    f.write(b"++")
assert bucket.object("file").get_reader().read_all() == b"helloworld++"

# Uploads in parts
o = bucket.object("parts")
upload = o.multipart_upload().create()
for i in (3, 1, 2):
    upload.add_part(i).put_content(b"%d" % i * 7)
upload.complete()
assert o.get_reader().read_all() == b"1111111" + b"2222222" + b"3333333"
fails(404, upload.complete)
assert o.head("chunked").chunks.chunk_count == 3
upload = o.multipart_upload().create()
assert "no chunks" in str(fails(400, upload.complete))
upload.add_part(1).put_content(b"x")
upload.abort()

# Copies
other = client.bucket(name + "-2").create()
bucket.object("o").copy(other.object("copy"))
assert other.object("copy").get_reader().read_all() == data + b"x"
fails(404, lambda: bucket.object("o").copy(client.bucket(name + "-no").object("x")), ErrBckNotFound)
other.delete()

# Listings and summaries
for i in range(25):
    bucket.object(f"d/{i:03}").get_writer().put_content(b"z" * i)
page = bucket.list_objects(prefix="d/", page_size=10, props="name,size,checksum,version,atime")
assert len(page.entries) == 10 and page.continuation_token and page.entries[3].size == 3 and page.entries[3].checksum == xxhash.xxh64(b"zzz").hexdigest()
assert [e.name for e in bucket.list_objects_iter(prefix="d/", page_size=7)] == [f"d/{i:03}" for i in range(25)]
assert "d/" in [e.name for e in bucket.list_objects(flags=[ListObjectFlag.NO_RECURSION, ListObjectFlag.NO_DIRS]).entries]
assert [e.name for e in bucket.list_objects(prefix="d/", start_after="d/022").entries] == ["d/023", "d/024"]
tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w") as archive:
    for member in ("m1", "n/m2"):
        archive.addfile(tarfile.TarInfo(member))
bucket.object("arch.tar").get_writer().put_content(tar.getvalue())
assert [e.name for e in bucket.list_archive("arch.tar", page_size=1)] == ["arch.tar/m1", "arch.tar/n/m2"]
assert [e.flags for e in bucket.list_archive("arch.tar", include_archive_obj=True)] == [64 | 512, 64 | 128, 64 | 128]
assert bucket.summary(prefix="d/")["ObjCount"]["obj_count_present"] == "25"
assert bucket.info(prefix="d/")[1]["TotalSize"]["size_all_present_objs"] == str(sum(range(25)))

# Groups of objects, and their jobs: by list, template and range
group = client.bucket(name + "-g").create()
for i in range(12):
    group.object(f"g-{i:03}.txt").get_writer().put_content(b"%d" % i)
copies = client.bucket(name + "-c").create()
for job in group.objects(obj_names=["g-001.txt", "g-002.txt"]).copy(copies, prepend="l/"):
    client.job(job).wait(timeout=60)
for job in group.objects(obj_template="g-{003..005}.txt").copy(copies, prepend="t/", num_workers=4):
    client.job(job).wait(timeout=60)
for job in group.objects(obj_range=ObjectRange(prefix="g-", min_index=6, max_index=10, pad_width=3, step=2, suffix=".txt")).copy(copies):
    client.job(job).wait_for_idle(timeout=60)
assert [e.name for e in copies.list_all_objects()] == ["g-006.txt", "g-008.txt", "g-010.txt", "l/g-001.txt", "l/g-002.txt", "t/g-003.txt", "t/g-004.txt", "t/g-005.txt"]
for job in group.objects(obj_template="g-{000..003}.txt").archive("s/four.tar", to_bck=copies, mime="tar"):
    client.job(job).wait(timeout=60)
assert [e.name for e in copies.list_archive("s/four.tar")] == [f"s/four.tar/g-{i:03}.txt" for i in range(4)]
assert copies.object("s/four.tar").get_reader(archive_config=ArchiveConfig(archpath="g-002.txt")).read_all() == b"2"
matching = copies.object("s/four.tar").get_reader(archive_config=ArchiveConfig(regex="g-00[13]", mode=ArchiveMode.REGEXP)).read_all()
assert tarfile.open(fileobj=io.BytesIO(matching)).getnames() == ["g-001.txt", "g-003.txt"]
for job in copies.objects(obj_template="t/{00..99}").delete(), copies.objects(obj_names=["l/g-001.txt"]).delete():
    client.job(job).wait(timeout=60)
assert "l/g-001.txt" not in [e.name for e in copies.list_all_objects()]
fails(404, lambda: group.objects(obj_names=["x"]).copy(client.bucket(name + "-none")), ErrBckNotFound)
with tempfile.TemporaryDirectory() as folder:
    for i in range(5):
        pathlib.Path(folder, f"f{i}.bin").write_bytes(b"f" * i)
    group.put_files(folder, pattern="*.bin", prepend="files/")
assert [len(group.object(f"files/f{i}.bin").get_reader().read_all()) for i in range(5)] == [0, 1, 2, 3, 4]

# Buckets: copies, dry runs, other names
dry = client.bucket(name + "-d")
client.job(group.copy(dry, dry_run=True)).wait(timeout=60)
client.job(group.copy(dry, prefix_filter="g-", prepend="p/", ext={"txt": "md"})).wait(timeout=60)
assert len(dry.list_all_objects()) == 12 and dry.object("p/g-011.md").get_reader().read_all() == b"11"
job = dry.rename(name + "-e")
client.job(job).wait(timeout=60)
fails(404, client.bucket(name + "-d").head)  # dry has the new name
renamed = client.bucket(name + "-e")
assert len(renamed.list_all_objects()) == 12
assert str(fails(409, lambda: renamed.rename(name + "-c"), ErrBckAlreadyExists))

# Jobs
started = client.job(job_kind="lru").start()
client.job(started).wait(timeout=60)
assert client.job(started).status().end_time and client.job(started).get_details()
assert started in [s.uuid for s in cluster.list_jobs_status()] and client.job(started).get_total_time() is not None
assert isinstance(cluster.list_running_jobs(), list)
fails(404, client.job("nosuchjob-1").status)

# Batches
batch = client.batch(bucket=group)
for i in (7, 3, 5):
    batch.add(f"g-{i:03}.txt")
assert [data for _, data in batch.get()] == [b"7", b"3", b"5"]
for b in (group, copies, renamed):
    b.delete()

# Rights of tokens
reader = connect(clusters=[{"id": "", "perm": "0"}], buckets=[{"bck": {"name": name, "provider": "ais", "namespace": {"uuid": "", "name": ""}}, "perm": "1"}])
assert reader.bucket(name).object("d/003").get_reader().read_all() == b"zzz"
assert "insufficient permissions" in str(fails(403, lambda: reader.bucket(name).object("x").get_writer().put_content(b"x")))
rubbish = Client(endpoint, token="rubbish", ca_cert=cafile or None)
assert "invalid token" in str(fails(401, rubbish.cluster().get_info))

bucket.delete()
fails(404, bucket.head)
print("aistore SDK ok")
