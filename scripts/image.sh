#!/usr/bin/env bash
# Builds the container image, localhost/rejoin:latest, with whatever builds images here: docker, podman or buildah.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

IMAGE=${IMAGE:-rejoin:latest}
if have docker && docker info >/dev/null 2>&1; then
    docker build --tag "$IMAGE" "$@" .
elif have podman; then
    # Docker's format: the others' keeps no health check.
    podman build --format docker --tag "$IMAGE" "$@" .
elif have buildah; then
    buildah build --format docker --layers --tag "$IMAGE" "$@" .
else
    die "there is no docker, podman or buildah here. On Debian: apt-get install podman"
fi
