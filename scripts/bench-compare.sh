#!/usr/bin/env bash
# Whether this tree is slower than another revision: bench-compare.sh BASE [SCENARIO…]; REPS=3 SIZE=full in the environment.
# Both are built; then they run in turns, one repetition at a time, so that a noisy minute hits both alike. Each side uses its own
# `bench` and its own `rejoin`. Peers are left out. FAIL_ABOVE=PERCENT: fails where anything got worse by more.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
# A server of its own, whatever DATABASE_URL names.
unset DATABASE_URL
setup_postgres

base=${1:-}
[ -n "$base" ] || die "which revision? make bench-compare BASE=main"
shift
reps=${REPS:-3}
size=${SIZE:-full}

revision=$(git rev-parse --verify --quiet --short=10 "$base^{commit}") || die "$base is no revision of this repository"
git cat-file -e "$revision:bench/Cargo.toml" 2>/dev/null || die "$base ($revision) has no bench/: there is nothing to compare with"

cache=$PWD/.cache/bench
tree=$cache/$revision
target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$cache"
if [ ! -e "$tree/.git" ]; then
    git worktree prune
    git worktree add --quiet --detach "$tree" "$revision"
fi

# build TREE BIN: dependencies are shared, also with the chaos runs (the same choice of packages); the binaries are copied, since the other
# side's would take their place. The driver of the queue is among them: it would be built within the time limit of its first measurement.
build() {
    (cd "$1" && CARGO_TARGET_DIR=$target cargo build --locked --profile fast --workspace --bin rejoin --bin bench --bin queue-driver)
    mkdir -p "$2"
    # Not in place: one that still runs can't be written to.
    cp --remove-destination "$target"/fast/{rejoin,bench,queue-driver} "$2/"
}
say "building $base ($revision)"
build "$tree" "$cache/bin-base"
say "building this tree"
build "$PWD" "$cache/bin-head"

# The scenarios that both have.
names() { "$cache/bin-$1/bench" list | awk '{ print $1 }'; }
wanted=("$@")
if [ ${#wanted[@]} = 0 ]; then
    mapfile -t wanted < <(names head)
fi
scenarios=()
for name in "${wanted[@]}"; do
    if ! names head | grep -qx "$name"; then
        die "there is no scenario $name; there are: $(names head | paste -sd ' ')"
    elif names base | grep -qx "$name"; then
        scenarios+=("$name")
    else
        say "$base ($revision) has no scenario $name: left out"
    fi
done
[ ${#scenarios[@]} -gt 0 ] || die "$base has none of these scenarios: there is nothing to compare"

results=$cache/results
rm -rf "$results"
# run SIDE TREE REPETITION
run() {
    say "repetition $3 of $reps: $1"
    (cd "$2" && BENCH_NO_PEERS=true "$cache/bin-$1/bench" run --reps 1 --size "$size" --out "$results/$1/$3.json" "${scenarios[@]}" >&2)
}
for ((repetition = 1; repetition <= reps; repetition++)); do
    # Who goes first changes, so that nobody always has the warmer machine.
    if ((repetition % 2)); then
        run base "$tree" "$repetition"
        run head "$PWD" "$repetition"
    else
        run head "$PWD" "$repetition"
        run base "$tree" "$repetition"
    fi
done
"$cache/bin-head/bench" compare "$results/base" "$results/head" ${FAIL_ABOVE:+--fail-above "$FAIL_ABOVE"}
