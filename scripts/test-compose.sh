#!/usr/bin/env bash
# Brings the fleet of docker-compose.yml up by Docker Compose and uses it: a key, a graph, a question whose worker is killed, the web app, a
# drain, a second start over the same data. The image is that of test-image.sh where it is, else it is built.
#
# If Docker is not running and this is root on Debian, it installs Debian's Docker, in a folder and in namespaces of its own (mounts, processes,
# network), so that nothing of this machine is changed and all of it ends with this script. Where postgres:18 can't be pulled: a stand-in of
# Debian's PostgreSQL 18 that takes the same variables and lies in the same places.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

WORK=$PWD/${WORK:-.cache/image}
IMAGE=${IMAGE:-localhost/rejoin:test}
PROJECT=rejoin-compose-test
URL=http://127.0.0.1:7420
QUESTION='Which packages need libssl3, and why?'
PULL_TIMEOUT_S=60
# Docker's own start, and that of the database with the import of a graph on a busy machine.
START_TIMEOUT_S=60
# A worker's lease is 15 s: then another takes its run.
ANSWER_TIMEOUT_S=120
have python3 || die "python3 is missing"
mkdir -p "$WORK"
answer=$(mktemp)
docker_root=$WORK/docker-root
inside=()
daemon=

cleanup() {
    [ ! -f "$answer.up" ] || compose down --volumes --timeout 5 >/dev/null 2>&1 || true
    # Its processes are all in its own namespace.
    [ -z "$daemon" ] || { kill -KILL "$daemon" && wait "$daemon"; } 2>/dev/null || true
    rm -f "$answer" "$answer".*
}
trap cleanup EXIT

# debian SUITE FOLDER PACKAGE…: a root file system of Debian's packages, made once.
debian() {
    local suite=$1 root=$2 file
    shift 2
    [ ! -f "$root/.complete" ] || return 0
    have debootstrap || apt_install debootstrap
    rm -rf "$root"
    say "making $root of Debian's packages"
    # A suite that debootstrap does not know yet is made as the others are.
    debootstrap --variant=minbase "$suite" "$root" "$(debian_mirror)" /usr/share/debootstrap/scripts/sid >"$WORK/debootstrap-$suite.log" ||
        die "debootstrap: see $WORK/debootstrap-$suite.log"
    for file in /etc/apt/apt.conf.d/99*; do
        [ ! -f "$file" ] || cp "$file" "$root/etc/apt/apt.conf.d/"
    done
    # Some packages' scripts want /proc, and PostgreSQL's are not to make a cluster.
    mkdir -p "$root/etc/postgresql-common"
    echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
    unshare --mount --propagation private sh -c "mount -t proc proc '$root/proc' && chroot '$root' sh -c '
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $* && apt-get clean'" \
        >"$WORK/packages-$suite.log" 2>&1 || die "apt-get: see $WORK/packages-$suite.log"
    touch "$root/.complete"
}

debian_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null |
        sed -n 's/^URIs: *//p; s/^deb  *\(\[[^]]*\] *\)\{0,1\}\(http[^ ]*\).*/\2/p' | head -n 1
}

# Starts a Docker of our own; `inside` runs a command where it is.
start_docker() {
    debian trixie "$docker_root" ca-certificates docker.io docker-cli docker-compose curl iproute2 iptables
    mkdir -p "$docker_root/fleet" "$docker_root/oldroot"
    cat >"$WORK/dockerd.sh" <<'SCRIPT'
set -e
cd "$1"
mount --bind . .
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs tmpfs run
pivot_root . oldroot
cd /
umount -l oldroot
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
ip link set lo up
exec dockerd --data-root /var/lib/docker
SCRIPT
    unshare --mount --net --pid --fork --kill-child --propagation private bash "$WORK/dockerd.sh" "$docker_root" >"$WORK/dockerd.log" 2>&1 &
    daemon=$!
    local deadline=$((SECONDS + START_TIMEOUT_S)) process
    until process=$(pgrep --parent "$daemon") &&
        inside=(nsenter --target "$process" --mount --net --pid --root --wd env PATH=/usr/sbin:/usr/bin:/sbin:/bin) &&
        "${inside[@]}" docker info >/dev/null 2>&1; do
        kill -0 "$daemon" 2>/dev/null || die "Docker does not run here: $(tail -n 3 "$WORK/dockerd.log")"
        [ "$SECONDS" -lt "$deadline" ] || die "Docker did not start: see $WORK/dockerd.log"
        sleep 0.5
    done
}

docker_() { "${inside[@]}" docker "$@"; }
compose() { "${inside[@]}" env REJOIN_MODEL=demo:graph docker compose --progress quiet --project-name "$PROJECT" --file "$compose_file" "$@"; }
# Asks, as a user of the fleet would.
rejoin() { compose exec -T -e "REJOIN_API_KEY=$key" -e "REJOIN_URL=$URL" api rejoin "$@"; }

# Makes postgres:18 of Debian's packages: initialises where the published image does, by the same variables.
make_postgres() {
    local root=$WORK/postgres-root
    debian forky "$root" ca-certificates gosu postgresql-18
    say "postgres:18 can't be pulled: a stand-in, $("$root/usr/lib/postgresql/18/bin/postgres" --version 2>/dev/null || echo PostgreSQL 18)"
    install -d -o "$(stat -c %u "$root/var/lib/postgresql")" -m 1777 "$root/var/lib/postgresql"
    rm -rf "$root/var/lib/postgresql/"* "$root/run/postgresql"
    install -d -m 3777 "$root/run/postgresql"
    cat >"$root/usr/local/bin/docker-entrypoint.sh" <<'SCRIPT'
#!/bin/bash
set -e
bin=/usr/lib/postgresql/18/bin
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chown -R postgres "$PGDATA" /var/run/postgresql
    exec gosu postgres "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    [ -n "$POSTGRES_PASSWORD" ] || { echo "POSTGRES_PASSWORD is not set" >&2; exit 1; }
    $bin/initdb --username "${POSTGRES_USER:=postgres}" --pwfile <(echo "$POSTGRES_PASSWORD")
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    $bin/pg_ctl -w -o "-c listen_addresses=" start
    [ "${POSTGRES_DB:=$POSTGRES_USER}" = postgres ] || $bin/createdb --username "$POSTGRES_USER" "$POSTGRES_DB"
    $bin/pg_ctl -m fast -w stop
fi
exec "$bin/$@"
SCRIPT
    chmod 755 "$root/usr/local/bin/docker-entrypoint.sh"
    # The name as Docker has it: Debian's programs are not on the PATH.
    ln -sf ../lib/postgresql/18/bin/pg_isready "$root/usr/bin/pg_isready"
    tar -C "$root" --numeric-owner --exclude=./proc/* --exclude=./var/lib/apt/lists/* -cf - . | docker_ import \
        --change 'ENV PGDATA=/var/lib/postgresql/18/docker LANG=C.UTF-8' --change 'VOLUME /var/lib/postgresql' \
        --change 'ENTRYPOINT ["docker-entrypoint.sh"]' --change 'STOPSIGNAL SIGINT' --change 'CMD ["postgres"]' - postgres:18 >/dev/null
}

compose_file=$PWD/docker-compose.yml
if docker info >/dev/null 2>&1 && docker compose version >/dev/null 2>&1; then
    say "$(docker --version), $(docker compose version)"
else
    can_apt || die "no Docker with Compose runs here"
    start_docker
    cp docker-compose.yml "$docker_root/fleet/"
    compose_file=/fleet/docker-compose.yml
    say "$(docker_ --version), $(docker_ compose version), of Debian's packages"
fi

docker_ image inspect postgres:18 >/dev/null 2>&1 || timeout "$PULL_TIMEOUT_S" "${inside[@]}" docker pull --quiet postgres:18 >/dev/null 2>&1 || make_postgres
if have podman && podman image exists "$IMAGE"; then
    podman save --quiet --format docker-archive "$IMAGE" | docker_ load --quiet
    docker_ tag "$IMAGE" rejoin:latest
elif [ ${#inside[@]} = 0 ]; then
    say "building the image"
    compose build
else
    die "there is no image $IMAGE: make test-image builds it"
fi

say "up"
touch "$answer.up"
# As a stranger's shell: nothing but what the file says, and a model that needs no key.
compose up --detach --no-build --wait --quiet-pull
compose ps --all --format 'table {{.Service}}\t{{.Status}}'
[ "$(compose ps --format '{{.Service}} {{.Health}}' | sort | uniq -c | tr -s ' ' | tr '\n' ';')" = ' 1 api healthy; 1 postgres healthy; 2 worker healthy;' ] ||
    die "not all of the fleet is healthy"
! compose exec -T postgres pg_isready --quiet --host 127.0.0.1 || die "PostgreSQL listens on a port"
[ "$(compose port api 7420)" = 127.0.0.1:7420 ] || die "the API is published as $(compose port api 7420)"

"${inside[@]}" curl -sf -H 'accept: text/html' "$URL/" | grep -q '<div id="root"' || die "the web app is not at $URL/"

say "a project, its key, its graph"
key=$(compose exec -T api rejoin keys create --create --project acme --user ann --scopes read,write,admin)
compose exec -T api rejoin graph import --project acme - <data/debian-packages.ndjson.gz

say "a question; its worker is killed"
rejoin chat "$QUESTION" >"$answer" 2>&1 &
asking=$!
busy=
deadline=$((SECONDS + ANSWER_TIMEOUT_S))
while [ -z "$busy" ]; do
    [ "$SECONDS" -lt "$deadline" ] || die "no worker took the run"
    busy=$(compose exec -T api rejoin queue stats --json |
        python3 -c 'import json, sys; print(next((w["hostname"] for w in json.load(sys.stdin)["workers"] if w["busy"]), ""))')
done
docker_ kill "$busy" >/dev/null
say "worker $busy was killed at its work"
wait "$asking" || die "the question was not answered: $(cat "$answer")"
cat "$answer"
grep -q 'depends on libssl3' "$answer" || die "the answer does not say what needs libssl3"
compose exec -T api rejoin queue stats

say "stop"
compose stop
# The killed one apart, which ended by SIGKILL: 137.
compose ps --all --format '{{.Service}} {{.ExitCode}}' | sort | tee "$answer.codes"
[ "$(tr '\n' ';' <"$answer.codes")" = 'api 0;migrate 0;postgres 0;worker 0;worker 137;' ] || die "not all ended well"

say "up again, over the same data"
compose up --detach --no-build --wait
rejoin runs list | tee "$answer"
grep -q completed "$answer" || die "the run is gone"
say "the fleet works"
