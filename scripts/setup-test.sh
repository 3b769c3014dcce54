#!/usr/bin/env bash
# Also what a few tests need beside `make setup`: a browser, the local embedding model, MariaDB, stand-ins for MongoDB and BigQuery, DuckDB's program, and MCP programs of other people. A test whose tool is missing says so and is skipped.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
source scripts/setup-search.sh
source scripts/setup-web.sh
source scripts/setup-browser.sh

# A server that tests start by themselves, as a data source.
setup_mariadb() {
    if have mariadbd || [ -x /usr/sbin/mariadbd ]; then
        return
    fi
    if ! can_apt || ! apt_install mariadb-server; then
        say "no MariaDB, and it can't be installed here: its tests will say SKIPPED"
    fi
}

# The browser's tests make a small database with it.
setup_sqlite() {
    if have sqlite3; then
        return
    fi
    if ! can_apt || ! apt_install sqlite3; then
        say "no sqlite3, and it can't be installed here: the tests of consoles in the browser will fail"
    fi
}

setup_mariadb
setup_sqlite
source scripts/setup-mcp.sh
source scripts/setup-sources.sh
