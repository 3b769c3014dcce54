"""A node for scripts/test-kubernetes.sh: registers itself at an API server, and runs the pods that the scheduler gives it as processes of this machine.

It stands in for kubelet and container runtime, and is no test of those. Every image is the program REJOIN. Of a pod it takes what Rejoin's manifests
use: arguments, environment from config maps and secrets, user, a read-only root file system, an empty /tmp, startup, liveness and readiness probes by
HTTP, preStop with a sleep, the grace period, and the restart policy. What else a pod asks for is an error, so that nothing is passed over.

Each pod has its own address in 10.244.0.0/16, in place of 0.0.0.0 in its environment. How each container ended is a line of ENDS.
"""

import base64
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime

NODE = "node-1"
# How often pods are looked at; a kubelet watches them.
INTERVAL_S = 0.3
# A node whose lease is not renewed for 50 s is taken for gone.
LEASE_S = 10
# The image's user: Dockerfile.
USER = 10001
# Fields of a pod and of its container that are run, or that say where: anything else would be passed over in silence.
POD_FIELDS = {
    "automountServiceAccountToken", "containers", "dnsPolicy", "enableServiceLinks", "nodeName", "preemptionPolicy", "priority",
    "restartPolicy", "schedulerName", "securityContext", "serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds",
    "tolerations", "topologySpreadConstraints", "volumes",
}  # fmt: skip
CONTAINER_FIELDS = {
    "args", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports", "readinessProbe", "resources",
    "securityContext", "startupProbe", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "volumeMounts",
}  # fmt: skip


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Api:
    """The API server, as an administrator."""

    def __init__(self, url: str, token: str, ca: str):
        self.url = url
        self.token = token
        self.tls = ssl.create_default_context(cafile=ca)

    def __call__(self, method: str, path: str, body: dict | None = None, patch: str = "application/json") -> dict:
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", patch)
        with urllib.request.urlopen(request, context=self.tls, timeout=30) as answer:
            return json.load(answer)

    def merge(self, path: str, body: dict) -> None:
        """Changes these fields. What is gone meanwhile needs no change."""
        try:
            self("PATCH", path, body, "application/strategic-merge-patch+json")
        except urllib.error.HTTPError as error:
            if error.code != http.HTTPStatus.NOT_FOUND:
                print(f"{path}: {error}: {error.read().decode()}", flush=True)


class Container:
    """A pod's only container: its process, from one start to the next."""

    def __init__(self, api: Api, pod: dict, ip: str, folder: pathlib.Path):
        self.api = api
        self.pod = pod
        self.ip = ip
        self.meta = pod["metadata"]
        self.path = f"/api/v1/namespaces/{self.meta['namespace']}/pods/{self.meta['name']}"
        self.spec = pod["spec"]
        (self.container,) = self.spec["containers"]
        self.check()
        self.log = folder / f"{self.meta['namespace']}_{self.meta['name']}.log"
        self.restarts = 0
        self.began = now()
        self.started = self.ready = False
        self.failures = 0
        self.ending = False
        self.ended: int | None = None
        self.reported: dict | None = None
        self.next_probe = self.restart_at = 0.0
        self.process: subprocess.Popen | None = None

    def check(self) -> None:
        for what, fields, known in [("pod", self.spec, POD_FIELDS), ("container", self.container, CONTAINER_FIELDS)]:
            unknown = fields.keys() - known
            assert not unknown, f"{self.meta['name']}: this node runs no {what} with {sorted(unknown)}"
        volumes = {volume["name"]: volume for volume in self.spec.get("volumes", [])}
        for mount in self.container.get("volumeMounts", []):
            volume = volumes[mount["name"]]
            empty = mount["mountPath"] == "/tmp" and "emptyDir" in volume
            assert empty or "projected" in volume, f"{self.meta['name']}: this node mounts nothing at {mount['mountPath']}"

    def resource(self, kind: str, name: str) -> dict[str, str]:
        data = self.api("GET", f"/api/v1/namespaces/{self.meta['namespace']}/{kind}/{name}").get("data", {})
        return {key: base64.b64decode(text).decode() if kind == "secrets" else text for key, text in data.items()}

    def environment(self) -> dict[str, str]:
        env = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
        for source in self.container.get("envFrom", []):
            kind, key = ("configmaps", "configMapRef") if "configMapRef" in source else ("secrets", "secretRef")
            env |= self.resource(kind, source[key]["name"])
        for variable in self.container.get("env", []):
            value = variable.get("value", "")
            if "valueFrom" in variable:
                reference = variable["valueFrom"]["secretKeyRef"]
                value = self.resource("secrets", reference["name"])[reference["key"]]
            env[variable["name"]] = value
        return {name: value.replace("0.0.0.0:", f"{self.ip}:") for name, value in env.items()}

    def start(self) -> None:
        security = self.container.get("securityContext", {})
        user = str(self.spec.get("securityContext", {}).get("runAsUser", USER))
        command = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
        if security.get("allowPrivilegeEscalation") is False:
            command.append("--no-new-privs")
        if security.get("capabilities", {}).get("drop") == ["ALL"]:
            command += ["--bounding-set=-all", "--inh-caps=-all"]
        command += [os.environ["REJOIN"], *self.container.get("args", [])]
        prepare = "mount -t tmpfs -o mode=1777 tmpfs /tmp"
        if security.get("readOnlyRootFilesystem"):
            prepare += " && mount -o remount,bind,ro /"
        self.started = self.ready = False
        self.failures = 0
        try:
            env = self.environment()
        except urllib.error.HTTPError as error:
            # As a kubelet: CreateContainerConfigError, and the next try.
            print(f"{self.meta['name']}: {error}", flush=True)
            self.restart_at = time.monotonic() + 2
            return
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{prepare} && exec "$@"', "sh", *command],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd="/",
            )  # fmt: skip
        self.next_probe = time.monotonic()

    def port(self, name: str | int) -> int:
        named = {port["name"]: port["containerPort"] for port in self.container.get("ports", []) if "name" in port}
        return named[name] if isinstance(name, str) else name

    def holds(self, probe: dict) -> bool:
        """Whether the endpoint of a probe answers as it should."""
        get = probe["httpGet"]
        connection = http.client.HTTPConnection(self.ip, self.port(get["port"]), timeout=probe.get("timeoutSeconds", 1))
        try:
            connection.request("GET", get["path"])
            return 200 <= connection.getresponse().status < 400
        except OSError:
            return False
        finally:
            connection.close()

    def probe(self) -> None:
        """Looks at the probes, twice a second, so that a test need not wait for their periods."""
        if time.monotonic() < self.next_probe or self.ending:
            return
        self.next_probe = time.monotonic() + 0.5
        startup, readiness, liveness = (self.container.get(f"{name}Probe") for name in ("startup", "readiness", "liveness"))
        if not self.started:
            self.started = startup is None or self.holds(startup)
            if not self.started:
                return
        self.ready = readiness is None or self.holds(readiness)
        # A process that has not begun to listen is not yet restarted: a kubelet waits for the period of the probe.
        self.failures = 0 if liveness is None or not self.ready or self.holds(liveness) else self.failures + 1
        assert self.failures < 6, f"{self.meta['name']} is ready, and not live"

    def look(self) -> None:
        """Starts, probes, restarts; says how it is."""
        if self.process is None:
            if self.ended is None and not self.ending and time.monotonic() >= self.restart_at:
                self.start()
        elif (code := self.process.poll()) is not None:
            self.process = None
            self.ready = False
            policy = self.spec["restartPolicy"]
            if not self.ending and (policy == "Always" or (policy == "OnFailure" and code != 0)):
                self.restarts += 1
                self.restart_at = time.monotonic() + min(2**self.restarts, 10)
            else:
                self.ended = code
            print(f"{self.meta['name']}: ended with {code}", flush=True)
            with pathlib.Path(os.environ["ENDS"]).open("a") as ends:
                ends.write(f"{self.meta['name']} {code}\n")
        else:
            self.probe()
        self.report()

    def report(self) -> None:
        # A client that gives input attaches to a running container, which this node does not serve: it sees the end, and reads the log.
        if self.container.get("stdin") and self.ended is None:
            return
        ready = "True" if self.ready else "False"
        if self.ended is not None:
            phase = "Succeeded" if self.ended == 0 else "Failed"
            state = {"terminated": {"exitCode": self.ended, "reason": "Completed" if self.ended == 0 else "Error", "finishedAt": now()}}
        elif self.process is None:
            phase, state = "Pending" if self.restarts == 0 else "Running", {"waiting": {"reason": "CrashLoopBackOff"}}
        else:
            phase, state = "Running", {"running": {"startedAt": self.began}}
        said = {"phase": phase, "ready": ready, "started": self.started, "restarts": self.restarts, "state": state.keys()}
        if said == self.reported:
            return
        self.reported = said
        image = self.container["image"]
        status = {
            "phase": phase,
            "hostIP": "127.0.0.1",
            "podIP": self.ip,
            "podIPs": [{"ip": self.ip}],
            "startTime": self.began,
            "conditions": [
                {"type": "Initialized", "status": "True", "lastTransitionTime": self.began},
                {"type": "ContainersReady", "status": ready, "lastTransitionTime": now()},
                {"type": "Ready", "status": ready, "lastTransitionTime": now()},
            ],
            "containerStatuses": [
                {
                    "name": self.container["name"], "image": image, "imageID": image, "containerID": f"process://{self.meta['uid']}",
                    "ready": self.ready, "started": self.started, "restartCount": self.restarts, "state": state,
                }
            ],
        }  # fmt: skip
        self.api.merge(f"{self.path}/status", {"status": status})

    def end(self, grace_s: int) -> None:
        """Ends the pod, once: preStop, SIGTERM, and SIGKILL after the grace period. Then the pod may go."""
        if self.ending:
            return
        self.ending = True
        threading.Thread(target=self.stop, args=(grace_s,), daemon=True).start()

    def stop(self, grace_s: int) -> None:
        deadline = time.monotonic() + grace_s
        sleep_s = self.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        process = self.process
        if process is not None:
            time.sleep(sleep_s)
            process.send_signal(signal.SIGTERM)
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            if process.poll() is None:
                process.kill()
                process.wait()
        # The end is noticed by `look`.
        while self.process is not None:
            time.sleep(0.1)
        gone = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.meta["uid"]}}
        with contextlib.suppress(urllib.error.HTTPError):
            self.api("DELETE", self.path, gone)


class Logs(http.server.BaseHTTPRequestHandler):
    """What `kubectl logs` reads, by way of the API server."""

    folder: pathlib.Path

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path).path.strip("/").split("/")
        log = self.folder / f"{parts[1]}_{parts[2]}.log" if parts[0] == "containerLogs" and len(parts) == 4 else None
        found = log is not None and log.exists()
        text = log.read_bytes() if found else b"no such log\n"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


def register(api: Api, port: int) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}}}
    api("POST", "/api/v1/nodes", node)
    room = {"cpu": "64", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    condition = {"status": "True", "reason": "Started", "message": "", "lastHeartbeatTime": now(), "lastTransitionTime": now()}
    conditions = [condition | {"type": "Ready"}]
    conditions += [condition | {"type": name, "status": "False"} for name in ("MemoryPressure", "DiskPressure", "PIDPressure")]
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": conditions,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": NODE}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    api.merge(f"/api/v1/nodes/{NODE}/status", {"status": status})


def renew(api: Api) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NODE, "namespace": "kube-node-lease"}}
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    while True:
        spec = {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        try:
            api("PATCH", f"{path}/{NODE}", {"spec": spec}, "application/merge-patch+json")
        except urllib.error.HTTPError:
            with contextlib.suppress(urllib.error.HTTPError):
                api("POST", path, lease | {"spec": spec})
        time.sleep(LEASE_S)


def main() -> None:
    api = Api(os.environ["API"], os.environ["TOKEN"], os.environ["CA"])
    folder = pathlib.Path(os.environ["LOGS"])
    Logs.folder = folder
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Logs)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.environ["CERT"], os.environ["KEY"])
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    register(api, server.server_port)
    threading.Thread(target=renew, args=(api,), daemon=True).start()

    containers: dict[str, Container] = {}
    addresses = iter(f"10.244.{1 + n // 250}.{1 + n % 250}" for n in range(10_000))
    selector = urllib.parse.quote(f"spec.nodeName={NODE}")

    def leave(_signal: int, _frame: object) -> None:
        for container in containers.values():
            if container.process is not None:
                container.process.kill()
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    while True:
        pods = {pod["metadata"]["uid"]: pod for pod in api("GET", f"/api/v1/pods?fieldSelector={selector}")["items"]}
        for uid, pod in pods.items():
            if uid not in containers:
                containers[uid] = Container(api, pod, next(addresses), folder)
            if "deletionTimestamp" in pod["metadata"]:
                containers[uid].end(pod["metadata"].get("deletionGracePeriodSeconds", 30))
        for uid, container in list(containers.items()):
            container.look()
            if uid not in pods and container.process is None:
                del containers[uid]
        time.sleep(INTERVAL_S)


main()
