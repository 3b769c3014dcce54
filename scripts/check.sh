#!/usr/bin/env bash
# What can be said about the code without running it. With CI set, queries are checked against a PostgreSQL with the migrations.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

fetching=
component() { cargo "$1" --version >/dev/null 2>&1 || rustup component add "$2"; }
component fmt rustfmt
component clippy clippy

say "format"
cargo fmt --all --check
if [ "${RUSTC_WORKSPACE_WRAPPER:-}" = clippy-driver ]; then
    # What is built here serves the tests, too, so the web app has to be there before. And what they need is fetched meanwhile.
    source scripts/setup-web.sh
    mkdir -p .cache
    scripts/setup-test.sh >.cache/setup-test.log 2>&1 &
    fetching=$!
    trap '[ -z "$fetching" ] || kill "$fetching" 2>/dev/null || true' EXIT
    # If a later Clippy did not work in this way, nothing would be linted.
    probe=$(mktemp -d)
    echo 'fn main() { let x = 1; assert!(x == x); }' >"$probe/main.rs"
    ! CARGO_PRIMARY_PACKAGE=1 clippy-driver rustc --emit metadata --out-dir "$probe" "$probe/main.rs" 2>"$probe/said" ||
        die "clippy-driver accepts a comparison of a value with itself"
    grep -q eq_op "$probe/said" || die "clippy-driver can't be used in rustc's place: $(cat "$probe/said")"
    rm -r "$probe"
fi
say "lints"
if [ -n "${CI:-}" ]; then
    # While it is at it: are the queries those that .sqlx was made of?
    scripts/sqlx.sh lint
else
    cargo clippy --locked --workspace --all-targets -- -D warnings
fi
if [ -n "$fetching" ]; then
    say "what the tests need"
    wait "$fetching" || die "scripts/setup-test.sh has failed: $(cat .cache/setup-test.log)"
    fetching=
fi
shell_lints=
if have shellcheck; then
    say "shell"
    # Beside what follows.
    shellcheck -x scripts/*.sh conformance/adapters/*/*.sh tests/object-store/*.sh .ci/run &
    shell_lints=$!
fi
# Outside the workspace, and so not looked at by anything above.
say "lock file of the fuzz targets"
cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
NO_WEB_BUILD=1 source scripts/setup-web.sh
if ! { find_node && setup_web_modules; }; then
    [ -z "${CI:-}" ] || die "the web app's lints need Node.js and its packages, and they can't be had here"
    say "SKIPPED: the web app's format and lints (no Node.js, or its packages can't be installed)"
else
    say "web: format and lints"
    (cd web && npm run --silent lint)
fi
scripts/test-deploy.sh
source scripts/supply-chain.sh
[ -z "$shell_lints" ] || wait "$shell_lints" || die "shellcheck has found something"
