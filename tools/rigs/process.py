"""A child process with a log, which goes away when its parent does."""

import ctypes
import fcntl
import os
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
PATIENCE = 120  # seconds that a test waits for what must come, on the slowest machine; what hangs is found as well
_libc = ctypes.CDLL(None)


def _ports():
    """Numbers that the kernel gives to no client: where a server is about to listen, no connection has its end."""
    least = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = range(10_000, least if least > 20_000 else 60_000)
    first = random.SystemRandom().randrange(len(ports))
    while True:
        for n in range(len(ports)):
            yield ports[(first + n) % len(ports)]


_candidates = _ports()
_claims = open(pathlib.Path(tempfile.gettempdir()) / f"forebay-test-ports-{os.getuid()}", "a+b")  # noqa: SIM115


def _is_ours(port):
    """Each number is a byte of a file: its lock ends with this process, and other test processes see it."""
    try:
        fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        with socket.socket() as s:
            s.bind(("127.0.0.1", port))
        return True
    except OSError:
        return False


def free_ports(count):
    """Ports that nobody has, and that no other test process is given while this one lives."""
    found = []
    while len(found) < count:
        port = next(_candidates)
        if _is_ours(port):
            found.append(port)
    return found


def http_get(url, timeout=PATIENCE, cafile=None):
    """(status, body) of a GET that is not signed; status 0 when nobody answered. `cafile`: whom to trust over TLS."""
    context = ssl.create_default_context(cafile=str(cafile)) if cafile else None
    try:
        with urllib.request.urlopen(url, timeout=timeout, context=context) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except (OSError, urllib.error.URLError):
        return 0, b""


def _die_with(parent):
    def in_child():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return in_child


class Patience:
    """What is left of some seconds of waiting. A look that comes late counts as one second: then the machine stood still, or was
    somebody else's, and so it was for whoever is waited for."""

    LATE = 1.0

    def __init__(self, seconds=PATIENCE):
        self.left, self.looked = seconds, time.monotonic()

    def is_over(self):
        now = time.monotonic()
        self.left -= min(now - self.looked, self.LATE)
        self.looked = now
        return self.left < 0


class Ended(RuntimeError):
    """A child is gone though it was waited for; `status` as of Popen: below zero a signal killed it."""

    def __init__(self, text, status):
        super().__init__(text)
        self.status = status


class Process:
    """Started by the constructor, ended by stop() or kill(); a context manager."""

    def __init__(self, name, argv, log_dir, env=None, cwd=None):
        log_dir = pathlib.Path(log_dir)
        log_dir.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log_path = log_dir / f"{name}.log"
        with open(self.log_path, "ab") as log:
            self.popen = subprocess.Popen(
                [str(a) for a in argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                start_new_session=True,  # Ctrl-C reaches us, and we end our children in order
                preexec_fn=_die_with(os.getpid()),
            )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_until(self, ready, timeout=PATIENCE, what="answer"):
        """Waits until ready() is true; a child that ends meanwhile, or the time-out, is an error with its log."""
        patience = Patience(timeout)
        while not ready():
            if self.popen.poll() is not None:
                raise Ended(f"{self.name} ended with {self.popen.returncode}; its log:\n{self.log()[-8000:]}", self.popen.returncode)
            if patience.is_over():
                raise RuntimeError(f"{self.name} does not {what} after {timeout:g} s; its log:\n{self.log()[-8000:]}")
            time.sleep(0.05)

    def stop(self, timeout=30.0):
        """SIGTERM, and SIGKILL for what does not go; returns the exit status."""
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.popen.returncode

    def kill(self):
        """kill -9."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        return self.popen.returncode

    def kill_alive(self):
        """kill -9 of what should be there to be killed: Ended when it went by itself."""
        if self.kill() != -signal.SIGKILL:
            raise Ended(f"{self.name} ended by itself with {self.popen.returncode}; its log:\n{self.log()[-8000:]}", self.popen.returncode)
