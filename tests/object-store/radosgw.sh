#!/usr/bin/env bash
# An object store that speaks S3, for tests: Ceph's RADOS Gateway on 127.0.0.1, and below it a cluster of one monitor and one OSD that keeps
# its objects in memory.
#
#   radosgw.sh FOLDER PORT
#
# It makes FOLDER, which must not exist yet, and keeps everything there. When the user and the bucket exist, it prints the line "ready". It
# stops and removes FOLDER on SIGTERM, SIGINT or SIGHUP, at the end of its standard input, and when its parent process dies. Where something
# fails, it prints the ends of the logs to standard error, leaves FOLDER/*.log and exits with 1. However this script ends, SIGKILL too, the
# kernel ends its children.
#
# Environment: ACCESS_KEY, SECRET_KEY, BUCKET (below are their defaults).
set -euo pipefail

if [ $# != 2 ] || ! [[ $2 =~ ^[0-9]+$ ]]; then
    echo "usage: radosgw.sh FOLDER PORT" >&2
    exit 2
fi
FOLDER=$1
PORT=$2
ACCESS_KEY=${ACCESS_KEY:-rejoin-test}
SECRET_KEY=${SECRET_KEY:-rejoin-test-secret}
BUCKET=${BUCKET:-rejoin-files}

# How long the start may take. It takes a second or two, and five where the disk is busy.
START_LIMIT_S=60
# What the OSD says it can hold. It takes memory only for what it holds.
CAPACITY_BYTES=$((4 * 1024 * 1024 * 1024))

# The cluster's own address: as unlike another instance's as its port, so that the monitor and the OSD find their usual ports free.
ADDRESS=127.$((PORT / 256)).$((PORT % 256)).1

mkdir "$FOLDER"
FOLDER=$(cd "$FOLDER" && pwd)

end_children() {
    local children
    # bash would report each child that a signal has ended.
    exec 2>/dev/null
    children=$(jobs -p)
    # There is nothing to save, so none is asked to finish.
    # shellcheck disable=SC2086 # one word for each child
    [ -z "$children" ] || kill -KILL $children || true
    wait || true
}

# shellcheck disable=SC2317 # a trap calls it
stop() {
    trap '' TERM INT HUP
    end_children
    rm -rf "$FOLDER"
    exit 0
}

# fail WHAT: the ends of the logs, and what happened.
fail() {
    local log
    trap '' TERM INT HUP
    for log in "$FOLDER"/*.log; do
        [ ! -s "$log" ] || printf -- '--- %s\n%s\n' "$log" "$(tail -n 20 "$log")" >&2
    done
    echo "radosgw.sh: $1" >&2
    end_children
    rm -rf "$FOLDER/mon" "$FOLDER/osd"
    exit 1
}

# start NAME COMMAND…: in the background, logging to FOLDER/NAME.log. The kernel kills it when this script dies.
start() {
    local name=$1
    shift
    setpriv --pdeathsig KILL "$@" </dev/null >>"$FOLDER/$name.log" 2>&1 &
    NAMES[$!]=$name
}

# run NAME COMMAND…: to its end, while every other child lives. Not in the foreground: bash would hear signals only when it has ended.
run() {
    local ended='' status=0
    start "$@"
    wait -n -p ended || status=$?
    if [ "$ended" != $! ]; then
        fail "${NAMES[$ended]} ended before the step $1 did"
    elif [ "$status" != 0 ]; then
        fail "the step $1 failed"
    fi
}

# Sends this script SIGTERM when its standard input ends or its parent is another than at first.
watch() {
    # shellcheck disable=SC2016 # the other bash expands it
    setpriv --pdeathsig KILL bash -c '
        while read -r _ _ _ parent _ <"/proc/$1/stat" && [ "$parent" = "$2" ]; do
            # 1 at the end of the input, more than 128 when nothing came within a second.
            status=0
            read -r -t 1 || status=$?
            [ "$status" != 1 ] || break
        done
        kill -TERM "$1"' watch $$ "$PPID" <&0 >/dev/null 2>&1 &
    NAMES[$!]=watch
}

# What each child is, by its process id.
declare -a NAMES=()
trap stop TERM INT HUP
watch

FSID=$(cat /proc/sys/kernel/random/uuid)
cat >"$FOLDER/ceph.conf" <<END
[global]
fsid = $FSID
run dir = $FOLDER
admin socket =
crash dir = $FOLDER
keyring = $FOLDER/keyring
log file =
log to stderr = true
err to stderr = true
public addr = $ADDRESS
mon host = v2:$ADDRESS:3300
auth cluster required = none
auth service required = none
auth client required = none
# RADOS Gateway would insist on encryption, which needs keys.
ms mon client mode = crc

[mon]
mon data = $FOLDER/mon
# However full the disk is.
mon data avail crit = 0
mon data avail warn = 0
# Each pool is a round or two of Paxos.
paxos propose interval = 0.01
paxos min wait = 0.01
# A machine may sleep.
mon osd report timeout = 86400
# One copy, in few placement groups.
mon allow pool size one = true
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off

[osd]
osd data = $FOLDER/osd
osd objectstore = memstore
memstore device bytes = $CAPACITY_BYTES
# Its place is in the map already.
osd crush update on start = false
osd class update on start = false

[client]
rgw frontends = beast endpoint=127.0.0.1:$PORT
rgw data = $FOLDER
rgw thread pool size = 64
rgw dynamic resharding = false
rgw override bucket index max shards = 1
END
export CEPH_CONF=$FOLDER/ceph.conf
unset CEPH_ARGS

setpriv --pdeathsig KILL sleep "$START_LIMIT_S" </dev/null >/dev/null 2>&1 &
LIMIT=$!
NAMES[LIMIT]="the time limit of $START_LIMIT_S s"

# The monitor begins with a map in which the OSD is, so that nobody has to add it.
run prepare monmaptool --create --fsid "$FSID" --addv a "[v2:$ADDRESS:3300]" "$FOLDER/monmap"
run prepare osdmaptool --createsimple 1 "$FOLDER/osdmap"
run prepare ceph-mon -i a --mkfs --monmap "$FOLDER/monmap" --osdmap "$FOLDER/osdmap"
mkdir "$FOLDER/osd"
run prepare ceph-osd -f -i 0 --mkfs --no-mon-config --osd-uuid "$(cat /proc/sys/kernel/random/uuid)"

start mon ceph-mon -f -i a
start osd ceph-osd -f -i 0
run user radosgw-admin user create --uid rejoin-test --display-name "Rejoin's tests" \
    --access-key "$ACCESS_KEY" --secret-key "$SECRET_KEY"
start radosgw radosgw -f -n client.rgw
# shellcheck disable=SC2016 # the other bash expands it
run bucket bash -c 'until "$@"; do sleep 0.05; done' bucket curl --silent --show-error --fail-with-body --max-time 10 --noproxy '*' \
    --aws-sigv4 aws:amz:us-east-1:s3 --user "$ACCESS_KEY:$SECRET_KEY" --header 'x-amz-content-sha256: UNSIGNED-PAYLOAD' \
    --request PUT "http://127.0.0.1:$PORT/$BUCKET"

# The limit no longer holds.
kill "$LIMIT"
wait "$LIMIT" || true
echo ready

# Until a signal comes; no child ends by itself.
wait -n -p ENDED || true
fail "${NAMES[$ENDED]} ended"
