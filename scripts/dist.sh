#!/usr/bin/env bash
# What is published, into target/dist: packages for pip, npm and apt, a tarball, the kill-and-resume suite, the bill of materials, and the sums of
# all: dist.sh [--verify]
# With --verify everything is packed twice, and compared (scripts/release.sh --verify compiles twice).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/dist
rm -rf "$out"
mkdir -p "$out"
scripts/release.sh
scripts/sbom.sh
binaries=$target/reproducible/release
# pack FOLDER: the last script writes the sums of all files that are there.
pack() {
    cp "$target/rejoin.cdx.json" "$1/"
    scripts/pack-suite.sh "$binaries/resume-suite" "$1"
    scripts/pack.sh "$binaries/rejoin" "$1"
}
pack "$out"
if [[ ${1:-} == --verify ]]; then
    again=$(mktemp -d)
    trap 'rm -rf "$again"' EXIT
    pack "$again"
    cmp "$out/SHA256SUMS" "$again/SHA256SUMS" || die "the packages differ"
    say "the same bytes, packed twice"
fi
say "$out"
cat "$out/SHA256SUMS"
