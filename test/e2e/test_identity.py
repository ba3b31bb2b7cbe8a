"""The server's own keys for a remote, from everywhere AWS's tools find theirs; and their renewal before they end."""

import datetime
import json
import re
import urllib.parse

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
from rigs.fakeremote import FakeRemote

import plain
from test_cold import HASTY, wait_for
from test_jobs import cli

ROLE = "arn:aws:iam::123456789012:role/training"


def iso(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def document(key, lasts=3600):
    return json.dumps({"Code": "Success", "AccessKeyId": key, "SecretAccessKey": "s" * 40, "Token": f"token-of-{key}", "Expiration": iso(lasts)}).encode()


def assumed(key, lasts=3600):
    keys = f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{'s' * 40}</SecretAccessKey><SessionToken>token-of-{key}</SessionToken><Expiration>{iso(lasts)}</Expiration>"
    return f'<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>{keys}</Credentials></AssumeRoleResult></AssumeRoleResponse>'.encode()


@pytest.fixture
def helper():
    """Who gives keys away: metadata, container, STS."""
    with FakeRemote() as remote:
        yield remote


@pytest.fixture
def remote(fake):
    """A remote that notes who signed."""
    fake.signers = []

    def note(request, answer):
        found = re.search(r"Credential=([^/]+)/", request.headers.get("Authorization") or "")
        fake.signers.append((found and found.group(1), request.headers.get("x-amz-security-token")))
        answer(request)

    listing = b'<?xml version="1.0"?><ListBucketResult><Name>there</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>'
    fake.on("GET", "/there", lambda r: note(r, lambda q: q.send(200, {}, listing)))
    fake.on("GET", "/there/key", lambda r: note(r, lambda q: q.send(200, {"ETag": '"5d41402abc4b2a76b9719d911017c592"'}, b"hello")))
    return fake


def serve(start_forebay, remote, tmp_path, **env):
    """A server with this environment, and the remote attached with the server's own keys."""
    env = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", **env}
    process = start_forebay(settings=HASTY, env=env)
    done = cli(process, "bucket", "attach", "s3://there", "--endpoint", remote.endpoint)
    return process, done


def signed_by(process, remote):
    assert plain.get(process.port, "there", "key").body == b"hello"
    return remote.signers[-1]


def test_an_instance(start_forebay, remote, helper, tmp_path):
    helper.on("PUT", "/latest/api/token", lambda r: r.send(200 if r.headers["x-aws-ec2-metadata-token-ttl-seconds"] else 400, {}, b"session"))
    root = "/latest/meta-data/iam/security-credentials/"

    def guarded(body):
        return lambda r: r.send(200, {}, body) if r.headers.get("x-aws-ec2-metadata-token") == "session" else r.send(401, {}, b"")

    helper.on("GET", root, guarded(b"my-role\n"))
    helper.on("GET", root + "my-role", guarded(document("INSTANCE")))
    process, done = serve(start_forebay, remote, tmp_path, AWS_EC2_METADATA_DISABLED="false", AWS_EC2_METADATA_SERVICE_ENDPOINT=helper.endpoint)
    assert done.returncode == 0, done.stderr
    assert signed_by(process, remote) == ("INSTANCE", "token-of-INSTANCE")


def test_a_container_with_its_token_in_a_file(start_forebay, remote, helper, tmp_path):
    (tmp_path / "token").write_text("let me in\n")
    helper.on("GET", "/keys", lambda r: r.send(200, {}, document("POD")) if r.headers.get("Authorization") == "let me in" else r.send(403, {}, b""))
    process, done = serve(
        start_forebay, remote, tmp_path, AWS_CONTAINER_CREDENTIALS_FULL_URI=helper.endpoint + "/keys", AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(tmp_path / "token")
    )
    assert done.returncode == 0, done.stderr
    assert signed_by(process, remote) == ("POD", "token-of-POD")


def test_a_container_elsewhere_is_not_asked_in_the_clear(start_forebay, remote, tmp_path):
    process, done = serve(start_forebay, remote, tmp_path, AWS_CONTAINER_CREDENTIALS_FULL_URI="http://192.0.2.1/keys")
    assert done.returncode != 0 and "in the clear" in done.stderr, done.stderr


def test_a_web_identity(start_forebay, remote, helper, tmp_path):
    (tmp_path / "jwt").write_text("header.claims.signature\n")

    def answer(request):
        form = urllib.parse.parse_qs(request.body.decode())
        good = form["Action"] == ["AssumeRoleWithWebIdentity"] and form["WebIdentityToken"] == ["header.claims.signature"] and form["RoleArn"] == [ROLE]
        request.send(200 if good else 400, {}, assumed("WEB"))

    helper.on("POST", "/", answer)
    process, done = serve(start_forebay, remote, tmp_path, AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "jwt"), AWS_ROLE_ARN=ROLE, AWS_ENDPOINT_URL_STS=helper.endpoint)
    assert done.returncode == 0, done.stderr
    assert signed_by(process, remote) == ("WEB", "token-of-WEB")


def test_a_role_of_a_profile(start_forebay, remote, helper, tmp_path):
    """The request for it is signed as botocore would sign it."""
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("[base]\naws_access_key_id = BASE\naws_secret_access_key = base-secret\n")
    (tmp_path / ".aws/config").write_text(f"[profile train]\nrole_arn = {ROLE}\nsource_profile = base\nexternal_id = x y/z\nregion = eu-west-1\n")
    seen = []

    def answer(request):
        again = botocore.awsrequest.AWSRequest("POST", helper.endpoint + "/", data=request.body, headers={"Content-Type": request.headers["content-type"]})
        signer = botocore.auth.SigV4Auth(botocore.credentials.Credentials("BASE", "base-secret"), "sts", "eu-west-1")
        again.context["timestamp"] = request.headers["x-amz-date"]
        again.headers["X-Amz-Date"] = request.headers["x-amz-date"]
        right = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
        seen.append((right, request.headers["Authorization"], urllib.parse.parse_qs(request.body.decode())))
        request.send(200, {}, assumed("ROLE"))

    helper.on("POST", "/", answer)
    process, done = serve(start_forebay, remote, tmp_path, AWS_PROFILE="train", AWS_ENDPOINT_URL_STS=helper.endpoint)
    assert done.returncode == 0, done.stderr
    assert signed_by(process, remote) == ("ROLE", "token-of-ROLE")
    right, given, form = seen[0]
    assert f"Signature={right}" in given and "Credential=BASE/" in given
    assert form["ExternalId"] == ["x y/z"] and form["RoleArn"] == [ROLE] and form["RoleSessionName"] == ["forebay"]


def test_what_sts_refuses_is_told(start_forebay, remote, helper, tmp_path):
    (tmp_path / "jwt").write_text("t")
    refusal = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
    helper.on("POST", "/", lambda r: r.send(403, {}, refusal))
    _, done = serve(start_forebay, remote, tmp_path, AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "jwt"), AWS_ROLE_ARN=ROLE, AWS_ENDPOINT_URL_STS=helper.endpoint)
    assert done.returncode != 0 and "not you" in done.stderr and ROLE in done.stderr, done.stderr


def test_what_is_not_followed_is_told(start_forebay, remote, tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text("[default]\ncredential_process = /bin/keys\n")
    _, done = serve(start_forebay, remote, tmp_path)
    assert done.returncode != 0 and "credential_process" in done.stderr, done.stderr


def test_without_any_keys_it_asks_as_nobody(start_forebay, remote, tmp_path):
    process, done = serve(start_forebay, remote, tmp_path)
    assert done.returncode == 0, done.stderr
    assert signed_by(process, remote) == (None, None)


def test_keys_are_renewed_before_they_end(start_forebay, remote, helper, tmp_path):
    """Keys that end within five minutes are renewed with the next request; one that fails is tried again later."""
    given = []

    def answer(request):
        given.append(f"KEY{len(given)}")
        if len(given) == 3:
            return request.send(500, {}, b"")
        return request.send(200, {}, document(given[-1], lasts=60))

    helper.on("GET", "/keys", answer)
    process, done = serve(start_forebay, remote, tmp_path, AWS_CONTAINER_CREDENTIALS_FULL_URI=helper.endpoint + "/keys")
    assert done.returncode == 0, done.stderr
    names = iter(range(10_000))

    def sign():
        plain.ask(process.port, "GET", "there", f"key?x={next(names)}")
        plain.ask(process.port, "GET", "there", query="list-type=2")
        return remote.signers[-1][0]

    first = sign()
    wait_for(lambda: sign() not in (first, None), "new keys", timeout=90)
    assert len(given) < 40  # not with every request
    assert all(name is not None for name, _ in remote.signers)
