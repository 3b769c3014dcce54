#!/usr/bin/env bash
# Also what chaos runs need beside `make setup`: a program that lies about the time. Without it one kind of fault is left out.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

setup_clock() {
    if have faketime; then
        return
    fi
    if ! can_apt || ! apt_install faketime; then
        say "no faketime, and it can't be installed here: no worker's clock will be off"
    fi
}

# build_chaos PROFILE [OPTION…]. Out of the whole workspace, as the tests build their programs: with the same choice of packages each
# dependency has the same features, and is compiled once.
build_chaos() {
    cargo build --locked --workspace --bin chaos --profile "$@"
}

setup_clock
