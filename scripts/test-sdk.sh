#!/usr/bin/env bash
# The Python client (sdk/python): format, lints, types, and tests of the wheel as it would be published. The live tests start a real server with
# the binary of REJOIN_TEST_BIN, or target/debug/rejoin; without either they are skipped (in CI they fail). Arguments are pytest's.
# test-sdk.sh [-k NAME …]
# shellcheck source-path=SCRIPTDIR
NO_WEB_BUILD=1 source "$(dirname "${BASH_SOURCE[0]}")/setup-web.sh"

root=$PWD
tools=$root/.cache/sdk
python_tools scripts/wheels/sdk.txt "$tools" "the tests of the Python client"
bin=$tools/venv/bin
[ -x "$bin/pytest" ] || die "the tools of the Python client can't be installed here"
find_node || die "pyright needs Node.js $NODE_NEEDED or newer, and it can't be fetched here"

package=sdk/python
logs=$tools
source scripts/setup-sdk-tests.sh

cd "$package"
# Nothing is left in the source tree.
export PYTHONPYCACHEPREFIX=$tools/pycache RUFF_CACHE_DIR=$tools/ruff MYPY_CACHE_DIR=$tools/mypy
rm -rf "$tools/dist"
quietly wheel "$bin/hatchling" build -t wheel -d "$tools/dist"
quietly install "$bin/pip" install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$tools"/dist/*.whl
pyright=$("$bin/python" -c 'import pathlib, pyright; print(pathlib.Path(pyright.__file__).with_name("dist") / "index.js")')

checks() {
    # Also what is tested by scripts/test-adapters.sh.
    local folders=(. ../conformance ../../examples/adapters ../../tests/adapters)
    quietly format "$bin/ruff" format --check --config pyproject.toml "${folders[@]}"
    quietly lint "$bin/ruff" check --config pyproject.toml "${folders[@]}"
    quietly mypy "$bin/mypy"
    quietly pyright node "$pyright" --pythonpath "$bin/python" --project .
    quietly conformance "$bin/python" ../conformance/run.py -- "$bin/python" tests/conformance_program.py
}

# Side by side: the tests mostly wait for the server.
checks &
checks=$!
trap 'kill "$checks" 2>/dev/null || true' EXIT
quietly pytest "$bin/pytest" -o cache_dir="$tools/pytest" "$@"
wait "$checks"
trap - EXIT
say "sdk/python: ruff, mypy and pyright are clean; conformance: $(tail -n 1 "$tools/conformance.log"); $(tail -n 1 "$tools/pytest.log")"
