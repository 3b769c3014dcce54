#!/usr/bin/env bash
# The kill-and-resume suite over this build and over others: conformance/README.md. In the environment:
#   TARGET=rejoin   rejoin (native events, each protocol, programs of users), all (with the peers, which are installed), or names and folders of adapters, with commas
#   SEEDS=50        number of seeds
#   FAMILY=NAMES    only these families of cases
#   REPORT=FILE     the report goes there, too
# Further arguments go to `resume-suite run`.
# shellcheck source-path=SCRIPTDIR
# Servers of its own, whatever DATABASE_URL names.
unset DATABASE_URL
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

profile=${PROFILE:-fast}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo build --locked --workspace --bin resume-suite --bin rejoin --profile "$profile"
suite=$target/${profile/#dev/debug}/resume-suite
export RESUME_SUITE_REJOIN=$target/${profile/#dev/debug}/rejoin
out=${OUT:-$target/conformance}
mkdir -p "$out"
# The example, and the programs of users.
have python3 || { can_apt && apt_install python3; } || die "the suite's adapters need python3"

# pgvector, for Letta.
has_pgvector() { compgen -G '/usr/share/postgresql/*/extension/vector.control' >/dev/null; }

# What peers need of the machine. Without it they are missing columns.
setup_peers_of_suite() {
    source scripts/setup-bench.sh
    peer Redis 'have redis-server' redis-server
    peer 'Python with venv and pip' has_venv python3-venv python3-pip
    peer Node.js 'have npm' nodejs npm
    peer pgvector has_pgvector "postgresql-$(printf '%s\n' /usr/lib/postgresql/* | sort -V | tail -n 1 | xargs basename)-pgvector"
}

# names PATTERN: the adapters whose folder matches.
names() { compgen -G "conformance/adapters/$1/adapter.toml" | xargs -n 1 dirname | xargs -n 1 basename | sort; }

case ${TARGET:-rejoin} in
rejoin) mapfile -t targets < <(names 'rejoin*') ;;
all)
    setup_peers_of_suite
    mapfile -t targets < <(names '*')
    ;;
*) IFS=, read -ra targets <<<"$TARGET" ;;
esac

failed=()
for name in "${targets[@]}"; do
    if ! "$suite" install --target "$name"; then
        say "$name can't be installed here: a missing column"
        continue
    fi
    "$suite" run --target "$name" --seeds "${SEEDS:-5}" ${FAMILY:+--family "$FAMILY"} --out "$out" "$@" || failed+=("$name")
done
"$suite" report --markdown "$out/kill-and-resume.md" --html "$out/kill-and-resume.html" "$out"
[ -z "${REPORT:-}" ] || cp "$out/kill-and-resume.md" "$REPORT"
say "$out/kill-and-resume.md, $out/kill-and-resume.html"
# Peers are measured; ours must pass.
for name in "${failed[@]}"; do
    [[ $(basename "$name") != rejoin* ]] || die "$name has verdicts that are not good"
done
