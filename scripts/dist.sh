#!/usr/bin/env bash
# What is published, into target/dist: packages for pip, npm and apt, a tarball, the bill of materials, and the sums of all: dist.sh [--verify]
# With --verify everything is packed twice, and compared (scripts/release.sh --verify compiles twice).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/dist
rm -rf "$out"
mkdir -p "$out"
scripts/release.sh
scripts/sbom.sh
cp "$target/rejoin.cdx.json" "$out/"
scripts/pack.sh "$target/reproducible/release/rejoin" "$out"
if [[ ${1:-} == --verify ]]; then
    again=$(mktemp -d)
    trap 'rm -rf "$again"' EXIT
    cp "$out/rejoin.cdx.json" "$again/"
    scripts/pack.sh "$target/reproducible/release/rejoin" "$again"
    cmp "$out/SHA256SUMS" "$again/SHA256SUMS" || die "the packages differ"
    say "the same bytes, packed twice"
fi
say "$out"
cat "$out/SHA256SUMS"
