#!/usr/bin/env bash
# Chaos runs over two databases, between which projects move: docs/operations/cells.md. In the environment:
#   SEEDS=1..3         plans of load, faults and moves, a run for each
#   CELLS_SECONDS=120  how long faults are injected, and projects moved, in each run
#   REPORT=FILE        the verdicts go there, too
# Further arguments go to `chaos cells` (chaos list says which faults and loads there are).
# shellcheck source-path=SCRIPTDIR
# The run starts the servers itself, whatever DATABASE_URL names.
unset DATABASE_URL
source "$(dirname "${BASH_SOURCE[0]}")/setup-chaos.sh"

profile=${PROFILE:-fast}
build_chaos "$profile"
exec "${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/chaos" cells \
    --seeds "${SEEDS:-1}" \
    --seconds "${CELLS_SECONDS:-120}" \
    ${REPORT:+--report "$REPORT"} "$@"
