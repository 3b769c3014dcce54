#!/usr/bin/env bash
# Measures, and writes docs/reports/performance.md. bench.sh [SCENARIO…], all unless named; in the environment:
#   REPS=3            repetitions
#   SIZE=full         full, large (hours), smoke (that it works; says nothing, and writes no report)
#   BENCH_NO_PEERS=   true: ours and the limits alone
#   BENCH_GROWTH_MILLIONS=      sizes of `growth`, such as 1,10,200
#   BENCH_GROWTH_PARTITIONED=   true: its tables are partitioned
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
source scripts/setup-bench.sh
source scripts/setup-search.sh
# A server of its own, whatever DATABASE_URL names.
unset DATABASE_URL
setup_postgres

# Readers are sockets: 20,000 of them need more files than a shell usually may open.
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"

reps=${REPS:-3}
size=${SIZE:-full}
# Kept with the sources: what the report tells can be read and compared later.
results=bench/results/latest.json

if [ "${BENCH_NO_PEERS:-}" != true ]; then
    setup_peers
fi
say "building"
# Out of the whole workspace, as all programs of this profile: with another choice of packages, dependencies have other features, and are compiled again.
cargo build --locked --profile fast --workspace --bin rejoin --bin bench --bin queue-driver
bench=${CARGO_TARGET_DIR:-target}/fast/bench

if [ "$size" = smoke ]; then
    exec "$bench" run --size smoke --out "${CARGO_TARGET_DIR:-target}/bench/smoke.json" "$@"
fi
# What was measured is reported even if a scenario failed.
status=0
"$bench" run --reps "$reps" --size "$size" --out "$results" "$@" || status=$?
if [ -e "$results" ]; then
    "$bench" report "$results"
    say "docs/reports/performance.md is written"
    # It needs the largest tables of `scale`, which a run of the usual size leaves out. Anything else that fails is an error.
    if said=$("$bench" capacity --results "$results" 2>&1); then
        say "docs/reports/capacity.md is written"
    elif grep -q 'scale: no ' <<<"$said"; then
        say "docs/reports/capacity.md stays as it is: it needs the results of make bench-scale SCENARIO=scale"
    else
        die "docs/reports/capacity.md can't be written: $said"
    fi
fi
exit "$status"
