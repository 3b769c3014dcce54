#!/usr/bin/env bash
# DAGs of tasks and trees of agents while workers are killed at random: each task once, each join once. Arguments go to `chaos dags`.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-chaos.sh"
# A server of its own, whatever DATABASE_URL names.
unset DATABASE_URL

profile=${PROFILE:-fast}
build_chaos "$profile"
exec "${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/chaos" dags "$@"
