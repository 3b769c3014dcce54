# shellcheck shell=bash
# Sourced by every script: the checkout's root, the few words to speak with, and the settings of each build.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Queries compile against the cache in .sqlx, whatever database DATABASE_URL names for running.
export SQLX_OFFLINE=true

# rustup's usual place, which a fresh shell may not have on its PATH yet.
if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then
    export PATH="$HOME/.cargo/bin:$PATH"
fi

say() { printf '== %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# needs_disk GB WHAT: a full disk fails builds and databases in the middle, with other words.
needs_disk() {
    local free
    free=$(df --output=avail -B1G . | tail -1 | tr -d ' ')
    [ "$free" -ge "$1" ] || die "$2 needs $1 GB of free disk space, and $PWD has $free GB; \`make clean\` removes earlier builds"
}

# keep_tests_in_memory GB: the temporary files of what follows, if that much of it is free. Each test has a database of 800 files, which a
# disk's file system is slow to create: docs/decisions/0090-one-compilation.md.
keep_tests_in_memory() {
    local free available dir
    [ -w /dev/shm ] && [ -r /proc/meminfo ] || return 0
    free=$(df --output=avail -B1G /dev/shm | tail -1 | tr -d ' ')
    available=$(awk '/^MemAvailable:/ { print int($2 / 1024 / 1024) }' /proc/meminfo)
    [ "$free" -ge "$1" ] && [ "$available" -ge "$1" ] || return 0
    dir=$(mktemp -d /dev/shm/rejoin-tests.XXXXXX)
    chmod 1777 "$dir"
    # Some tests start programs from there. In a container, the mount may forbid that.
    if printf '#!/bin/sh\n' >"$dir/try" && chmod +x "$dir/try" && "$dir/try" 2>/dev/null; then
        rm "$dir/try"
        export TMPDIR=$dir IN_MEMORY=$dir
    else
        rm -r "$dir"
    fi
}
is_root() { [ "$(id -u)" = 0 ]; }

# Debian and its kin, as root: missing packages are installed, not asked for.
can_apt() { is_root && have apt-get; }

# apt_install PACKAGE…: quietly, without questions.
apt_install() {
    say "apt-get install $*"
    if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; then
        # The lists of packages may be missing or old.
        apt-get update -qq >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    fi
}

# python_tools REQUIREMENTS FOLDER WHAT: hash-locked packages from PyPI into FOLDER/venv, anew only if REQUIREMENTS has changed. WHAT is
# skipped without them. PYTHON: the interpreter, python3 unless set.
python_tools() {
    local python=${PYTHON:-python3}
    if cmp -s "$1" "$2/requirements.txt"; then
        return
    fi
    if ! { have "$python" && "$python" -c 'import ensurepip, venv' 2>/dev/null; }; then
        if ! can_apt || ! apt_install python3-venv; then
            say "no Python with venv, and it can't be installed here: $3 are skipped (in CI they fail)"
            return
        fi
    fi
    rm -rf "$2"
    mkdir -p "$2"
    "$python" -m venv "$2/venv"
    # Without compiling all modules, of which tests import few.
    if "$2/venv/bin/pip" install --no-compile --quiet --disable-pip-version-check --require-hashes -r "$1"; then
        cp "$1" "$2/requirements.txt"
    else
        say "pip can't install what is in $1: $3 are skipped (in CI they fail)"
    fi
}

# cheap_install CRATE VERSION FOLDER: a tool from crates.io into FOLDER/bin, compiled quickly rather than well.
cheap_install() {
    # Not with the lints of CI.
    env -u RUSTC_WORKSPACE_WRAPPER -u RUSTFLAGS CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
        CARGO_PROFILE_RELEASE_DEBUG=false CARGO_TARGET_DIR="$3/build" \
        cargo install --quiet --locked --root "$3" --version "=$2" "$1"
    rm -rf "$3/build"
}
