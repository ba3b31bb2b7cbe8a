"""What can go wrong. Each exception has a sentence and says where it comes from.

Every class is an Error and the built-in exception that fits, so `except FileNotFoundError` and `except ConnectionError` work.
"""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """Attributes: `status`, of HTTP, 0 where there was no answer; `item`, the place of the failed one in a batch, or None."""

    status: int = 0
    item: Optional[int] = None


class Invalid(Error, ValueError):
    """An argument, a setting or a name. Repeating does not help."""


class Denied(Error, PermissionError):
    """Keys or rights."""


class NotFound(Error, FileNotFoundError):
    """A bucket, an object, or a member of a shard."""


class OutOfRange(Error, ValueError):
    """A range that begins behind the end."""


class Changed(Error, OSError):
    """The object was replaced while it was read."""


class TooLarge(Error, ValueError):
    """Beyond a limit, which the sentence names."""


class Damaged(Error, OSError):
    """The server has no undamaged copy, or ends its answer at this item again and again."""


class Unreachable(Error, ConnectionError):
    """No connection, or no answer in time, after all attempts."""


class Busy(Error, OSError):
    """The server refuses for load or lack of space, after all attempts."""


class ServerError(Error, OSError):
    """Any other answer."""


INTERRUPTED = 11
BY_CODE = {
    1: Invalid, 2: Denied, 3: NotFound, 4: OutOfRange, 5: Changed, 6: TooLarge, 7: Damaged, 8: Unreachable, 9: Busy, 10: ServerError,
}  # fmt: skip


def error_of(code: int, text: str, status: int = 0, item: Optional[int] = None) -> Error:
    error = BY_CODE.get(code, ServerError)(text)
    error.status, error.item = status, item
    return error
