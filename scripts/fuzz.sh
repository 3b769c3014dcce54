#!/usr/bin/env bash
# Fuzzes the parsers: fuzz.sh [TARGET…], all unless named; in the environment FUZZ_SECONDS=60 for each. An input that upsets one is left in
# fuzz/artifacts; put it into fuzz/corpus/TARGET with the fix, and `make test` has it for ever.
#
# The flags are those of cargo-fuzz, so that stable Rust will do and nothing has to be installed: libFuzzer comes as a crate, and
# the code is instrumented to report its coverage.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

time_s=${FUZZ_SECONDS:-60}
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    targets=(sse cursor ndjson arguments)
fi
# libFuzzer is C++.
if ! have c++; then
    can_apt || die "a C++ compiler is missing. On Debian: apt-get install g++"
    apt_install g++
fi

host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
say "building the targets (the first time takes some minutes)"
# --target: what runs while building is not to be instrumented.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --locked --release --target "$host" --manifest-path fuzz/Cargo.toml "${targets[@]/#/--bin=}"

status=0
for target in "${targets[@]}"; do
    # What is found on the way is kept beside the builds; the corpus in the tree is of chosen inputs.
    grown=$CARGO_TARGET_DIR/corpus/$target
    mkdir -p "$grown" "fuzz/artifacts/$target"
    say "$target: $time_s s"
    "$CARGO_TARGET_DIR/$host/release/$target" "$grown" "fuzz/corpus/$target" \
        -max_total_time="$time_s" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="fuzz/artifacts/$target/" 2>"$CARGO_TARGET_DIR/$target.log" || status=$?
    # The end: what it did, or what upset it.
    grep -E '^(stat::|==|SUMMARY|thread|assertion|  left|  right|Test unit written)' "$CARGO_TARGET_DIR/$target.log" || true
    [ "$status" = 0 ] || die "$target was upset: see $CARGO_TARGET_DIR/$target.log and fuzz/artifacts/$target"
done
