#!/usr/bin/env bash
# Packs a binary for each package manager: pack.sh BINARY FOLDER. The same files give the same bytes. packaging/README.md lists the packages.
# PACK_LEVEL=1 compresses quickly, for tests.
# shellcheck source-path=SCRIPTDIR
NO_WEB_BUILD=1 source "$(dirname "${BASH_SOURCE[0]}")/setup-web.sh"

[ $# = 2 ] || die "usage: scripts/pack.sh BINARY FOLDER"
[ -x "$1" ] || die "$1 can't be executed; \`make release\` builds a binary"
mkdir -p "$2"
out=$(realpath "$2")
level=${PACK_LEVEL:-9}
find_node || die "packing for npm needs Node.js $NODE_NEEDED or newer, and it can't be fetched here"
have strip || { can_apt && apt_install binutils; } || die "packing needs strip and objdump of the binutils"
tools=$PWD/.cache/sdk
python_tools scripts/wheels/sdk.txt "$tools" "packages for Python"
hatchling=$tools/venv/bin/hatchling
[ -x "$hatchling" ] || die "hatchling, which packs wheels, can't be installed here"

# Every package has the version of the workspace.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
for file in sdk/python/pyproject.toml packaging/python/pyproject.toml; do
    grep -q "^version = \"$version\"" "$file" || die "$file has another version than Cargo.toml, $version"
done
for file in packaging/npm/{rejoin,server}/package.json sdk/typescript/package.json web/packages/client/package.json; do
    grep -q "^  \"version\": \"$version\"" "$file" || die "$file has another version than Cargo.toml, $version"
done

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install -m 755 "$1" "$work/rejoin"
strip --strip-all "$work/rejoin"

# The oldest glibc that has all functions which the binary calls.
glibc=$(objdump -T "$work/rejoin" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1 | cut -d_ -f2)
machine=$(uname -m)
target=$machine-unknown-linux-gnu

pack_wheels() {
    (cd sdk/python && "$hatchling" build -t wheel -t sdist -d "$out" >/dev/null)
    cp -R packaging/python "$work/python"
    cp LICENSE "$work/python/"
    (
        cd "$work/python"
        REJOIN_BINARY=$work/rejoin REJOIN_WHEEL_PLATFORM=manylinux_${glibc/./_}_$machine "$hatchling" build -t wheel -d "$out" >/dev/null
    )
}

pack_npm() {
    setup_web_modules || die "the packages of web/package-lock.json can't be installed here"
    npm_modules sdk/typescript || die "the packages of sdk/typescript/package-lock.json can't be installed here"
    cp -R packaging/npm "$work/npm"
    mkdir "$work/npm/server/bin"
    cp "$work/rejoin" "$work/npm/server/bin/"
    local package
    for package in rejoin server; do
        cp LICENSE "$work/npm/$package/"
        npm pack --silent --pack-destination "$out" "$work/npm/$package" >/dev/null
    done
    for package in sdk/typescript web/packages/client; do
        (cd "$package" && npm pack --silent --pack-destination "$out" >/dev/null)
    done
}

pack_tarball() {
    local dir=$work/tarball/rejoin-$version
    mkdir -p "$dir"
    cp LICENSE README.md "$work/rejoin" "$dir/"
    # Its bytes depend on names, modes and contents only.
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go-w -C "$work/tarball" -c "rejoin-$version" |
        gzip -n "-$level" >"$out/rejoin-$version-$target.tar.gz"
}

pack_debian() {
    if ! have dpkg-deb; then
        say "no dpkg-deb here: the Debian package is left out"
        return
    fi
    local dir=$work/debian architecture
    architecture=$(dpkg --print-architecture)
    install -D -m 755 "$work/rejoin" "$dir/usr/bin/rejoin"
    install -D -m 644 LICENSE "$dir/usr/share/doc/rejoin/copyright"
    local shell file
    for shell in bash:bash-completion/completions/rejoin zsh:zsh/vendor-completions/_rejoin fish:fish/vendor_completions.d/rejoin.fish; do
        file=$dir/usr/share/${shell#*:}
        mkdir -p "$(dirname "$file")"
        "$work/rejoin" completions "${shell%%:*}" >"$file"
    done
    mkdir -p "$dir/DEBIAN"
    cat >"$dir/DEBIAN/control" <<CONTROL
Package: rejoin
Version: $version
Architecture: $architecture
Maintainer: The Rejoin authors <rejoin@example.invalid>
Installed-Size: $(du -sk --apparent-size "$dir/usr" | cut -f1)
Depends: libc6 (>= $glibc), libgcc-s1, ca-certificates
Recommends: postgresql (>= 14)
Section: net
Priority: optional
Description: backend for chats with LLM agents
 Messages become jobs in PostgreSQL, workers run agents, and any API process
 streams each conversation's log to any number of readers, from any position.
 A reader, a worker or the database may be lost at any time: each event is
 delivered once.
CONTROL
    find "$dir" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz "-z$((level > 6 ? 6 : 0))" --build "$dir" "$out/rejoin_${version}_$architecture.deb" >/dev/null
}

pack_wheels
pack_npm
pack_tarball
pack_debian
sums=$(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum)
echo "$sums" >"$out/SHA256SUMS"
