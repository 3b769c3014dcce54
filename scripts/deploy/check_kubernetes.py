"""Checks deploy/kubernetes and deploy/helm: each object by the schema of Kubernetes, strictly, and by rules of ours. Called by scripts/test-deploy.sh.

KEDA's objects have no schema here; of them only what Rejoin names is checked.
"""

import pathlib
import sys
import tomllib

import helm_python as helm
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLAIN = ROOT / "deploy/kubernetes"
CHART = ROOT / "deploy/helm/rejoin"
# The oldest version that has all fields, and the newest with a schema here.
VERSIONS = ["1.30", kubernetes_validate.latest_version()]
# Kinds without a schema in Kubernetes.
FOREIGN = {"ScaledObject", "TriggerAuthentication", "Kustomization"}
# Values that lead through every branch of the templates.
VALUES = [
    {},
    {
        "api": {"autoscaling": {"enabled": True}},
        "worker": {"autoscaling": {"enabled": True, "source": "http"}},
        "image": {"tag": "1.2.3"},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "chat", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
    {
        "worker": {"autoscaling": {"enabled": True, "source": "sql"}},
        "envSecret": "",
        "migrate": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "config": {"REJOIN_PUBLIC_URL": "https://chat.example.com"},
    },
]


def objects(text: str) -> list[dict]:
    return [document for document in yaml.safe_load_all(text) if document]


def check_schema(where: str, document: dict) -> None:
    if document["kind"] in FOREIGN:
        return
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            sys.exit(f"{where}: {document['kind']} by Kubernetes {version}: {error}")


def container_of(document: dict) -> dict:
    (container,) = document["spec"]["template"]["spec"]["containers"]
    return container


def check_pod(where: str, document: dict) -> None:
    """Not root, nothing writable but /tmp, limited memory, no token of Kubernetes."""
    pod, container = document["spec"]["template"]["spec"], container_of(document)
    security = container["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"], where
    assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"], where
    assert security["capabilities"] == {"drop": ["ALL"]}, where
    assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["cpu"], where


def check_deployment(where: str, document: dict, settings: dict) -> None:
    """The grace period is longer than what the process may take, and probes name ports that exist."""
    pod, container = document["spec"]["template"]["spec"], container_of(document)
    sleep_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    component = document["metadata"]["labels"]["app.kubernetes.io/component"]
    if component == "api":
        # With 5 s for traces, and the grace of 250 ms.
        needed_s = sleep_s + int(settings["REJOIN_DRAIN_LIMIT_MS"]) / 1000 + 5.25
        assert sleep_s > 0, f"{where}: requests would arrive during the drain"
        assert "startupProbe" not in container, where
    else:
        # With 5 s for settlements, and 5 s for traces.
        needed_s = int(settings["REJOIN_DRAIN_S"]) + 10
        assert "startupProbe" in container, where
    grace_s = pod["terminationGracePeriodSeconds"]
    assert grace_s >= needed_s + 5, f"{where}: a grace period of {grace_s} s is short for {needed_s} s"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in container:
            get = container[probe]["httpGet"]
            assert get["port"] in ports, where
            assert get["path"] == ("/readyz" if probe == "readinessProbe" else "/livez"), where
    metrics = settings["REJOIN_API_METRICS" if component == "api" else "REJOIN_WORKER_METRICS"]
    assert metrics.endswith(f":{ports['metrics']}"), where


def check_references(where: str, documents: list[dict]) -> None:
    """Services, budgets, policies and scalers name pods that exist."""
    deployments = [document for document in documents if document["kind"] == "Deployment"]
    names = {document["metadata"]["name"] for document in deployments}
    pods = [document["spec"]["template"]["metadata"]["labels"] for document in deployments]
    for document in documents:
        spec, kind = document.get("spec", {}), document["kind"]
        selector = {
            "Service": lambda: spec["selector"],
            "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
            "NetworkPolicy": lambda: spec["podSelector"]["matchLabels"],
            "Deployment": lambda: spec["selector"]["matchLabels"],
        }.get(kind)
        if selector:
            wanted = selector().items()
            assert sum(wanted <= labels.items() for labels in pods) == 1, f"{where}: {kind} {document['metadata']['name']}"
        if kind in ("ScaledObject", "HorizontalPodAutoscaler"):
            assert spec["scaleTargetRef"]["name"] in names, f"{where}: {kind}"
        if kind == "ScaledObject":
            assert spec["minReplicaCount"] > 0, f"{where}: workers are never scaled to zero"
            secrets = {one["metadata"]["name"] for one in documents if one["kind"] == "TriggerAuthentication"}
            for trigger in spec["triggers"]:
                assert all(isinstance(value, str) for value in trigger["metadata"].values()), f"{where}: {trigger}"
                if "authenticationRef" in trigger:
                    assert trigger["authenticationRef"]["name"] in secrets, f"{where}: {trigger}"


def check(where: str, documents: list[dict]) -> int:
    for document in documents:
        check_schema(where, document)
    (settings,) = [document["data"] for document in documents if document["kind"] == "ConfigMap"]
    for document in documents:
        if document["kind"] in ("Deployment", "Job"):
            check_pod(where, document)
        if document["kind"] == "Deployment":
            check_deployment(where, document, settings)
    check_references(where, documents)
    return len(documents)


def plain() -> list[int]:
    """The files with each of both scalers."""
    files = {path.name: objects(path.read_text(encoding="utf-8")) for path in sorted(PLAIN.glob("*.yaml"))}
    listed = files["kustomization.yaml"][0]["resources"]
    assert set(listed) <= set(files), listed
    counts = []
    for scaler in ("keda-sql.yaml", "keda-http.yaml"):
        documents = [one for name, all in files.items() if not name.startswith("keda") or name == scaler for one in all]
        counts.append(check(f"deploy/kubernetes with {scaler}", documents))
    return counts


def chart() -> list[int]:
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    # Severity 1 is advice: an icon.
    found = helm.lint(str(CHART))
    bad = [message for message in found["messages"] if message["severity"] > 1]
    assert found["total_charts_linted"] == 1 and not bad and not found["errors"], found
    counts = []
    with helm.Chart.load(CHART) as loaded:
        assert loaded.version == manifest["workspace"]["package"]["version"], "the chart's version is not that of Cargo.toml"
        for release in ("rejoin", "prod"):
            for values in VALUES:
                rendered = loaded.render(values, name=release, namespace="chat")
                texts = {name: text for name, text in rendered.items() if name.endswith(".yaml")}
                documents = [document for text in texts.values() for document in objects(text)]
                counts.append(check(f"the chart as {release} with {values}", documents))
        try:
            loaded.render({"worker": {"autoscaling": {"enabled": True, "source": "none"}}}, name="rejoin", namespace="chat")
        except helm.HelmError as error:
            assert "neither http nor sql" in str(error), error
        else:
            raise AssertionError("an unknown source of scaling is accepted")
    return counts


manifests, rendered = plain(), chart()
print(
    f"Kubernetes {' and '.join(VERSIONS)}: {max(manifests)} plain objects, {sum(rendered)} objects of {len(rendered)} renderings by Helm {helm.helm_sdk_version()}",
    file=sys.stderr,
)
