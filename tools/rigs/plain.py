"""HTTP without a client library's kindness: what came, how much of it, and whether it was whole."""

import dataclasses
import http.client
import urllib.parse

from .process import PATIENCE


@dataclasses.dataclass
class Reply:
    status: int  # 0: no answer at all
    headers: dict
    body: bytes  # what arrived
    whole: bool  # all that was announced arrived


def ask(port, method, bucket, key="", body=None, headers=None, query="", timeout=PATIENCE, connection=None):
    """One unsigned request. Never raises for what the other end does."""
    own = connection is None
    connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    path = f"/{bucket}" + (f"/{urllib.parse.quote(key)}" if key else "") + (f"?{query}" if query else "")
    status, head, got = 0, {}, b""
    try:
        connection.request(method, path, body=body, headers=headers or {})
        reply = connection.getresponse()
        status, head = reply.status, {k.lower(): v for k, v in reply.getheaders()}
        got = reply.read()
        return Reply(status, head, got, True)
    except http.client.IncompleteRead as error:
        return Reply(status, head, error.partial, False)
    except (OSError, http.client.HTTPException):
        return Reply(status, head, got, False)
    finally:
        if own:
            connection.close()


def get(port, bucket, key, **more):
    return ask(port, "GET", bucket, key, **more)
