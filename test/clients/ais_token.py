"""Tokens of AIS clients, as an AuthN server makes them: JWTs with an HMAC of TOKEN_KEY."""

import base64
import hashlib
import hmac
import json
import os
import time


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(**claims):
    text = url64(b'{"alg":"HS256","typ":"JWT"}') + b"." + url64(json.dumps({"sub": "test", "exp": int(time.time()) + 3600, **claims}).encode())
    return (text + b"." + url64(hmac.new(os.environ["TOKEN_KEY"].encode(), text, hashlib.sha256).digest())).decode()
