#!/usr/bin/env bash
# Chaos runs over a PostgreSQL that is a Patroni cluster: docs/operations/ha.md. In the environment:
#   SEEDS=1..3      plans of load and faults, a run for each
#   HA_SECONDS=300  how long faults are injected in each run
#   REPORT=FILE     the verdicts and times go there, too
# Further arguments go to `chaos ha` (chaos list says which faults and loads there are).
# shellcheck source-path=SCRIPTDIR
# The run starts the servers itself, whatever DATABASE_URL names.
unset DATABASE_URL
source "$(dirname "${BASH_SOURCE[0]}")/setup-ha.sh"

setup_programs
profile=${PROFILE:-fast}
build_chaos "$profile"
exec "${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/chaos" ha \
    --seeds "${SEEDS:-1}" \
    --seconds "${HA_SECONDS:-300}" \
    ${REPORT:+--report "$REPORT"} "$@"
