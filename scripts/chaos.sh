#!/usr/bin/env bash
# The product under load while everything fails that can fail, and whether its promises were kept. In the environment:
#   SEED=1       plans of load and faults
#   MINUTES=2    how long faults rage; or SECONDS_OF_FAULTS
#   REPORT=FILE  the verdict goes there, too
# Further arguments go to `chaos run` (chaos list says which faults and loads there are).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-chaos.sh"
# A server of its own, whatever DATABASE_URL names.
unset DATABASE_URL

setup_programs
profile=${PROFILE:-fast}
build_chaos "$profile"
exec "${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/chaos" run \
    --seed "${SEED:-1}" \
    --seconds "${SECONDS_OF_FAULTS:-$((${MINUTES:-2} * 60))}" \
    ${REPORT:+--report "$REPORT"} "$@"
