"""A command at a terminal, as a person sees it."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios

from rigs.process import PATIENCE, Patience


class Terminal:
    """Runs argv on a pseudo-terminal. .seen is all that was shown; type() types; expect() waits for words."""

    def __init__(self, argv, env, columns=80):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.execve(argv[0], [str(a) for a in argv], {"TERM": "xterm", **env})

    def _read(self, timeout):
        ready, _, _ = select.select([self.fd], [], [], timeout)
        if not ready:
            return True
        try:
            piece = os.read(self.fd, 65536)
        except OSError:
            piece = b""
        self.seen += piece
        return piece != b""

    def expect(self, *words, timeout=PATIENCE):
        """Until one of the words is on the screen."""
        patience = Patience(timeout)
        while not any(w in self.seen for w in words):
            assert not patience.is_over(), f"none of {words} in {self.seen[-3000:]!r}"
            assert self._read(0.2) or any(w in self.seen for w in words), f"ended without any of {words}: {self.seen[-3000:]!r}"
        return self

    def type(self, text):
        os.write(self.fd, text)

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def end(self, timeout=PATIENCE):
        """The exit code, once it ended by itself."""
        patience = Patience(timeout)
        while self._read(0.2):
            assert not patience.is_over(), f"does not end: {self.seen[-3000:]!r}"
        os.close(self.fd)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)
