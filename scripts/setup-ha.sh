#!/usr/bin/env bash
# What runs over a Patroni cluster need beside that of chaos runs: Patroni from PyPI, and Debian's etcd and HAProxy. Without them there is no run.
# (Where systemd runs, Debian's packages start a service, too. Ours listen on other ports.)
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-chaos.sh"

setup_patroni() {
    local cache
    cache=$(server_cache ha)
    # PostgreSQL's user runs it, and can't get to an interpreter below /root.
    local python=python3
    if is_root && ! as_server test -x "$(python3 -c 'import sys; print(sys.executable)')"; then
        python=/usr/bin/python3
    fi
    PYTHON=$python python_tools scripts/wheels/ha.txt "$cache" "runs over a Patroni cluster"
    [ -x "$cache/venv/bin/patroni" ] || die "Patroni is missing, and it can't be installed here: give this machine Python with venv and a way to PyPI"
    export CHAOS_PATRONI=$cache/venv/bin/patroni
}

# setup_program PROGRAM PACKAGE
setup_program() {
    # A user's PATH may lack the folder of servers.
    if have "$1" || [ -x "/usr/sbin/$1" ]; then
        return
    fi
    if ! can_apt || ! apt_install "$2"; then
        die "$1 is missing, and it can't be installed here. On Debian: apt-get install $2"
    fi
}

setup_patroni
setup_program etcd etcd-server
setup_program haproxy haproxy
