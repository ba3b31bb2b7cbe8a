"""docs/training.md: every Python block runs, in order, against a live server; its table of the grouped shuffle is what the script prints."""

import importlib.util
import os
import re
import subprocess
import sys
import warnings

import pytest
from rigs.process import PATIENCE, ROOT

from conftest import boto
from test_python import forebay, needs_library, wheel  # noqa: F401: fixtures

sys.path.insert(0, str(ROOT / "demo"))

pytestmark = needs_library
PAGE = ROOT / "docs/training.md"
MAY_BE_MISSING = {"nvidia", "datasets", "pandas"}  # and a block that wants one is skipped

RUNNER = """
import re, sys
page = open(sys.argv[1]).read()
for block in re.finditer("^```python\\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
    line = page.count("\\n", 0, block.start()) + 1
    try:
        exec(compile("\\n" * line + block.group(1), sys.argv[1], "exec"), globals())
        print(f"line {line}: ran")
    except ModuleNotFoundError as error:
        print(f"line {line}: SKIPPED {error.name.partition('.')[0]}")
"""


def test_every_block_of_the_page_runs(server, s3, wheel, forebay, tmp_path):  # noqa: F811
    data = pytest.importorskip("data", reason="scikit-learn or Pillow is not installed")
    for package in ("torch", "webdataset", "fsspec"):
        pytest.importorskip(package)
    data.fill(s3, "train", data.samples()[:600])
    access, secret = server.keys()
    env = {**os.environ, "FOREBAY_ENDPOINT": server.endpoint, "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", RUNNER, PAGE], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = set(re.findall(r"SKIPPED (\w+)", done.stdout))
    assert skipped <= MAY_BE_MISSING, done.stdout
    assert done.stdout.count(": ran") + len(skipped) == PAGE.read_text().count("```python") and done.stdout.count(": ran") >= 12
    assert "first batch after" in done.stdout  # what watch() prints
    if skipped:
        warnings.warn(f"blocks of docs/training.md were skipped for want of {', '.join(sorted(skipped))}", stacklevel=1)


def test_the_table_of_the_page_is_what_the_script_prints(forebay):  # noqa: F811
    spec = importlib.util.spec_from_file_location("shuffle_statistic", ROOT / "tools/shuffle-statistic.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    rows = list(script.table())
    page = PAGE.read_text().splitlines()
    assert all(row in page for row in rows), "\n".join(rows)
    excess = [float(row.split("|")[4].strip().rstrip("x")) for row in rows[2:]]
    assert excess == sorted(excess, reverse=True) and excess[-1] == 1.0  # a wider window is never worse
