#!/usr/bin/env bash
# Prometheus' promtool, for the checks of metrics and alerts: the machine's, or that of Debian's package, unpacked into .cache/promtool without
# installing or starting the server. Without it these checks are skipped (in CI they fail).
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

PROMTOOL_CACHE=.cache/promtool

setup_promtool() {
    local new
    if have promtool || [ -x "$PROMTOOL_CACHE/promtool" ]; then
        return
    fi
    if have apt-get && have dpkg; then
        mkdir -p .cache
        new=$(mktemp -d "$PWD/.cache/promtool.XXXXXX")
        say "fetching promtool into $PROMTOOL_CACHE"
        # The lists of packages may be missing or old.
        if (cd "$new" && { apt-get download -qq prometheus || { is_root && apt-get update -qq && apt-get download -qq prometheus; }; }) >/dev/null 2>&1 &&
            dpkg -x "$new"/prometheus_*.deb "$new/unpacked" && [ -x "$new/unpacked/usr/bin/promtool" ]; then
            mkdir -p "$PROMTOOL_CACHE"
            mv "$new/unpacked/usr/bin/promtool" "$PROMTOOL_CACHE/promtool"
        fi
        rm -rf "$new"
    fi
    [ -x "$PROMTOOL_CACHE/promtool" ] || say "no promtool, and Debian's package can't be had here: its checks are skipped (in CI they fail)"
}

setup_promtool
