#!/usr/bin/env bash
# The example examples/dag: a coordinator splits a question into five tasks, three workers do them, and it answers. In the environment:
#   MODEL=scripted   a scripted model instead of the one that there is a key for (or the demo model)
#   QUESTION=…       another question
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
# A server of its own, whatever DATABASE_URL names.
unset DATABASE_URL

question=${QUESTION:-What is apt, and what is it for?}
say "building (the first time takes a few minutes)"
cargo build --locked -p rejoin -p rejoin-tests --bins
bin=${CARGO_TARGET_DIR:-target}/debug

dir=$(mktemp -d /tmp/rejoin-example.XXXXXX)
children=()
leave() {
    for child in "${children[@]}"; do
        # Whatever they end with.
        kill "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    done
    rm -rf "$dir"
}
trap leave EXIT

if [ "${MODEL:-}" = scripted ]; then
    port=$((20000 + RANDOM % 10000))
    "$bin/scripted-coordinator" "127.0.0.1:$port" &
    children+=($!)
    export OPENAI_BASE_URL=http://127.0.0.1:$port/v1 OPENAI_API_KEY=scripted REJOIN_MODEL=openai:scripted
fi
api_port=$((30000 + RANDOM % 10000))
"$bin/rejoin" dev --json --workers 3 --port "$api_port" --data-dir "$dir/data" >"$dir/ready" 2>"$dir/log" &
children+=($!)
say "starting an API, three workers and PostgreSQL"
until [ -s "$dir/ready" ]; do
    kill -0 "${children[-1]}" 2>/dev/null || { cat "$dir/log" >&2; die "rejoin dev has ended"; }
    sleep 0.2
done
field() { sed -E "s/.*\"$1\":\"([^\"]*)\".*/\1/" "$dir/ready"; }
REJOIN_URL=$(field url)
REJOIN_API_KEY=$(field apiKey)
REJOIN_PROJECT_ID=$(field projectId)
export REJOIN_URL REJOIN_API_KEY REJOIN_PROJECT_ID

"$bin/rejoin" install examples/dag/manifest.json

say "asking: $question"
"$bin/rejoin" chat --agent coordinator "$question"
echo
say "the tasks"
dag=$("$bin/rejoin" tasks list --json | sed -E 's/.*"id":"([^"]*)".*/\1/')
"$bin/rejoin" tasks show "$dag" --diagram text
"$bin/rejoin" tasks show "$dag" --diagram mermaid
