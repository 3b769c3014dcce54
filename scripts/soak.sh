#!/usr/bin/env bash
# Two thousand conversations for an hour, and whether memory and tables stay as large as they are. In the environment:
#   MINUTES=60   how long
# Further arguments go to `chaos soak`; its report and plots go to docs/reports/reliability, unless --out says otherwise.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-chaos.sh"
# A server of its own, whatever DATABASE_URL names.
unset DATABASE_URL

profile=${PROFILE:-fast}
build_chaos "$profile"
exec "${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/chaos" soak --minutes "${MINUTES:-60}" "$@"
