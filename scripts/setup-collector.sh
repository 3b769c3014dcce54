#!/usr/bin/env bash
# A collector of OpenTelemetry, for tests of traces: rotel's program, from a wheel of PyPI (10 MB), unpacked into .cache/collector. Without it
# these tests are skipped (in CI they fail).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
source scripts/postgres.sh

COLLECTOR_LIST=scripts/wheels/collector.txt
COLLECTOR_CACHE=.cache/collector

setup_collector() {
    local new
    if cmp -s "$COLLECTOR_LIST" "$COLLECTOR_CACHE/requirements.txt"; then
        return
    fi
    mkdir -p .cache
    new=$(mktemp -d .cache/collector.XXXXXX)
    say "fetching a collector of traces into $COLLECTOR_CACHE"
    if ! pip_download --dest "$new" --require-hashes -r "$COLLECTOR_LIST" || ! unpack "$new"/*.whl "$new/unpacked"; then
        rm -rf "$new"
        say "a collector of traces can't be fetched here: its tests are skipped (in CI they fail)"
        return
    fi
    chmod +x "$new/unpacked/rotel/rotel-agent"
    cp "$COLLECTOR_LIST" "$new/unpacked/requirements.txt"
    rm -rf "$COLLECTOR_CACHE"
    mv "$new/unpacked" "$COLLECTOR_CACHE"
    rm -rf "$new"
}

setup_collector
