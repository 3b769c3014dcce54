#!/usr/bin/env bash
# Other people's clients. Into .cache/model-clients: the Python clients of OpenAI, Anthropic, Google, AWS and Ollama, by which tests check the
# stand-in of model providers; OpenAI's also speaks to our own /v1. Into .cache/clients: npm's, which tests point at the API, by the lock files
# in tests/clients. Into .cache/a2a-client: A2A's client for Python. Into .cache/openapi-client: the generator of Python
# clients from an OpenAPI document.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

# npm_client NAME: the packages of tests/clients/NAME.
npm_client() {
    local from=tests/clients/$1 to=.cache/clients/$1
    if cmp -s "$from/package-lock.json" "$to/package-lock.json" && [ -e "$to/node_modules/.package-lock.json" ]; then
        return
    fi
    if ! { have node && have npm; }; then
        if ! can_apt || ! apt_install nodejs npm; then
            say "no Node.js, and it can't be installed here: tests of the client $1 are skipped (in CI they fail)"
            return
        fi
    fi
    mkdir -p "$to"
    cp "$from/package.json" "$from/package-lock.json" "$to/"
    local quiet=(--ignore-scripts --no-audit --no-fund --loglevel=error)
    # `npm ci` refuses a lock file without an optional package that the registry lacks; `npm install` leaves it out.
    if ! (cd "$to" && { npm ci "${quiet[@]}" 2>/dev/null || npm install "${quiet[@]}"; }); then
        rm -f "$to/package-lock.json"
        say "npm can't install the client $1 here: its tests are skipped (in CI they fail)"
    fi
}

# With NO_CLIENTS only the function above is defined.
if [ -z "${NO_CLIENTS:-}" ]; then
    python_tools scripts/wheels/clients.txt .cache/model-clients "tests with the providers' own clients"
    python_tools scripts/wheels/openapi.txt .cache/openapi-client "tests of a generated Python client"
    python_tools scripts/wheels/a2a.txt .cache/a2a-client "tests with A2A's client for Python"
    npm_client openai
    npm_client ai-sdk
    npm_client ag-ui
    npm_client openapi
    npm_client webhooks
    npm_client durable-streams
    npm_client a2a-js
    npm_client mcp-inspector
fi
