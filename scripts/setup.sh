#!/usr/bin/env bash
# Makes sure of all that building and running need: a Rust toolchain, a C compiler, libclang, PostgreSQL's programs.
# Quick when nothing is missing. Run by itself (`make setup`) or sourced by the other scripts.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
source scripts/postgres.sh

# The oldest Rust that the manifest allows.
rust_needed() { sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml; }

setup_rust() {
    have cargo || die "Rust is missing. Install it with rustup, as its site https://rustup.rs says, then open a new shell.
       (A distribution's package is usually too old: $(rust_needed) or newer is needed.)"
    local needed found
    needed=$(rust_needed)
    found=$(cargo --version | awk '{ print $2 }')
    if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
        die "Rust $found is too old: $needed or newer is needed. Try: rustup update stable"
    fi
}

# aws-lc (TLS) is C; everything needs a linker.
compiler_works() {
    local dir
    have cc || return 1
    # Not -o /dev/null: a linker that runs as root may replace it.
    dir=$(mktemp -d)
    printf '#include <stdlib.h>\nint main(void) { return 0; }\n' >"$dir/try.c"
    if cc -o "$dir/try" "$dir/try.c" 2>/dev/null; then
        rm -rf "$dir"
    else
        rm -rf "$dir"
        return 1
    fi
}

setup_compiler() {
    if compiler_works; then
        return
    fi
    can_apt || die "a C compiler with its headers is missing. On Debian: apt-get install gcc libc6-dev pkg-config make"
    apt_install gcc libc6-dev pkg-config make ca-certificates
}

# Whether libclang is where bindgen looks: PostgreSQL's grammar (pg_query) is C, and its bindings are made with it. libclang-cpp, which
# comes with LLVM's tools, is another library.
libclang_there() {
    local found
    [ -z "${LIBCLANG_PATH:-}" ] || return 0
    [ ! -e /Library/Developer/CommandLineTools/usr/lib/libclang.dylib ] || return 0
    found=$(compgen -G '/usr/lib/llvm*/lib/libclang*.so*' || true
        compgen -G '/usr/lib*/libclang*.so*' || true
        compgen -G '/usr/lib/*/libclang*.so*' || true
        ! have llvm-config || compgen -G "$(llvm-config --libdir)/libclang*.so*" || true)
    grep -qvE '^$|/libclang-cpp[^/]*$' <<<"$found"
}

setup_libclang() {
    if libclang_there; then
        return
    fi
    can_apt || die "libclang is missing. On Debian: apt-get install libclang-dev (elsewhere: name its folder, export LIBCLANG_PATH=…)"
    apt_install libclang-dev
}

setup_rust
setup_compiler
setup_libclang
setup_postgres
