"""A client: objects, ranges, batches, listings."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_char, c_char_p, c_size_t, c_uint64, c_void_p
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _native
from .errors import INTERRUPTED, Invalid, NotFound, error_of

BATCH_MAX = 1_000_000  # items of a batch, of which a request carries 32,768
Buffer = Union[bytes, bytearray, memoryview]


class Item(NamedTuple):
    """One thing to read: an object, a member of a shard (tar, tgz, tar.lz4, zip), or a range of either.

    `start` and `length` count bytes; `length` None: up to the end. A range that passes the end is an error in a batch.
    `bucket` None: the bucket of the call.
    """

    key: str
    member: Optional[str] = None
    start: int = 0
    length: Optional[int] = None
    bucket: Optional[str] = None


class ObjectInfo(NamedTuple):
    """`size` in bytes; `mtime` in seconds since 1970, 0.0 where the server does not say; `is_prefix`: rolled up, not an object."""

    key: str
    size: int
    mtime: float
    etag: str
    content_type: str = ""
    is_prefix: bool = False


def split_url(url: str) -> Tuple[str, str]:
    """("bucket", "key or prefix") of "forebay://bucket/key" or "s3://bucket/key"."""
    for scheme in ("forebay://", "s3://"):
        if url.startswith(scheme):
            bucket, _, key = url[len(scheme) :].partition("/")
            if bucket:
                return bucket, key
    raise Invalid(f'"{url}": expected forebay://BUCKET/KEY or s3://BUCKET/KEY')


def _text(value: Optional[str], what: str) -> Optional[bytes]:
    if value is None:
        return None
    try:
        encoded = value.encode()
    except (AttributeError, UnicodeEncodeError):
        raise Invalid(f"{what} {value!r}: expected a text") from None
    if b"\0" in encoded:
        raise Invalid(f"{what} {value!r} has a zero byte in it")
    return encoded


class Client:
    """A server with one set of keys.

    Without arguments it uses what the command line would: FOREBAY_ENDPOINT and the AWS variables, a profile of
    ~/.config/forebay/config.toml, the files of AWS's tools, and http://127.0.0.1:9000.

    Threads may share a client; each call in progress has a connection of its own, `connections` at most. It may be pickled
    (connections are not part of it; keys that were given as arguments are) and used in forked workers.
    """

    def __init__(
        self,
        endpoint: Optional[str] = None,
        *,
        profile: Optional[str] = None,
        region: Optional[str] = None,
        ca_bundle: Optional[str] = None,
        access_key: Optional[str] = None,
        secret_key: Optional[str] = None,
        session_token: Optional[str] = None,
        unsigned: bool = False,
        verify_tls: bool = True,
        connections: int = 16,
        attempts: int = 6,
        connect_timeout: float = 5.0,
        idle_timeout: float = 60.0,
    ) -> None:
        """`attempts` of a request that fails in passing; timeouts in seconds: to connect, and without a byte."""
        if connections < 1 or attempts < 1 or connect_timeout <= 0 or idle_timeout <= 0:
            raise Invalid(f"connections {connections}, attempts {attempts}, connect_timeout {connect_timeout}, idle_timeout {idle_timeout}: at least 1, 1 and above 0 seconds")
        self._options: dict[str, Any] = dict(
            endpoint=endpoint, profile=profile, region=region, ca_bundle=ca_bundle, access_key=access_key, secret_key=secret_key,
            session_token=session_token, unsigned=unsigned, verify_tls=verify_tls, connections=connections, attempts=attempts,
            connect_timeout=connect_timeout, idle_timeout=idle_timeout,
        )  # fmt: skip
        self._open()

    def _open(self) -> None:
        o = self._options
        texts = {name: _text(o[name], name) for name in ("endpoint", "profile", "region", "ca_bundle", "access_key", "secret_key", "session_token")}
        options = _native.Options(
            size=ctypes.sizeof(_native.Options), unsigned_requests=o["unsigned"], no_verify_tls=not o["verify_tls"], connections=o["connections"],
            attempts=o["attempts"], connect_ms=max(1, int(o["connect_timeout"] * 1000)), idle_ms=max(1, int(o["idle_timeout"] * 1000)),
            interruptible=1, **texts,
        )  # fmt: skip
        handle = c_void_p()
        self._call(_native.lib.forebay_open, byref(options), byref(handle))
        self._handle = handle.value
        self._closer = weakref.finalize(self, _native.close_handle, handle.value)

    @staticmethod
    def _call(function: Any, *arguments: Any) -> None:
        while True:
            error = _native.Error()
            code = function(*arguments, byref(error))
            if code == 0:
                return
            if code == INTERRUPTED:  # a handler of this interpreter runs now, and may raise
                continue
            raise error_of(code, error.text.decode(errors="replace"), error.status, None if error.item == _native.NO_ITEM else error.item)

    def close(self) -> None:
        """Ends its connections. No call may be in progress in another thread."""
        self._closer()
        self._handle = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self._options

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._options = state
        self._open()

    def __repr__(self) -> str:
        return f"forebay.Client({self.endpoint!r})" if self._handle else "forebay.Client(closed)"

    @property
    def endpoint(self) -> str:
        """The server's URL."""
        return _native.lib.forebay_endpoint(self._live()).decode()

    def _live(self) -> int:
        if self._handle is None:
            raise Invalid("this client is closed")
        return self._handle

    # ---- objects ----

    def get(self, bucket: str, key: str, start: int = 0, length: Optional[int] = None) -> bytes:
        """`length` bytes from `start` on, fewer where the object ends; all of it by default."""
        if start < 0 or (length is not None and length < 0):
            raise Invalid(f"{key!r}: {length} bytes from {start} on: a range counts from 0")
        if length == 0:
            return b""
        data, size = c_void_p(), c_size_t()
        self._call(_native.lib.forebay_get, self._live(), _text(bucket, "bucket"), _text(key, "key"), start, _native.TO_END if length is None else length, byref(data), byref(size))
        try:
            return ctypes.string_at(data.value, size.value) if size.value else b""
        finally:
            _native.lib.forebay_free(data)

    def get_into(self, bucket: str, key: str, buffer: Any, start: int = 0) -> int:
        """Receives bytes from `start` on into a writable contiguous buffer (bytearray, numpy array, mmap, pinned memory) without a
        copy; returns how many, fewer than the buffer has where the object ends."""
        view = memoryview(buffer).cast("B")
        if view.readonly:
            raise Invalid("the buffer is read-only")
        if view.nbytes == 0:
            return 0
        got = c_size_t()
        place = (c_char * view.nbytes).from_buffer(view)
        self._call(_native.lib.forebay_get_into, self._live(), _text(bucket, "bucket"), _text(key, "key"), start, ctypes.addressof(place), view.nbytes, byref(got))
        return got.value

    def put(self, bucket: str, key: str, data: Buffer) -> None:
        """Writes an object; it is durable when this returns. At most 5 GiB."""
        view = memoryview(data).cast("B")
        keep = view if not view.readonly else bytes(data)
        place = (c_char * view.nbytes).from_buffer(view) if not view.readonly and view.nbytes else None
        address = ctypes.addressof(place) if place is not None else ctypes.cast(c_char_p(bytes(keep)), c_void_p)
        self._call(_native.lib.forebay_put, self._live(), _text(bucket, "bucket"), _text(key, "key"), address, view.nbytes)

    def head(self, bucket: str, key: str) -> ObjectInfo:
        """Size, time, ETag and type."""
        info = _native.Info()
        self._call(_native.lib.forebay_head, self._live(), _text(bucket, "bucket"), _text(key, "key"), byref(info))
        return ObjectInfo(key, info.size, info.mtime_ms / 1000, info.etag.decode(), info.content_type.decode(errors="replace"))

    def exists(self, bucket: str, key: str) -> bool:
        try:
            self.head(bucket, key)
        except NotFound:
            return False
        return True

    def remove(self, bucket: str, key: str) -> None:
        """Deletes an object; one that does not exist is no error."""
        self._call(_native.lib.forebay_remove, self._live(), _text(bucket, "bucket"), _text(key, "key"))

    # ---- batches ----

    def batch(self, bucket: str, items: Sequence[Union[str, Item, Tuple[Any, ...]]], *, missing: str = "error", limit: Optional[int] = None) -> List[Optional[memoryview]]:
        """Many objects, members and ranges in one request, in the order of `items` (keys, or Item's fields), 1,000,000 at most.

        Returns a list of len(items) memoryviews (format "B", writable) into one piece of memory, which lives as long as one of
        them. What is missing raises NotFound with `.item`; with missing="none" its place has None. `limit`: bytes of all together.
        """
        if missing not in ("error", "none"):
            raise Invalid(f'missing {missing!r}: expected "error" or "none"')
        count = len(items)
        if count == 0:
            return []
        if count > BATCH_MAX:
            raise Invalid(f"a batch of {count:,} items: at most {BATCH_MAX:,}; split it into several")
        wanted, kept = _wanted(items, missing == "error", limit)
        batch, size, parts_count = c_void_p(), c_size_t(), c_size_t()
        self._call(_native.lib.forebay_get_batch, self._live(), _text(bucket, "bucket"), byref(wanted), byref(batch))
        del kept
        address = _native.lib.forebay_batch_bytes(batch, byref(size))
        parts = (c_uint64 * (3 * count)).from_address(_native.lib.forebay_batch_parts(batch, byref(parts_count)))
        numbers = memoryview(parts).cast("B").cast("Q").tolist()
        memory = (c_char * size.value).from_address(address)
        weakref.finalize(memory, _native.free_batch, batch.value).atexit = False
        view = memoryview(memory).cast("B")
        return [view[at : at + length] if found else None for at, length, found in zip(numbers[0::3], numbers[1::3], numbers[2::3])]

    # ---- listings ----

    def list(self, bucket: str, prefix: str = "", *, delimiter: str = "", after: str = "", limit: int = 0) -> List[ObjectInfo]:
        """The objects whose keys begin with `prefix` and come after `after`, in byte order of keys; at most `limit` (0: all). With a
        delimiter, keys up to its next occurrence are rolled up into rows with `is_prefix`."""
        keys, sizes, times, prefixes, etags = self._columns(bucket, prefix, delimiter, after, limit)
        return [
            ObjectInfo(key.decode(errors="surrogateescape"), size, time / 1000, etag.decode(), is_prefix=bool(rolled))
            for key, size, time, rolled, etag in zip(keys, sizes, times, prefixes, etags)
        ]

    def list_keys(self, bucket: str, prefix: str = "", *, after: str = "", limit: int = 0) -> List[str]:
        """The keys alone: a million of them take about a second."""
        return [key.decode() for key in self._columns(bucket, prefix, "", after, limit)[0]]

    def _columns(self, bucket: str, prefix: str, delimiter: str, after: str, limit: int) -> Tuple[Any, ...]:
        listing = ctypes.POINTER(_native.Listing)()
        arguments = (_text(bucket, "bucket"), _text(prefix, "prefix"), _text(delimiter, "delimiter"), _text(after, "after"), limit)
        self._call(_native.lib.forebay_list, self._live(), *arguments, byref(listing))
        try:
            l = listing.contents
            keys = ctypes.string_at(l.keys, l.keys_len).split(b"\0")[:-1]
            etags = ctypes.string_at(l.etags, l.etags_len).split(b"\0")[:-1]

            def column(address: int, kind: Any) -> List[int]:
                return list((kind * l.count).from_address(address)) if l.count else []

            return keys, column(l.sizes, c_uint64), column(l.mtimes_ms, ctypes.c_int64), column(l.is_prefix, ctypes.c_ubyte), etags
        finally:
            _native.lib.forebay_listing_free(byref(listing))


def _wanted(items: Sequence[Any], fail: bool, limit: Optional[int]) -> Tuple[_native.Wanted, list]:
    """The struct of a batch, and what must live as long as it does."""
    count = len(items)
    wanted = _native.Wanted(count=count, fail_on_missing=fail, limit=limit or 0)
    texts, kept = c_char_p * count, []

    def point(values: Iterable[Any], kind: Any) -> int:
        array = kind(*values)
        kept.append(array)
        return ctypes.addressof(array)

    try:
        if all(type(i) is str for i in items):
            wanted.objects = point([i.encode() for i in items], texts)
            return wanted, kept
        full = [Item(i) if isinstance(i, str) else Item(*i) for i in items]
        wanted.objects = point([i.key.encode() for i in full], texts)
        if any(i.member is not None for i in full):
            wanted.members = point([i.member.encode() if i.member is not None else None for i in full], texts)
        if any(i.bucket is not None for i in full):
            wanted.buckets = point([i.bucket.encode() if i.bucket is not None else None for i in full], texts)
        if any(i.start or i.length is not None for i in full):
            bad = next((n for n, i in enumerate(full) if i.start < 0 or (i.length is not None and i.length < 1)), None)
            if bad is not None:
                raise Invalid(f"item {bad}, {full[bad].key!r}: {full[bad].length} bytes from {full[bad].start} on: a range counts from 0 and has at least 1 byte")
            wanted.first = point([i.start for i in full], c_uint64 * count)
            wanted.len = point([_native.TO_END if i.length is None else i.length for i in full], c_uint64 * count)
    except (AttributeError, TypeError, UnicodeEncodeError) as error:
        raise Invalid(f"a batch is of keys (str) or Items: {error}") from None
    return wanted, kept
