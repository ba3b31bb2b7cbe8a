"""A server's disks made bad on purpose, from outside: the settings page of src/rt/test_hooks.h, mapped (test builds)."""

import errno
import mmap
import pathlib
import struct

READ, WRITE, SYNC, SPACE, NAME = range(5)
ALWAYS = 2**64 - 1
FIELDS = ("disk", "kinds", "error", "skip", "count", "delay_us", "seen")


class DiskFaults:
    """Give `.env` to the server; then break_() and mend() act at once."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.write_bytes(bytes(4096))
        self.env = {"FOREBAY_TEST_IO": str(self.path)}
        with open(self.path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 4096)

    def _set(self, **values):
        for name, value in values.items():
            struct.pack_into("=Q", self.page, 8 * FIELDS.index(name), value)

    def seen(self):
        return struct.unpack_from("=Q", self.page, 8 * FIELDS.index("seen"))[0]

    def break_(self, *kinds, error=errno.EIO, disk=0, skip=0, count=ALWAYS, delay_us=0):
        """Operations of these kinds fail with `error`, or (0) take `delay_us` longer. `disk`: the nth opened, 0 all."""
        self._set(kinds=0, disk=disk, error=error, skip=skip, count=count, delay_us=delay_us, seen=0)
        self._set(kinds=sum(1 << kind for kind in kinds))

    def mend(self):
        self._set(kinds=0)
