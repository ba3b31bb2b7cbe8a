"""libforebay through ctypes: the structs and functions of forebay.h, nothing else.

ctypes releases the interpreter's lock around each call. The library is the one beside this file (in the wheel), else the one that
FOREBAY_LIBRARY names, else the system's.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p

TO_END = NO_ITEM = 2**64 - 1


class Error(Structure):
    _fields_ = [("code", c_int), ("status", c_int), ("item", c_uint64), ("text", c_char * 512)]


class Options(Structure):
    _fields_ = [
        ("size", c_size_t), ("endpoint", c_char_p), ("profile", c_char_p), ("region", c_char_p), ("ca_bundle", c_char_p),
        ("access_key", c_char_p), ("secret_key", c_char_p), ("session_token", c_char_p), ("unsigned_requests", c_int),
        ("no_verify_tls", c_int), ("connections", c_uint), ("attempts", c_uint), ("connect_ms", c_uint), ("idle_ms", c_uint),
        ("interruptible", c_int),
    ]  # fmt: skip


class Info(Structure):
    _fields_ = [("size", c_uint64), ("mtime_ms", c_int64), ("etag", c_char * 128), ("content_type", c_char * 128)]


class Wanted(Structure):
    _fields_ = [
        ("count", c_size_t), ("objects", c_void_p), ("members", c_void_p), ("buckets", c_void_p), ("first", c_void_p), ("len", c_void_p),
        ("fail_on_missing", c_int), ("limit", c_uint64),
    ]  # fmt: skip


class Listing(Structure):
    _fields_ = [
        ("count", c_size_t), ("keys", c_void_p), ("etags", c_void_p), ("keys_len", c_size_t), ("etags_len", c_size_t),
        ("sizes", c_void_p), ("mtimes_ms", c_void_p), ("is_prefix", c_void_p), ("truncated", c_int),
    ]  # fmt: skip


_FUNCTIONS = {
    "forebay_open": (c_int, [POINTER(Options), POINTER(c_void_p), POINTER(Error)]),
    "forebay_close": (None, [POINTER(c_void_p)]),
    "forebay_endpoint": (c_char_p, [c_void_p]),
    "forebay_version": (c_char_p, []),
    "forebay_get": (c_int, [c_void_p, c_char_p, c_char_p, c_uint64, c_uint64, POINTER(c_void_p), POINTER(c_size_t), POINTER(Error)]),
    "forebay_get_into": (c_int, [c_void_p, c_char_p, c_char_p, c_uint64, c_void_p, c_size_t, POINTER(c_size_t), POINTER(Error)]),
    "forebay_free": (None, [c_void_p]),
    "forebay_head": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(Info), POINTER(Error)]),
    "forebay_put": (c_int, [c_void_p, c_char_p, c_char_p, c_void_p, c_size_t, POINTER(Error)]),
    "forebay_remove": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(Error)]),
    "forebay_get_batch": (c_int, [c_void_p, c_char_p, POINTER(Wanted), POINTER(c_void_p), POINTER(Error)]),
    "forebay_batch_bytes": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "forebay_batch_parts": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "forebay_batch_free": (None, [POINTER(c_void_p)]),
    "forebay_list": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_char_p, c_size_t, POINTER(POINTER(Listing)), POINTER(Error)]),
    "forebay_listing_free": (None, [POINTER(POINTER(Listing))]),
}


def _load() -> ctypes.CDLL:
    beside = pathlib.Path(__file__).with_name("libforebay.so")
    name = str(beside) if beside.exists() else os.environ.get("FOREBAY_LIBRARY", "libforebay.so.0")
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"libforebay could not be loaded from {name}: {error}; `make wheel` builds a package that has it, FOREBAY_LIBRARY names another") from None
    for function, (result, arguments) in _FUNCTIONS.items():
        bound = getattr(library, function)
        bound.restype, bound.argtypes = result, arguments
    return library


lib = _load()


def free_batch(address: int) -> None:
    lib.forebay_batch_free(byref(c_void_p(address)))


def close_handle(address: int) -> None:
    lib.forebay_close(byref(c_void_p(address)))
