"""What tomllib makes of each file, one line a file and one a value, in the form of test_toml.c."""
import sys
import tomllib


def text(value):
    return value.encode().hex()


def show(value):
    if isinstance(value, bool):
        return "bool " + str(value).lower()
    if isinstance(value, int):
        return f"int {value}"
    if isinstance(value, str):
        return "str " + text(value)
    if isinstance(value, list):
        return "arr " + ",".join(text(v) if isinstance(v, str) else "?" for v in value)
    return "other"


def walk(prefix, table, out):
    for key, value in table.items():
        if isinstance(value, dict):
            walk(prefix + key + ".", value, out)
        else:
            out.append(f"{prefix}{key} {show(value)}")


for name in sys.argv[1:]:
    lines = []
    try:
        with open(name, "rb") as f:
            walk("", tomllib.loads(f.read().decode()), lines)
        verdict = "taken"
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        verdict = "refused"
        lines = []
    print(f"{name.rsplit('/', 1)[-1]}: {verdict}")
    for line in sorted(lines, key=lambda s: s.encode()):
        print(line)
