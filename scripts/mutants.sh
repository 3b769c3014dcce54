#!/usr/bin/env bash
# Mutation tests of what keeps tenants, leases and data: one build in which all mutants are, each behind a switch, and for each the
# tests that reach it. mutants.sh [PATTERN…]: the files whose mutants are built and tried (default: all of SCOPE). It takes hours, and resumes
# where it was stopped; docs/reports/mutants.md is written anew. (Mutants whose tests are new: take them out of target/mutants/results.json, or remove it.)
# In the environment: MUTANTS_PARALLEL=2, how many are tried at once.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
# The tests bring their own PostgreSQL.
unset DATABASE_URL

VERSION=27.1.0
SCOPE=(
    shared/http/src/caller.rs shared/http/src/authentication.rs shared/http/src/authorization.rs shared/identity/src/auth.rs shared/identity/src/auth/tickets.rs shared/db/src/row_security.rs shared/db/src/rls.rs shared/identity/src/initiators.rs
    shared/queue/src/lib.rs 'shared/queue/src/*.rs' shared/event-log/src/lib.rs 'shared/event-log/src/**/*.rs'
    shared/commands/src/lib.rs 'shared/commands/src/**/*.rs' extensions/data-sources/src/guard.rs 'extensions/data-sources/src/guard/**/*.rs'
)
tools=$PWD/.cache/cargo-mutants-$VERSION
venv=$PWD/.cache/mutants
out=$PWD/target/mutants
# Not the folder of other builds: these binaries have mutants in them.
export CARGO_TARGET_DIR=$out/build

[ -x "$tools/bin/cargo-mutants" ] || cheap_install cargo-mutants "$VERSION" "$tools"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r scripts/wheels/mutants.txt
mkdir -p "$out"

say "listing mutants"
"$tools/bin/cargo-mutants" mutants --list --json "${SCOPE[@]/#/--file=}" >"$out/listed.json"
say "putting each behind a switch"
"$venv/bin/python" scripts/mutants/instrument.py . "$out/tree" "$out/listed.json" "$out/mutants.json" "$@" -- \
    cargo check --locked -p rejoin-db -p rejoin-queue -p rejoin-event-log -p rejoin-identity -p rejoin-commands -p rejoin-data-sources -p rejoin-http -p rejoin-api -p rejoin-worker --lib --tests
say "building all of them at once"
(
    cd "$out/tree"
    cargo test --locked --no-run -p rejoin-tests -p rejoin-db -p rejoin-queue -p rejoin-event-log -p rejoin-identity -p rejoin-commands -p rejoin-data-sources -p rejoin-http -p rejoin-api --lib --test "*"
    cargo build --locked -p rejoin -p rejoin-tests --bins
)
say "trying them"
"$venv/bin/python" scripts/mutants/run.py "$out/tree" "$out/mutants.json" "$out/results.json" "$@"
"$venv/bin/python" scripts/mutants/report.py "$out/mutants.json" "$out/results.json" "$(git rev-parse --short HEAD)" >docs/reports/mutants.md
