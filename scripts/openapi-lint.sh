#!/usr/bin/env bash
# Checks an OpenAPI document with the recommended rules of Redocly CLI and Spectral; a warning fails, too. The rules that are switched off, with the
# reasons, are in tests/clients/openapi. Without an argument: the document of target/debug/rejoin.
# openapi-lint.sh [FILE]
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
NO_CLIENTS=1 source scripts/setup-clients.sh

tools=$PWD/.cache/clients/openapi
rules=$PWD/tests/clients/openapi
npm_client openapi
[ -e "$tools/node_modules/.package-lock.json" ] || die "Redocly CLI and Spectral can't be installed here"

document=${1:-}
if [ -z "$document" ]; then
    document=$tools/openapi.json
    "${CARGO_TARGET_DIR:-target}/debug/rejoin" openapi >"$document"
fi
bin=$tools/node_modules/.bin
# No look for a newer version, no report home.
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
"$bin/redocly" lint --config "$rules/redocly.yaml" --format=json --max-problems=100000 "$document" >"$tools/redocly.json"
# shellcheck disable=SC2016 # The script's templates, not the shell's.
node --eval '
    const { totals, problems } = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
    for (const { ruleId, message, location } of problems) console.error(`${ruleId}: ${message} at ${location[0].pointer}`);
    process.exit(totals.errors + totals.warnings > 0 ? 1 : 0);
' "$tools/redocly.json" || die "the OpenAPI document breaks rules of Redocly CLI"
"$bin/spectral" lint --ruleset "$rules/spectral.yaml" --fail-severity=warn "$document"
say "the OpenAPI document passes Redocly CLI and Spectral"
