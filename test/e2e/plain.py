"""What tests of this folder call `plain`: HTTP without a client library's kindness."""

from rigs.plain import Reply, ask, get  # noqa: F401
