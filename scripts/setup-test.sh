#!/usr/bin/env bash
# Also what a few tests need beside `make setup`: a browser, the local embedding model, MariaDB, two versions of PgBouncer, a NATS server, stand-ins for MongoDB and BigQuery,
# DuckDB's program, an object store, a collector of traces, Prometheus' promtool, a PostgreSQL with pgvector, MCP programs of other people, and the clients of model providers. A test
# whose tool is missing is skipped and says so; with CI=true it fails.
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
        say "no MariaDB, and it can't be installed here: its tests are skipped (in CI they fail)"
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

# A pooler that drops startup options: what it would do to row-level security. (scripts/setup-pgbouncer.sh builds a newer one.)
setup_pgbouncer() {
    if [ -x /usr/sbin/pgbouncer ] || have pgbouncer; then
        return
    fi
    if ! can_apt || ! apt_install pgbouncer; then
        say "no pgbouncer, and it can't be installed here: its tests are skipped (in CI they fail)"
    fi
}

# The other bus of wake-ups; tests start and kill servers by themselves.
setup_nats() {
    if [ -x /usr/sbin/nats-server ] || have nats-server; then
        return
    fi
    if ! can_apt || ! apt_install nats-server; then
        say "no nats-server, and it can't be installed here: its tests are skipped (in CI they fail)"
    fi
}

setup_mariadb
setup_sqlite
setup_pgbouncer
setup_nats
source scripts/setup-pgbouncer.sh
source scripts/setup-mcp.sh
source scripts/setup-pgvector.sh
source scripts/setup-sources.sh
source scripts/setup-object-store.sh
source scripts/setup-collector.sh
source scripts/setup-promtool.sh
source scripts/setup-clients.sh
