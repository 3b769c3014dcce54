#!/usr/bin/env bash
# A short selection of the integration tests, with PgBouncer in transaction mode between the tests' processes and PostgreSQL (docs/operations/poolers.md): turns,
# tools of clients, sub-agents, cancellations, crashes, streams. A part of `make test`. Arguments replace the selection: scripts/test-pooler.sh chat::turns.
# REJOIN_TEST_POOLER=true cargo test runs any test so; those that count statements, look at sessions or bring their own server have their own ways.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
source scripts/setup-pgbouncer.sh

if [ $# -eq 0 ]; then
    set -- pooled_harness:: chat::turns:: chat::replies:: chat::client_tools:: agents::spawning:: \
        events::sse:: events::run_streams:: reliability::crash:: reliability::cancellation::
fi
[ -x "$PGBOUNCER_CACHE/pgbouncer" ] || die "these tests need PgBouncer $PGBOUNCER_VERSION, and it can't be built here"
export REJOIN_TEST_POOLER=true
# The tests start the built binaries. Both of the whole workspace: with one package alone, dependencies have other features, and are compiled again.
cargo build --locked --workspace --bins
exec cargo test --locked --workspace --test conversations --test engine --test operators -- "$@"
