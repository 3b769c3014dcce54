# shellcheck shell=bash
# What the benchmarks' peers need beside `make setup`: sourced by bench.sh. What can't be had is said; the scenarios leave it out.

# A package's service must not start beside what is measured, nor take a port: invoke-rc.d asks this file first.
RC_POLICY=/usr/sbin/policy-rc.d

# apt_install, with all services of the packages left alone.
apt_install_quiet() {
    local status=0
    if [ -e "$RC_POLICY" ]; then
        apt_install "$@" || status=$?
        return "$status"
    fi
    printf '#!/bin/sh\nexit 101\n' >"$RC_POLICY"
    chmod +x "$RC_POLICY"
    apt_install "$@" || status=$?
    rm -f "$RC_POLICY"
    return "$status"
}

has_nchan() { have nginx && find /usr/lib/nginx/modules /usr/share/nginx/modules -name '*nchan*.so' 2>/dev/null | grep -q .; }
has_venv() { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null && python3 -m pip --version >/dev/null 2>&1; }

# peer NAME CHECK PACKAGE…: installed where the check fails.
peer() {
    local name=$1 check=$2
    shift 2
    if $check; then
        return
    fi
    if ! can_apt; then
        say "$name: not here, and only root with apt-get can install it ($*); its comparisons will be left out"
    elif ! apt_install_quiet "$@" || ! $check; then
        say "$name: can't be installed ($*); its comparisons will be left out"
    fi
}

setup_peers() {
    peer Redis 'have redis-server' redis-server
    peer 'nginx with nchan' has_nchan nginx libnginx-mod-nchan
    peer Node.js 'have node' nodejs npm
    peer 'Python with venv and pip' has_venv python3-venv python3-pip
    # Our own program in TypeScript stands beside the peers' (scenario `remote`), and is a file of this checkout.
    NO_WEB_BUILD=1 source scripts/setup-web.sh
    if ! { find_node && npm_modules sdk/typescript && (cd sdk/typescript && npm run --silent build); }; then
        say "sdk/typescript can't be built here; its durable functions will be left out"
    fi
}
