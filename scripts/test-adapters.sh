#!/usr/bin/env bash
# The agents of other frameworks in examples/adapters: types, and tests with the frameworks as they are published, on a real server. The binary is
# that of REJOIN_TEST_BIN, or target/debug/rejoin; without either the tests are skipped (in CI they fail). Arguments are pytest's.
# test-adapters.sh [-k NAME …]
# shellcheck source-path=SCRIPTDIR
NO_WEB_BUILD=1 source "$(dirname "${BASH_SOURCE[0]}")/setup-web.sh"

root=$PWD
tools=$root/.cache/adapters
# What the AI SDK and Mastra need, and a Node.js that runs TypeScript.
NODE_NEEDED=22.18.0
python_tools scripts/wheels/adapters.txt "$tools" "the tests of adapters"
bin=$tools/venv/bin
[ -x "$bin/pytest" ] || die "the Python frameworks can't be installed here"
find_node || die "the TypeScript frameworks need Node.js $NODE_NEEDED or newer, and it can't be fetched here"
NO_CLIENTS=1 source scripts/setup-clients.sh
npm_client adapters
modules=$root/.cache/clients/adapters/node_modules
[ -e "$modules/.package-lock.json" ] || die "the TypeScript frameworks can't be installed here"

package=examples/adapters
logs=$tools
source scripts/setup-sdk-tests.sh

# Both packages, as they would be published.
quietly package npm_modules sdk/typescript
quietly build npm --prefix sdk/typescript run --silent build
rm -rf "$modules/@rejoin" "$tools/dist"
mkdir -p "$modules/@rejoin/sdk"
cp -r sdk/typescript/package.json sdk/typescript/dist "$modules/@rejoin/sdk/"
quietly wheel env -C sdk/python "$bin/hatchling" build -t wheel -d "$tools/dist"
quietly install "$bin/pip" install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$tools"/dist/*.whl

checks() {
    local pyright
    pyright=$("$bin/python" -c 'import pathlib, pyright; print(pathlib.Path(pyright.__file__).with_name("dist") / "index.js")')
    quietly pyright node "$pyright" --pythonpath "$bin/python" examples/adapters/*.py
    (cd sdk/typescript && quietly biome node_modules/.bin/biome ci --error-on-warnings --config-path=. ../../examples/adapters)
    rm -rf "$tools/typescript"
    mkdir -p "$tools/typescript"
    cp examples/adapters/*.ts "$tools/typescript/"
    echo '{"type": "module"}' >"$tools/typescript/package.json"
    ln -s "$modules" "$tools/typescript/node_modules"
    (cd "$tools/typescript" && quietly types node node_modules/typescript/bin/tsc --noEmit --strict --skipLibCheck --target es2023 \
        --module nodenext --allowImportingTsExtensions --erasableSyntaxOnly --types node --lib es2023,dom,dom.iterable,dom.asynciterable ./*.ts)
}

# Side by side: the tests mostly wait for the server.
export REJOIN_TEST_NODE REJOIN_TEST_NODE_MODULES=$modules PYTHONPYCACHEPREFIX=$tools/pycache
REJOIN_TEST_NODE=$(command -v node)
checks &
checks=$!
trap 'kill "$checks" 2>/dev/null || true' EXIT
(cd tests/adapters && quietly pytest "$bin/pytest" -o cache_dir="$tools/pytest" "$@")
wait "$checks"
trap - EXIT
say "examples/adapters: pyright, biome and tsc are clean; $(tail -n 1 "$tools/pytest.log")"
