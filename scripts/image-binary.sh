#!/usr/bin/env bash
# Builds the binary of the container image, as small as the linker here can make it: image-binary.sh TARGET
# Called by the Dockerfile, in its build stage.
set -euo pipefail

target=$1
try=$(mktemp -d)
trap 'rm -rf "$try"' EXIT
arguments=()

# Adds arguments for the linker, if it takes them.
link_with() {
    if printf 'fn main() {}' | rustc --crate-type bin -o "$try/program" "${arguments[@]}" "${@/#/-Clink-arg=}" - 2>"$try/log"; then
        arguments+=("${@/#/-Clink-arg=}")
    else
        echo "the linker does not take $*: the binary will be larger" >&2
    fi
}

# Rust brings this linker for each machine, and uses it by itself on some.
link_with -fuse-ld=lld "-B$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld"
# Relocations, 24 bytes each, in a few bits. Debian's loader has read them since glibc 2.36.
link_with -Wl,-z,pack-relative-relocs
# Functions whose machine code is the same are one function.
link_with -Wl,--icf=all

cargo rustc --release --locked -p rejoin --bin rejoin -- "${arguments[@]}"
install -D target/release/rejoin "$target"
# Panics still name file and line.
strip --strip-all "$target"
