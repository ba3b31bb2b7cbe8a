#!/usr/bin/env python3
"""cloudproxy: stands in front of an S3 server and makes it as far away as a cloud is.

Each request waits --latency-ms before it reaches the server, each stream is held to --mib-s. Bytes pass
unchanged, Host header included, so signatures hold. It counts requests and body bytes by operation, and on
command it misbehaves: a rule says which request, what goes wrong, after how many body bytes, how often.

Control, on the same port, under a path that no bucket can have:

    GET    /_proxy/stats            {"requests": {"GetObject": 3, ...}, "bytes_out": {...}, "bytes_in": {...}, "open": 2, "held": 0}
    DELETE /_proxy/stats            counts from zero
    POST   /_proxy/rules            adds one: {"fault": "reset", "op": "GetObject", "key": "shard", "after": 1000, "times": 2}
    DELETE /_proxy/rules            behaves again; what stands still goes on doing so
    POST   /_proxy/release          what stands still goes on
    POST   /_proxy/settings         {"latency_ms": 25, "mib_s": 50}

Faults: `stall` (sends no more for `ms` or until released, then goes on), `jam` (takes no more of the request's body,
likewise), `reset` (RST, once the other end has read what was sent), `cut` (FIN), `flip` (one bit of the byte at
`after`), `longer` (announces more than it sends, keeps the connection open), `shorter` (announces and sends
less: looks whole), `error` (answers `status` and `code` itself), `refuse` (RST before any answer), `slow` (holds the answer's head
for `ms`). A rule may say as well: `skip` (so many requests pass first), `each` (so often for one target at most), and
of a reset or a cut `hold` (stands still at its place until released).
"""

import argparse
import asyncio
import collections
import json
import signal
import socket
import struct
import urllib.parse

HEAD_MAX = 64 * 1024
PIECE = 64 * 1024
FAULTS = ("stall", "jam", "reset", "cut", "flip", "longer", "shorter", "error", "refuse", "slow")
LIE_BYTES = 7  # what `longer` and `shorter` are off by
FOREVER_MS = 3_600_000
READ_SECONDS = 10  # how long a reset waits for the other end to read


class Gone(Exception):
    """One of the two ends has closed."""


def operation(method, target):
    """The S3 name of a path-style request."""
    url = urllib.parse.urlsplit(target)
    query = {k for k, _ in urllib.parse.parse_qsl(url.query, keep_blank_values=True)}
    _, _, key = url.path.lstrip("/").partition("/")
    if key:
        if "uploadId" in query:
            return {"PUT": "UploadPart", "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload", "GET": "ListParts"}.get(method, "Other")
        if "uploads" in query:
            return "CreateMultipartUpload"
        if "tagging" in query:
            return {"GET": "GetObjectTagging", "PUT": "PutObjectTagging", "DELETE": "DeleteObjectTagging"}.get(method, "Other")
        return {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}.get(method, "Other")
    if method == "GET":
        if "uploads" in query:
            return "ListMultipartUploads"
        if "location" in query:
            return "GetBucketLocation"
        return "ListObjects" if url.path.strip("/") else "ListBuckets"
    if method == "POST" and "delete" in query:
        return "DeleteObjects"
    return {"HEAD": "HeadBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"}.get(method, "Other")


class Head:
    """A request's or response's head, kept as it came."""

    def __init__(self, raw):
        self.lines = raw[:-4].split(b"\r\n")
        self.first = self.lines[0].decode("latin-1")

    def get(self, name):
        prefix = name.lower().encode() + b":"
        for line in self.lines[1:]:
            if line.lower().startswith(prefix):
                return line[len(prefix):].strip().decode("latin-1")
        return None

    def replace(self, name, value):
        prefix = name.lower().encode() + b":"
        self.lines = [f"{name}: {value}".encode("latin-1") if line.lower().startswith(prefix) else line for line in self.lines]

    def raw(self):
        return b"\r\n".join(self.lines) + b"\r\n\r\n"

    @property
    def chunked(self):
        return "chunked" in (self.get("transfer-encoding") or "").lower()


async def read_head(reader):
    try:
        return Head(await reader.readuntil(b"\r\n\r\n"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


class Proxy:
    def __init__(self, upstream, latency_ms, mib_s):
        self.upstream = upstream
        self.latency_ms = latency_ms
        self.mib_s = mib_s
        self.rules = []
        self.open = 0
        self.held = 0
        self.released = asyncio.Event()
        self.forget()

    def forget(self):
        self.requests = collections.Counter()
        self.bytes_out = collections.Counter()
        self.bytes_in = collections.Counter()

    def stats(self):
        return {"requests": self.requests, "bytes_out": self.bytes_out, "bytes_in": self.bytes_in, "open": self.open, "held": self.held}

    def fault_for(self, op, target):
        for rule in self.rules:
            if rule.get("op", op) != op or rule.get("key", "") not in urllib.parse.unquote(target) or rule["times"] == 0:
                continue
            if rule["skip"] > 0:
                rule["skip"] -= 1
                continue
            rule["of"][target] += 1
            if rule["of"][target] <= rule.get("each", rule["of"][target]):
                rule["times"] -= 1
                return rule
        return None

    async def stand_still(self, milliseconds=FOREVER_MS):
        """For so long, or until released."""
        self.held += 1
        try:
            await asyncio.wait_for(self.released.wait(), milliseconds / 1000)
        except asyncio.TimeoutError:
            pass
        finally:
            self.held -= 1

    def release(self):
        self.released.set()
        self.released = asyncio.Event()

    # One client connection: requests one after another, over one connection to the server.

    async def serve(self, reader, writer):
        self.open += 1
        upstream = None
        try:
            while (head := await read_head(reader)) is not None:
                method, target, _ = head.first.split(" ", 2)
                if target.startswith("/_proxy/"):
                    await self.control(method, target, head, reader, writer)
                    continue
                if upstream is None:
                    upstream = await asyncio.open_connection(*self.upstream, limit=HEAD_MAX)
                if not await self.exchange(method, target, head, reader, writer, upstream):
                    break
        except (Gone, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            for end in (writer, upstream[1] if upstream else None):
                if end is not None:
                    end.close()

    async def exchange(self, method, target, head, reader, writer, upstream):
        """One request and its answer; False when the connection is over."""
        up_reader, up_writer = upstream
        op = operation(method, target)
        self.requests[op] += 1
        fault = self.fault_for(op, target)
        kind = fault["fault"] if fault else None
        if self.latency_ms:
            await asyncio.sleep(self.latency_ms / 1000)
        if kind == "refuse":
            return reset(writer)
        if kind == "error":
            return await self.answer_error(fault, method, head, reader, writer)

        up_writer.write(head.raw())
        sending = asyncio.create_task(self.pump(Body.of_request(head, reader), up_writer, self.bytes_in, op, fault if kind == "jam" else None))
        try:
            answer = await read_head(up_reader)
            while answer is not None and answer.first.split(" ")[1].startswith("1"):
                writer.write(answer.raw())
                answer = await read_head(up_reader)
            if answer is None:
                raise Gone
            if kind == "slow":
                await self.stand_still(fault.get("ms", 1000))
            body = Body.of_response(method, answer, up_reader)
            if kind in ("longer", "shorter") and body.length is not None:
                announced = body.length + (LIE_BYTES if kind == "longer" else -LIE_BYTES)
                answer.replace("Content-Length", max(announced, 0))
            writer.write(answer.raw())
            ok = answer.first.split(" ")[1].startswith("2")
            goes_on = await self.pump(body, writer, self.bytes_out if ok else None, op, None if kind == "jam" else fault)
            if not goes_on:
                return False
            await sending
        finally:
            sending.cancel()
        closing = "close" in (head.get("connection") or "").lower() + (answer.get("connection") or "").lower()
        return body.delimited and not closing

    async def pump(self, body, writer, counts, op, fault):
        """Sends a body on at the set rate; a fault happens where its rule says. False: nothing may follow."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        sent = 0
        kind = fault["fault"] if fault else None
        at = fault.get("after", 0) if fault else None
        async for framing, piece in body.pieces():
            if framing:
                writer.write(piece)
                continue
            if kind == "flip" and sent <= at < sent + len(piece):
                piece = bytearray(piece)
                piece[at - sent] ^= 1
            elif kind == "shorter":
                piece = piece[: max(body.length - LIE_BYTES - sent, 0)]
            elif kind in ("stall", "jam", "reset", "cut") and sent + len(piece) > at:
                writer.write(piece[: at - sent])
                await drained(writer)
                if counts is not None:
                    counts[op] += at - sent
                if kind in ("stall", "jam") or fault.get("hold"):
                    await self.stand_still(fault.get("ms", FOREVER_MS))
                if kind == "reset":
                    await was_read(writer)
                    return reset(writer)
                if kind == "cut":
                    return False
                piece, kind = piece[at - sent:], None
                sent = at
            writer.write(piece)
            await drained(writer)
            sent += len(piece)
            if counts is not None:
                counts[op] += len(piece)
            if self.mib_s:
                ahead = sent / (self.mib_s * 1024 * 1024) - (loop.time() - begun)
                if ahead > 0:
                    await asyncio.sleep(ahead)
        if kind == "longer":
            await self.stand_still(fault.get("ms", FOREVER_MS))
            return False
        return kind != "shorter"

    async def answer_error(self, fault, method, head, reader, writer):
        """The server never hears of it."""
        if head.get("expect") is None:
            async for _ in Body.of_request(head, reader).pieces():
                pass
        status = fault.get("status", 503)
        code = fault.get("code", "SlowDown")
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as the rule says</Message></Error>".encode()
        writer.write(f"HTTP/1.1 {status} As told\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
        if method != "HEAD":
            writer.write(body)
        await drained(writer)
        return False

    async def control(self, method, target, head, reader, writer):
        body = await reader.readexactly(int(head.get("content-length") or 0))
        status, answer = 200, {}
        try:
            if target == "/_proxy/stats":
                answer = self.stats()
                if method == "DELETE":
                    self.forget()
            elif target == "/_proxy/rules" and method == "POST":
                rule = json.loads(body)
                if rule["fault"] not in FAULTS:
                    raise ValueError(f"no such fault: {rule['fault']}")
                self.rules.append({"times": -1, "skip": 0, **rule, "of": collections.Counter()})
            elif target == "/_proxy/rules" and method == "DELETE":
                self.rules.clear()
            elif target == "/_proxy/release" and method == "POST":
                self.release()
            elif target == "/_proxy/settings" and method == "POST":
                settings = json.loads(body)
                self.latency_ms = settings.get("latency_ms", self.latency_ms)
                self.mib_s = settings.get("mib_s", self.mib_s)
            else:
                status, answer = 404, {"error": f"no such control: {method} {target}"}
        except (ValueError, KeyError) as error:
            status, answer = 400, {"error": str(error)}
        text = json.dumps(answer).encode()
        writer.write(f"HTTP/1.1 {status} Control\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        await drained(writer)


class Body:
    """What follows a head. `length` is None when it is chunked or ends with the connection."""

    def __init__(self, reader, length, chunked=False):
        self.reader, self.length, self.chunked = reader, length, chunked

    @classmethod
    def of_request(cls, head, reader):
        return cls(reader, None if head.chunked else int(head.get("content-length") or 0), head.chunked)

    @classmethod
    def of_response(cls, method, head, reader):
        status = head.first.split(" ")[1]
        if method == "HEAD" or status in ("204", "304"):
            return cls(reader, 0)
        if head.chunked:
            return cls(reader, None, True)
        length = head.get("content-length")
        return cls(reader, int(length) if length is not None else None)

    @property
    def delimited(self):
        return self.chunked or self.length is not None

    async def pieces(self):
        """(is framing, bytes) until the end; raises Gone when the other end goes first."""
        if self.chunked:
            async for piece in self._chunks():
                yield piece
            return
        left = self.length
        while left is None or left > 0:
            piece = await self.reader.read(PIECE if left is None else min(left, PIECE))
            if not piece:
                if left is None:
                    return
                raise Gone
            if left is not None:
                left -= len(piece)
            yield False, piece

    async def _chunks(self):
        while True:
            line = await self.reader.readuntil(b"\r\n")
            yield True, line
            size = int(line.split(b";")[0], 16)
            if size == 0:
                while (line := await self.reader.readuntil(b"\r\n")) != b"\r\n":
                    yield True, line
                yield True, line
                return
            left = size
            while left > 0:
                piece = await self.reader.read(min(left, PIECE))
                if not piece:
                    raise Gone
                left -= len(piece)
                yield False, piece
            yield True, await self.reader.readexactly(2)


async def drained(writer):
    try:
        await writer.drain()
    except ConnectionError as error:
        raise Gone from error


def queued(writer):
    """Bytes on their way to the other end of a connection on this machine, and those that lie there unread."""
    ours, theirs = (f"{socket.inet_aton(host)[::-1].hex().upper()}:{port:04X}" for host, port in (writer.get_extra_info("sockname"), writer.get_extra_info("peername")))
    left = writer.transport.get_write_buffer_size()
    with open("/proc/net/tcp") as table:
        for row in (line.split() for line in table):
            unsent, unread = (int(n, 16) for n in row[4].split(":")) if ":" in row[4] else (0, 0)
            left += unsent if row[1:3] == [ours, theirs] else unread if row[1:3] == [theirs, ours] else 0
    return left


async def was_read(writer):
    """A reset throws away what the other end has not read: how much that is would be chance."""
    end = asyncio.get_running_loop().time() + READ_SECONDS
    while queued(writer) > 0 and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.005)


def reset(writer):
    """Closes with RST: the other end reads ECONNRESET, whatever had been sent."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


async def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--listen", type=int, required=True, help="port on 127.0.0.1")
    parser.add_argument("--upstream", required=True, help="ADDR:PORT of the S3 server")
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--mib-s", type=float, default=0, help="of each stream; 0 is no limit")
    args = parser.parse_args()
    host, _, port = args.upstream.rpartition(":")
    proxy = Proxy((host, int(port)), args.latency_ms, args.mib_s)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", args.listen, limit=HEAD_MAX, backlog=1024)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    await stop.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
