#!/usr/bin/env bash
# A real server that speaks S3, for tests of files: Ceph's RADOS Gateway and the monitor and OSD below it, from Debian's packages.
# tests/object-store/radosgw.sh starts them. What can't be had is said; the tests that need it are skipped (in CI they fail).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

# The packages bring services that start at once where systemd runs (ceph-crash, smartmontools). Tests start their own, so none does:
# Debian's tools ask policy-rc.d, if there is one. A subshell, so that its trap is its own.
install_ceph() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    apt_install radosgw ceph-mon ceph-osd curl
)

setup_object_store() {
    if have radosgw && have ceph-mon && have ceph-osd && have curl; then
        return
    fi
    if ! can_apt || ! install_ceph; then
        say "no Ceph, and it can't be installed here: its tests are skipped (in CI they fail)"
    fi
}

setup_object_store
