#!/usr/bin/env bash
# The cache of checked queries, .sqlx: `write` refreshes it, `check` says whether it is fresh, `lint` does so while Clippy looks at everything,
# and everything is built, too, where RUSTC_WORKSPACE_WRAPPER says that Clippy compiles.
# sqlx's macros write it themselves while they compile against a database; so this starts one, applies the migrations
# and compiles the members that use them. No further tool is needed. (The server's plans determine
# which columns may be null, so two versions of PostgreSQL can disagree about a file.)
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

mode=${1:-write}
# Its own, whatever DATABASE_URL names: that database may be behind or ahead of the migrations here.
unset DATABASE_URL
setup_postgres

dir=$(mktemp -d /tmp/rejoin-sqlx.XXXXXX)
fresh=$PWD/.cache/sqlx
trap 'postgres_stop "$dir"' EXIT
url=$(postgres_start "$dir")
psql=$(postgres_psql)
for migration in migrations/*.up.sql; do
    "$psql" "$url" --no-psqlrc --quiet --single-transaction -v ON_ERROR_STOP=1 -f - <"$migration" >/dev/null ||
        die "$migration failed"
done

rm -rf "$fresh"
mkdir -p "$fresh"
# Only what is compiled anew writes its part of the cache.
grep -rlE 'sqlx::(query|query_as|query_scalar|query_file\w*)(_unchecked)?!|\bquery(_as|_scalar)?!' \
    --include='*.rs' shared extensions api worker cli tests | xargs -r touch
compile=(check --tests)
lints=()
if [ "$mode" = lint ]; then
    compile=(clippy --all-targets)
    lints=(-- -D warnings)
    [ -z "${RUSTC_WORKSPACE_WRAPPER:-}" ] || compile=(build --all-targets) lints=()
fi
DATABASE_URL=$url SQLX_OFFLINE=false SQLX_OFFLINE_DIR=$fresh cargo "${compile[0]}" --locked --workspace "${compile[@]:1}" "${lints[@]}"

case $mode in
    write)
        rm -rf .sqlx
        if [ -n "$(ls -A "$fresh")" ]; then
            mv "$fresh" .sqlx
        fi
        say ".sqlx holds $(find .sqlx -name '*.json' 2>/dev/null | wc -l) queries"
        ;;
    check | lint)
        mkdir -p .sqlx
        diff -r .sqlx "$fresh" >&2 || die ".sqlx is not what the queries and the migrations say: run make sqlx, and commit it"
        say ".sqlx is fresh"
        ;;
    *) die "usage: scripts/sqlx.sh write|check|lint" ;;
esac
