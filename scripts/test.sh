#!/usr/bin/env bash
# All tests. The integration tests start the built binaries, so those are built first. Without arguments, short chaos runs follow: the
# product under load and faults, and builds that break a promise each, which the checker must notice.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-test.sh"
source scripts/setup-chaos.sh

cargo build --locked -p rejoin -p rejoin-bench -p rejoin-tests --bins
# The tests bring their own PostgreSQL, whatever DATABASE_URL says.
if [ $# -gt 0 ]; then
    exec cargo test --locked --workspace "$@"
fi
cargo test --locked --workspace
say "chaos: builds that break a promise"
PROFILE=dev scripts/chaos-broken.sh
say "chaos: the product"
PROFILE=dev SEED=7 SECONDS_OF_FAULTS=60 scripts/chaos.sh
