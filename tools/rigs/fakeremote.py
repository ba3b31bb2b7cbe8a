"""A remote in this process, whose answers a test writes itself, down to the byte: what no real server sends."""

import collections
import hashlib
import http.server
import os
import socket
import ssl
import struct
import threading
import urllib.parse


class FakeRemote:
    """Answers at .endpoint. put() makes an object; on() lets a function answer instead:

        remote.on("GET", "/bucket/key", lambda request: request.send(200, {"ETag": '"x"'}, b"body"))

    A request has .path, .query, .headers, .body, .number (which try it is, from 1), send(), raw(), reset().
    Signatures are not looked at; `seen` counts requests by "METHOD /path". With writable=True it takes PUT, DELETE and uploads in
    parts; `history` has what each path has held, None: nothing.
    """

    def __init__(self, tls=None, address="127.0.0.1", writable=False):
        """`tls`: (certificate, key) files."""
        self.writable = writable
        self.objects = {}
        self.history = collections.defaultdict(list)
        self.uploads = {}
        self.handlers = {}
        self.seen = collections.Counter()
        self.lock = threading.Lock()
        self.server = _Server((address, 0), _Handler)
        self.server.remote = self
        self.port = self.server.server_address[1]
        self.endpoint = f"http{'s' if tls else ''}://{address}:{self.port}"
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()

    def put(self, path, body, **headers):
        """An object at /bucket/key, with an MD5 ETag unless ETag= says otherwise (None: no ETag)."""
        headers.setdefault("ETag", f'"{hashlib.md5(body).hexdigest()}"')
        self.objects[path] = (body, {k.replace("_", "-"): v for k, v in headers.items() if v is not None})
        self.history[path].append(body)

    def delete(self, path):
        if self.objects.pop(path, None) is not None:
            self.history[path].append(None)

    def on(self, method, path, answer):
        self.handlers[method, path] = answer


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        pass  # a client that goes away is what these tests are about


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def _dispatch(self):
        remote = self.server.remote
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        self.path = urllib.parse.unquote(url.path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with remote.lock:
            remote.seen[f"{self.command} {self.path}"] += 1
            self.number = remote.seen[f"{self.command} {self.path}"]
        handler = remote.handlers.get((self.command, self.path))
        if handler is not None:
            handler(self)
        elif self.command in ("GET", "HEAD"):
            self._object(remote)
        elif remote.writable:
            self._write(remote)
        else:
            self.send(501, {}, b"")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _dispatch

    def _object(self, remote):
        if self.path.strip("/").count("/") == 0:
            return self._bucket(remote, self.path.strip("/"))
        found = remote.objects.get(self.path)
        if found is None:
            return self.send(404, {"Content-Type": "application/xml"}, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
        body, headers = found
        if self.headers.get("If-Match") not in (None, headers.get("ETag")):
            return self.send(412, {"Content-Type": "application/xml"}, b"<Error><Code>PreconditionFailed</Code><Message>another version</Message></Error>")
        asked = self.headers.get("Range")
        if asked is None:
            return self.send(200, headers, body)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        first, last = int(first), min(int(last or len(body) - 1), len(body) - 1)
        return self.send(206, {**headers, "Content-Range": f"bytes {first}-{last}/{len(body)}"}, body[first : last + 1])

    def _write(self, remote):
        """Whole under the lock: versions have an order."""
        upload = self.query.get("uploadId")
        with remote.lock:
            if self.command == "POST" and "uploads" in self.query:
                upload = f"upload-{len(remote.uploads)}"
                remote.uploads[upload] = {}
                answer = 200, {}, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode()
            elif self.command == "PUT" and upload:
                remote.uploads[upload][int(self.query["partNumber"])] = self.body
                answer = 200, {"ETag": f'"{hashlib.md5(self.body).hexdigest()}"'}, b""
            elif self.command == "POST" and upload:
                parts = [body for _, body in sorted(remote.uploads[upload].items())]
                etag = f'"{hashlib.md5(b"".join(hashlib.md5(p).digest() for p in parts)).hexdigest()}-{len(parts)}"'
                remote.put(self.path, b"".join(parts), ETag=etag)
                answer = 200, {}, f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>".encode()
            elif self.command == "PUT":
                remote.put(self.path, self.body)
                answer = 200, {"ETag": remote.objects[self.path][1]["ETag"]}, b""
            else:
                remote.delete(self.path)
                answer = 204, {}, b""
        self.send(*answer)

    def _bucket(self, remote, bucket):
        rows = "".join(
            f"<Contents><Key>{path.split('/', 2)[2]}</Key><Size>{len(body)}</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{headers.get('ETag', '')}</ETag><StorageClass>STANDARD</StorageClass></Contents>"
            for path, (body, headers) in sorted(remote.objects.items())
            if path.startswith(f"/{bucket}/{self.query.get('prefix', '')}")
        )
        text = f"<?xml version='1.0'?><ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        self.send(200, {"Content-Type": "application/xml"}, text.encode())

    # What handlers use.

    def send(self, status, headers, body, length=None):
        """An answer with that body; `length` announces another one."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def raw(self, data):
        self.wfile.write(data)
        self.wfile.flush()

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        os.close(self.connection.detach())
