"""A file system whose power can be cut: ext4 or xfs on a loop device on test/powercut/cutdisk. Root, and a mount
namespace of its own, so that nothing stays behind whatever happens."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import time

from .process import PATIENCE, ROOT, Process

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
}
WAYS = ("torn", "some", "torn", "lose")


class Unmountable(RuntimeError):
    """What came back after a cut is no file system any more: of a drive that lies, or a fault of the kernel."""


def why_not(binary, kinds=MAKE):
    """A sentence that says why power cannot be cut here; None when it can."""
    if os.geteuid() != 0:
        return "needs root"
    if not pathlib.Path(binary).exists():
        return f"{binary} was not built (libfuse3-dev)"
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not pathlib.Path(device).exists():
            return f"there is no {device}"
    for program in ["losetup", *(MAKE[kind][0] for kind in kinds)]:
        if not shutil.which(program):
            return f"there is no {program}"
    return None


def enter_namespace():
    """What is mounted from now on goes away with this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "a mount namespace: " + os.strerror(ctypes.get_errno()))


def run(*argv):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


class CutDisk:
    """Mounted at .path from the constructor to close(); cut() and back() in between."""

    def __init__(self, kind, folder, binary=None, size=512 << 20, options="noatime"):
        self.kind, self.folder, self.options = kind, pathlib.Path(folder), options
        self.image, self.fuse, self.path = self.folder / "image", self.folder / "fuse", self.folder / "disk"
        for each in (self.fuse, self.path):
            each.mkdir(parents=True)
        with open(self.image, "wb") as image:
            image.truncate(size)
        self.loop, self.mounted = None, False
        self.daemon = Process("cutdisk", [binary or ROOT / "build/test/cutdisk", self.image, self.fuse], self.folder)
        self.daemon.wait_until(lambda: (self.fuse / "disk").exists(), what="serve its file")
        self._attach()
        run(*MAKE[kind], self.loop)
        self._mount()

    def _attach(self):
        self.loop = run("losetup", "--find", "--show", self.fuse / "disk")

    def _detach(self):
        run("losetup", "--detach", self.loop)
        self.loop = None

    def _mount(self):
        run("mount", "-t", self.kind, "-o", self.options, self.loop, self.path)
        self.mounted = True

    def _umount(self):
        if not self.mounted:
            return
        for _ in range(20 * PATIENCE):  # whoever was killed may be on his way out
            done = subprocess.run(["umount", self.path], capture_output=True, text=True)
            if done.returncode == 0:
                self.mounted = False
                return
            time.sleep(0.05)
        raise RuntimeError(f"umount {self.path}: {done.stderr}")

    def control(self, line):
        with open(self.fuse / "control", "w") as control:
            control.write(line + "\n")

    def cut(self, seed, way):
        """Off, now. Nobody should be running on it: stop him first, or his answers after it are blamed on the cut."""
        self.control(f"cut {seed} {way}")

    def cut_at_flush(self, seed, way, number):
        """Off when the nth flush from now comes, which fails: all that its writes were waiting for is at risk."""
        self.control(f"cut {seed} {way} {number}")

    def is_off(self):
        return (self.fuse / "control").read_text().startswith("off")

    def back(self):
        """On, mounted, its journal replayed; nobody may have files open. Says what the cut took."""
        self._umount()
        self._detach()
        self.control("on")
        self._attach()
        try:
            self._mount()
        except RuntimeError as error:
            raise Unmountable(str(error)) from error
        return (self.fuse / "control").read_text().removeprefix("on").strip()

    def close(self):
        """In whatever state it is; whoever had files open should be gone."""
        try:
            self._umount()
        except RuntimeError:
            subprocess.run(["umount", "-l", self.path], capture_output=True)
        if self.loop is not None:
            subprocess.run(["losetup", "--detach", self.loop], capture_output=True)
        self.daemon.kill()
        subprocess.run(["umount", "-l", self.fuse], capture_output=True)
