#!/usr/bin/env bash
# Other people's MCP programs that tests use: servers, clients, the conformance tests. Into .cache/mcp-servers, by the lock files in
# tests/mcp-servers. What can't be had is said; the tests that need it are skipped (in CI they fail).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

MCP_FROM=tests/mcp-servers
MCP_TO=.cache/mcp-servers

setup_mcp_npm() {
    if cmp -s "$MCP_FROM/package-lock.json" "$MCP_TO/package-lock.json" && [ -e "$MCP_TO/node_modules/.package-lock.json" ]; then
        return
    fi
    if ! { have node && have npm; }; then
        if ! can_apt || ! apt_install nodejs npm; then
            say "no Node.js, and it can't be installed here: tests of MCP servers from npm are skipped (in CI they fail)"
            return
        fi
    fi
    cp "$MCP_FROM/package.json" "$MCP_FROM/package-lock.json" "$MCP_TO/"
    if ! (cd "$MCP_TO" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then
        rm -f "$MCP_TO/package-lock.json"
        say "npm can't install the MCP servers here: their tests are skipped (in CI they fail)"
    fi
}

setup_mcp_python() {
    if cmp -s "$MCP_FROM/requirements.txt" "$MCP_TO/requirements.txt"; then
        return
    fi
    if ! { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }; then
        if ! can_apt || ! apt_install python3-venv; then
            say "no Python with venv, and it can't be installed here: tests of MCP programs from PyPI are skipped (in CI they fail)"
            return
        fi
    fi
    rm -rf "$MCP_TO/venv"
    python3 -m venv "$MCP_TO/venv"
    if "$MCP_TO/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$MCP_FROM/requirements.txt"; then
        cp "$MCP_FROM/requirements.txt" "$MCP_TO/"
    else
        say "pip can't install the MCP programs here: their tests are skipped (in CI they fail)"
    fi
}

mkdir -p "$MCP_TO"
setup_mcp_npm
setup_mcp_python
