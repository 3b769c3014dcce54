#!/usr/bin/env bash
# Asks the provider of each key that is set, through the product: a tool, an image, an answer as data, a repeat that is cached. Prints a
# table, fails on any refusal, and ends with 2 where no key is set. docs/guide/models.md says what it costs and what it asserts.
# --self-test asks a stand-in on this machine instead, which needs no key: a test of the probe.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

probe=(node scripts/probe-providers/probe.mjs)
[ "${1:-}" != --self-test ] || probe=(node scripts/probe-providers/test.mjs)
# Before anything is built.
[ "${1:-}" = --self-test ] || scripts/probe-providers/keys.sh || exit 2
source scripts/setup.sh
NO_WEB_BUILD=${NO_BUILD:-} source scripts/setup-web.sh
find_node || die "no Node.js, and it can't be fetched here"
[ -n "${NO_BUILD:-}" ] || cargo build --locked -p rejoin --bins
# A server of its own, whatever is set for another.
unset DATABASE_URL
exec "${probe[@]}" "$(realpath "${CARGO_TARGET_DIR:-target}/debug/rejoin")"
