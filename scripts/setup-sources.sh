#!/usr/bin/env bash
# Stand-ins for databases that tests ask as data sources, from PyPI, into .cache/source-servers: MongoDB's wire and BigQuery's API; and DuckDB's
# program, into .cache/duckdb. What can't be had is said; the tests that need it are skipped (in CI they fail).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

SOURCES_TO=.cache/source-servers

# DuckDB's own program, which asks files that are sources: PyPI has it as a wheel.
DUCKDB_VERSION=$(sed -n 's/^duckdb-cli==\([0-9.]*\).*/\1/p' scripts/wheels/duckdb.txt)

setup_duckdb() {
    if [ -x .cache/duckdb/duckdb_cli/duckdb ] && [ -d ".cache/duckdb/duckdb_cli-$DUCKDB_VERSION.dist-info" ]; then
        return
    fi
    rm -rf .cache/duckdb
    if [ -x "$SOURCES_TO/venv/bin/python" ] && "$SOURCES_TO/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --target .cache/duckdb --require-hashes -r scripts/wheels/duckdb.txt; then
        chmod +x .cache/duckdb/duckdb_cli/duckdb
    else
        say "pip can't install DuckDB's program here: its tests are skipped (in CI they fail)"
    fi
}

python_tools tests/source-servers/requirements.txt "$SOURCES_TO" "tests of MongoDB and BigQuery"
setup_duckdb
