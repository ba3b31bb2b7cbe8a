#!/usr/bin/env bash
# s3tests.sh [AREA...]: runs the public S3 conformance suite from ../shared/suites/s3-tests or S3TESTS_SUITE, where that
# is, against build/forebay. Fails when fewer tests pass than S3TESTS_LEAST; docs/s3.md says why the others do not.
. "$(dirname "$0")/lib.sh"

S3TESTS_LEAST=${S3TESTS_LEAST:-372} # 375 pass; up to three need more than their minute on a loaded machine
port=${S3TESTS_PORT:-9670}
suite=${S3TESTS_SUITE:-$(cd "$root/.." && pwd)/shared/suites/s3-tests}
[ -f "$suite/run.py" ] || { say "s3tests: skipped, there is no $suite"; exit 0; }
venv=$root/.clients/s3tests
if [ ! -x "$venv/bin/pytest" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check --no-input pytest pytest-xdist pytest-timeout boto3 munch \
        gevent isodate requests pytz httplib2 lxml PyYAML
fi
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$dir"' EXIT
"$venv/bin/python" "$suite/run.py" --credentials >"$dir/credentials"
chmod 600 "$dir/credentials"
"$root/build/forebay" serve "$dir/data" --listen "127.0.0.1:$port" --auth --credentials "$dir/credentials" >"$dir/log" 2>&1 &
server=$!
for _ in $(seq 100); do
    curl -sf "http://127.0.0.1:$port/_/readyz" >/dev/null && break
    kill -0 "$server" 2>/dev/null || { cat "$dir/log" >&2; die "the server for the suite did not start"; }
    sleep 0.2
done
"$venv/bin/python" "$suite/run.py" -v 127.0.0.1 "$port" "$@" | tee "$dir/out"
passed=$(sed -n 's/^\([0-9]*\) passed of .*/\1/p' "$dir/out")
of=$(sed -n 's/^[0-9]* passed of \([0-9]*\)$/\1/p' "$dir/out")
say "s3tests: ${passed:-0} passed, $((${of:-0} - ${passed:-0})) failed or were skipped; $S3TESTS_LEAST of all have to pass"
[ $# -gt 0 ] || [ "${passed:-0}" -ge "$S3TESTS_LEAST" ] || die "$passed tests passed, at least $S3TESTS_LEAST are expected"
