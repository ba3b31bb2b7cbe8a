#!/usr/bin/env python3
"""Builds the wheel of the package: these files and libforebay.so from the build folder. Needs nothing but the standard library.

    build_backend.py FOLDER        writes FOLDER/forebay-VERSION-py3-none-PLATFORM.whl and prints its path

It is also the build backend that pyproject.toml names (PEP 517), so `pip wheel python/` and `pip install python/` work once
`tools/build.sh rel libforebay` has run. The same inputs give the same bytes.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
LIBRARY = pathlib.Path(os.environ.get("FOREBAY_LIBRARY", ROOT / "build/lib/libforebay.so"))
DATE = (2025, 1, 1, 0, 0, 0)
METADATA = """\
Metadata-Version: 2.1
Name: forebay
Version: {version}
Summary: Objects, batches and training data sets from a Forebay server
Requires-Python: >=3.9
Provides-Extra: fsspec
Requires-Dist: fsspec; extra == "fsspec"
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
Description-Content-Type: text/markdown

{readme}"""


def version():
    return re.search(r"^project\(forebay VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE).group(1)


def tag():
    return "py3-none-" + re.sub("[-.]", "_", sysconfig.get_platform())


def library():
    """The bytes of libforebay.so, without what only a debugger reads."""
    if not LIBRARY.exists():
        raise SystemExit(f"{LIBRARY} does not exist: `make wheel` builds it, or tools/build.sh rel libforebay")
    strip = shutil.which("strip")
    if strip is None:
        return LIBRARY.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "libforebay.so"
        subprocess.run([strip, "--strip-unneeded", "-o", copy, LIBRARY], check=True)
        return copy.read_bytes()


def files():
    """[(name in the wheel, bytes)]"""
    info = f"forebay-{version()}.dist-info"
    sources = [*sorted((HERE / "forebay").glob("*.py")), HERE / "forebay/py.typed"]
    found = [(f"forebay/{path.name}", path.read_bytes().replace(b"@VERSION@", version().encode())) for path in sources]
    found.append(("forebay/libforebay.so", library()))
    found.append((f"{info}/METADATA", METADATA.format(version=version(), readme=(HERE / "README.md").read_text()).encode()))
    found.append((f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: forebay\nRoot-Is-Purelib: false\nTag: {tag()}\n".encode()))
    found.append((f"{info}/entry_points.txt", b"[fsspec.specs]\nforebay = forebay.filesystem:ForebayFileSystem\n"))
    found.append((f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes()))
    sums = [(name, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), len(data)) for name, data in found]
    record = "".join(f"{name},sha256={digest},{size}\n" for name, digest, size in sums) + f"{info}/RECORD,,\n"
    return [*found, (f"{info}/RECORD", record.encode())]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"forebay-{version()}-{tag()}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files():
            entry = zipfile.ZipInfo(path, DATE)
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return name


def main(folder):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    print(pathlib.Path(folder) / build_wheel(folder))


if __name__ == "__main__":
    main(sys.argv[1])
