"""Errors as AWS words them: clients parse codes, some parse elements and sentences, and people search for the latter."""

import datetime
import http.client
import urllib.parse
import xml.etree.ElementTree as tree

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
from botocore.exceptions import ClientError
from rigs.process import PATIENCE

MIB = 1024 * 1024
GIB = 1024 * MIB


def refused(call, **arguments):
    """(status, the <Error> as a dictionary)"""
    with pytest.raises(ClientError) as error:
        call(**arguments)
    response = error.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]


def signed(server, method, path, headers=None, body=b"", at=None, secret=None, region="us-east-1", change=None, length=None):
    """One request, signed at another time or by another secret; (status, the <Error>)."""
    url = urllib.parse.urlsplit(server.endpoint)
    request = botocore.awsrequest.AWSRequest(method, server.endpoint + path, headers=dict(headers or {}), data=body)
    keys = server.keys()
    signer = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials(keys[0], secret or keys[1]), "s3", region)
    real = botocore.auth.get_current_datetime if hasattr(botocore.auth, "get_current_datetime") else None
    if at is not None:
        assert real is not None
        botocore.auth.get_current_datetime = lambda *a, **k: at.replace(tzinfo=None)
    try:
        signer.add_auth(request)
    finally:
        if at is not None:
            botocore.auth.get_current_datetime = real
    sent = dict(request.headers)
    sent.update(change or {})
    if length is not None:
        sent["Content-Length"] = str(length)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE)
    connection.request(method, path, body=body if length is None else None, headers=sent)
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    return reply.status, {e.tag: e.text for e in tree.fromstring(text)} if text else {}


def test_signatures_and_clocks(server, s3, bucket):
    status, error = signed(server, "GET", f"/{bucket}?prefix=a&max-keys=1", secret="wrong" * 8)
    assert (status, error["Code"]) == (403, "SignatureDoesNotMatch")
    assert error["Message"] == "The request signature we calculated does not match the signature you provided. Check your key and signing method."
    assert error["AWSAccessKeyId"] == server.keys()[0] and len(error["SignatureProvided"]) == 64
    canonical = error["CanonicalRequest"].split("\n")
    assert canonical[:3] == ["GET", f"/{bucket}", "max-keys=1&prefix=a"] and "host;x-amz-content-sha256;x-amz-date" in canonical
    assert error["StringToSign"].startswith("AWS4-HMAC-SHA256\n") and "/us-east-1/s3/aws4_request\n" in error["StringToSign"]
    assert bytes.fromhex(error["CanonicalRequestBytes"]).decode() == error["CanonicalRequest"]
    assert bytes.fromhex(error["StringToSignBytes"]).decode() == error["StringToSign"]

    now = datetime.datetime.now(datetime.timezone.utc)
    for minutes in (-16, 16):
        status, error = signed(server, "GET", f"/{bucket}", at=now + datetime.timedelta(minutes=minutes))
        assert (status, error["Code"], error["MaxAllowedSkewMilliseconds"]) == (403, "RequestTimeTooSkewed", "900000")
        assert error["Message"] == "The difference between the request time and the current time is too large."
        assert error["RequestTime"] and error["ServerTime"].startswith(now.strftime("%Y"))
    assert signed(server, "GET", f"/{bucket}", at=now - datetime.timedelta(minutes=14))[0] == 200
    assert signed(server, "GET", f"/{bucket}", region="eu-west-3")[0] == 200  # any region is taken, and docs/s3.md says so
    status, error = signed(server, "GET", f"/{bucket}", change={"x-amz-meta-late": "1"})
    assert (status, error["Code"], error["HeadersNotSigned"]) == (403, "AccessDenied", "x-amz-meta-late")
    status, error = signed(server, "GET", f"/{bucket}", change={"Authorization": "AWS4-HMAC-SHA256 Credential=a/b/c"})
    assert (status, error["Code"]) == (400, "AuthorizationHeaderMalformed")


def test_limits_name_what_came_and_what_is_allowed(server, s3, bucket):
    key = {"Bucket": bucket, "Key": "k"}
    status, error = refused(s3.put_object, Body=b"", Metadata={"m": "x" * 2048}, **key)
    assert (status, error["Code"], error["Size"], error["MaxSizeAllowed"]) == (400, "MetadataTooLarge", "2049", "2048")
    s3.put_object(Body=b"", Metadata={"m": "x" * 2047}, **key)
    status, error = refused(s3.put_object, Bucket=bucket, Key="k" * 1025, Body=b"")
    assert (status, error["Code"], error["Size"], error["MaxSizeAllowed"]) == (400, "KeyTooLongError", "1025", "1024")
    s3.put_object(Bucket=bucket, Key="k" * 1024, Body=b"")
    for path in (f"/{bucket}/k", f"/{bucket}/k?partNumber=1&uploadId=none"):
        status, error = signed(server, "PUT", path, headers={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}, length=5 * GIB + 1)
        assert (status, error["Code"], error["ProposedSize"], error["MaxSizeAllowed"]) == (400, "EntityTooLarge", str(5 * GIB + 1), str(5 * GIB))
    many = {"Objects": [{"Key": str(n)} for n in range(1001)]}
    status, error = refused(s3.delete_objects, Bucket=bucket, Delete=many)
    assert (status, error["Code"]) == (400, "MalformedXML")
    many["Objects"].pop()
    assert len(s3.delete_objects(Bucket=bucket, Delete=many)["Deleted"]) == 1000
    for number in (0, 10001):
        status, error = refused(s3.upload_part, UploadId="u", PartNumber=number, Body=b"", **key)
        assert (status, error["Code"], error["ArgumentName"], error["ArgumentValue"]) == (400, "InvalidArgument", "partNumber", str(number))


def test_lists_of_parts(s3, bucket):
    key = {"Bucket": bucket, "Key": "k"}
    upload = s3.create_multipart_upload(**key)["UploadId"]
    parts = [{"PartNumber": n, "ETag": s3.upload_part(PartNumber=n, UploadId=upload, Body=b"small", **key)["ETag"]} for n in (1, 2)]

    def complete(listed):
        return refused(s3.complete_multipart_upload, UploadId=upload, MultipartUpload={"Parts": listed}, **key)

    status, error = complete(parts)
    assert (status, error["Code"], error["PartNumber"], error["ProposedSize"], error["MinSizeAllowed"]) == (400, "EntityTooSmall", "1", "5", str(5 * MIB))
    assert error["Message"] == "Your proposed upload is smaller than the minimum allowed size" and error["ETag"] == parts[0]["ETag"].strip('"')
    status, error = complete(parts[::-1])
    assert (status, error["Code"], error["UploadId"]) == (400, "InvalidPartOrder", upload)
    assert error["Message"] == "The list of parts was not in ascending order. Parts must be ordered by part number."
    status, error = complete([{"PartNumber": 3, "ETag": '"' + "0" * 32 + '"'}])
    assert (status, error["Code"], error["UploadId"], error["PartNumber"], error["ETag"]) == (400, "InvalidPart", upload, "3", "0" * 32)
    status, error = refused(s3.upload_part, UploadId="0" * 32, PartNumber=1, Body=b"", **key)
    assert (status, error["Code"]) == (404, "NoSuchUpload")


def test_sentences_that_people_search_for(server, s3, bucket):
    said = {
        "NoSuchKey": "The specified key does not exist.",
        "NoSuchBucket": "The specified bucket does not exist",
        "BucketAlreadyExists": "The requested bucket name is not available. The bucket namespace is shared by all users of the system. Please select a different name and try again.",
        "BucketNotEmpty": "The bucket you tried to delete is not empty",
        "InvalidRange": "The requested range is not satisfiable",
        "PreconditionFailed": "At least one of the pre-conditions you specified did not hold",
        "InvalidAccessKeyId": "The AWS Access Key Id you provided does not exist in our records.",
        "BadDigest": "The Content-MD5 you specified did not match what we received.",
        "MalformedXML": "The XML you provided was not well-formed or did not validate against our published schema",
    }
    from conftest import boto

    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    stranger = boto(server.endpoint, ("STRANGER", "x" * 40))
    answers = [
        refused(s3.get_object, Bucket=bucket, Key="none")[1],
        refused(s3.get_object, Bucket="there-is-none", Key="k")[1],
        refused(s3.create_bucket, Bucket=bucket, ACL="public-read")[1],
        refused(s3.delete_bucket, Bucket=bucket)[1],
        refused(s3.get_object, Bucket=bucket, Key="k", Range="bytes=10-")[1],
        refused(s3.put_object, Bucket=bucket, Key="k", Body=b"", IfNoneMatch="*")[1],
        refused(stranger.list_buckets)[1],
        refused(s3.put_object, Bucket=bucket, Key="k", Body=b"x", ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==")[1],
        refused(s3.delete_objects, Bucket=bucket, Delete={"Objects": []})[1],
    ]
    assert {e["Code"]: e["Message"] for e in answers} == said
    by_code = {e["Code"]: e for e in answers}
    assert (by_code["InvalidRange"]["RangeRequested"], by_code["InvalidRange"]["ActualObjectSize"]) == ("bytes=10-", "10")
    assert by_code["NoSuchKey"]["Key"] == "none" and by_code["NoSuchBucket"]["BucketName"] == "there-is-none"
    assert by_code["InvalidAccessKeyId"]["AWSAccessKeyId"] == "STRANGER"
