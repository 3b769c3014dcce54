#!/usr/bin/env bash
# All tests. The integration tests start the built binaries, so those are built first. Without arguments, short chaos runs follow: the
# product under load and faults, and builds that break a promise each, which the checker must notice.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-test.sh"
source scripts/setup-chaos.sh

# With a build that is there, the tests' databases; otherwise the build, too.
if [ -d "${CARGO_TARGET_DIR:-target}/debug/deps" ]; then
    needs_disk 8 "make test"
else
    needs_disk 20 "make test"
fi

fetching=
client_tests=
packages_tests=
ended() {
    [ -z "$fetching" ] || kill "$fetching" 2>/dev/null || true
    [ -z "$client_tests" ] || kill "$client_tests" 2>/dev/null || true
    # A process group.
    [ -z "$packages_tests" ] || kill -- "-$packages_tests" 2>/dev/null || true
    [ -z "${IN_MEMORY:-}" ] || rm -rf "$IN_MEMORY"
}
trap ended EXIT
keep_tests_in_memory 12

# What Python has compiled is kept, out of the source tree: programs of tests start in half the time.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$PWD/.cache/pycache

# A test that never ends is named, and does not cost the whole run: TEST_SILENCE_S seconds without a line of output end it (some parts print one only when they have passed).
watched() {
    if have python3; then
        python3 scripts/watched.py "${TEST_SILENCE_S:-600}" "$@"
    else
        "$@"
    fi
}

test_models() {
    say "a real model calls a real tool"
    # 3: the model or llama.cpp can't be had here, which is said.
    NO_BUILD=1 watched scripts/test-model.sh || [ $? = 3 ] || die "the test with a real model failed"
    say "the probe of providers, against a stand-in"
    NO_BUILD=1 watched scripts/probe-providers.sh --self-test
}

# One after the other: they build the TypeScript package in the same folder.
test_packages() {
    watched scripts/test-sdk-typescript.sh && watched scripts/test-adapters.sh && watched scripts/test-packages.sh
}

# The tests bring their own PostgreSQL, whatever DATABASE_URL says.
if [ $# -gt 0 ]; then
    cargo build --locked --workspace --bins
    cargo test --locked --workspace "$@"
    exit
fi
# What later parts need is fetched meanwhile; where that fails, those parts say so.
mkdir -p .cache
(
    find_node && setup_web_modules && setup_example_modules
    python_tools scripts/wheels/sdk.txt "$PWD/.cache/sdk" "the tests of the Python client"
) >.cache/fetching.log 2>&1 &
fetching=$!
# In one go: while one program is linked, the next is compiled.
cargo build --locked --workspace --bins --tests
# Many tests wait for a moment.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}
watched cargo test --locked --workspace --lib --bins --tests
if [ -x "$PGBOUNCER_CACHE/pgbouncer" ]; then
    say "a selection of them through PgBouncer"
    watched scripts/test-pooler.sh
fi
wait "$fetching" || true
fetching=
if ! { find_node && setup_web_modules; }; then
    [ -z "${CI:-}" ] || die "the web app's tests need Node.js and its packages, and they can't be had here"
    say "SKIPPED: the web app's tests (no Node.js, or its packages can't be installed)"
    test_models
else
    setup_example_modules || say "the packages of the example pages can't be installed here: their tests are skipped (in CI they fail)"
    say "web: the client of streams, and the app in a browser"
    export REJOIN_TEST_BIN
    REJOIN_TEST_BIN=$(realpath "${CARGO_TARGET_DIR:-target}/debug/rejoin")
    # Side by side: both mostly wait for answers.
    (cd web/packages/client && REJOIN_TEST_MEETINGS=8 npm test --silent >"$OLDPWD/.cache/client-tests.log" 2>&1) &
    client_tests=$!
    watched npm --prefix web run --silent test:app
    wait "$client_tests" || {
        cat .cache/client-tests.log >&2
        die "the client's tests failed"
    }
    client_tests=
    say "the TypeScript package, agents of other frameworks, and the packages for pip, npm and apt; beside them the Python package"
    # Used by both.
    python_tools scripts/wheels/sdk.txt "$PWD/.cache/sdk" "the tests of the Python client"
    # Side by side: they mostly wait for answers.
    set -m
    test_packages >.cache/packages-tests.log 2>&1 &
    packages_tests=$!
    set +m
    watched scripts/test-sdk.sh
    test_models
    wait "$packages_tests" || {
        cat .cache/packages-tests.log >&2
        die "the tests of packages failed"
    }
    packages_tests=
    grep '^== ' .cache/packages-tests.log >&2 || true
fi
say "chaos: builds that break a promise"
PROFILE=dev watched scripts/chaos-broken.sh
say "chaos: the product"
PROFILE=dev SEED=7 SECONDS_OF_FAULTS=60 watched scripts/chaos.sh
