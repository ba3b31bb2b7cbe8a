"""BUCKET.s3.localhost is 127.0.0.1, whatever the resolver of this machine thinks (RFC 6761 says it should)."""

import socket

real = socket.getaddrinfo


def getaddrinfo(host, *args, **more):
    if isinstance(host, bytes):
        host = host.decode()
    return real("127.0.0.1" if host is not None and host.endswith("localhost") else host, *args, **more)


socket.getaddrinfo = getaddrinfo
