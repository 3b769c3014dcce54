#!/usr/bin/env bash
# test-image.sh [--no-build]
# Builds the container image and tries it: its size, its user, the README's first question, a drain. With --no-build it tries the one that
# the last run built. Needs root on Debian, and installs podman. Where the base images can't be pulled, stand-ins are made: Debian's by
# debootstrap, Rust's of that and this machine's toolchain; what is tried is then this Dockerfile over the same Debian and the same
# compiler, not those publishers' images.
#
# Some kernels do not let containers change limits or cgroups: `runc` with limits below the machine's own works where podman's default
# does not.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

MAX_IMAGE_MB=150
# Vectors of the whole graph, on a busy machine.
SEARCH_TIMEOUT_S=600
WORK=${WORK:-.cache/image}
IMAGE=localhost/rejoin:test
RUN_LIMITS=(--ulimit nofile=4096:4096 --ulimit nproc=4096:4096)

for program in podman buildah runc debootstrap; do
    have "$program" || { can_apt && apt_install "$program"; } || die "$program is missing"
done
mkdir -p "$WORK"

base_of() { sed -n 's/^FROM \([^ ]*\).*/\1/p' Dockerfile | grep -v '^scratch$' | head -n 1; }

# Whether this machine's package settings are to be in a stand-in: where it fetches from, and whom it trusts.
copy_package_settings() {
    local root=$1 file
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources /etc/apt/apt.conf.d/99* /etc/pip.conf /etc/npmrc "$HOME/.npmrc" \
        /etc/ssl/certs/ca-certificates.crt; do
        [ ! -f "$file" ] || install -D -m 644 "$file" "$root$file"
    done
}

# Makes the image that the build stage begins with, where it can't be pulled.
make_base() {
    local name=$1 root=$WORK/rust-root sysroot
    say "the image $name can't be pulled: making a stand-in of Debian's packages and $(rustc --version)"
    if [ ! -f "$root/.complete" ]; then
        rm -rf "$root"
        debootstrap --variant=minbase --include=ca-certificates,gcc,libc6-dev bookworm "$root" >"$WORK/debootstrap.log"
        copy_package_settings "$root"
        # Authorities of this machine's own, as a proxy's.
        if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
            cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
            chroot "$root" update-ca-certificates >/dev/null
        fi
        sysroot=$(rustc --print sysroot)
        mkdir -p "$root/usr/local/rustup" "$root/usr/local/cargo"
        # Documentation is half of a toolchain.
        tar -C "$sysroot" --exclude=./share/doc -cf - . | tar -C "$root/usr/local/rustup" -xf -
        touch "$root/.complete"
    fi
    local container
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$root" / >/dev/null
    buildah config --env PATH=/usr/local/rustup/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        --env CARGO_HOME=/usr/local/cargo --env NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt "$container"
    buildah commit --quiet "$container" "$name" >/dev/null
    buildah rm "$container" >/dev/null
}

build() {
    local base
    base=$(base_of)
    buildah inspect --type image "$base" >/dev/null 2>&1 ||
        timeout 60 buildah pull --quiet "$base" >/dev/null 2>&1 ||
        make_base "$base"
    say "building the image"
    # With chroot isolation nothing of the kernel's is needed; the cache of a build stays in buildah's own folder.
    buildah build --isolation chroot --layers --pull-never --format docker --tag "$IMAGE" .
}
[ "${1:-}" = --no-build ] || build

bytes=$(podman image inspect --format '{{.Size}}' "$IMAGE")
megabytes=$((bytes / 1000000))
user=$(podman image inspect --format '{{.User}}' "$IMAGE")
say "size: $megabytes MB; user: $user; its largest files, in bytes:"
root=$(podman image mount "$IMAGE")
find "$root" -type f -size +1M -printf '%s /%P\n' | sort -rn
shells=$(find "$root" -name sh -o -name bash -o -name busybox)
podman image unmount "$IMAGE" >/dev/null
[ "$megabytes" -lt "$MAX_IMAGE_MB" ] || die "the image has $megabytes MB, less than $MAX_IMAGE_MB are allowed"
[ "$user" = 10001:10001 ] || die "the image runs as $user"
[ -z "$shells" ] || die "there is a shell in the image: $shells"

# A database on this machine, reached by its socket.
source scripts/postgres.sh
setup_postgres
pg_dir=$(mktemp -d /tmp/rejoin-image.XXXXXX)
started=()
cleanup() {
    local name
    for name in "${started[@]}"; do
        podman rm --force --time 5 "$name" >/dev/null 2>&1 || true
    done
    postgres_stop "$pg_dir"
}
trap cleanup EXIT
url=$(postgres_start "$pg_dir")
# The container's user is another one.
chmod 755 "$pg_dir"

# As strict as the image allows: its own root is never written to.
run() { podman --runtime runc run --read-only --cap-drop all --security-opt no-new-privileges --network host --volume "$pg_dir:$pg_dir" "${RUN_LIMITS[@]}" --env "DATABASE_URL=$url" "$@"; }

say "rejoin dev, in a container, over a database outside"
started+=(rejoin-image-dev)
run --detach --name rejoin-image-dev "$IMAGE" dev --port 7463 --json >/dev/null
ready=
for _ in $(seq 240); do
    ready=$(podman logs rejoin-image-dev 2>/dev/null | grep -m 1 '^{' || true)
    [ -z "$ready" ] || break
    sleep 0.5
done
[ -n "$ready" ] || {
    podman logs rejoin-image-dev >&2
    die "rejoin dev did not become ready"
}
process=$(podman inspect --format '{{.State.Pid}}' rejoin-image-dev)
grep -E '^(Uid|Gid|CapEff|NoNewPrivs|Seccomp):' "/proc/$process/status"
grep -qP '^Uid:\t10001\t10001\t10001\t10001$' "/proc/$process/status" || die "it runs as another user"
field() { python3 -c 'import json, sys; print(json.loads(sys.argv[1])[sys.argv[2]])' "$ready" "$1"; }
key=$(field apiKey)
say "the README's question"
answer=$(podman exec --env "REJOIN_API_KEY=$key" --env REJOIN_URL=http://127.0.0.1:7463 rejoin-image-dev rejoin chat "Which packages need libssl3, and why?")
printf '%s\n' "$answer"
grep -q 'depends on libssl3' <<<"$answer" || die "the answer does not say what needs libssl3"
curl -sf -H 'accept: text/html' http://127.0.0.1:7463/ | grep -q '<div id="root"' || die "the web app is not in the image"
say "search by meaning"
project=$(field projectId)
began=$SECONDS
# The words of this query are in no name: it is found by its vector, once the graph's ten thousand objects have theirs.
until [ "${first:-}" = dvd+rw-tools ]; do
    [ $((SECONDS - began)) -lt "$SEARCH_TIMEOUT_S" ] || die "search by meaning for \"burn discs\" finds ${first:-nothing} first: $found"
    sleep 0.5
    found=$(curl -sf -H "authorization: Bearer $key" "http://127.0.0.1:7463/api/projects/$project/graph/search?mode=semantic&limit=3&query=burn+discs" || true)
    first=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["data"][0]["object"]["key"])' "$found" 2>/dev/null || true)
done
say "found after $((SECONDS - began)) s"
say "a drain"
podman stop --time 40 rejoin-image-dev >/dev/null
code=$(podman inspect --format '{{.State.ExitCode}}' rejoin-image-dev)
[ "$code" = 0 ] || die "after SIGTERM it ended with $code"
say "the image works"
