#!/usr/bin/env bash
# All tests. The integration tests start the built binaries, so those are built first.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-test.sh"

cargo build --locked -p rejoin -p rejoin-bench
# The tests bring their own PostgreSQL, whatever DATABASE_URL says.
exec cargo test --locked --workspace "$@"
