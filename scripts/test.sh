#!/usr/bin/env bash
# All tests. The integration tests start the built binary, so that is built first.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-test.sh"

cargo build --locked -p rejoin
# The tests bring their own PostgreSQL, whatever DATABASE_URL says.
exec cargo test --locked --workspace "$@"
