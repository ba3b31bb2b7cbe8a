"""Signatures of version 4 for load generators: as boto3 makes them, once for each path."""

import datetime
import hashlib
import hmac

NO_BODY = hashlib.sha256(b"").hexdigest()


def signed_lines(key_id, secret, host, paths, method="GET", payload=NO_BODY):
    """A line a path for httpload: the path, and the headers of a request as boto3 signs it, each behind a tab. `payload`: the sum of the body."""
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{date[:8]}/us-east-1/s3/aws4_request"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    names = "host;x-amz-content-sha256;x-amz-date"
    for path in paths:
        canonical = f"{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:{payload}\nx-amz-date:{date}\n\n{names}\n{payload}"
        text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        claim = f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
        yield "\t".join([path, f"X-Amz-Date: {date}", f"X-Amz-Content-SHA256: {payload}", f"Authorization: {claim}"])
