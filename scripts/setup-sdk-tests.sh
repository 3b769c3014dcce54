# shellcheck shell=bash
# What the tests of the packages in sdk/ share: the binary of their live tests, and commands whose output is shown only if they fail.

if [ -z "${REJOIN_TEST_BIN:-}" ] && [ -x "${CARGO_TARGET_DIR:-target}/debug/rejoin" ]; then
    REJOIN_TEST_BIN=$(realpath "${CARGO_TARGET_DIR:-target}/debug/rejoin")
    export REJOIN_TEST_BIN
fi
if [ -n "${REJOIN_TEST_BIN:-}" ]; then
    # The tests bring their own PostgreSQL, whatever DATABASE_URL is set to.
    unset DATABASE_URL
    setup_postgres
fi

# quietly NAME COMMAND…: its output goes to $logs/NAME.log.
quietly() {
    local name=$1
    shift
    "$@" >"${logs:?}/$name.log" 2>&1 || {
        cat "$logs/$name.log" >&2
        die "${package:?}: $name has failed"
    }
}
