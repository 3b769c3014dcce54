#!/usr/bin/env bash
# PgBouncer 1.24, built once into .cache/pgbouncer, for tests of a pooler in transaction mode: Debian 12's own 1.18 has no prepared statements
# there. Its source is that of Debian 13's package. What can't be had is said; the tests that need it are skipped (in CI they fail).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

PGBOUNCER_VERSION=1.24.1
PGBOUNCER_SHA256=da72a3aba13072876d055a3e58dd4aba4a5de4ed6148e73033185245598fd3e0
PGBOUNCER_CACHE=.cache/pgbouncer

# Prints the mirrors of Debian to ask: the one that apt uses, then the general one.
debian_mirrors() {
    if [ -d /etc/apt ]; then
        { grep -rhv '^ *#' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null || true; } |
            { grep -oE 'https?://[^ ]+/debian(/|$| )' || true; } | tr -d ' ' | sed 's|/$||' | sort -u | head -1
    fi
    printf '%s\n' http://deb.debian.org/debian
}

fetch_pgbouncer() {
    local target=$1 mirror
    while read -r mirror; do
        if curl --fail --silent --show-error --location --retry 5 --retry-all-errors --retry-delay 2 --connect-timeout 20 --output "$target" \
            "$mirror/pool/main/p/pgbouncer/pgbouncer_$PGBOUNCER_VERSION.orig.tar.gz" &&
            printf '%s  %s\n' "$PGBOUNCER_SHA256" "$target" | sha256sum --check --status; then
            return
        fi
    done < <(debian_mirrors)
    return 1
}

# build_pgbouncer FOLDER: leaves the program in FOLDER/pgbouncer. In a subshell: it changes the directory.
build_pgbouncer() (
    cd "$1"
    mkdir source
    tar -xzf source.tar.gz -C source --strip-components 1
    cd source
    ./configure --without-cares --without-pam --without-systemd >../build.log 2>&1
    make -j"$(nproc)" pgbouncer >>../build.log 2>&1
    mv pgbouncer ..
)

pgbouncer_needs() {
    have curl && have make && have gcc && have pkg-config && pkg-config --exists libevent openssl
}

setup_pgbouncer_transactions() {
    local new
    if [ -x "$PGBOUNCER_CACHE/pgbouncer" ] && "$PGBOUNCER_CACHE/pgbouncer" --version 2>/dev/null | grep -qF "$PGBOUNCER_VERSION"; then
        return
    fi
    if ! pgbouncer_needs && can_apt; then
        apt_install curl ca-certificates gcc libc6-dev make pkg-config libevent-dev libssl-dev || true
    fi
    mkdir -p .cache
    new=$(mktemp -d "$PWD/.cache/pgbouncer.XXXXXX")
    say "building PgBouncer $PGBOUNCER_VERSION into $PGBOUNCER_CACHE"
    if fetch_pgbouncer "$new/source.tar.gz" && build_pgbouncer "$new"; then
        mkdir -p "$PGBOUNCER_CACHE"
        mv "$new/pgbouncer" "$PGBOUNCER_CACHE/pgbouncer"
        # Tests run it as another user.
        chmod -R a+rX "$PGBOUNCER_CACHE"
    else
        tail -n 5 "$new/build.log" >&2 2>/dev/null || true
        say "PgBouncer $PGBOUNCER_VERSION can't be built here: its tests are skipped (in CI they fail)"
    fi
    rm -rf "$new"
}

setup_pgbouncer_transactions
