#!/usr/bin/env bash
# Builds that break one promise each: a case of the kill-and-resume suite must notice every one. conformance-broken.sh [NAME…], all unless named.
# shellcheck source-path=SCRIPTDIR
unset DATABASE_URL
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# A debug build can break its promises as it is.
have python3 || { can_apt && apt_install python3; } || die "the programs of users, which some of the cases kill, need python3"
cargo build --locked --workspace --bin resume-suite --bin rejoin
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
export RESUME_SUITE_REJOIN=$target/rejoin
exec "$target/resume-suite" broken --target rejoin "$@"
