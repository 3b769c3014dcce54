#!/usr/bin/env bash
# A PostgreSQL for one run of the suite, with default settings but for its port and its connections.
#   postgres.sh run FOLDER PORT DATABASE       in the foreground, until a signal; also on a folder that a kill has left behind
#   postgres.sh ready FOLDER                   whether it accepts connections
#   postgres.sh standby FOLDER PORT PRIMARY    a copy of the server at the port PRIMARY, which from then on waits for it at each commit
#   postgres.sh synchronous PRIMARY            whether the server at that port has such a copy
#   postgres.sh sql PORT DATABASE SQL
# The last three need PostgreSQL's clients, pg_basebackup and psql.
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

# created FOLDER: a new folder, as the server wants it.
created() {
    mkdir -p "$1"
    chmod 700 "$1"
    [ ${#as_server[@]} = 0 ] || chown "$user" "$1"
}

run() {
    local folder=$1 port=$2 database=$3 bin
    bin=$(programs)
    cd /
    if [ ! -f "$folder/PG_VERSION" ]; then
        created "$folder"
        "${as_server[@]}" "$bin/initdb" -D "$folder" -U postgres -A trust -E UTF8 --locale=C
        # Without psql, which not every package of the server has.
        echo "create database $database" | "${as_server[@]}" "$bin/postgres" --single -D "$folder" postgres
    fi
    serve "$folder" "$port" "$bin"
}

standby() {
    local folder=$1 port=$2 primary=$3 bin
    bin=$(programs)
    cd /
    if [ ! -f "$folder/PG_VERSION" ]; then
        created "$folder"
        "${as_server[@]}" "$bin/pg_basebackup" -h 127.0.0.1 -p "$primary" -U postgres -D "$folder" --write-recovery-conf --checkpoint=fast
        # Not before: the copy would have it, too, and wait for another one.
        sql "$primary" postgres "alter system set synchronous_standby_names = '*'"
        sql "$primary" postgres "select pg_reload_conf()"
    fi
    serve "$folder" "$port" "$bin"
}

serve() {
    local folder=$1 port=$2 bin=$3 pid=
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

sql() {
    "$(programs)/psql" -h 127.0.0.1 -p "$1" -U postgres -qAt -v ON_ERROR_STOP=1 -c "$3" "$2"
}

synchronous() {
    [ "$(sql "$1" postgres "select count(*) from pg_stat_replication where sync_state = 'sync'")" = 1 ]
}

verb=${1:-}
case $verb in
run | ready | standby | synchronous | sql) "$@" ;;
*)
    echo "usage: postgres.sh run | ready | standby | synchronous | sql" >&2
    exit 2
    ;;
esac
