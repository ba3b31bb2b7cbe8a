"""The Python package, from its wheel: client, data sets, samplers, file system, watch; and libforebay as `make install` leaves it."""

import hashlib
import itertools
import os
import pathlib
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile

import pytest
from rigs import forebay as rig
from rigs.process import PATIENCE, ROOT

from conftest import boto
from test_batch import make_tar, make_zip

LIBRARY = ROOT / "build/lib/libforebay.so"
needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built: tools/build.sh rel libforebay")
pytestmark = needs_library


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, ROOT / "python/build_backend.py", folder], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def forebay(wheel, tmp_path_factory):
    """The module, out of the wheel. One process can import one: the next file that asks gets the same."""
    if "forebay" in sys.modules:
        return sys.modules["forebay"]
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)  # of children that are spawned
    import forebay

    assert pathlib.Path(forebay.__file__).parent.parent == folder
    return forebay


@pytest.fixture(scope="module")
def client(forebay, server):
    access, secret = server.keys()
    return forebay.Client(server.endpoint, access_key=access, secret_key=secret, attempts=3)


@pytest.fixture
def objects(client, bucket):
    """{key: bytes} of 300 small objects in `bucket`."""
    rng = random.Random(3)
    made = {f"o/{i:04d}": rng.randbytes(rng.choice((0, 1, 900, 5000))) for i in range(300)}
    threads = [threading.Thread(target=lambda part=part: [client.put(bucket, key, made[key]) for key in part]) for part in (list(made)[n::4] for n in range(4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made


def reads_of(server):
    """Answers to GETs and batches, which count as one kind."""
    return sum(value for name, value in server.metrics().items() if name.startswith("forebay_requests_total{") and 'op="get"' in name)


# ---- the wheel, and the C library ----

ALONE = """
import sys
sys.path = [p for p in sys.path if "dist-packages" not in p]
import forebay
with forebay.Client(sys.argv[1], access_key=sys.argv[2], secret_key=sys.argv[3]) as client:
    client.put(sys.argv[4], "alone", b"bytes")
    assert [bytes(x) for x in client.batch(sys.argv[4], ["alone"] * 2)] == [b"bytes"] * 2
    assert len(forebay.MapDataset(f"forebay://{sys.argv[4]}/alone", client=client)) == 1
assert not {"torch", "fsspec", "numpy"} & set(sys.modules), sorted(sys.modules)
print(forebay.__file__, forebay.__version__)
"""


def test_the_wheel_works_in_a_fresh_environment(server, bucket, wheel, tmp_path):
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    site = next((tmp_path / "env/lib").glob("python3*/site-packages"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--target", site, wheel]
    subprocess.run(pip, check=True)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run([tmp_path / "env/bin/python", "-c", ALONE, server.endpoint, *server.keys(), bucket], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(site)), done.stdout


def test_two_builds_of_the_wheel_are_equal(wheel, tmp_path):
    subprocess.run([sys.executable, ROOT / "python/build_backend.py", tmp_path], check=True, capture_output=True)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


PROGRAM = r"""
#include <forebay.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    struct forebay_options o = {.size = sizeof o, .endpoint = argv[1], .access_key = argv[2], .secret_key = argv[3]};
    struct forebay_error e;
    struct forebay *f;
    void *data;
    size_t len;
    if (argc != 5 || forebay_open(&o, &f, &e) != FOREBAY_OK || forebay_put(f, argv[4], "c", "from C", 6, &e) != FOREBAY_OK ||
        forebay_get(f, argv[4], "c", 0, FOREBAY_TO_END, &data, &len, &e) != FOREBAY_OK)
        return fprintf(stderr, "%s\n", e.text), 1;
    printf("%.*s\n", (int)len, (char *)data);
    forebay_free(data);
    forebay_close(&f);
    return 0;
}
"""


def test_a_program_builds_on_what_is_installed(server, bucket, tmp_path):
    """As `make install` leaves it: header, library, pkg-config; every line of the listing is one symbol of the header."""
    prefix = tmp_path / "usr"
    for name, to in (("build/lib/libforebay.so.0", "lib"), ("src/libforebay/forebay.h", "include"), ("build/lib/forebay.pc", "lib/pkgconfig")):
        (prefix / to).mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, prefix / to)
    (prefix / "lib/libforebay.so").symlink_to("libforebay.so.0")
    (tmp_path / "p.c").write_text(PROGRAM)
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "forebay"], env=env, check=True, capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", "-Wall", "-Werror", "-o", tmp_path / "p", tmp_path / "p.c", *flags], check=True)
    done = subprocess.run([tmp_path / "p", server.endpoint, *server.keys(), bucket], env={"LD_LIBRARY_PATH": str(prefix / "lib")}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "from C\n"), done.stderr
    symbols = subprocess.run(["nm", "-D", "--defined-only", prefix / "lib/libforebay.so"], check=True, capture_output=True, text=True).stdout.split()
    exported = {word.partition("@")[0] for word in symbols if "@" in word}
    header = (prefix / "include/forebay.h").read_text()
    assert len(exported) > 10 and all(f"{name}(" in header for name in exported - {"FOREBAY_0"}), exported


# ---- client ----

def test_objects(client, bucket, objects):
    key, body = next((k, v) for k, v in objects.items() if len(v) == 5000)
    assert client.get(bucket, key) == body
    assert client.get(bucket, key, 10, 20) == body[10:30] and client.get(bucket, key, 4990, 20) == body[4990:]
    room = bytearray(6000)
    assert client.get_into(bucket, key, room, start=1000) == 4000 and room[:4000] == body[1000:]
    assert client.head(bucket, key).size == 5000 and client.exists(bucket, key) and not client.exists(bucket, "none")
    empty = next(k for k, v in objects.items() if not v)
    assert client.get(bucket, empty) == b"" and client.get(bucket, key, 5, 0) == b""
    big = random.Random(1).randbytes(9_000_000)
    client.put(bucket, "big é\n", memoryview(bytearray(big)))
    assert client.get(bucket, "big é\n") == big
    client.remove(bucket, "big é\n")
    client.remove(bucket, "big é\n")
    assert client.list_keys(bucket) == sorted(objects)
    assert [i.size for i in client.list(bucket, "o/", limit=7)] == [len(v) for v in list(objects.values())[:7]]
    rolled = client.list(bucket, delimiter="/")
    assert [(i.key, i.is_prefix) for i in rolled] == [("o/", True)]


def test_batches(forebay, server, client, bucket, objects):
    samples = [(f"m/{i}.jpg", bytes([i]) * (i * 77)) for i in range(30)]
    client.put(bucket, "s.tar", make_tar(samples))
    client.put(bucket, "s.zip", make_zip(samples))
    items, want = [], []
    rng = random.Random(2)
    for _ in range(500):
        key, body = rng.choice(list(objects.items()))
        name, data = rng.choice(samples[5:])
        kind = rng.randrange(4)
        if kind == 0:
            items.append(key)
            want.append(body)
        elif kind == 1:
            items.append(forebay.Item(rng.choice(("s.tar", "s.zip")), name))
            want.append(data)
        elif kind == 2:
            items.append(("s.tar", name, 10, 20, bucket))
            want.append(data[10:30])
        else:
            items.append("none")
            want.append(None)
    before = reads_of(server)
    got = client.batch(bucket, items, missing="none")
    assert reads_of(server) == before + 1
    assert [None if g is None else bytes(g) for g in got] == want
    keep = got[7] if got[7] is not None else got[8]
    copy = bytes(keep)
    del got
    assert bytes(keep) == copy  # one view keeps the memory of all
    assert client.batch(bucket, []) == []


@pytest.mark.parametrize(
    "items, error, item, says",
    [
        (["o/0001", "none"], "NotFound", 1, '"none" does not exist'),
        (["o/0001", ("o/0002", None, 10**9)], "OutOfRange", 1, "item 1"),
        (["o/0001", ("none.tar", "m")], "NotFound", 1, "none.tar/m"),
        (["o/0001", ""], "Invalid", 1, "1 to 1024"),
        (["k" * 2000], "Invalid", 0, "2000 bytes"),
        (["o/0001", 7], "Invalid", None, "keys"),
        ([("o/0001", None, -1)], "Invalid", None, "counts from 0"),
        ([("o/0001", None, 0, 0)], "Invalid", None, "at least 1 byte"),
        ([("o/0001", None, 0, None, "B")], "Invalid", 0, "bucket's name"),
    ],
)
def test_what_is_wrong_with_an_item(forebay, client, bucket, objects, items, error, item, says):
    with pytest.raises(getattr(forebay, error)) as caught:
        client.batch(bucket, items)
    assert caught.value.item == item and says in str(caught.value)


def test_a_batch_of_too_many(forebay, client, bucket):
    with pytest.raises(forebay.Invalid, match="at most 1,000,000"):
        client.batch(bucket, ["k"] * 1_000_001)


def test_errors_are_what_python_calls_them(forebay, client, bucket):
    with pytest.raises(FileNotFoundError):
        client.get(bucket, "none")
    with pytest.raises(ValueError, match="cannot be a bucket"):
        client.get("B", "k")
    with pytest.raises(ValueError, match="over 10 bytes|at most 10"):
        client.put(bucket, "k", b"x" * 100)
        client.batch(bucket, ["k"], limit=10)
    with pytest.raises(PermissionError):
        forebay.Client(client.endpoint, access_key="AKWRONG", secret_key="no").get(bucket, "k")
    with pytest.raises(ConnectionError, match="after 2 attempts"):
        forebay.Client("http://127.0.0.1:1", attempts=2).get(bucket, "k")
    with pytest.raises(ValueError, match="http"):
        forebay.Client("ftp://x")
    with pytest.raises(ValueError, match="closed"):
        closed = forebay.Client(client.endpoint)
        closed.close()
        closed.get(bucket, "k")


def test_more_than_one_request_of_names(forebay, server, client, bucket, objects):
    keys = ["none"] * 32_768 + list(objects)
    before = reads_of(server)
    got = client.batch(bucket, keys, missing="none")
    assert reads_of(server) == before + 2
    assert got[:32_768] == [None] * 32_768 and [bytes(g) for g in got[32_768:]] == list(objects.values())


def take_interrupts():
    """In a child: jobs that a shell puts into the background ignore them, and so would it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupts_reach_a_waiting_call(forebay):
    """Ctrl-C while the server says nothing."""
    program = "import forebay, sys; forebay.Client(sys.argv[1]).get('bkt', 'k')"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = subprocess.Popen([sys.executable, "-c", program, f"http://127.0.0.1:{listener.getsockname()[1]}"], stderr=subprocess.PIPE, text=True, preexec_fn=take_interrupts)
        connection = listener.accept()[0]
        connection.recv(100)  # the request is there: the call waits
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=PATIENCE)
    assert child.returncode == -signal.SIGINT and "KeyboardInterrupt" in said


def test_a_server_that_is_killed_costs_no_sample(forebay, start_forebay):
    first = start_forebay()
    boto(first.endpoint, first.keys()).create_bucket(Bucket="bkt")
    client = forebay.Client(first.endpoint, unsigned=True, attempts=100, connect_timeout=PATIENCE)
    bodies = {f"{i:03d}": bytes([i]) * 20_000 for i in range(200)}
    for key, body in bodies.items():
        client.put("bkt", key, body)
    dataset = forebay.MapDataset(list(bodies), bucket="bkt", client=client)
    got = []

    def read():
        for _ in range(20):
            got.extend(dataset.__getitems__(range(200)))

    reader = threading.Thread(target=read)
    reader.start()
    while not got and reader.is_alive():
        time.sleep(0.01)
    first.popen.kill()
    first.popen.wait()
    start_forebay(port=first.port)
    reader.join()
    assert got == list(bodies.values()) * 20


# ---- processes ----

CHILDREN = """
import hashlib, multiprocessing, sys
import forebay

def read(dataset, indices, results):
    results.put([hashlib.md5(dataset[i]).hexdigest() for i in indices])

if __name__ == "__main__":
    method, endpoint, access, secret, url = sys.argv[1:]
    dataset = forebay.MapDataset(url, client=forebay.Client(endpoint, access_key=access, secret_key=secret))
    first = dataset[0]  # a connection is open
    context = multiprocessing.get_context(method)
    results = context.SimpleQueue()
    children = [context.Process(target=read, args=(dataset, range(n, 300, 30), results)) for n in range(3)]
    for child in children:
        child.start()
    print(sorted(results.get() for _ in children))
    for child in children:
        child.join()
    assert dataset[0] == first  # the parent's connection is still good
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_data_sets_work_in_children(server, bucket, objects, tmp_path, method):
    (tmp_path / "children.py").write_text(CHILDREN)
    command = [sys.executable, tmp_path / "children.py", method, server.endpoint, *server.keys(), f"forebay://{bucket}/o/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    sums = [hashlib.md5(body).hexdigest() for body in objects.values()]
    assert done.stdout.strip() == str(sorted([sums[i] for i in range(n, 300, 30)] for n in range(3))), done.stderr


def test_a_pickle_is_small(forebay, client, bucket, objects):
    dataset = forebay.MapDataset(f"forebay://{bucket}/o/", client=client)
    packed = pickle.dumps(dataset)
    assert len(packed) < 300 * 20 and pickle.loads(packed)[299] == objects["o/0299"]


# ---- data sets ----

def test_map_dataset_is_one_request_a_batch(forebay, server, client, bucket, objects):
    dataset = forebay.MapDataset(f"forebay://{bucket}/o/", client=client, transform=lambda key, data: (key, bytes(data)))
    before = reads_of(server)
    picked = [7, 3, 299, 3]
    assert dataset.__getitems__(picked) == [(f"o/{i:04d}", objects[f"o/{i:04d}"]) for i in picked] == dataset[picked]
    assert reads_of(server) == before + 2
    assert len(dataset) == 300 and dataset[-1][0] == "o/0299"
    with pytest.raises(IndexError, match="sample 300 of 300"):
        dataset[300]
    with pytest.raises(forebay.NotFound, match="no object below it"):
        forebay.MapDataset(f"forebay://{bucket}/o/", suffix=".jpg", client=client)
    parts = forebay.MapDataset([{"a": "o/0001", "b": forebay.Item("o/0002", start=1)}], bucket=bucket, client=client)
    assert parts[0] == {"a": objects["o/0001"], "b": objects["o/0002"][1:]}
    names = ["o/0001", "none", "o/0003"]
    assert forebay.MapDataset(names, bucket=bucket, client=client, missing="none")[[0, 1]] == [objects["o/0001"], None]
    assert forebay.MapDataset(names, bucket=bucket, client=client, missing="skip")[[0, 1, 2]] == [objects["o/0001"], objects["o/0003"]]
    with pytest.raises(forebay.NotFound) as caught:
        forebay.MapDataset(names, bucket=bucket, client=client)[[0, 1]]
    assert caught.value.item == 1


@pytest.fixture
def tars(client, bucket):
    """Eight shards of 5 to 12 samples of two members; {sample key: shard}"""
    where = {}
    for n in range(8):
        members = []
        for i in range(5 + n):
            members += [(f"d/{n}{i:02d}.jpg", b"%d-%d" % (n, i)), (f"d/{n}{i:02d}.cls", b"%d" % n)]
            where[f"d/{n}{i:02d}"] = f"t/{n}.tar"
        client.put(bucket, f"t/{n}.tar", make_tar(members))
    return where


def test_shards_are_indexed_and_streamed(forebay, client, bucket, tars):
    index = [sample for n in range(8) for sample in forebay.shard_index(f"forebay://{bucket}/t/{n}.tar", client=client)]
    dataset = forebay.MapDataset(index, bucket=bucket, client=client)
    assert len(dataset) == len(tars) and dataset[6] == {"jpg": b"1-1", "cls": b"1"}
    stream = forebay.IterableDataset(f"forebay://{bucket}/t/", client=client, window=3, seed=5)
    epochs = [[s["__key__"] for s in stream] for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(tars) and epochs[0] != epochs[1]
    plain = forebay.IterableDataset(f"forebay://{bucket}/t/", client=client, shuffle=False)
    first = next(iter(plain))
    assert first == {"__key__": "d/000", "__url__": f"forebay://{bucket}/t/0.tar", "jpg": b"0-0", "cls": b"0"}
    assert [s["__key__"] for s in plain] == sorted(tars)
    client.put(bucket, "t/9.tar", b"this is no tar")
    with pytest.raises(forebay.Invalid, match="t/9.tar"):
        list(forebay.IterableDataset(f"forebay://{bucket}/t/", client=client))


@pytest.mark.parametrize("shards", [True, False])
def test_streams_split_and_resume(forebay, client, bucket, tars, objects, shards):
    source = f"forebay://{bucket}/{'t' if shards else 'o'}/"
    make = lambda rank, world: forebay.IterableDataset(source, client=client, rank=rank, world=world, window=2, batch=16, seed=1, transform=(lambda s: s["__key__"]) if shards else (lambda key, _: key))  # noqa: E731
    everything = [name for rank in range(3) for name in make(rank, 3)]
    assert sorted(everything) == sorted(tars if shards else objects)
    whole = make(1, 3)
    order = list(whole) + list(whole)  # two epochs
    for stop in (0, 1, 9, 17, len(order) // 2, len(order) // 2 + 3):
        begun = make(1, 3)
        got = list(itertools.islice(itertools.chain(begun, begun), stop))
        resumed = make(1, 3)
        resumed.load_state_dict(pickle.loads(pickle.dumps(begun.state_dict())))
        rest = list(resumed)
        assert got + rest + (list(resumed) if len(got) + len(rest) < len(order) else []) == order
    with pytest.raises(forebay.Invalid, match="seed"):
        forebay.IterableDataset(source, client=client, seed=9).load_state_dict(whole.state_dict())


# ---- samplers ----

@pytest.mark.parametrize("window, world, sizes", [(1, 1, [3, 0, 5]), (2, 3, [10] * 7), (4, 2, [1, 50, 7, 7, 0, 31, 2]), (100, 4, [9] * 11), (3, 5, [1, 2])])
def test_every_sample_comes_once_an_epoch(forebay, window, world, sizes):
    total = sum(sizes)
    orders = []
    for epoch in range(2):
        ranks = []
        for rank in range(world):
            sampler = forebay.GroupedSampler(sizes, window=window, seed=3, rank=rank, world=world)
            sampler.set_epoch(epoch)
            ranks.append(list(sampler))
            assert len(sampler) == len(ranks[-1])
        assert sorted(itertools.chain(*ranks)) == list(range(total))
        assert max(map(len, ranks)) - min(map(len, ranks)) <= 1
        orders.append(ranks)
    assert total < 10 or orders[0] != orders[1]


def test_a_window_holds_few_groups(forebay):
    sampler = forebay.GroupedSampler(10_000, group=100, window=5, batch_size=50, seed=2)
    groups = [{index // 100 for index in batch} for batch in sampler]
    assert len(groups) == 200 == len(sampler)
    for first in range(0, 200, 10):
        assert len(set().union(*groups[first : first + 10])) == 5
    assert mean_count(groups) > 4  # nearly all of the window's groups are in each batch


def mean_count(groups):
    return sum(map(len, groups)) / len(groups)


def test_a_sampler_goes_on_where_it_was(forebay):
    make = lambda: forebay.GroupedSampler([20, 3, 40, 11], window=2, batch_size=8, seed=4, rank=1, world=2)  # noqa: E731
    reference = make()
    epochs = [list(reference), list(reference)]
    assert epochs[0] != epochs[1]
    for epoch in range(2):
        for done in range(len(epochs[epoch]) + 1):
            begun = make()
            for _ in range(epoch):
                list(begun)
            ahead = iter(begun)
            given = list(itertools.islice(ahead, min(done + 2, len(epochs[epoch]))))  # as a loader with workers does
            state = begun.state_dict(done)
            resumed = make()
            resumed.load_state_dict(pickle.loads(pickle.dumps(state)))
            assert given[:done] + list(resumed) == epochs[epoch]
    with pytest.raises(forebay.Invalid, match="seed"):
        forebay.GroupedSampler(74, seed=5, window=2, rank=1, world=2).load_state_dict(reference.state_dict())


@pytest.mark.parametrize(
    "arguments, says",
    [({"groups": [3, -1]}, "group 1 has -1"), ({"groups": 10, "window": 0}, "window 0"), ({"groups": 10, "rank": 2, "world": 2}, "rank 2 of 2"), ({"groups": 10, "rank": 1}, "together"), ({"groups": 10, "group": 0}, "groups of 0"), ({"groups": 10, "batch_size": 0}, "batch_size 0")],
)
def test_what_is_wrong_with_a_sampler(forebay, arguments, says):
    with pytest.raises(ValueError, match=says):
        forebay.GroupedSampler(**arguments)


# ---- watch ----

def test_watch_tells_waiting_from_work(forebay):
    def loader(pause):
        for i in range(5):
            time.sleep(pause)
            yield i

    said = []
    slow = forebay.watch(list(range(5)), report=said.append)
    for _ in slow:
        time.sleep(0.02)
    figures = slow.figures()
    assert figures["batches"] == 5 and figures["busy_s"] >= 0.1 and figures["wait_s"] < figures["busy_s"] and len(slow) == 5
    assert said and "compute is the limit" in said[-1]
    waits = forebay.watch(loader(0.02), report=said.append)
    assert list(waits) == list(range(5))
    figures = waits.figures()
    assert figures["wait_s"] >= 0.08 and figures["au"] < 0.5 and figures["wait_p99_s"] >= 0.02 and "waits for data" in said[-1]


# ---- fsspec ----

@pytest.fixture
def files(forebay, client):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    from forebay.filesystem import ForebayFileSystem

    fsspec.register_implementation("forebay", ForebayFileSystem, clobber=True)
    return fsspec.filesystem("forebay", client=client, skip_instance_cache=True)


def test_the_file_system(server, files, bucket, objects):
    assert files.ls(bucket, detail=False) == [f"{bucket}/o"]
    assert files.ls(f"{bucket}/o", detail=False) == [f"{bucket}/{key}" for key in objects] == files.find(bucket)
    assert files.isdir(f"{bucket}/o") and files.isfile(f"{bucket}/o/0001") and not files.exists(f"{bucket}/none")
    assert files.info(f"forebay://{bucket}/o/0003")["size"] == len(objects["o/0003"])
    assert files.glob(f"{bucket}/o/000*") == [f"{bucket}/o/000{i}" for i in range(10)]
    body = random.Random(7).randbytes(500_000)
    with files.open(f"{bucket}/f/x", "wb") as file:
        file.write(body)
    with files.open(f"forebay://{bucket}/f/x", block_size=70_000) as file:
        assert file.read(10) == body[:10] and file.seek(-100, os.SEEK_END) and file.read() == body[-100:]
        file.seek(0)
        assert file.read() == body
    assert files.cat_file(f"{bucket}/f/x", -10) == body[-10:] and files.cat_file(f"{bucket}/f/x", 5, 9) == body[5:9]
    files.pipe({f"{bucket}/f/a": b"1", f"{bucket}/f/b": b"22"})
    assert files.cat([f"{bucket}/f/a", f"{bucket}/f/b"]) == {f"{bucket}/f/a": b"1", f"{bucket}/f/b": b"22"}
    files.rm(f"{bucket}/f", recursive=True)
    assert not files.exists(f"{bucket}/f/x")
    with pytest.raises(FileNotFoundError):
        files.cat_file(f"{bucket}/none")
    with pytest.raises(FileNotFoundError):
        files.open(f"{bucket}/none").read()


def test_ranges_are_one_request(server, files, bucket, objects):
    rng = random.Random(3)
    asked = []
    for key in rng.choices([k for k, v in objects.items() if len(v) > 100], k=100):
        first = rng.randrange(len(objects[key]))
        asked.append((key, first, min(len(objects[key]), first + rng.randrange(1, 50))))
    paths, starts, ends = [f"{bucket}/{k}" for k, _, _ in asked], [a for _, a, _ in asked], [b for _, _, b in asked]
    before = reads_of(server)
    assert files.cat_ranges(paths, starts, ends) == [objects[k][a:b] for k, a, b in asked]
    assert reads_of(server) == before + 1
    beyond = files.cat_ranges([paths[0], paths[1]], [3, 3], [10**9, 5])
    assert beyond == [objects[asked[0][0]][3:], objects[asked[1][0]][3:5]]  # as slices do
    mixed = files.cat_ranges([paths[0], f"{bucket}/none", paths[1], paths[2]], [0, 0, 10**9, 5], [3, 3, 10**9 + 3, 5], on_error="return")
    assert mixed[0] == objects[asked[0][0]][:3] and isinstance(mixed[1], FileNotFoundError) and mixed[2:] == [b"", b""]
    with pytest.raises(FileNotFoundError):
        files.cat_ranges([f"{bucket}/none"], [0], [3], on_error="raise")


def test_pandas_reads_and_writes(server, files, bucket):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"a": range(100), "b": [str(i) for i in range(100)]})
    options = {"endpoint": server.endpoint, "unsigned": True}
    frame.to_csv(f"forebay://{bucket}/x.csv", index=False, storage_options=options)
    assert pandas.read_csv(f"forebay://{bucket}/x.csv", storage_options=options, dtype={"b": str}).equals(frame)


def test_pyarrow_reads_columns(files, bucket):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow has no parquet")
    table = pyarrow.table({"a": list(range(10_000)), "b": [str(i) for i in range(10_000)]})
    with files.open(f"{bucket}/t.parquet", "wb") as file:
        parquet.write_table(table, file)
    assert parquet.read_table(f"{bucket}/t.parquet", filesystem=files, columns=["a"])["a"].to_pylist() == list(range(10_000))


def test_zarr_keeps_an_array(files, bucket):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    numpy = pytest.importorskip("numpy")
    store = files.get_mapper(f"{bucket}/z") if not hasattr(zarr.storage, "FsspecStore") else zarr.storage.FsspecStore(files, path=f"{bucket}/z")
    array = zarr.create_array(store, shape=(64, 64), chunks=(16, 16), dtype="i4") if hasattr(zarr, "create_array") else zarr.open(store, mode="w", shape=(64, 64), chunks=(16, 16), dtype="i4")
    array[:] = numpy.arange(4096).reshape(64, 64)
    assert (array[5:40, 7:60] == numpy.arange(4096).reshape(64, 64)[5:40, 7:60]).all()
