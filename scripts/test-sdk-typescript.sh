#!/usr/bin/env bash
# The TypeScript package (sdk/typescript): lints, types, and tests of the package as it would be published. The live tests start a real server
# with the binary of REJOIN_TEST_BIN, or target/debug/rejoin; without either they are skipped (in CI they fail). Arguments are vitest's.
# test-sdk-typescript.sh [FILE …] [-t NAME]
# shellcheck source-path=SCRIPTDIR
NO_WEB_BUILD=1 source "$(dirname "${BASH_SOURCE[0]}")/setup-web.sh"

logs=$PWD/.cache/sdk-typescript
mkdir -p "$logs"
find_node || die "the TypeScript package needs Node.js $NODE_NEEDED or newer, and it can't be fetched here"

package=sdk/typescript
source scripts/setup-sdk-tests.sh

quietly install npm_modules "$package"
cd "$package"
quietly build npm run --silent build

checks() {
    quietly lint npm run --silent lint
    quietly types npm run --silent check
    quietly conformance python3 ../conformance/run.py -- node test/conformanceProgram.js
    # By this variable it sends requests as in Deno and Bun, by `fetch`.
    quietly conformance-fetch env NODE_USE_ENV_PROXY=1 python3 ../conformance/run.py -- node test/conformanceProgram.js
}

# Side by side: the tests mostly wait for the server.
checks &
checks=$!
trap 'kill "$checks" 2>/dev/null || true' EXIT
# Their programs use the package that was built above.
quietly tests node node_modules/vitest/vitest.mjs run "$@"
wait "$checks"
trap - EXIT
grep -a "SKIPPED" "$logs/tests.log" >&2 || true
say "sdk/typescript: lints and types are clean; conformance: $(tail -n 1 "$logs/conformance.log");$(sed 's/\x1b\[[0-9;]*m//g' "$logs/tests.log" | grep -a "Tests " | tr -s ' ')"
