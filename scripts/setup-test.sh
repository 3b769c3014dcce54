#!/usr/bin/env bash
# Also what a few tests need beside `make setup`: a browser, the local embedding model, and MCP programs of other people. A test whose tool is missing says so and is skipped.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
source scripts/setup-search.sh
source scripts/setup-web.sh
source scripts/setup-browser.sh
source scripts/setup-mcp.sh
