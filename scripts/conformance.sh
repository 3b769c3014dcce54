#!/usr/bin/env bash
# The kill-and-resume suite over this build and over others: conformance/README.md. In the environment:
#   TARGET=rejoin   rejoin (native events, each protocol, programs of users), all (with the peers, which are installed), or names and folders of adapters, with commas
#   SEEDS=50        number of seeds
#   FAMILY=NAMES    only these families of cases
#   JOBS=2          number of servers that are asked at once, since cases mostly wait; 1 unless set
#   REPORT=FILE.md  the report goes there, too, and the static page beside it
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

# What peers need of the machine. Without it they are missing columns.
setup_peers_of_suite() {
    source scripts/setup-bench.sh
    peer Redis 'have redis-server' redis-server
    peer 'Python with venv and pip' has_venv python3-venv python3-pip
    peer Node.js 'have npm' nodejs npm
    # A PostgreSQL that has pgvector, for Letta.
    source scripts/setup-pgvector.sh
    RESUME_SUITE_PGVECTOR_BIN=$(compgen -G "$PWD/.cache/pgvector/*/pginstall18/bin") || true
    export RESUME_SUITE_PGVECTOR_BIN
}

# names PATTERN: the adapters whose folder matches.
names() { compgen -G "conformance/adapters/$1/adapter.toml" | xargs -n 1 dirname | xargs -n 1 basename | sort; }

case ${TARGET:-rejoin} in
rejoin) mapfile -t targets < <(names 'rejoin*') ;;
all) mapfile -t targets < <(names '*') ;;
*) IFS=, read -ra targets <<<"$TARGET" ;;
esac
for name in "${targets[@]}"; do
    case $(basename "$name") in
    rejoin* | plain-sse) ;;
    *)
        setup_peers_of_suite
        break
        ;;
    esac
done

# run_suite NAME: its output is in $out/NAME.log, too, and whether it passed in $out/NAME.status.
run_suite() {
    local name status=0
    name=$(basename "$1")
    echo unfinished >"$out/$name.status"
    "$suite" run --target "$1" --seeds "${SEEDS:-5}" ${FAMILY:+--family "$FAMILY"} --out "$out" "${@:2}" 2>&1 |
        tee "$out/$name.log" || status=$?
    echo "$status" >"$out/$name.status"
}

started=()
for name in "${targets[@]}"; do
    if ! "$suite" install --target "$name"; then
        say "$name can't be installed here: a missing column"
        continue
    fi
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-1}" ]; do
        # Of any of them; what each said is in its file.
        wait -n || true
    done
    run_suite "$name" "$@" &
    started+=("$name")
done
wait
"$suite" report --markdown "$out/kill-and-resume.md" --html "$out/kill-and-resume.html" "$out"
if [ -n "${REPORT:-}" ]; then
    cp "$out/kill-and-resume.md" "$REPORT"
    cp "$out/kill-and-resume.html" "${REPORT%.md}.html"
fi
say "$out/kill-and-resume.md, $out/kill-and-resume.html"
# Peers are measured; ours must pass.
for name in "${started[@]}"; do
    name=$(basename "$name")
    [[ $name != rejoin* || $(cat "$out/$name.status") = 0 ]] || die "$name has verdicts that are not good: $out/$name.log"
done
