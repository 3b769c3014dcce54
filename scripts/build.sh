#!/usr/bin/env bash
# Builds the binary: target/debug/rejoin, or target/release/rejoin with --release.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
source scripts/setup-web.sh

cargo build --locked -p rejoin "$@"
