#!/usr/bin/env bash
# All tests. The integration tests start the built binary, so that is built first.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-test.sh"

cargo build --locked -p rejoin
# The tests bring their own PostgreSQL unless REJOIN_TEST_DATABASE_URL or DATABASE_URL names one.
exec cargo test --locked --workspace "$@"
