"""Who may do what: owners of buckets, lists of grants, policies, the public access block. One server with three users of a
credentials file: root, the first, may do everything; ann and bob own what they make."""

import json

import botocore.config
import botocore.exceptions
import boto3
import pytest
from conftest import boto, new_bucket
from rigs import forebay
from test_safety import post_form

USERS = {name: (f"KEYOF{name.upper()}0000000000", f"secret-of-{name}-0123456789abcdef") for name in ("root", "ann", "bob")}


def write_keys(folder):
    (folder / "keys").write_text("".join(f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n" for name, (key, secret) in USERS.items()))
    (folder / "keys").chmod(0o600)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access")
    write_keys(folder)
    with forebay.Forebay(folder / "data", args=("--auth", "--credentials", str(folder / "keys"))) as process:
        process.wait_ready()
        yield process
        process.end()


@pytest.fixture(scope="module")
def users(node):
    everybody = {name: boto(node.endpoint, keys) for name, keys in USERS.items()}
    unsigned = botocore.config.Config(signature_version=botocore.UNSIGNED, retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    return everybody | {"anonymous": boto3.client("s3", endpoint_url=node.endpoint, region_name="us-east-1", config=unsigned)}


@pytest.fixture
def anns(users, request):
    return new_bucket(users["ann"], request.node)


def code_of(call, **arguments):
    """ "ok", or the error's code; of a HEAD its status."""
    try:
        call(**arguments)
        return "ok"
    except botocore.exceptions.ClientError as e:
        return e.response["Error"]["Code"]


def readers(users, bucket, key="k"):
    return [name for name, client in users.items() if code_of(client.get_object, Bucket=bucket, Key=key) == "ok"]


def test_a_bucket_is_its_owners(users, anns):
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"1")
    assert readers(users, anns) == ["root", "ann"]
    assert code_of(users["bob"].list_objects_v2, Bucket=anns) == "AccessDenied"
    assert code_of(users["bob"].head_bucket, Bucket=anns) == "403"
    assert code_of(users["bob"].put_object, Bucket=anns, Key="x", Body=b"") == "AccessDenied"
    assert code_of(users["bob"].delete_bucket, Bucket=anns) == "AccessDenied"
    assert code_of(users["bob"].create_bucket, Bucket=anns) == "BucketAlreadyExists"
    users["ann"].create_bucket(Bucket=anns)  # us-east-1: once more is fine, and changes nothing
    assert code_of(users["ann"].create_bucket, Bucket=anns, ACL="public-read") == "BucketAlreadyExists"
    mine, theirs = ([b["Name"] for b in users[u].list_buckets()["Buckets"]] for u in ("ann", "bob"))
    assert anns in mine and anns not in theirs
    assert users["ann"].get_bucket_acl(Bucket=anns)["Owner"]["ID"] == "ann"
    assert code_of(users["ann"].list_objects_v2, Bucket=anns, ExpectedBucketOwner="bob") == "AccessDenied"
    assert code_of(users["ann"].list_objects_v2, Bucket=anns, ExpectedBucketOwner="ann") == "ok"
    users["ann"].delete_object(Bucket=anns, Key="k")
    users["ann"].delete_bucket(Bucket=anns)


@pytest.mark.parametrize(
    "acl, who",
    [("private", ["root", "ann"]), ("public-read", ["root", "ann", "bob", "anonymous"]), ("authenticated-read", ["root", "ann", "bob"])],
)
def test_canned_lists_of_objects(users, anns, acl, who):
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"1", ACL=acl)
    assert readers(users, anns) == who
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"2")  # an overwrite is private again
    assert readers(users, anns) == ["root", "ann"]
    users["ann"].put_object_acl(Bucket=anns, Key="k", ACL=acl)
    assert readers(users, anns) == who
    assert code_of(users["bob"].put_object, Bucket=anns, Key="k", Body=b"") == "AccessDenied"


def test_canned_lists_of_buckets(users, anns):
    users["ann"].put_bucket_acl(Bucket=anns, ACL="public-read")
    assert code_of(users["anonymous"].list_objects_v2, Bucket=anns) == "ok"
    assert code_of(users["anonymous"].put_object, Bucket=anns, Key="x", Body=b"") == "AccessDenied"
    users["ann"].put_bucket_acl(Bucket=anns, ACL="public-read-write")
    users["bob"].put_object(Bucket=anns, Key="bobs", Body=b"b")
    assert users["bob"].get_object_acl(Bucket=anns, Key="bobs")["Owner"]["ID"] == "bob"
    assert readers(users, anns, "bobs") == ["root", "ann", "bob"]
    users["ann"].put_bucket_acl(Bucket=anns, ACL="private")
    assert code_of(users["bob"].list_objects_v2, Bucket=anns) == "AccessDenied"
    assert code_of(users["ann"].put_bucket_acl, Bucket=anns, ACL="public") == "InvalidArgument"


def test_grants_to_users(users, anns):
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"1", GrantRead='id="bob"')
    assert readers(users, anns) == ["root", "ann", "bob"]
    assert code_of(users["bob"].get_object_acl, Bucket=anns, Key="k") == "AccessDenied"
    users["ann"].put_object_acl(Bucket=anns, Key="k", GrantReadACP='id="bob"')
    assert readers(users, anns) == ["root", "ann"]
    assert code_of(users["bob"].get_object_acl, Bucket=anns, Key="k") == "ok"
    assert code_of(users["bob"].put_object_acl, Bucket=anns, Key="k", ACL="public-read") == "AccessDenied"
    assert code_of(users["ann"].put_object_acl, Bucket=anns, Key="k", GrantRead='id="carl"') == "InvalidArgument"
    assert code_of(users["ann"].put_object_acl, Bucket=anns, Key="k", GrantRead='id="bob"', ACL="private") == "InvalidRequest"


def test_a_list_is_of_its_version(users, anns):
    """An object that is replaced loses what its list gave; what is read is evaluated, not what was found first."""
    users["ann"].put_bucket_versioning(Bucket=anns, VersioningConfiguration={"Status": "Enabled"})
    first = users["ann"].put_object(Bucket=anns, Key="k", Body=b"1", ACL="public-read")["VersionId"]
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"2")
    assert code_of(users["anonymous"].get_object, Bucket=anns, Key="k") == "AccessDenied"
    assert users["anonymous"].get_object(Bucket=anns, Key="k", VersionId=first)["Body"].read() == b"1"


def test_what_is_copied_is_private(users, anns):
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"1", ACL="public-read")
    users["ann"].copy_object(Bucket=anns, Key="copy", CopySource=f"{anns}/k")
    assert readers(users, anns, "copy") == ["root", "ann"]
    users["bob"].create_bucket(Bucket=anns + "-bob")
    users["bob"].copy_object(Bucket=anns + "-bob", Key="k", CopySource=f"{anns}/k")  # the source's list allows it
    assert code_of(users["bob"].copy_object, Bucket=anns + "-bob", Key="x", CopySource=f"{anns}/copy") == "AccessDenied"
    upload = users["ann"].create_multipart_upload(Bucket=anns, Key="parts", ACL="public-read")["UploadId"]
    part = users["ann"].upload_part(Bucket=anns, Key="parts", UploadId=upload, PartNumber=1, Body=b"p")["ETag"]
    users["ann"].complete_multipart_upload(Bucket=anns, Key="parts", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]})
    assert users["anonymous"].get_object(Bucket=anns, Key="parts")["Body"].read() == b"p"


def policy(bucket, effect="Allow", principal="*", action="s3:GetObject", resource="/*", **more):
    statement = {"Effect": effect, "Principal": principal if principal == "*" else {"AWS": principal}, "Action": action, "Resource": f"arn:aws:s3:::{bucket}{resource}", **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_policy_allows_and_denies(users, anns):
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"1")
    assert code_of(users["ann"].get_bucket_policy, Bucket=anns) == "NoSuchBucketPolicy"
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns, principal="bob"))
    assert readers(users, anns) == ["root", "ann", "bob"]
    assert code_of(users["bob"].delete_object, Bucket=anns, Key="k") == "AccessDenied"
    assert code_of(users["bob"].get_bucket_policy, Bucket=anns) == "AccessDenied"
    assert users["ann"].get_bucket_policy(Bucket=anns)["Policy"] == policy(anns, principal="bob")
    assert users["ann"].get_bucket_policy_status(Bucket=anns)["PolicyStatus"]["IsPublic"] is False
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns))
    assert readers(users, anns) == ["root", "ann", "bob", "anonymous"]
    assert users["ann"].get_bucket_policy_status(Bucket=anns)["PolicyStatus"]["IsPublic"] is True
    # A Deny wins over ownership, and over every way into the object; those who may replace it still can.
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns, "Deny", action="s3:*"))
    assert readers(users, anns) == []
    assert code_of(users["ann"].copy_object, Bucket=anns, Key="copy", CopySource=f"{anns}/k") == "AccessDenied"
    deleted = users["ann"].delete_objects(Bucket=anns, Delete={"Objects": [{"Key": "k"}]})
    assert [e["Code"] for e in deleted["Errors"]] == ["AccessDenied"]
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns, "Deny", action="s3:*", resource="*"))
    assert code_of(users["ann"].list_objects_v2, Bucket=anns) == "AccessDenied"
    users["ann"].delete_bucket_policy(Bucket=anns)
    assert readers(users, anns) == ["root", "ann"]


def test_policy_with_conditions(users, anns):
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"1", Tagging="stage=open")
    users["ann"].put_object(Bucket=anns, Key="other", Body=b"1")
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns, Condition={"StringEquals": {"s3:ExistingObjectTag/stage": "open"}}))
    assert readers(users, anns) == ["root", "ann", "bob", "anonymous"]
    assert readers(users, anns, "other") == ["root", "ann"]
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns, action="s3:ListBucket", resource="", Condition={"StringLike": {"s3:prefix": "p/*"}}))
    assert code_of(users["bob"].list_objects_v2, Bucket=anns, Prefix="p/q") == "ok"
    assert code_of(users["bob"].list_objects_v2, Bucket=anns, Prefix="q") == "AccessDenied"
    assert code_of(users["bob"].head_object, Bucket=anns, Key="p/none") == "404"
    assert code_of(users["bob"].head_object, Bucket=anns, Key="q/none") == "403"
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns, Condition={"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}))
    assert "anonymous" in readers(users, anns)
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns, Condition={"NotIpAddress": {"aws:SourceIp": "127.0.0.0/8"}}))
    assert readers(users, anns) == ["root", "ann"]


def test_policy_for_tags_that_a_request_gives(users, anns):
    """The tags of PutObject stand in a header, those of PutObjectTagging and of a form in the body: all are evaluated."""
    wanted = {"Condition": {"StringEquals": {"s3:RequestObjectTag/stage": "open"}}}
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"1")
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns, action=["s3:PutObject", "s3:PutObjectTagging"], **wanted))
    tags = {stage: {"TagSet": [{"Key": "stage", "Value": stage}]} for stage in ("open", "shut")}
    assert code_of(users["bob"].put_object, Bucket=anns, Key="b", Body=b"", Tagging="stage=open") == "ok"
    assert code_of(users["bob"].put_object, Bucket=anns, Key="b", Body=b"", Tagging="stage=shut") == "AccessDenied"
    assert code_of(users["bob"].put_object_tagging, Bucket=anns, Key="k", Tagging=tags["open"]) == "ok"
    assert code_of(users["bob"].put_object_tagging, Bucket=anns, Key="k", Tagging=tags["shut"]) == "AccessDenied"
    assert code_of(users["bob"].put_object_tagging, Bucket=anns, Key="k", Tagging={"TagSet": []}) == "AccessDenied"
    assert code_of(users["bob"].delete_object_tagging, Bucket=anns, Key="k") == "AccessDenied"
    document = "<Tagging><TagSet><Tag><Key>stage</Key><Value>{}</Value></Tag></TagSet></Tagging>"
    url = f"{users['bob'].meta.endpoint_url}/{anns}"
    assert post_form(url, {"key": "f", "tagging": document.format("open")}, b"1")[0] == 204
    assert post_form(url, {"key": "f", "tagging": document.format("shut")}, b"1")[0] == 403
    # A Deny holds for the owner, too.
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns, "Deny", action="s3:PutObjectTagging", Condition={"StringNotEquals": {"s3:RequestObjectTag/stage": "open"}}))
    assert code_of(users["ann"].put_object_tagging, Bucket=anns, Key="k", Tagging=tags["open"]) == "ok"
    assert code_of(users["ann"].put_object_tagging, Bucket=anns, Key="k", Tagging=tags["shut"]) == "AccessDenied"
    assert code_of(users["bob"].put_object_tagging, Bucket=anns, Key="k", Tagging=tags["open"]) == "AccessDenied"
    assert users["ann"].get_object_tagging(Bucket=anns, Key="k")["TagSet"] == tags["open"]["TagSet"]


def test_policy_that_wants_conditional_writes(users, anns):
    refuse = policy(anns, "Deny", action="s3:PutObject", Condition={"Null": {"s3:if-none-match": "true"}})
    users["ann"].put_bucket_policy(Bucket=anns, Policy=refuse)
    assert code_of(users["ann"].put_object, Bucket=anns, Key="k", Body=b"") == "AccessDenied"
    assert code_of(users["ann"].put_object, Bucket=anns, Key="k", Body=b"", IfNoneMatch="*") == "ok"


def test_a_form_without_a_policy(users, anns):
    """It is a PUT by a caller without a key: who may write so may send it."""
    url = f"{users['ann'].meta.endpoint_url}/{anns}"
    form = {"key": "up/${filename}", "acl": "public-read", "success_action_status": "201"}
    assert post_form(url, form, b"1", name="f")[0] == 403
    assert post_form(url + "-none", form, b"1")[0] == 404
    users["ann"].put_bucket_acl(Bucket=anns, ACL="public-read-write")
    status, _, answer = post_form(url, form, b"1", name="f")
    assert status == 201 and b"<Key>up/f</Key>" in answer
    assert readers(users, anns, "up/f") == ["root", "ann", "bob", "anonymous"]
    assert post_form(url, {**form, "AWSAccessKeyId": USERS["bob"][0], "signature": "x"}, b"2")[0] == 400  # a claim needs its policy


def test_uploads_have_owners(users, anns):
    users["ann"].put_bucket_acl(Bucket=anns, ACL="public-read-write")
    ids = {name: users[name].create_multipart_upload(Bucket=anns, Key=name)["UploadId"] for name in ("ann", "bob")}
    listed = users["ann"].list_multipart_uploads(Bucket=anns)["Uploads"]
    assert [(u["Key"], u["Owner"]["ID"], u["Initiator"]["ID"]) for u in listed] == [("ann", "ann", "ann"), ("bob", "bob", "bob")]
    for name, upload in ids.items():
        parts = users["root"].list_parts(Bucket=anns, Key=name, UploadId=upload)
        assert (parts["Owner"]["ID"], parts["Initiator"]["ID"]) == (name, name)
    users["ann"].put_bucket_ownership_controls(Bucket=anns, OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]})
    given = users["bob"].create_multipart_upload(Bucket=anns, Key="given", ACL="bucket-owner-full-control")["UploadId"]
    assert users["root"].list_parts(Bucket=anns, Key="given", UploadId=given)["Owner"]["ID"] == "ann"


def test_a_missing_bucket_is_missing_for_everybody(users):
    """As with AWS: 404, with a key and without; making one takes the right to."""
    for name, client in users.items():
        assert code_of(client.get_object, Bucket="no-such-bucket", Key="k") == "NoSuchBucket", name
        assert code_of(client.delete_object, Bucket="no-such-bucket", Key="k") == "NoSuchBucket", name
        assert code_of(client.list_objects_v2, Bucket="no-such-bucket") == "NoSuchBucket", name
        assert code_of(client.head_bucket, Bucket="no-such-bucket") == "404", name
    assert code_of(users["anonymous"].create_bucket, Bucket="no-such-bucket") == "AccessDenied"
    assert code_of(users["anonymous"].list_objects_v2, Bucket="no-such-bucket", Prefix="") == "NoSuchBucket"


def test_policy_that_is_refused(users, anns):
    for text, says in (("{", "JSON"), (policy("other"), "other"), (policy(anns, action="iam:Pass"), "iam:Pass"), ("x" * 21000, "20480")):
        with pytest.raises(botocore.exceptions.ClientError) as e:
            users["ann"].put_bucket_policy(Bucket=anns, Policy=text)
        assert e.value.response["Error"]["Code"] == "MalformedPolicy" and says in e.value.response["Error"]["Message"]
    assert code_of(users["ann"].get_bucket_policy, Bucket=anns) == "NoSuchBucketPolicy"


def test_public_access_block(users, anns):
    def block(**bits):
        names = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
        users["ann"].put_public_access_block(Bucket=anns, PublicAccessBlockConfiguration={name: bits.get(name, False) for name in names})

    assert code_of(users["ann"].get_public_access_block, Bucket=anns) == "NoSuchPublicAccessBlockConfiguration"
    users["ann"].put_object(Bucket=anns, Key="k", Body=b"1", ACL="public-read")
    block(BlockPublicAcls=True, BlockPublicPolicy=True)
    assert users["ann"].get_public_access_block(Bucket=anns)["PublicAccessBlockConfiguration"]["BlockPublicAcls"] is True
    assert code_of(users["ann"].put_object, Bucket=anns, Key="x", Body=b"", ACL="public-read") == "AccessDenied"
    assert code_of(users["ann"].put_bucket_acl, Bucket=anns, ACL="public-read") == "AccessDenied"
    assert code_of(users["ann"].put_bucket_policy, Bucket=anns, Policy=policy(anns)) == "AccessDenied"
    assert "anonymous" in readers(users, anns)
    block(IgnorePublicAcls=True)
    assert readers(users, anns) == ["root", "ann"]
    users["ann"].delete_public_access_block(Bucket=anns)
    users["ann"].put_object_acl(Bucket=anns, Key="k", ACL="private")
    users["ann"].put_bucket_policy(Bucket=anns, Policy=policy(anns))
    assert "anonymous" in readers(users, anns)
    block(RestrictPublicBuckets=True)
    assert readers(users, anns) == ["root", "ann"]


def test_ownership_controls(users, anns):
    def owned(how):
        users["ann"].put_bucket_ownership_controls(Bucket=anns, OwnershipControls={"Rules": [{"ObjectOwnership": how}]})

    def owner_of(key):
        return users["root"].get_object_acl(Bucket=anns, Key=key)["Owner"]["ID"]

    assert code_of(users["ann"].get_bucket_ownership_controls, Bucket=anns) == "OwnershipControlsNotFoundError"
    users["ann"].put_bucket_acl(Bucket=anns, ACL="public-read-write")
    users["bob"].put_object(Bucket=anns, Key="first", Body=b"")
    assert owner_of("first") == "bob"
    owned("BucketOwnerPreferred")
    users["bob"].put_object(Bucket=anns, Key="second", Body=b"", ACL="bucket-owner-full-control")
    assert owner_of("second") == "ann"
    with pytest.raises(botocore.exceptions.ClientError, match="InvalidBucketAclWithObjectOwnership"):
        owned("BucketOwnerEnforced")
    users["ann"].put_bucket_acl(Bucket=anns, ACL="private")
    owned("BucketOwnerEnforced")
    assert code_of(users["ann"].put_object, Bucket=anns, Key="x", Body=b"", ACL="public-read") == "AccessControlListNotSupported"
    assert code_of(users["ann"].put_object_acl, Bucket=anns, Key="first", ACL="public-read") == "AccessControlListNotSupported"
    assert "bob" not in readers(users, anns, "first")
    users["ann"].delete_bucket_ownership_controls(Bucket=anns)
    assert "bob" in readers(users, anns, "first")


def test_all_of_it_outlives_a_restart(start_forebay, tmp_path):
    def start():
        process = start_forebay(args=("--auth", "--credentials", str(tmp_path / "keys")), settings={"s3.region": "eu-1"})
        unsigned = botocore.config.Config(signature_version=botocore.UNSIGNED, s3={"addressing_style": "path"})
        everybody = {name: boto(process.endpoint, keys) for name, keys in USERS.items()}
        return process, everybody | {"anonymous": boto3.client("s3", endpoint_url=process.endpoint, region_name="us-east-1", config=unsigned)}

    write_keys(tmp_path)
    process, users = start()
    users["ann"].create_bucket(Bucket="anns")
    users["ann"].put_object(Bucket="anns", Key="k", Body=b"1", GrantRead='id="bob"')
    users["ann"].put_object(Bucket="anns", Key="p", Body=b"1")
    users["ann"].put_bucket_policy(Bucket="anns", Policy=policy("anns", resource="/p"))
    process.end()
    process, users = start()
    assert readers(users, "anns") == ["root", "ann", "bob"]
    assert readers(users, "anns", "p") == ["root", "ann", "bob", "anonymous"]
    assert code_of(users["bob"].delete_bucket, Bucket="anns") == "AccessDenied"
    assert code_of(users["ann"].create_bucket, Bucket="anns") == "BucketAlreadyOwnedByYou"  # outside us-east-1
