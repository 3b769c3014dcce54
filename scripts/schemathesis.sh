#!/usr/bin/env bash
# Schemathesis over the OpenAPI document, against a live `rejoin dev`: with a key, and without one. Writes
# docs/reports/reliability/schemathesis.md. In the environment: SEED=1, MAX_EXAMPLES=25 (for each operation and phase).
# What it may ask and expect: scripts/schemathesis/schemathesis.toml; streams without end: scripts/schemathesis/hooks.py.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
# A server of its own, whatever DATABASE_URL names.
unset DATABASE_URL
setup_postgres

VERSION=$(sed -n 's/^schemathesis==\([0-9.]*\).*/\1/p' scripts/wheels/schemathesis.txt)
# How long the server may take to be there.
READY_TRIES=600

seed=${SEED:-1}
max_examples=${MAX_EXAMPLES:-25}
target=${CARGO_TARGET_DIR:-$PWD/target}
venv=$PWD/.cache/schemathesis-$VERSION

setup_schemathesis() {
    if [ -x "$venv/bin/st" ]; then
        return
    fi
    if ! { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }; then
        can_apt || die "Python with venv is missing. On Debian: apt-get install python3-venv"
        apt_install python3-venv
    fi
    say "installing schemathesis $VERSION into .cache"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r scripts/wheels/schemathesis.txt
}

setup_schemathesis
say "building"
cargo build --locked -p rejoin

dir=$(mktemp -d /tmp/rejoin-schemathesis.XXXXXX)
dev=
end() {
    if [ -n "$dev" ]; then
        kill -TERM "$dev" 2>/dev/null || true
        wait "$dev" 2>/dev/null || true
    fi
    rm -rf "$dir"
}
trap end EXIT
# No model's keys: the demo model answers, without pauses.
env -u OPENAI_API_KEY -u OPENAI_BASE_URL -u ANTHROPIC_API_KEY -u GEMINI_API_KEY REJOIN_DEMO_WORD_MS=0 \
    "$target/debug/rejoin" dev --json --port 0 --workers 1 --data-dir "$dir/data" >"$dir/ready.json" 2>"$dir/dev.log" &
dev=$!
for _ in $(seq "$READY_TRIES"); do
    [ -s "$dir/ready.json" ] && break
    kill -0 "$dev" 2>/dev/null || die "rejoin dev ended: $(cat "$dir/dev.log")"
    sleep 0.1
done
[ -s "$dir/ready.json" ] || die "rejoin dev did not become ready: $(cat "$dir/dev.log")"

field() { "$venv/bin/python" -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$dir/ready.json" "$1"; }
url=$(field url)
# Real ids, so that not everything is a 404.
PROJECT=$(field projectId)
export PROJECT

status=0
# run NAME ARGUMENT…: one pass, with its report.
run() {
    local name=$1
    shift
    say "schemathesis, $name"
    PYTHONPATH=scripts/schemathesis "$venv/bin/st" --config-file scripts/schemathesis/schemathesis.toml run "$url/openapi.json" \
        --no-color --checks all --seed "$seed" --max-examples "$max_examples" --report json --report-dir "$dir/$name" "$@" \
        >"$dir/$name.txt" 2>&1 || status=$?
    tail -n 40 "$dir/$name.txt" >&2
}
run with-key --header "Authorization: Bearer $(field apiKey)"
run without-key
if [ "$status" != 0 ]; then
    rm -rf "$target/schemathesis-failed"
    cp -r "$dir" "$target/schemathesis-failed"
    die "schemathesis found something: see $target/schemathesis-failed"
fi
"$venv/bin/python" scripts/schemathesis/report.py "$dir" "$VERSION" "$seed" "$max_examples" >docs/reports/reliability/schemathesis.md
say "docs/reports/reliability/schemathesis.md is written"
