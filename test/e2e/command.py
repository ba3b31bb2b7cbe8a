"""`forebay` as a command: run, its output read, its exit status expected."""

import subprocess

from rigs import forebay
from rigs.process import PATIENCE
from terminal import Terminal


class Cli:
    """cli(*args, status=0) runs `forebay` and returns its standard output as text; .stderr has the rest. `status` may be a tuple: one of these."""

    def __init__(self, server, tmp_path, endpoint=None, env=None):
        self.binary = server.binary
        self.env = forebay.server_env({"FOREBAY_ENDPOINT": endpoint or server.endpoint, "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path), **(env or {})})
        self.cwd = tmp_path
        self.notes = tmp_path / "state/forebay"

    def __call__(self, *args, status=0, input=None, binary=False):
        done = subprocess.run([str(a) for a in (self.binary, *args)], env=self.env, cwd=self.cwd, input=input, capture_output=True, timeout=PATIENCE)
        self.stderr = done.stderr.decode(errors="replace")
        for word in forebay.BAD_WORDS:
            assert word not in self.stderr, self.stderr
        assert done.returncode in (status if isinstance(status, tuple) else (status,)), f"{args}: {done.returncode}\n{done.stdout[-2000:]}\n{self.stderr[-3000:]}"
        return done.stdout if binary else done.stdout.decode(errors="replace")

    def terminal(self, *args, columns=80):
        return Terminal([self.binary, *args], self.env, columns)
