"""A proxy as companies have them, in this process: absolute-form for http, CONNECT for https, Basic credentials if wanted.

    with ConnectProxy(user="u:p") as proxy:
        ... env HTTPS_PROXY=proxy.url ...
        proxy.seen  # [("CONNECT", "host:443"), ("GET", "http://host/bucket/key")]

`names` sends a host's name to another address, as a proxy has a DNS of its own: {"s3.example:80": ("127.0.0.1", port)}. `answer`
is sent to CONNECT instead of anything else, byte for byte; None closes the connection without an answer.
"""

import base64
import select
import socket
import threading
import urllib.parse

HEAD_MAX = 64 * 1024


class ConnectProxy:
    def __init__(self, user=None, names=None, answer=""):
        self.user, self.names, self.answer = user, names or {}, answer
        self.seen, self.authorizations, self.lock = [], [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        at = f"{urllib.parse.quote(user, safe=':')}@" if user else ""
        self.url = f"http://{at}127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _connect(self, authority, default):
        host, _, port = authority.rpartition(":") if ":" in authority.rsplit("]")[-1] else (authority, "", str(default))
        to = self.names.get(f"{host}:{port}", (host.strip("[]"), int(port)))
        return socket.create_connection(to, timeout=30)

    def _serve(self, client):
        with client:
            try:
                head, rest = _read_head(client)
                while head:
                    head, rest = self._one(client, head, rest)
            except OSError:
                pass

    def _one(self, client, head, rest):
        """One request of http, and what follows; or a tunnel to its end."""
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        authorization = next((v.strip() for n, _, v in (line.partition(":") for line in lines[1:]) if n.lower() == "proxy-authorization"), None)
        with self.lock:
            self.seen.append((method, target))
            self.authorizations.append(authorization)
        if self.user and authorization != "Basic " + base64.b64encode(self.user.encode()).decode():
            client.sendall(b'HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
            return None, b""
        if method == "CONNECT":
            if self.answer is None:
                return None, b""
            if self.answer:
                client.sendall(self.answer if isinstance(self.answer, bytes) else self.answer.encode())
                return None, b""
            with self._connect(target, 443) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _pump(client, server, rest)
            return None, b""
        url = urllib.parse.urlsplit(target)
        kept = [line for line in lines[1:] if line and not line.lower().startswith("proxy-authorization:")]
        path = urllib.parse.urlunsplit(("", "", url.path or "/", url.query, ""))
        with self._connect(url.netloc, 80) as server:
            server.sendall("\r\n".join([f"{method} {path} HTTP/1.1", *kept, "", ""]).encode("latin-1"))
            _pump(client, server, rest)  # good for one connection: the same host follows, if anything does
        return None, b""


def _read_head(sock):
    data = b""
    while b"\r\n\r\n" not in data and len(data) < HEAD_MAX:
        piece = sock.recv(65536)
        if not piece:
            return None, b""
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _pump(a, b, rest):
    """Bytes both ways until one end closes."""
    if rest:
        b.sendall(rest)
    while True:
        for ready in select.select([a, b], [], [], 60)[0]:
            piece = ready.recv(65536)
            if not piece:
                return
            (b if ready is a else a).sendall(piece)
