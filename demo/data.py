"""The data set: scikit-learn's 1,797 handwritten digits, as PNG files and as WebDataset shards, in a bucket."""

import concurrent.futures
import io
import tarfile
import zlib

from PIL import Image
from sklearn.datasets import load_digits

SHARD_SAMPLES = 120


def samples():
    """[(name, PNG bytes, label)] of all digits, in their own order."""
    digits = load_digits()
    return [(f"{i:05d}", _png(image), int(label)) for i, (image, label) in enumerate(zip(digits.images, digits.target))]


def image_key(name, label):
    return f"images/{name}-{label}.png"


def shard_key(number):
    return f"shards/digits-{number:06d}.tar"


def shard_count(count):
    return (count + SHARD_SAMPLES - 1) // SHARD_SAMPLES


def fill(client, bucket, rows):
    """Puts every digit into the bucket twice: as an object, and as a member of a shard."""
    client.create_bucket(Bucket=bucket)
    puts = [(image_key(name, label), png) for name, png, label in rows]
    for first in range(0, len(rows), SHARD_SAMPLES):
        puts.append((shard_key(first // SHARD_SAMPLES), _shard(rows[first : first + SHARD_SAMPLES])))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(client.put_object, Bucket=bucket, Key=key, Body=body) for key, body in puts]:
            done.result()
    return len(puts), sum(len(body) for _, body in puts)


def checksum(pngs):
    """One number for a set of files, whatever their order: two epochs that read the same bytes have the same."""
    return sum(zlib.crc32(png) for png in pngs)


def _png(image):
    out = io.BytesIO()
    Image.fromarray((image * 15).astype("uint8"), mode="L").save(out, "PNG")
    return out.getvalue()


def _shard(rows):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, png, label in rows:
            for suffix, data in (("png", png), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{name}.{suffix}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return out.getvalue()
