# shellcheck shell=bash
# A browser for what is tested and measured in one: sourced by setup-test.sh and bench-web.sh.

setup_browser() {
    local browser
    # What most tests use, where it can be had. Without it, they use the whole browser.
    if ! have chromium-headless-shell && can_apt; then
        apt_install chromium-headless-shell || true
    fi
    for browser in chromium chromium-browser google-chrome; do
        if have "$browser"; then
            return
        fi
    done
    if ! can_apt || ! apt_install chromium; then
        say "no chromium, and it can't be installed here: tests that need a browser are skipped (in CI they fail)"
    fi
}

setup_browser
