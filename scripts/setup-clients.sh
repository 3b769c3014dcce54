#!/usr/bin/env bash
# The official Python clients of OpenAI, Anthropic and Gemini, by which tests check the stand-in of model providers. Into
# .cache/model-clients. What can't be had is said; the tests that need it are skipped (in CI they fail).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

CLIENTS_FROM=scripts/wheels/clients.txt
CLIENTS_TO=.cache/model-clients

setup_model_clients() {
    if cmp -s "$CLIENTS_FROM" "$CLIENTS_TO/clients.txt"; then
        return
    fi
    if ! { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }; then
        if ! can_apt || ! apt_install python3-venv; then
            say "no Python with venv, and it can't be installed here: tests with the providers' own clients are skipped (in CI they fail)"
            return
        fi
    fi
    rm -rf "$CLIENTS_TO"
    mkdir -p "$CLIENTS_TO"
    python3 -m venv "$CLIENTS_TO/venv"
    if "$CLIENTS_TO/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$CLIENTS_FROM"; then
        cp "$CLIENTS_FROM" "$CLIENTS_TO/"
    else
        say "pip can't install the providers' clients here: their tests are skipped (in CI they fail)"
    fi
}

setup_model_clients
