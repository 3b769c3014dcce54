#!/usr/bin/env bash
# Packs the kill-and-resume suite for pip and npm: pack-suite.sh [BINARY [FOLDER]]. Without a binary, it is built. The same files give the same
# bytes. packaging/README.md lists the packages.
# shellcheck source-path=SCRIPTDIR
NO_WEB_BUILD=1 source "$(dirname "${BASH_SOURCE[0]}")/setup-web.sh"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
if [ $# -gt 0 ]; then
    binary=$(realpath "$1")
else
    cargo build --locked --release --package rejoin-conformance
    binary=$target/release/resume-suite
fi
[ -x "$binary" ] || die "$binary can't be executed"
mkdir -p "${2:-$target/dist-suite}"
out=$(realpath "${2:-$target/dist-suite}")
find_node || die "packing for npm needs Node.js $NODE_NEEDED or newer, and it can't be fetched here"
have strip || { can_apt && apt_install binutils; } || die "packing needs strip and objdump of the binutils"
tools=$PWD/.cache/sdk
python_tools scripts/wheels/sdk.txt "$tools" "packages for Python"
hatchling=$tools/venv/bin/hatchling
[ -x "$hatchling" ] || die "hatchling, which packs wheels, can't be installed here"

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
grep -q "^version = \"$version\"" packaging/resume-suite/python/pyproject.toml || die "the package for pip has another version than Cargo.toml, $version"
grep -q "^  \"version\": \"$version\"" packaging/resume-suite/npm/package.json || die "the package for npm has another version than Cargo.toml, $version"

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install -m 755 "$binary" "$work/resume-suite"
strip --strip-all "$work/resume-suite"
cp -R conformance/adapters "$work/adapters"
# The oldest glibc that has all functions which the binary calls.
glibc=$(objdump -T "$work/resume-suite" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1 | cut -d_ -f2)

cp -R packaging/resume-suite/python "$work/python"
cp LICENSE "$work/python/"
(
    cd "$work/python"
    SUITE_BINARY=$work/resume-suite SUITE_ADAPTERS=$work/adapters SUITE_WHEEL_PLATFORM=manylinux_${glibc/./_}_$(uname -m) \
        "$hatchling" build -t wheel -d "$out" >/dev/null
)

cp -R packaging/resume-suite/npm "$work/npm"
mkdir "$work/npm/bin"
cp "$work/resume-suite" "$work/npm/bin/"
cp -R "$work/adapters" "$work/npm/adapters"
cp LICENSE "$work/npm/"
npm pack --silent --pack-destination "$out" "$work/npm" >/dev/null
say "$out"
