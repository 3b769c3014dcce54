#!/usr/bin/env bash
# Whether a release can be built again: builds this commit twice, in two folders of different names, and compares. Paths of the machine are
# taken out of the binary (--remap-path-prefix): so another's build of the same commit with the same compiler is the same file.
# PROFILE=release, or another one where it has to be quick.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

profile=${PROFILE:-release}
root=$PWD
dir=$(mktemp -d "${TMPDIR:-/tmp}/rejoin-reproducible.XXXXXX")
trap 'rm -rf "$dir"' EXIT
rustc --version >&2

build() {
    mkdir -p "$dir/$1"
    git -C "$root" archive HEAD | tar -x -C "$dir/$1"
    (
        cd "$dir/$1"
        export CARGO_TARGET_DIR="$dir/$1/target"
        RUSTFLAGS="--remap-path-prefix=$dir/$1=/rejoin --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
            CFLAGS="-ffile-prefix-map=$dir/$1=/rejoin -ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
            SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct) \
            cargo build --locked --quiet --profile "$profile" -p rejoin
    )
    sha256sum "$dir/$1/target/$profile/rejoin" | cut -d ' ' -f 1
}

say "the first"
one=$(build one)
say "the second, elsewhere"
two=$(build another-place)
printf '%s\n%s\n' "$one" "$two"
[ "$one" = "$two" ] || die "they differ"
say "the same"
