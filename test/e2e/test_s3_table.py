"""docs/s3.md and the routes against what the SDK knows: nothing is missing, and nothing is taken for something else."""

import re

from conftest import ROOT
from test_boto3 import error_of


def sub_of(operation):
    """The query parameter that selects it, or None."""
    query = operation.http["requestUri"].partition("?")[2]
    names = [p.partition("=")[0] for p in query.split("&") if p]
    return next((n for n in names if n not in ("x-id", "list-type", "select-type")), None)


def test_every_operation_of_the_sdk_is_on_the_page(s3):
    page = (ROOT / "docs/s3.md").read_text()
    model = s3.meta.service_model
    missing = [name for name in model.operation_names if not re.search(rf"\b{name}\b", page)]
    assert not missing and len(model.operation_names) > 90


def test_every_sub_resource_of_the_sdk_is_known(s3):
    """One that is not would be answered as the plain operation: DELETE /bucket?unknown deletes the bucket."""
    source = (ROOT / "src/api/s3/route.c").read_text()
    known = set(re.findall(r'^    "([A-Za-z-]+)",$', source, re.MULTILINE))
    model = s3.meta.service_model
    wanted = {sub_of(model.operation_model(name)) for name in model.operation_names} - {None}
    assert wanted - known == set()


def test_what_deletes_a_setting_deletes_no_bucket(s3, bucket):
    assert error_of(s3.delete_bucket_metadata_configuration, Bucket=bucket) == (501, "NotImplemented")
    s3.head_bucket(Bucket=bucket)
