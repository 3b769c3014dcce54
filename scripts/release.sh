#!/usr/bin/env bash
# The release binary, and beside it that of the kill-and-resume suite: the same bytes wherever they are built from the same sources.
# release.sh [--verify]: with --verify they are built twice, in two other places, and compared.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# Compiles the sources of the folder $1 into $2, and names the binaries.
build() {
    local sources target home sysroot
    sources=$(realpath "$1")
    mkdir -p "$2"
    target=$(realpath "$2")
    home=$(realpath "${CARGO_HOME:-$HOME/.cargo}")
    sysroot=$(rustc --print sysroot)
    # No path of this machine gets into the binary: Rust's, those of generated code, and those of C.
    (
        cd "$sources"
        scripts/setup-web.sh >&2
        export CARGO_INCREMENTAL=0 SQLX_OFFLINE=true
        export RUSTFLAGS="--remap-path-prefix=$sources=/rejoin --remap-path-prefix=$target=/target --remap-path-prefix=$home=/cargo --remap-path-prefix=$sysroot=/rust"
        export CFLAGS="-ffile-prefix-map=$sources=/rejoin -ffile-prefix-map=$target=/target -ffile-prefix-map=$home=/cargo"
        export CXXFLAGS=$CFLAGS
        SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
        export SOURCE_DATE_EPOCH
        # One by one: features that one of them needs are no part of the other.
        cargo build --locked --release --target-dir "$target" -p rejoin >&2
        cargo build --locked --release --target-dir "$target" -p rejoin-conformance >&2
    )
    printf '%s\n' "$target"/release/{rejoin,resume-suite}
}

if [[ ${1:-} != --verify ]]; then
    build . "${CARGO_TARGET_DIR:-target}/reproducible" | xargs -rd '\n' sha256sum
    exit
fi

[[ -z $(git status --porcelain) ]] || die "what is not committed can't be compared: commit it first"
places=$(mktemp -d)
trap 'rm -rf "$places"' EXIT
for place in one another-place; do
    git clone --quiet . "$places/$place/sources"
    build "$places/$place/sources" "$places/$place/target" | xargs -rd '\n' sha256sum | tee "$places/$place.sum"
done
[[ $(cut -d' ' -f1 "$places/one.sum") == $(cut -d' ' -f1 "$places/another-place.sum") ]] || die "the two differ"
echo "the same bytes, from two places"
