#!/usr/bin/env python3
"""fixture.py FORMAT [PROGRAM]: makes test/fixtures/format-FORMAT: a small data folder as this version writes it, packed, and
what is in it. Made once for each released format and never again: test/e2e/test_fixtures.py lets every later program
read every object of each. Segments are cut behind their last byte, the index is left out: it may be lost."""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import os  # noqa: E402

if len(sys.argv) > 2:
    os.environ["FOREBAY_BIN"] = sys.argv[2]
from rigs import forebay  # noqa: E402

sys.path.insert(0, str(ROOT / "test/e2e"))
from conftest import boto  # noqa: E402

BUCKET, VERSIONS = "fixture", "fixture-versions"
ALIGN = 4096


def body(name, size):
    """Says which object it is, at every place, and packs well."""
    line = f"{name} of the format fixture\n".encode()
    return (line * (size // len(line) + 1))[:size]


def put(client, rows, key, size, **more):
    content = body(key, size)
    client.put_object(Bucket=BUCKET, Key=key, Body=content, **more)
    rows[key] = content


def fill(client):
    """{key: content}: small, large and of its own segment; odd keys; in parts; with metadata; replaced; deleted."""
    rows = {}
    client.create_bucket(Bucket=BUCKET)
    put(client, rows, "empty", 0)
    put(client, rows, "small", 1000)
    put(client, rows, "inline-most", 256 << 10)
    put(client, rows, "large", 300_001)
    put(client, rows, "own", 16 << 20)
    put(client, rows, "meta", 20, Metadata={"colour": "green", "empty": ""}, ContentType="text/x-fixture", CacheControl="no-store", ContentLanguage="cy")
    put(client, rows, "sums", 5000, ChecksumAlgorithm="SHA256")
    for key in ("a//b", "/rooted", "folder/", "../up", "tab\there", "zwölf/ä", "k" * 1024, "small/below"):
        put(client, rows, key, 64)
    put(client, rows, "replaced", 2000)
    put(client, rows, "replaced", 300_500)
    put(client, rows, "deleted", 310_000)
    client.delete_object(Bucket=BUCKET, Key="deleted")
    del rows["deleted"]
    parts = [body("part 1", 5 << 20), body("part 2", 10)]
    upload = client.create_multipart_upload(Bucket=BUCKET, Key="parts", Metadata={"in": "parts"})["UploadId"]
    done = []
    for number, content in enumerate(parts, 1):
        etag = client.upload_part(Bucket=BUCKET, Key="parts", UploadId=upload, PartNumber=number, Body=content)["ETag"]
        done.append({"PartNumber": number, "ETag": etag})
    client.complete_multipart_upload(Bucket=BUCKET, Key="parts", UploadId=upload, MultipartUpload={"Parts": done})
    rows["parts"] = b"".join(parts)
    open_upload = client.create_multipart_upload(Bucket=BUCKET, Key="unfinished")["UploadId"]
    client.upload_part(Bucket=BUCKET, Key="unfinished", UploadId=open_upload, PartNumber=7, Body=b"seven")
    return rows


def fill_versions(client):
    """[(key, version id, content or None for a delete marker)], the newest first."""
    client.create_bucket(Bucket=VERSIONS)
    client.put_object(Bucket=VERSIONS, Key="v", Body=b"before versions")
    client.put_bucket_versioning(Bucket=VERSIONS, VersioningConfiguration={"Status": "Enabled"})
    rows = [("v", "null", b"before versions")]
    for content in (b"first", body("second", 300_000)):
        rows.append(("v", client.put_object(Bucket=VERSIONS, Key="v", Body=content)["VersionId"], content))
    rows.append(("v", client.delete_object(Bucket=VERSIONS, Key="v")["VersionId"], None))
    rows.append(("v", client.put_object(Bucket=VERSIONS, Key="v", Body=b"last")["VersionId"], b"last"))
    return rows[::-1]


def describe(client, rows):
    names = ("ETag", "ContentLength", "ContentType", "Metadata", "CacheControl", "ContentLanguage", "ChecksumSHA256")
    out = {}
    for key, content in rows.items():
        head = client.head_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")
        out[key] = {name: head[name] for name in names if head.get(name)} | {"sha256": hashlib.sha256(content).hexdigest()}
    return out


def trim(folder):
    """Cuts what is allocated ahead; drops what may be lost, and the keys of this one run."""
    shutil.rmtree(folder / "index")
    for path in folder.rglob("*.tar"):
        data = path.read_bytes().rstrip(b"\0")
        os.truncate(path, (len(data) + 2 * ALIGN) // ALIGN * ALIGN)
    for path in (folder / ".forebay").rglob("lock.mdb"):
        path.unlink()


def main():
    target = ROOT / "test/fixtures" / f"format-{sys.argv[1]}"
    if target.exists():
        sys.exit(f"{target} is there: fixtures are kept for ever")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "data"
        with forebay.Forebay(folder, build="rel") as process:
            process.wait_ready()
            client = boto(process.endpoint, process.keys())
            told = {"objects": describe(client, fill(client))}
            told["versions"] = [(key, version, content and hashlib.sha256(content).hexdigest()) for key, version, content in fill_versions(client)]
            process.end()
        trim(folder)
        told["program"] = subprocess.run([forebay.binary("rel"), "version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
        target.mkdir(parents=True)
        with tarfile.open(target / "data.tar.xz", "w:xz", preset=9) as tar:
            tar.add(folder, "data")
        (target / "objects.json").write_text(json.dumps(told, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{target}: {sum(f.stat().st_size for f in target.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
