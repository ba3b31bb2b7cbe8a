"""forebay:// for fsspec, and so for pandas, pyarrow, zarr, dask, datasets and whatever else opens URLs through it.

    pandas.read_csv("forebay://bucket/x.csv", storage_options={"endpoint": "http://10.0.0.1:9000"})

storage_options are the arguments of forebay.Client. cat_ranges(), which parquet readers and zarr use for many pieces at once, is one
batch request; so is cat() of many files. Needs fsspec; `import forebay` does not.
"""

from __future__ import annotations

import asyncio
import datetime
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

from fsspec.asyn import AsyncFileSystem, sync
from fsspec.spec import AbstractBufferedFile

from .client import Client, Item, ObjectInfo
from .errors import Error, Invalid, NotFound, OutOfRange


class ForebayFileSystem(AsyncFileSystem):
    """Paths are "bucket/key". Folders are prefixes: they exist while an object is below them, and need not be made."""

    protocol = ("forebay",)
    async_impl = True

    def __init__(self, *, asynchronous: bool = False, loop: Any = None, client: Optional[Client] = None, **options: Any) -> None:
        known = {name: options.pop(name) for name in list(options) if name in _OPTIONS}
        super().__init__(asynchronous=asynchronous, loop=loop, **options)
        self.client = client if client is not None else Client(**known)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        path = os.fspath(path)
        for scheme in ("forebay://", "forebay::"):
            if path.startswith(scheme):
                path = path[len(scheme) :]
        return path.strip("/") if not path.endswith("/") else path.lstrip("/").rstrip("/")

    @staticmethod
    def _split(path: str) -> Tuple[str, str]:
        bucket, _, key = ForebayFileSystem._strip_protocol(path).partition("/")
        if not bucket:
            raise Invalid(f'"{path}": expected forebay://BUCKET/KEY')
        return bucket, key

    async def _run(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """A call of libforebay in a thread: it blocks, and holds no lock of the interpreter."""
        return await asyncio.get_running_loop().run_in_executor(None, lambda: call(*arguments, **named))

    # ---- what there is ----

    @staticmethod
    def _row(bucket: str, info: ObjectInfo) -> Dict[str, Any]:
        if info.is_prefix:
            return {"name": f"{bucket}/{info.key.rstrip('/')}", "size": 0, "type": "directory"}
        return {"name": f"{bucket}/{info.key}", "size": info.size, "type": "file", "ETag": info.etag, "mtime": info.mtime}

    async def _info(self, path: str, **_: Any) -> Dict[str, Any]:
        bucket, key = self._split(path)
        if key:
            try:
                return self._row(bucket, await self._run(self.client.head, bucket, key))
            except NotFound:
                pass
        below = await self._run(self.client.list, bucket, f"{key}/" if key else "", limit=1)
        if not below and key:
            raise NotFound(f"forebay://{bucket}/{key} does not exist")
        return {"name": f"{bucket}/{key}".rstrip("/"), "size": 0, "type": "directory"}

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> List[Any]:
        bucket, key = self._split(path)
        rows = [self._row(bucket, info) for info in await self._run(self.client.list, bucket, f"{key}/" if key else "", delimiter="/")]
        rows = [row for row in rows if row["name"] != f"{bucket}/{key}/"]  # a marker of the folder itself
        if not rows and key:
            info = await self._info(path)
            rows = [info] if info["type"] == "file" else []
        return rows if detail else sorted(row["name"] for row in rows)

    async def _find(self, path: str, maxdepth: Optional[int] = None, withdirs: bool = False, **options: Any) -> Any:
        if maxdepth is not None or withdirs:
            return await super()._find(path, maxdepth=maxdepth, withdirs=withdirs, **options)
        bucket, key = self._split(path)
        found = {row["name"]: row for row in (self._row(bucket, i) for i in await self._run(self.client.list, bucket, f"{key}/" if key else ""))}
        if not found and key:
            try:
                info = await self._info(path)
            except NotFound:
                info = {"type": "nothing"}
            found = {info["name"]: info} if info["type"] == "file" else {}
        return found if options.get("detail") else sorted(found)

    # ---- reading ----

    async def _bounds(self, path: str, start: Optional[int], end: Optional[int]) -> Tuple[int, Optional[int]]:
        """(start, length): as slices count, from the end where negative."""
        if (start or 0) < 0 or (end is not None and end < 0):
            size = (await self._info(path))["size"]
            start = max(0, size + start) if start is not None and start < 0 else start
            end = size + end if end is not None and end < 0 else end
        return start or 0, None if end is None else max(0, end - (start or 0))

    async def _cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any) -> bytes:
        bucket, key = self._split(path)
        first, length = await self._bounds(path, start, end)
        try:
            return await self._run(self.client.get, bucket, key, first, length)
        except OutOfRange:
            return b""

    async def _cat_ranges(self, paths: List[str], starts: Any, ends: Any, max_gap: Optional[int] = None, batch_size: Optional[int] = None, on_error: str = "return", **_: Any) -> List[Any]:
        """All of them in one request, in their order. `max_gap` and `batch_size` are for file systems that ask one by one."""
        starts = [starts] * len(paths) if starts is None or isinstance(starts, int) else starts
        ends = [ends] * len(paths) if ends is None or isinstance(ends, int) else ends
        if not len(paths) == len(starts) == len(ends):
            raise Invalid(f"{len(paths)} paths, {len(starts)} starts and {len(ends)} ends: as many of each")
        out: List[Any] = [b""] * len(paths)
        items, places, bucket = [], [], ""
        for place, (path, start, end) in enumerate(zip(paths, starts, ends)):
            item_bucket, key = self._split(path)
            first, length = await self._bounds(path, start, end)
            bucket = bucket or item_bucket
            if length != 0:
                items.append(Item(key, start=first, length=length, bucket=item_bucket if item_bucket != bucket else None))
                places.append(place)
        try:
            parts = await self._run(self.client.batch, bucket, items, missing="none")
        except Error:  # an item is bad, or a range passes the end, which a batch refuses: one by one
            parts = await self._each(bucket, items, on_error)
        for place, item, part in zip(places, items, parts):
            if part is None:
                part = NotFound(f"forebay://{item.bucket or bucket}/{item.key} does not exist")
            if isinstance(part, Exception) and on_error != "return":
                raise part
            out[place] = part if isinstance(part, Exception) else bytes(part)
        return out

    async def _each(self, bucket: str, items: List[Item], on_error: str) -> List[Any]:
        async def one(item: Item) -> Any:
            try:
                return await self._run(self.client.get, item.bucket or bucket, item.key, item.start, item.length)
            except OutOfRange:
                return b""
            except Error as error:
                return error

        return await asyncio.gather(*(one(item) for item in items))

    async def _cat(self, path: Any, recursive: bool = False, on_error: str = "raise", batch_size: Optional[int] = None, **options: Any) -> Any:
        paths = await self._expand_path(path, recursive=recursive)
        if len(paths) < 2 and not isinstance(path, list) and "*" not in path:
            return await self._cat_file(paths[0], **options)
        parts = await self._cat_ranges(paths, None, None, on_error="return")
        out = {}
        for name, part in zip(paths, parts):
            if isinstance(part, Exception) and on_error == "raise":
                raise part
            if not isinstance(part, Exception) or on_error == "return":
                out[name] = part
        return out

    async def _get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        if (await self._info(rpath))["type"] == "directory":
            os.makedirs(lpath, exist_ok=True)
            return
        data = await self._cat_file(rpath)
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        with open(lpath, "wb") as file:
            file.write(data)

    # ---- writing ----

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        bucket, key = self._split(path)
        if mode == "create" and await self._run(self.client.exists, bucket, key):
            raise FileExistsError(f"forebay://{bucket}/{key} exists")
        await self._run(self.client.put, bucket, key, value)

    async def _put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **_: Any) -> None:
        if os.path.isdir(lpath):
            return
        with open(lpath, "rb") as file:
            await self._pipe_file(rpath, file.read(), mode=mode)

    async def _rm_file(self, path: str, **_: Any) -> None:
        bucket, key = self._split(path)
        await self._run(self.client.remove, bucket, key)

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        await self._pipe_file(path2, await self._cat_file(path1))

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Nothing to do: a folder is there as soon as an object is below it. Buckets are made by `forebay mb`."""

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        """As _mkdir()."""

    async def _rmdir(self, path: str) -> None:
        """As _mkdir(): a folder goes with its last object."""

    def created(self, path: str) -> datetime.datetime:
        return self.modified(path)

    def modified(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def _open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, autocommit: bool = True, cache_options: Any = None, **options: Any) -> "ForebayFile":
        return ForebayFile(self, path, mode, block_size or 4 << 20, autocommit=autocommit, cache_options=cache_options, **options)


class ForebayFile(AbstractBufferedFile):
    """Read in blocks with readahead; written as one object when it is closed."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return sync(self.fs.loop, self.fs._cat_file, self.path, start, end)

    def _initiate_upload(self) -> None:
        self._parts: List[bytes] = []

    def _upload_chunk(self, final: bool = False) -> bool:
        self._parts.append(self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        sync(self.fs.loop, self.fs._pipe_file, self.path, b"".join(self._parts))

    def discard(self) -> None:
        self._parts = []


_OPTIONS = {
    "endpoint", "profile", "region", "ca_bundle", "access_key", "secret_key", "session_token", "unsigned", "verify_tls", "connections",
    "attempts", "connect_timeout", "idle_timeout",
}  # fmt: skip
