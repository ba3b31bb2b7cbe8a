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
from test_cold import PATIENT, wait_for
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
    fake.signatures = []

    def note(request, answer):
        found = re.search(r"Credential=([^/]+)/", request.headers.get("Authorization") or "")
        fake.signatures.append((found and found.group(1), request.headers.get("x-amz-security-token")))
        answer(request)

    listing = b'<?xml version="1.0"?><ListBucketResult><Name>there</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>'
    fake.on("GET", "/there", lambda r: note(r, lambda q: q.send(200, {}, listing)))
    fake.on("GET", "/there/key", lambda r: note(r, lambda q: q.send(200, {"ETag": '"5d41402abc4b2a76b9719d911017c592"'}, b"hello")))
    return fake


def serve(start_forebay, remote, tmp_path, **env):
    """A server with this environment, and the remote attached with the server's own keys."""
    env = {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", **env}
    process = start_forebay(settings=PATIENT, env=env)
    done = cli(process, "bucket", "attach", "s3://there", "--endpoint", remote.endpoint)
    return process, done


def signed_by(process, remote):
    assert plain.get(process.port, "there", "key").body == b"hello"
    return remote.signatures[-1]


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
        return remote.signatures[-1][0]

    first = sign()
    wait_for(lambda: sign() not in (first, None), "new keys")
    assert len(given) < 40  # not with every request
    assert all(name is not None for name, _ in remote.signatures)


# ---- where a bucket is, who pays, and what is no bucket at all ----


def test_the_region_is_found_and_kept(start_forebay, remote, tmp_path):
    listing = b'<?xml version="1.0"?><ListBucketResult><Name>there</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>'
    wrong = b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>expecting 'eu-west-3'</Message><Region>eu-west-3</Region></Error>"

    def answer(request):
        right = "/eu-west-3/s3/" in (request.headers.get("Authorization") or "")
        request.send(200 if right else 400, {"x-amz-bucket-region": "eu-west-3"}, listing if right else wrong)

    remote.on("GET", "/there", answer)
    keys = {"AWS_ACCESS_KEY_ID": "K", "AWS_SECRET_ACCESS_KEY": "S"}
    process, done = serve(start_forebay, remote, tmp_path, **keys)
    assert done.returncode == 0, done.stderr
    told = json.loads(cli(process, "bucket", "ls", "--json").stdout)["buckets"][0]
    assert told["remote"]["region"] == "eu-west-3"
    assert plain.ask(process.port, "GET", "there", query="list-type=2").status == 200


def test_who_pays_is_said_with_each_request(start_forebay, remote, tmp_path):
    seen = []
    remote.on("GET", "/there/paid", lambda r: (seen.append(r.headers.get("x-amz-request-payer")), r.send(200, {"ETag": '"x"'}, b"paid")))
    process = start_forebay(settings=PATIENT, env={"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"})
    done = cli(process, "bucket", "attach", "s3://there", "--endpoint", remote.endpoint, "--requester-pays")
    assert done.returncode == 0, done.stderr
    assert plain.get(process.port, "there", "paid").body == b"paid" and seen == ["requester"]


def test_a_web_server_is_a_source(start_forebay, fake, tmp_path):
    """ht://: objects by name, fetched once, taken up again where a transfer broke; no listing, nothing written."""
    body = b"0123456789" * 50_000
    fake.put("/data/set/a/b c.bin", body, Content_Type="image/png")
    fake.put("/data/set/weak", b"weak", ETag='W/"1"')
    broke = []

    def breaks(request):
        asked = request.headers.get("Range")
        if asked is None:
            broke.append(1)
            request.send(200, {"ETag": '"v1"'}, body[:100_000], length=len(body))
            return request.reset()
        assert request.headers.get("If-Match") == '"v1"'
        first = int(asked.removeprefix("bytes=").split("-")[0])
        return request.send(206, {"ETag": '"v1"', "Content-Range": f"bytes {first}-{len(body) - 1}/{len(body)}"}, body[first:])

    fake.on("GET", "/data/set/broken", breaks)
    process = start_forebay(settings=PATIENT)
    where = fake.endpoint.replace("http://", "ht://")
    done = cli(process, "bucket", "attach", f"{where}/data/set/", "--as", "web")
    assert done.returncode == 0, done.stderr
    for _ in range(2):
        reply = plain.get(process.port, "web", "a/b c.bin")
        assert reply.status == 200 and reply.body == body and reply.headers["content-type"] == "image/png"
    assert fake.seen["GET /data/set/a/b c.bin"] == 1
    assert plain.get(process.port, "web", "broken").body == body and broke
    weak = plain.get(process.port, "web", "weak")
    assert weak.body == b"weak", weak
    assert plain.get(process.port, "web", "nothing").status == 404
    assert plain.ask(process.port, "HEAD", "web", "a/b c.bin").headers["content-length"] == str(len(body))
    for reply in (plain.ask(process.port, "PUT", "web", "new", body=b"x"), plain.ask(process.port, "DELETE", "web", "weak"), plain.ask(process.port, "GET", "web", query="list-type=2")):
        assert reply.status == 501 and b"plain web server" in reply.body, (reply.status, reply.body)
    assert plain.get(process.port, "web", "weak").body == b"weak"
    whole = cli(process, "prefetch", "s3://web/a/b c.bin{,}")
    assert whole.returncode == 0 and "2 were here" in whole.stdout, whole.stdout + whole.stderr
    for words, text in (([where], "--as NAME"), (["ht:///x", "--as", "y"], "no host"), ([where + "/?a=b", "--as", "y"], "no query"), ([where, "--as", "web"], "exists already")):
        refused = cli(process, "bucket", "attach", *words)
        assert refused.returncode != 0 and text in refused.stderr, refused.stderr
