"""Us and those beside us. Each is pinned to the server's core and answers on .port; .pids() is what to charge."""

import http.client
import os
import pathlib
import shutil
import socket
import subprocess

from rigs.process import ROOT, Process, free_ports

from . import machine

# A third and a fourth port: TLS, and reads by threads for sets that do not fit into memory.
MORE = """
  server {{ tcp_nopush off; listen 127.0.0.1:{tls} ssl reuseport backlog=4096; root {root};
    ssl_certificate {cert}; ssl_certificate_key {key}; ssl_protocols TLSv1.3; ssl_session_cache off; }}
"""
COLD = """
daemon off; {user} pid {dir}/nginx.pid; error_log {dir}/error.log warn; thread_pool p threads=32 max_queue=65536;
worker_processes 1; worker_cpu_affinity {mask}; worker_rlimit_nofile 60000;
events {{ worker_connections 4096; use epoll; multi_accept on; }}
http {{
  access_log off; default_type application/octet-stream; sendfile on; tcp_nodelay on; tcp_nopush off; aio threads=p;
  keepalive_timeout 300s; keepalive_requests 1000000000;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  server {{ listen 127.0.0.1:{off} reuseport backlog=4096; root {root}; }}
}}
"""
NGINX = """
daemon off; {user} pid {dir}/nginx.pid; error_log {dir}/error.log warn;
worker_processes 1; worker_cpu_affinity {mask}; worker_rlimit_nofile 60000;
events {{ worker_connections 4096; use epoll; multi_accept on; }}
http {{
  access_log off; default_type application/octet-stream; sendfile on; sendfile_max_chunk 2m; tcp_nodelay on;
  keepalive_timeout 300s; keepalive_requests 1000000000;
  open_file_cache max=500000 inactive=1h; open_file_cache_valid 1h; open_file_cache_min_uses 1;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
  server {{ tcp_nopush on; listen 127.0.0.1:{on} reuseport backlog=4096; root {root}; }}
  server {{ tcp_nopush off; listen 127.0.0.1:{off} reuseport backlog=4096; root {root}; }}
{more}}}
"""


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
        return True
    except OSError:
        return False


class Pinned(Process):
    favoured = False  # see machine.favour()

    def __init__(self, name, core, argv, dir, port, env=None, wait=True, group=None):
        """`group`: a control group of machine.Group, from the first instruction on."""
        self.port = port
        within = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', group.procs] if group else []
        super().__init__(name, [*within, "taskset", "-c", str(core), *argv], dir, env=env)
        if wait:
            self.wait_until(lambda: answers(port), 30)
        if self.favoured:
            machine.favour(self.popen.pid)

    def pids(self):
        return [self.popen.pid]


class Forebay(Pinned):
    def __init__(self, context, dir, *flags, port=None, core=None, wait=True, group=None):
        """Ready, unless `wait` is false."""
        self.dir = pathlib.Path(dir)
        self.context = context
        port = port or free_ports(1)[0]
        super().__init__(
            "forebay",
            context.cores[0] if core is None else core,
            [context.binary, "serve", self.dir, "--listen", f"127.0.0.1:{port}", "--engine", context.engine, *flags],
            context.dir,
            port,
            env=context.env,
            wait=wait,
            group=group,
        )
        if wait:
            self.wait_until(lambda: self.ask("GET", "/_/readyz")[0] == 200, 30)
            for name, _ in self.metric("forebay_build_info"):
                context.engines.add(name.partition('engine="')[2].partition('"')[0])

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body)
            reply = connection.getresponse()
            return reply.status, reply.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def make_bucket(self, name):
        status, body = self.ask("PUT", f"/{name}")
        assert status == 200, f"making bucket {name}: {status} {body!r}"

    def metric(self, name):
        for line in self.ask("GET", "/_/metrics")[1].decode().splitlines():
            if line.startswith(name + " ") or line.startswith(name + "{"):
                yield line.rsplit(" ", 1)[0], float(line.rsplit(" ", 1)[1])


class Loop(Pinned):
    """The bare loop: ready-made answers of one size; `count` that lie apart; with the flag "splice" bodies go by reference."""

    def __init__(self, context, size, engine, count=1, *flags):
        (port,) = free_ports(1)
        argv = [context.tools / "loop", port, size, engine, count, *flags]
        super().__init__("-".join(["loop", engine, str(size), str(count), *flags]), context.cores[0], argv, context.dir, port)


class Relay(Pinned):
    """The bare loop of a cold GET: receives from the far server, sends on; keeps and verifies nothing."""

    def __init__(self, context, far_port):
        (port,) = free_ports(1)
        super().__init__("relay", context.cores[0], [context.tools / "relay", port, far_port], context.dir, port)


class LoopDisk(Pinned):
    """The bare loop with a disk behind it: one O_DIRECT read within the first `length` bytes of these files an answer, at most `depth` at a time."""

    def __init__(self, context, size, depth, length, files):
        (port,) = free_ports(1)
        argv = [context.tools / "loop_disk", port, size, depth, length, *files]
        super().__init__(f"loop-disk-{size}", context.cores[0], argv, context.dir, port)


class LargePutLoop(Pinned):
    """The bare loop of large durable PUTs: a body goes from the socket into the buffer that is written; one fdatasync for all that came meanwhile."""

    def __init__(self, context, size, *flags):
        (port,) = free_ports(1)
        name = "-".join(["loop-large", str(size), *flags])
        super().__init__(name, context.cores[0], [context.tools / "loop_large", port, size, context.dir / f"{name}.data", *flags], context.dir, port)


class PutLoop(Pinned):
    """The bare loop of durable PUTs: one write and one fdatasync for all bodies that came meanwhile, nothing else."""

    def __init__(self, context, size):
        (port,) = free_ports(1)
        argv = [context.tools / "loop", port, size, "put", context.dir / "loop.data"]
        super().__init__(f"loop-put-{size}", context.cores[0], argv, context.dir, port)


class Nginx(Pinned):
    """Both settings of tcp_nopush: .port has it off, .nopush_port on; .tls_port with `tls`, a (certificate, key). `cold`: as it
    does best where files are not in memory, within the control group of that name."""

    def __init__(self, context, root, tls=None, cold=None):
        self.nopush_port, port, self.tls_port = free_ports(3)
        dir = context.dir / "nginx"
        dir.mkdir(parents=True, exist_ok=True)
        config = dir / "nginx.conf"
        config.write_text(
            (COLD if cold else NGINX).format(
                more=MORE.format(tls=self.tls_port, root=root, cert=tls[0], key=tls[1]) if tls else "",
                user="user root;" if os.geteuid() == 0 else "",
                dir=dir,
                mask=f"{1 << context.cores[0]:b}",
                on=self.nopush_port,
                off=port,
                root=root,
            )
        )
        argv = [nginx_binary(), "-e", dir / "error.log", "-p", dir, "-c", config]
        super().__init__("nginx", context.cores[0], argv, context.dir, port, group=cold)

    def pids(self):
        return [self.popen.pid, *machine.children(self.popen.pid)]


def nginx_binary():
    """Debian's, installed or unpacked by tools/unpack.sh; None when there is none."""
    unpacked = ROOT / ".tools/usr/sbin/nginx"
    return unpacked if unpacked.exists() else shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def nginx_version():
    binary = nginx_binary()
    if not binary:
        return None
    told = subprocess.run([binary, "-v"], capture_output=True, text=True, check=False)
    return told.stderr.strip().rpartition("nginx/")[2]
