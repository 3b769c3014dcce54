#!/usr/bin/env bash
# Also what chaos runs need beside `make setup`: a program that lies about the time. Without it one kind of fault is left out. And users' programs in
# Python and TypeScript (setup_programs); without them, their tools are not called.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

setup_clock() {
    if have faketime; then
        return
    fi
    if ! can_apt || ! apt_install faketime; then
        say "no faketime, and it can't be installed here: no worker's clock will be off"
    fi
}

# The packages in sdk/, and what they need.
setup_programs() {
    NO_WEB_BUILD=1 source scripts/setup-web.sh
    python_tools scripts/wheels/sdk.txt "$PWD/.cache/sdk" "chaos runs with programs in Python" || true
    if [ -x .cache/sdk/venv/bin/python ]; then
        export CHAOS_PYTHON=$PWD/.cache/sdk/venv/bin/python
    fi
    if find_node && npm_modules sdk/typescript && (cd sdk/typescript && npm run --silent build); then
        CHAOS_NODE=$(type -P node)
        export CHAOS_NODE
    fi
    if [ -z "${CHAOS_PYTHON:-}" ] || [ -z "${CHAOS_NODE:-}" ]; then
        [ -z "${CI:-}" ] || die "chaos runs need Python and Node.js with their packages, and they can't be had here"
        say "SKIPPED: programs in Python or TypeScript in chaos runs (they can't be had here)"
    fi
}

# build_chaos PROFILE [OPTION…]. Out of the whole workspace, as the tests build their programs: with the same choice of packages each
# dependency has the same features, and is compiled once. A chaos run starts `rejoin`.
build_chaos() {
    cargo build --locked --workspace --bin chaos --bin rejoin --profile "$@"
}

setup_clock
