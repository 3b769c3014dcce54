#!/usr/bin/env bash
# The bill of materials of the released binary, in CycloneDX's JSON: every crate with version, licence and checksum.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

VERSION=0.5.9
tools=$PWD/.cache/cargo-cyclonedx-$VERSION
out=${CARGO_TARGET_DIR:-$PWD/target}/rejoin.cdx.json

if [ ! -x "$tools/bin/cargo-cyclonedx" ]; then
    say "building cargo-cyclonedx $VERSION into .cache"
    cheap_install cargo-cyclonedx "$VERSION" "$tools"
fi
# Beside the manifest is where it writes.
"$tools/bin/cargo-cyclonedx" cyclonedx --manifest-path cli/Cargo.toml --format json --spec-version 1.5 --override-filename rejoin.cdx
mkdir -p "$(dirname "$out")"
mv cli/rejoin.cdx.json "$out"
# It writes one for each member.
find . -name rejoin.cdx.json -not -path "./target/*" -not -path "./.cache/*" -delete
say "$out"
