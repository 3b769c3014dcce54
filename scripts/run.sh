#!/usr/bin/env bash
# Builds, then becomes `rejoin dev`, so that Ctrl-C and signals reach it alone.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
source scripts/setup-search.sh
source scripts/setup-web.sh

say "building (the first time takes a few minutes)"
cargo build --locked -p rejoin
exec "${CARGO_TARGET_DIR:-target}/debug/rejoin" dev "$@"
