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

# cheap_install CRATE VERSION FOLDER: a tool from crates.io into FOLDER/bin, compiled quickly rather than well.
cheap_install() {
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
        CARGO_PROFILE_RELEASE_DEBUG=false CARGO_TARGET_DIR="$3/build" \
        cargo install --quiet --locked --root "$3" --version "=$2" "$1"
    rm -rf "$3/build"
}
