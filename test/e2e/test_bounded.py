"""Bounded (decision D14): a server in a control group of 256 MiB with a thousand clients that are slow or want too much
stays alive, answers or refuses each of them, and serves as before when they have left; few descriptors slow it down and
do not stop it. Protects F4, F5, F6."""

import asyncio
import collections
import json
import os
import pathlib
import selectors
import socket
import subprocess
import time

import pytest
import plain
from conftest import boto
from rigs import forebay
from rigs.process import PATIENCE, ROOT, http_get

MIB = 1 << 20
LIMIT = 256 * MIB
LARGE = 8 * MIB
SLOW_READERS, SLOW_WRITERS, SLOWLORIS, GREEDY = 500, 200, 200, 200
HEALTHY_RATE = 500  # GETs a second of those who are measured beside the crowd: what they want, not what the server could give
OVERLOAD_SECONDS = float(os.environ.get("OVERLOAD_SECONDS", "1"))  # `make soak`: 10
SECONDS = 10  # and on, until each kind has met what it is here for


def control_group():
    """A memory group of LIMIT bytes for a child, or a sentence that says why there is none."""
    version1, version2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
    root, limit = (version1, "memory.limit_in_bytes") if version1.is_dir() else (version2, "memory.max")
    group = root / f"forebay-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(LIMIT))
    except OSError as error:
        return None, f"no control group for memory: {error}"
    return group, ""


def oom_kills(group):
    for name in ("memory.oom_control", "memory.events"):
        if (group / name).exists():
            for line in (group / name).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


def start(tmp_path, before_exec, settings=None):
    """A release build (a sanitizer's memory is not ours) behind a line of shell."""
    binary = forebay.binary("rel")
    if not binary.exists():
        pytest.skip(f"no {binary}: make rel")
    script = tmp_path / "limited"
    script.write_text(f"#!/bin/sh\n{before_exec}\nexec {binary} \"$@\"\n")
    script.chmod(0o755)
    old = os.environ.get("FOREBAY_BIN")
    os.environ["FOREBAY_BIN"] = str(script)
    try:
        process = forebay.Forebay(tmp_path / "data", log_dir=tmp_path / "log", settings=settings)
    finally:
        os.environ.pop("FOREBAY_BIN")
        if old is not None:
            os.environ["FOREBAY_BIN"] = old
    return process.wait_ready()


class Crowd:
    """What became of the crowd's requests: status (0: cut or refused without a word) -> how many."""

    def __init__(self, port):
        self.port = port
        self.seen = {kind: collections.Counter() for kind in ("reader", "writer", "loris", "greedy")}
        self.retry_after = True
        self.over = False  # a cancellation can get lost in wait_for()

    async def connect(self, small=False):
        raw = socket.socket()
        raw.setblocking(False)
        if small:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self.port))
        return await asyncio.open_connection(sock=raw, limit=16384)

    async def answer(self, kind, reader):
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        status = int(head.split()[1])
        if status == 503 and b"retry-after:" not in head.lower():
            self.retry_after = False
        self.seen[kind][status] += 1
        return status

    async def slow_reader(self):
        reader, writer = await self.connect(small=True)
        writer.write(b"GET /crowd/large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await self.answer("reader", reader)
        while await reader.read(512):
            await asyncio.sleep(1)
        writer.close()

    async def slow_writer(self, i):
        reader, writer = await self.connect()
        writer.write(f"PUT /crowd/slow{i} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {LARGE}\r\n\r\n".encode())
        answered = asyncio.ensure_future(self.answer("writer", reader))
        while not answered.done() and not self.over:
            writer.write(bytes(2048))
            await writer.drain()
            await asyncio.wait([answered], timeout=0.5)
        if answered.done():
            answered.result()
        writer.close()

    async def slowloris(self):
        reader, writer = await self.connect()
        writer.write(b"GET /crowd/large HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        answered = asyncio.ensure_future(reader.read(100))  # 408, or nothing
        while not answered.done() and not self.over:
            writer.write(b"X-a: b\r\n")
            await writer.drain()
            await asyncio.wait([answered], timeout=1)
        if answered.done():
            self.seen["loris"][int(answered.result()[9:12] or b"0")] += 1

    async def greedy(self, i):
        body = bytes(LARGE)
        while not self.over:
            reader, writer = await self.connect()
            writer.write(f"PUT /crowd/greedy{i % 20} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {LARGE}\r\nExpect: 100-continue\r\n\r\n".encode())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
            if b" 100 " in head:
                writer.write(body)
                await writer.drain()
                status = await self.answer("greedy", reader)
            else:
                status = int(head.split()[1])
                self.seen["greedy"][status] += 1
                if status == 503 and b"retry-after:" not in head.lower():
                    self.retry_after = False
            writer.close()
            if status == 503:
                await asyncio.sleep(0.2)

    async def one(self, kind, coroutine):
        try:
            await coroutine
        except (ConnectionError, asyncio.IncompleteReadError):
            self.seen[kind][0] += 1

    async def healthy(self, process, rates, peak):
        """Small GETs, one after the other, each until it is answered; and the server's memory, all the time."""
        while not self.over:
            reader, writer = await self.connect()
            begun, done, refused = time.monotonic(), 0, 0
            while time.monotonic() - begun < 1 and not self.over:
                try:
                    writer.write(b"GET /crowd/small HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                    head = await reader.readuntil(b"\r\n\r\n")
                    if head.startswith(b"HTTP/1.1 200"):
                        await reader.readexactly(4096)
                        done += 1
                        continue
                except (ConnectionError, asyncio.IncompleteReadError):
                    pass
                refused += 1
                writer.close()
                await asyncio.sleep(0.02)
                reader, writer = await self.connect()
            writer.close()
            rates.append((done, refused))
            peak.append(process.rss_anon_kib() * 1024)

    def met(self):
        """Some requests were served, others got 503."""
        return self.seen["greedy"][200] > 0 and self.seen["greedy"][503] > 0

    async def run(self, process, rates, peak, beside_slow, beside_all):
        """`beside_slow` is called in a thread while those who are slow are there, `beside_all` when the greedy have come as well; they stay as long as it takes."""
        crowd = [self.one("reader", self.slow_reader()) for _ in range(SLOW_READERS)]
        crowd += [self.one("writer", self.slow_writer(i)) for i in range(SLOW_WRITERS)]
        crowd += [self.one("loris", self.slowloris()) for _ in range(SLOWLORIS)]
        tasks = [asyncio.ensure_future(c) for c in crowd]
        end = time.monotonic() + PATIENCE
        while sum(self.seen["reader"].values()) < SLOW_READERS and time.monotonic() < end:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(beside_slow)
        tasks += [asyncio.ensure_future(self.one("greedy", self.greedy(i))) for i in range(GREEDY)]
        healthy = asyncio.ensure_future(self.healthy(process, rates, peak))
        begun, measured = time.monotonic(), asyncio.ensure_future(asyncio.to_thread(beside_all))
        while not measured.done() or time.monotonic() - begun < (PATIENCE if not self.met() or sum(done for done, _ in rates) == 0 else SECONDS):
            await asyncio.sleep(0.2)
        self.over = True
        for task in (*tasks, healthy):
            task.cancel()
        done = await asyncio.gather(*tasks, healthy, measured, return_exceptions=True)
        return [e for e in done if isinstance(e, Exception)]


def httpload(process, *options):
    """The load generator in C, started: it takes little of the cores that server and crowd need. 503 are counted."""
    program = ROOT / "build/bench/httpload"
    if not program.exists():
        pytest.skip(f"no {program}: ninja -C build httpload")
    argv = [program, "-B", *options[:-1], "127.0.0.1", process.port, options[-1]]
    return subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, text=True)


def figures(load):
    """What it counted; nothing of it may have been wrong."""
    told, _ = load.communicate(timeout=PATIENCE)
    counted = json.loads(told.splitlines()[-1]) if told.endswith("}\n") else None
    assert counted is not None and counted["errors"] == 0, told
    return counted


def beside_another(crowded, calm, *options, rounds=1):
    """[(rate of one server, rate of the other)]: both are asked at the same time, so what else runs here takes from both. More rounds while half of
    the rate is not reached."""
    pairs = []
    while len(pairs) < rounds and all(2 * a < b for a, b in pairs):
        loads = [httpload(server, *options, "-s", 4096, "/crowd/small") for server in (crowded, calm)]
        pairs.append(tuple(figures(load)["rps"] for load in loads))
    return pairs


def healthy_for(process, seconds):
    """[(answered, refused) a second] without other load."""
    rates, peak = [], []

    async def alone():
        task = asyncio.ensure_future(Crowd(process.port).healthy(process, rates, peak))
        await asyncio.sleep(seconds + 0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(alone())
    return rates


def test_a_thousand_clients_in_256_mib(tmp_path):
    group, why = control_group()
    if group is None:
        pytest.skip(why)
    process = start(tmp_path, f"echo $$ > {group}/cgroup.procs")
    (tmp_path / "calm").mkdir()
    calm = start(tmp_path / "calm", "")
    try:
        for server in (calm, process):
            client = boto(server.endpoint, server.keys())
            client.create_bucket(Bucket="crowd")
            client.put_object(Bucket="crowd", Key="large", Body=os.urandom(LARGE))
            client.put_object(Bucket="crowd", Key="small", Body=os.urandom(4096))
        crowd, rates, peak, most, modest = Crowd(process.port), [], [], [], []

        def beside_slow():
            most.extend(beside_another(process, calm, "-c", 8, "-w", 0.2, "-d", 1, rounds=10))

        def beside_all():
            modest.extend(beside_another(process, calm, "-c", 64, "-r", HEALTHY_RATE, "-w", 3, "-d", 4, rounds=10))

        trouble = asyncio.run(crowd.run(process, rates, peak, beside_slow, beside_all))
        process.wait_until(lambda: process.get("/_/metrics")[0] == 200, what="answer behind the crowd")
        metrics = process.metrics()
        print("\nGETs a second beside the crowd, and of another server at the same time; half of it is promised")
        print(f"as many as they can, while only those are there who are slow: {most}\n{HEALTHY_RATE}, while all are: {modest}")
        print(f"one after the other, with the crowd {rates}\npeak RssAnon {max(peak) / MIB:.0f} MiB, shed {metrics['forebay_connections_shed_total']:.0f}")
        for kind, seen in crowd.seen.items():
            print(kind, dict(seen))
        assert trouble == [], trouble[:3]
        assert process.popen.poll() is None and oom_kills(group) == 0, process.log()[-3000:]
        assert max(peak) <= LIMIT, "RssAnon over the limit"
        assert set(crowd.seen["greedy"]) <= {0, 200, 503} and crowd.met()
        assert crowd.retry_after, "a 503 without Retry-After"
        assert sum(done for done, _ in rates) > 0, "healthy clients got nothing"
        assert any(2 * a >= b for a, b in most), f"less than half of the peak rate is left beside those who are slow: {most}"
        assert any(2 * a >= b for a, b in modest), f"less than half of {HEALTHY_RATE} a second is left beside everybody: {modest}"
        process.wait_until(lambda: sum(v for k, v in process.metrics().items() if k.startswith("forebay_memory_bytes") and "buffers" not in k) < metrics["forebay_memory_limit_bytes"] / 2, what="give back what the crowd held")
        again, end = healthy_for(process, 1), time.monotonic() + PATIENCE
        while sum(refused for _, refused in again) > 0 and time.monotonic() < end:  # the last of the crowd are on their way out
            again = healthy_for(process, 1)
        assert sum(refused for _, refused in again) == 0
        after = beside_another(process, calm, "-c", 8, "-w", 0.2, "-d", 1, rounds=10)
        print(f"as many as they can, when all have left: {after}")
        assert any(2 * a >= b for a, b in after), f"it does not get over the crowd: {after}"
        assert client.get_object(Bucket="crowd", Key="large")["Body"].read(10)
        process.end()
        calm.end()
    finally:
        calm.stop()
        process.stop()
        group.rmdir()


def test_three_times_the_load(tmp_path):
    """F6: who comes beyond the limit waits for a place; refusals are few, so that most of the peak rate is left. How much of it is printed: both are
    measured beside whatever else runs here. test_http_overload checks it, in virtual time."""
    process = start(tmp_path, "", settings={"http.requests": "16"})
    try:
        client = boto(process.endpoint, process.keys())
        client.create_bucket(Bucket="load")
        puts = ("-m", "PUT", "-b", 65536, "-n", 200, "-w", 0.3, "-d", OVERLOAD_SECONDS)
        unloaded = figures(httpload(process, "-c", 1, *puts, "/load/k%u"))
        peak = figures(httpload(process, "-c", 16, *puts, "/load/k%u"))
        over = figures(httpload(process, "-c", 48, *puts, "/load/k%u"))
        ten = figures(httpload(process, "-c", 160, *puts, "/load/k%u"))
        goodput, slower = over["rps"] / peak["rps"], over["p99_us"] / peak["p99_us"]
        print(f"\none PUT at a time {unloaded['rps']}/s, p99 {unloaded['p99_us'] / 1000:.1f} ms; 16 at once {peak['rps']}/s, p99 {peak['p99_us'] / 1000:.1f} ms; "
              f"48 who come again at once: {over['rps']}/s, {goodput:.2f} of it (0.8 wanted), p99 {over['p99_us'] / 1000:.1f} ms, {slower:.1f}x (5 wanted); {over['refused']} refused; "
              f"160: {ten['rps']}/s, {ten['rps'] / peak['rps']:.2f} of it; {ten['refused']} refused")  # fmt: skip
        assert over["requests"] > 0, "no request was served beside the refused ones"
        # However fast they come again: each is refused once in http.wait at most.
        for load, clients in ((over, 48), (ten, 160)):
            assert load["refused"] <= clients * (load["seconds"] / 0.1 + 1), f"{load['refused']} refused, of {clients} who wait 100 ms each time"
        assert process.metrics()["forebay_http_waited_total"] > 0, "no request waited for a place"
        assert client.get_object(Bucket="load", Key="k0")["Body"].read(10) is not None
        process.end()
    finally:
        process.stop()


def answers_of(crowd):
    """{status: how many} once a request was answered; nothing for closed connections. Others may wait for a place."""
    answers, waiting = collections.Counter(), selectors.DefaultSelector()
    for connection in crowd:
        try:
            connection.sendall(b"GET /_/livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            waiting.register(connection, selectors.EVENT_READ)
        except OSError:
            answers[b""] += 1
    end = time.monotonic() + PATIENCE
    while (ready := waiting.select(0.2)) or (answers[b"200"] == 0 and time.monotonic() < end):
        for connection in (key.fileobj for key, _ in ready):
            waiting.unregister(connection)
            try:
                answers[connection.recv(100)[9:12]] += 1
            except OSError:
                answers[b""] += 1
    return answers


def connections(process):
    return sum(value for name, value in process.metrics().items() if name.startswith("forebay_connections{"))


def test_few_descriptors(tmp_path):
    """F5: beyond what 64 descriptors allow there is a 503 or a closed connection; nothing leaks, and it recovers."""
    process = start(tmp_path, "ulimit -n 64")
    try:
        client = boto(process.endpoint, process.keys())
        client.create_bucket(Bucket="few")
        big = os.urandom(20 * MIB)  # a segment of its own: one more file
        client.put_object(Bucket="few", Key="big", Body=big)
        client.close()
        for _ in range(3):
            crowd = [socket.create_connection(("127.0.0.1", process.port), timeout=PATIENCE) for _ in range(200)]
            answers = answers_of(crowd)
            assert answers[b"200"] > 0 and answers.keys() <= {b"200", b"503", b""}, answers
            for connection in crowd:
                connection.close()
            process.wait_until(lambda: http_get(process.endpoint + "/_/readyz", timeout=5)[0] == 200, what="take new connections")
            process.wait_until(lambda: connections(process) <= 1, what="see that the crowd has left, on each loop")
        client = boto(process.endpoint, process.keys(), max_pool_connections=2)
        assert client.get_object(Bucket="few", Key="big")["Body"].read() == big
        client.put_object(Bucket="few", Key="big2", Body=big)
        assert process.metrics()["process_open_fds"] < 64
        client.close()
        process.end()
    finally:
        process.stop()


def test_a_log_that_is_larger_than_the_buffers_is_read_at_the_start(start_forebay):
    """Little memory makes a start slower; it does not end it."""
    settings = {"memory.buffers": "16MiB", "loops": 1}
    process = start_forebay(settings=settings)
    bodies = {f"k{number:03}": bytes([number]) * 200_000 for number in range(200)}
    assert plain.ask(process.port, "PUT", "small").status == 200
    for key, body in bodies.items():
        assert plain.ask(process.port, "PUT", "small", key, body=body).status == 200
    process.kill()
    process = start_forebay(settings=settings)
    for key, body in bodies.items():
        assert plain.get(process.port, "small", key).body == body, key
