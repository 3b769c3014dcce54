#!/usr/bin/env bash
# A PostgreSQL for one run of the suite, with default settings but for its port and its connections.
#   postgres.sh run FOLDER PORT DATABASE   in the foreground, until a signal; also on a folder that a kill has left behind
#   postgres.sh ready FOLDER               whether it accepts connections
#   postgres.sh sql PORT DATABASE SQL      needs psql
# PG_BIN, or REJOIN_PG_BIN: the folder of its programs; otherwise the newest of the machine. As root, it runs as another user.
set -euo pipefail

programs() {
    local found=${PG_BIN:-${REJOIN_PG_BIN:-}}
    if [ -z "$found" ]; then
        found=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV | head -n 1)
    fi
    if [ ! -x "$found/postgres" ]; then
        found=$(dirname "$(readlink -f "$(command -v postgres)")") || {
            echo "PostgreSQL is missing: install it, or name the folder of its programs in PG_BIN" >&2
            exit 1
        }
    fi
    printf '%s\n' "$found"
}

as_server=()
if [ "$(id -u)" = 0 ]; then
    user=$(id -u postgres >/dev/null 2>&1 && echo postgres || echo nobody)
    as_server=(setpriv --reuid "$(id -u "$user")" --regid "$(id -g "$user")" --clear-groups)
fi

run() {
    local folder=$1 port=$2 database=$3 bin pid=
    bin=$(programs)
    cd /
    if [ ! -f "$folder/PG_VERSION" ]; then
        mkdir -p "$folder"
        [ ${#as_server[@]} = 0 ] || chown "$user" "$folder"
        "${as_server[@]}" "$bin/initdb" -D "$folder" -U postgres -A trust -E UTF8 --locale=C
        # Without psql, which not every package of the server has.
        echo "create database $database" | "${as_server[@]}" "$bin/postgres" --single -D "$folder" postgres
    fi
    # A fast shutdown: clients may still be connected.
    trap '[ -z "$pid" ] || kill -INT "$pid" 2>/dev/null || true' TERM INT
    # After a kill -9, orphans hold the shared memory for a moment.
    for _ in $(seq 100); do
        "${as_server[@]}" "$bin/postgres" -D "$folder" -c port="$port" -c listen_addresses=127.0.0.1 \
            -c unix_socket_directories="$folder" -c max_connections=300 &
        pid=$!
        # A signal ends the first `wait` before the server has ended.
        if wait "$pid" || wait "$pid"; then
            exit 0
        fi
        sleep 0.1
    done
    exit 1
}

# The server writes into this file what it does; a killed one leaves it behind.
ready() {
    local lock=$1/postmaster.pid
    [ -f "$lock" ] && [ -d "/proc/$(head -n 1 "$lock")" ] && grep -q '^ready' "$lock"
}

verb=$1
shift
case $verb in
run) run "$@" ;;
ready) ready "$@" ;;
sql) exec "$(programs)/psql" -h 127.0.0.1 -p "$1" -U postgres -qAt -v ON_ERROR_STOP=1 -c "$3" "$2" ;;
*)
    echo "usage: postgres.sh run | ready | sql" >&2
    exit 2
    ;;
esac
