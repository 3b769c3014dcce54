#!/usr/bin/env bash
# Builds that break one promise each: the checker must notice every one. chaos-broken.sh [NAME…], all unless named.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-chaos.sh"
unset DATABASE_URL

profile=${PROFILE:-fast}
target=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}
if [ "$profile" = dev ]; then
    # A debug build can break its promises as it is.
    build_chaos dev
    exec "$target/chaos" broken "$@"
fi
build_chaos "$profile" --features rejoin-chaos/fault-injection
# Under another name: what is called `chaos` keeps all promises.
cp --remove-destination "$target/chaos" "$target/chaos-broken"
exec "$target/chaos-broken" broken "$@"
