#!/usr/bin/env bash
# How the chat feels in a browser: its first load, an answer that streams, the time until a finished one is there, a search over many messages, a
# long list of chats. Prints tables, keeps them in bench/results/web.json, and writes docs/reports/web-performance.md. In the environment:
#   SIZE=full         full, smoke (that it works; says nothing, and writes nothing)
#   PARTS=            the parts to measure, such as search,list; then nothing is written. None: all
#   REJOIN_TEST_BIN=  a binary to measure; none: one is built
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
source scripts/setup-browser.sh
source scripts/setup-web.sh
# The page's server brings its own database, whatever DATABASE_URL names.
setup_postgres

find_node || die "the page is measured by Node.js, which is not here and can't be fetched"
setup_web_modules
if [ -z "${REJOIN_TEST_BIN:-}" ]; then
    say "building"
    cargo build --locked --profile fast --workspace --bin rejoin
    REJOIN_TEST_BIN=${CARGO_TARGET_DIR:-target}/fast/rejoin
fi
REJOIN_TEST_BIN=$(realpath "$REJOIN_TEST_BIN")
export REJOIN_TEST_BIN
# The browser that people have, not the one of tests.
export REJOIN_TEST_CHROMIUM=${REJOIN_TEST_CHROMIUM:-$(type -P chromium chromium-browser google-chrome | head -n 1)}
(cd web && exec node bench/bench.mjs)
