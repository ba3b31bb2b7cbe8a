"""A reader that goes through numbered objects in order finds the next ones here; all others cost the remote nothing more."""

import concurrent.futures
import http.client
import random

import pytest
from rigs.fakeremote import FakeRemote

import plain
from test_chunks import forebay, metric
from rigs.process import PATIENCE
from test_cold import PATIENT, attach, wait_for

BUCKET = "remote"
BYTES = 100_000


def name_of(number, form="shard-{:06}.tar"):
    return "train/" + form.format(number)


def in_letters(number):
    """A name without a digit has no known successor."""
    return str(number).translate(str.maketrans("0123456789", "abcdefghij"))


@pytest.fixture
def remote():
    with FakeRemote() as fake:
        fake.put(f"/{BUCKET}", b"")
        for number in range(40):
            fake.put(f"/{BUCKET}/{name_of(number)}", f"{number} ".encode() * (BYTES // 4))
            fake.put(f"/{BUCKET}/{name_of(number, 'part-{}-of-00040.bin')}", f"{number} ".encode() * (BYTES // 4))
        yield fake


def start(start_forebay, remote, **settings):
    process = start_forebay(settings={**PATIENT, "cache.readahead": None, **settings})  # on by itself, four ahead
    assert attach(process, BUCKET, remote.endpoint).returncode == 0
    return process


def read(process, number, form="shard-{:06}.tar", connection=None):
    reply = plain.get(process.port, BUCKET, name_of(number, form), connection=connection)
    assert reply.status == 200 and reply.body == f"{number} ".encode() * (BYTES // 4)
    return reply.headers["x-forebay-cache"]


def asked(remote):
    return {what: count for what, count in remote.seen.items() if "train/" in what}


def connection(process):
    """To one loop: it watches what it serves itself."""
    return http.client.HTTPConnection("127.0.0.1", process.port, timeout=PATIENCE)


def begun(process):
    return metric(process, "forebay_cache_readahead_total")


@pytest.mark.parametrize("form, settings", [("shard-{:06}.tar", {}), ("part-{}-of-00040.bin", {}), ("shard-{:06}.tar", {"cache.budget": "64MiB"})])
def test_the_next_ones_are_here(start_forebay, remote, form, settings):
    process = start(start_forebay, remote, **settings)
    one = connection(process)
    for number in range(3):
        read(process, number, form, one)
    assert begun(process) == 4
    wait_for(lambda: len(asked(remote)) == 7, "four ahead")
    for number in range(3, 40):
        wait_for(lambda: f"GET /{BUCKET}/{name_of(number, form)}" in remote.seen, "what was begun")
        assert read(process, number, form, one) in ("hit", "coalesced")
    gets = {what: count for what, count in asked(remote).items() if what.removeprefix("GET ") in remote.objects}
    assert len(gets) == 40 and set(gets.values()) == {1}


def test_it_ends_where_they_end(start_forebay, remote):
    process = start(start_forebay, remote)
    one = connection(process)
    for number in range(34, 40):
        read(process, number, connection=one)
    wait_for(lambda: f"GET /{BUCKET}/{name_of(40)}" in remote.seen, "one behind the end")

    def nothing_more():  # those that were on their way may have begun another
        before = begun(process)
        for number in range(36, 40):
            read(process, number, connection=one)
        return begun(process) == before

    wait_for(nothing_more, "an end")
    assert not [what for what in asked(remote) if name_of(44) in what]


def test_random_order_costs_nothing_more(start_forebay, remote):
    process = start(start_forebay, remote)
    numbers = list(range(0, 40, 10))  # far apart, in any order
    random.Random(7).shuffle(numbers)
    for number in numbers + numbers:
        read(process, number)
    for number in range(39, -1, -1):  # backwards
        read(process, number)
    assert begun(process) == 0 and set(asked(remote).values()) == {1}


def test_it_can_be_switched_off(start_forebay, remote):
    process = start(start_forebay, remote, **{"cache.readahead": 0})
    one = connection(process)
    for number in range(10):
        read(process, number, connection=one)
    assert begun(process) == 0 and len(asked(remote)) == 10


def sources(process, keys):
    return [plain.get(process.port, BUCKET, key).headers["x-forebay-cache"] for key in keys]


def test_a_full_cache_gets_no_readahead(start_forebay, remote):
    """What a read would not keep is not fetched ahead either."""
    large, small = ([f"{prefix}-{in_letters(number)}" for number in range(count)] for prefix, count in (("x", 60), ("probe", 400)))
    for key in large:
        remote.put(f"/{BUCKET}/{key}", bytes(BYTES))
    for key in small:
        remote.put(f"/{BUCKET}/{key}", bytes(BYTES // 100))  # they end the room that is too small for a shard
    process = start(start_forebay, remote, **{"cache.budget": "4MiB"})
    for prefix in ("x", "probe"):
        forebay(process, "pin", f"s3://{BUCKET}/{prefix}")  # nothing of that goes: it stays full

    def is_full(keys):  # of what is on its way to the disk the room is taken twice: nothing is
        return all("bypass" in (seen := set(sources(process, keys))) and seen <= {"hit", "bypass"} for _ in range(2))

    wait_for(lambda: is_full(large), "no room for a large one")
    for first in range(0, len(small), 20):
        if sources(process, small[first : first + 1]) == ["bypass"] and is_full(small[: first + 1]):
            break
        sources(process, small[first + 1 : first + 20])
    else:
        pytest.fail("there is room for all of them")
    one = connection(process)
    for number in range(20):
        assert read(process, number, connection=one) == "bypass"
    assert begun(process) == 0


def test_room_for_less_than_one_is_none(start_forebay, remote):
    """In a bucket with a budget of its own, at which nothing has to go yet."""
    kept = [f"x-{in_letters(number)}" for number in range(9)]
    for key in kept:
        remote.put(f"/{BUCKET}/{key}", bytes(104_000))  # 936,000 bytes: from 950,000 on they would be too many
    process = start(start_forebay, remote)
    forebay(process, "bucket", "set", f"s3://{BUCKET}", "--cache-budget", "1000000")
    sources(process, kept)
    assert set(sources(process, kept)) == {"hit"}
    one = connection(process)
    for number in range(20):
        assert read(process, number, connection=one) == "bypass"
    assert begun(process) == 0 and set(asked(remote).values()) == {1}
    forebay(process, "bucket", "set", f"s3://{BUCKET}", "--cache-budget", "none")
    read(process, 20, connection=one)
    assert begun(process) == 4


def test_several_readers_share_what_comes(start_forebay, remote):
    process = start(start_forebay, remote)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: read(process, number), range(40)))
    counts = [count for what, count in asked(remote).items() if what.removeprefix("GET ") in remote.objects]
    assert len(counts) == 40 and max(counts) == 1
