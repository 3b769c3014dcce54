#!/usr/bin/env bash
# Flame graphs of a benchmark: where the processor time of the API, the worker and PostgreSQL goes. flame.sh SCENARIO. One picture a
# program, among those of docs/reports/performance.md. In the environment:
#   FREQUENCY=199   samples a second and core
#   SIZE=full       as of `make bench`; peers are left out
# It needs Linux's perf, as root or with kernel.perf_event_paranoid at most 0.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
unset DATABASE_URL
setup_postgres

INFERNO_VERSION=0.12.8
pictures=docs/reports/performance
scenario=${1:-}
[ -n "$scenario" ] || die "which scenario? make flame SCENARIO=turn"

if ! have perf; then
    { can_apt && apt_install linux-perf; } || die "flame graphs need perf (Debian: linux-perf), and it can't be installed here"
fi
tools=$PWD/.cache/inferno
if [ ! -x "$tools/bin/inferno-flamegraph" ]; then
    say "building inferno $INFERNO_VERSION into $tools"
    cheap_install inferno "$INFERNO_VERSION" "$tools"
fi
say "building"
cargo build --locked --profile fast --workspace --bin rejoin --bin bench --bin queue-driver

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
say "measuring $scenario"
# By the unwind tables: neither PostgreSQL nor Rust's standard library keeps frame pointers. 8 kB of a stack suffice for most.
BENCH_NO_PEERS=true perf record --quiet --all-cpus --freq "${FREQUENCY:-199}" --call-graph dwarf,8192 --output "$folder/perf.data" -- \
    "${CARGO_TARGET_DIR:-target}/fast/bench" run --reps 1 --size "${SIZE:-full}" --out "$folder/results.json" "$scenario"
# It warns of each symbol that it does not find; the last warnings matter only if it fails.
perf script --input "$folder/perf.data" --no-inline --fields comm,pid,tid,time,event,ip,sym,dso 2>"$folder/warnings" |
    "$tools/bin/inferno-collapse-perf" >"$folder/stacks" || {
    tail -n 5 "$folder/warnings" >&2
    die "the samples can't be read"
}

# draw PROGRAM TITLE: the stacks of the threads with this name, which is the first frame. Frames under 0.2 % are left out: the file stays small.
draw() {
    local picture=$pictures/flame-$scenario-$1.svg
    if ! grep -q "^$1;" "$folder/stacks"; then
        say "$1 does not run in $scenario"
        return
    fi
    grep "^$1;" "$folder/stacks" | sed "s/^$1;//" |
        "$tools/bin/inferno-flamegraph" --title "$2: $scenario" --countname samples --minwidth 0.2 --hash >"$picture"
    say "$picture is written"
}
draw rejoin-api "The API"
draw rejoin-worker "The worker"
draw postgres "PostgreSQL"
