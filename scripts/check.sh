#!/usr/bin/env bash
# What can be said about the code without running it.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

component() { cargo "$1" --version >/dev/null 2>&1 || rustup component add "$2"; }
component fmt rustfmt
component clippy clippy

say "format"
cargo fmt --all --check
say "lints"
cargo clippy --locked --workspace --all-targets -- -D warnings
if have shellcheck; then
    say "shell"
    shellcheck -x scripts/*.sh .ci/run
fi
if cargo deny --version >/dev/null 2>&1; then
    say "supply chain"
    cargo deny --locked check
else
    say "cargo-deny is not installed: advisories, licences and sources were not checked (cargo install cargo-deny)"
fi
