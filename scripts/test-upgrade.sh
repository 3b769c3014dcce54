#!/usr/bin/env bash
# A rolling upgrade from another revision to this tree, and back, under load: test-upgrade.sh BASE [OPTION OF `chaos run`…]. In the environment:
#   SEED=1                 plans of load and faults
#   SECONDS_OF_FAULTS=120  how long processes are replaced
#   REPORT=FILE            the verdict goes there, too
# The schema is this tree's, as `rejoin migrate up` leaves it before an upgrade. All processes begin with the build of BASE; each that is drained is followed by one of
# the other build, so that both builds work side by side all the time, and each takes over runs of the other. Some are killed, too.
# The invariants of a chaos run must hold (docs/reports/reliability/faults.md).
# shellcheck source-path=SCRIPTDIR
# Its own server, whatever DATABASE_URL names.
unset DATABASE_URL
source "$(dirname "${BASH_SOURCE[0]}")/setup-chaos.sh"

base=${1:-}
[ -n "$base" ] || die "from which revision? make test-upgrade BASE=main"
shift
revision=$(git rev-parse --verify --quiet --short=10 "$base^{commit}") || die "$base is not a revision of this repository"
git cat-file -e "$revision:chaos/Cargo.toml" 2>/dev/null || die "$base ($revision) has no chaos/: its processes can't be started"

profile=${PROFILE:-fast}
cache=$PWD/.cache/upgrade
tree=$cache/$revision
target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$cache"
if [ ! -e "$tree/.git" ]; then
    git worktree prune
    git worktree add --quiet --detach "$tree" "$revision"
fi
say "building $base ($revision)"
(cd "$tree" && CARGO_TARGET_DIR=$target cargo build --locked --workspace --bin chaos --bin rejoin --profile "$profile")
# Copied: this tree's takes its place.
cp --remove-destination "$target/${profile/#dev/debug}/chaos" "$cache/chaos-$revision"
say "building this tree"
build_chaos "$profile"
exec "$target/${profile/#dev/debug}/chaos" run \
    --other-build "$cache/chaos-$revision" \
    --faults drain-worker,drain-api,kill-worker,kill-api \
    --loads chat,calls,together,cancels \
    --seed "${SEED:-1}" --seconds "${SECONDS_OF_FAULTS:-120}" --no-overture \
    ${REPORT:+--report "$REPORT"} "$@"
