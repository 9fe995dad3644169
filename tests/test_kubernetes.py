"""The manifests of deploy/kubernetes: what Kubernetes takes, what the service has, and what each pod may reach."""

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from fastapi.routing import iter_route_contexts
from typer.testing import CliRunner

from service.api.app import create_inference_app
from service.cli import app
from service.settings import Settings

ROOT = Path(__file__).parents[1]
HERE = ROOT / "deploy" / "kubernetes"
ROUTES = json.loads((ROOT / "tests" / "service" / "api" / "openapi.json").read_text())["paths"]
# Each is for whoever wants it.
OPTIONAL = {"autoscaling.yaml", "ingress.yaml", "worker-gpu.yaml"}
NO_MANIFESTS = {"kustomization.yaml", "prometheus-adapter.yaml"}
MANIFESTS = [
    pytest.param(manifest, id=f"{file.name} {manifest['kind']} {manifest['metadata']['name']}")
    for file in sorted(HERE.glob("*.yaml"))
    if file.name not in NO_MANIFESTS
    for manifest in yaml.safe_load_all(file.read_text())
]
ALL: list[dict[str, Any]] = [param.values[0] for param in MANIFESTS]
PODS = {
    manifest["metadata"]["name"]: manifest["spec"]["template"]
    for manifest in ALL
    if manifest["kind"] in ("Deployment", "Job")
}
API, INFER = "tracehouse-api", "tracehouse-infer"
WORKERS = {"tracehouse-worker-cpu", "tracehouse-worker-gpu", "tracehouse-migrate"}
KSERVE = ROOT / "deploy" / "kserve"
DATABASE, STORE = "192.0.2.10/32", "192.0.2.20/32"


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in ALL if manifest["kind"] == kind]


def matching(selector: dict[str, Any]) -> set[str]:
    """The names of the pods that a selector takes."""
    wanted = selector.get("matchLabels", {}).items()
    refused = [one for one in selector.get("matchExpressions", []) if one["operator"] == "NotIn"]
    assert len(refused) == len(selector.get("matchExpressions", []))
    return {
        name
        for name, pod in PODS.items()
        if wanted <= pod["metadata"]["labels"].items()
        and not any(pod["metadata"]["labels"].get(one["key"]) in one["values"] for one in refused)
    }


def container(name: str) -> dict[str, Any]:
    [only] = PODS[name]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


@pytest.mark.parametrize("release", ["1.30.0", "1.33.0"])
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_kubernetes_takes_it(manifest: dict[str, Any], release: str) -> None:
    assert kubernetes_validate.validate(manifest, release, strict=True)


def test_a_field_that_kubernetes_lacks_is_found() -> None:
    [deployment] = [
        manifest for manifest in ALL if manifest["metadata"]["name"] == API and manifest["kind"] == "Deployment"
    ]
    wrong = deployment | {"spec": deployment["spec"] | {"replica": 2}}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.33.0", strict=True)


def test_all_files_are_applied_but_those_for_whoever_wants_them() -> None:
    applied = yaml.safe_load((HERE / "kustomization.yaml").read_text())["resources"]

    assert {file.name for file in HERE.glob("*.yaml")} == {*applied, *OPTIONAL, *NO_MANIFESTS}


@pytest.mark.parametrize("name", PODS)
def test_its_command_and_its_settings_are_those_of_this_release(name: str) -> None:
    program, *arguments = container(name)["args"]
    assert program == "tracehouse"
    asked = CliRunner().invoke(app, [*arguments, "--help"])
    assert asked.exit_code == 0, asked.output

    [shared] = of_kind("ConfigMap")
    settings = {*shared["data"], *(one["name"] for one in container(name).get("env", []))}
    known = {field.upper() for field in Settings.model_fields}
    assert {one for one in settings if not one.startswith("AWS_")} <= known


@pytest.mark.parametrize("name", PODS)
def test_its_keys_and_passwords_are_files_that_it_has(name: str) -> None:
    [shared] = of_kind("ConfigMap")
    [mount] = [one for one in container(name)["volumeMounts"] if one["name"] == "secrets"]
    [volume] = [one for one in PODS[name]["spec"]["volumes"] if one["name"] == "secrets"]
    items = volume["secret"].get("items")
    has = (
        {"database-password", "s3-credentials", "signing-key.pem"} if items is None else {one["path"] for one in items}
    )
    values = {**shared["data"], **{one["name"]: one["value"] for one in container(name).get("env", [])}}
    named = {Path(value).name for value in values.values() if value.startswith(f"{mount['mountPath']}/")}

    assert volume["secret"]["secretName"] == "tracehouse"
    # The migration opens no files, so it has no use for the store's credentials.
    assert named - has <= ({"s3-credentials"} if name == "tracehouse-migrate" else set())
    assert ("signing-key.pem" in has) == (name in (API, "tracehouse-worker-cpu")), "nothing confines code on a GPU"


@pytest.mark.parametrize("name", PODS)
def test_it_runs_without_privileges_and_without_a_key_of_the_cluster(name: str) -> None:
    pod = PODS[name]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == int(re.findall(r"--uid (\d+)", (ROOT / "Dockerfile").read_text())[0])
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(("name", "in_front"), [(API, "tracehouse"), (INFER, "tracehouse-infer")])
def test_what_is_probed_answers_without_a_key(name: str, in_front: str) -> None:
    answering = container(name)
    port = answering["ports"][0]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = answering[probe]["httpGet"]
        assert asked["port"] == port["name"]
        assert "security" not in ROUTES[asked["path"]]["get"]
    assert str(port["containerPort"]) == answering["args"][-1]
    [service] = [one for one in of_kind("Service") if one["metadata"]["name"] == in_front]
    assert [one["targetPort"] for one in service["spec"]["ports"]] == [one["name"] for one in answering["ports"]]
    assert matching({"matchLabels": service["spec"]["selector"]}) == {name}


def test_who_answers_inference_speaks_grpc_at_the_port_that_is_named() -> None:
    infer = container(INFER)
    [port] = [one["containerPort"] for one in infer["ports"] if one["name"] == "grpc"]

    assert infer["args"][:4] == ["tracehouse", "serve", "--role", "infer"]
    assert {one["name"]: one["value"] for one in infer["env"]}["GRPC_PORT"] == str(port)


def test_one_address_leads_inference_to_who_answers_nothing_else() -> None:
    [ingress] = of_kind("Ingress")
    [rule] = ingress["spec"]["rules"]
    places = {path["path"]: path["backend"]["service"]["name"] for path in rule["http"]["paths"]}

    assert places == {"/infer": "tracehouse-infer", "/v2": "tracehouse-infer", "/": "tracehouse"}
    routes = create_inference_app(None).routes  # type: ignore[arg-type] # they ask it for nothing yet
    answered = {route.path for route in iter_route_contexts(routes)}
    assert {path for path in ROUTES if path.startswith(("/infer", "/v2"))} <= answered


@pytest.mark.parametrize("name", sorted(WORKERS - {"tracehouse-migrate"}))
def test_workers_are_probed_at_the_port_that_they_are_given(name: str) -> None:
    worker = container(name)
    [port] = worker["ports"]
    assert worker["args"][-4:] == ["--host", "0.0.0.0", "--port", str(port["containerPort"])]
    probed = {probe: worker[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {asked["port"] for asked in probed.values()} == {port["name"]}
    assert [asked["path"] for asked in probed.values()] == ["/livez", "/livez", "/readyz"]


def test_each_pod_has_one_policy_of_the_network_and_all_but_the_api_reach_the_database_and_the_store_alone() -> None:
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in of_kind("NetworkPolicy")}
    assert {name: matching(policy["podSelector"]) for name, policy in policies.items()} == {
        "tracehouse-workers": WORKERS,
        "tracehouse-infer": {INFER},
        "tracehouse-api": {API},
    }
    assert all(policy["policyTypes"] == ["Ingress", "Egress"] for policy in policies.values())
    for name, ports in (("tracehouse-workers", ["probes"]), ("tracehouse-infer", ["http", "grpc"])):
        policy = policies[name]
        assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}]
        reached = {
            (peer.get("ipBlock", {}).get("cidr", "dns"), port["port"])
            for rule in policy["egress"]
            for peer in rule["to"]
            for port in rule["ports"]
        }
        assert reached == {(DATABASE, 5432), (STORE, 443), ("dns", 53)}


def test_while_nodes_are_drained_one_pod_of_a_kind_goes_at_a_time() -> None:
    budgets = [budget["spec"] for budget in of_kind("PodDisruptionBudget")]

    assert [matching(budget["selector"]) for budget in budgets] == [{API}, {INFER}, {"tracehouse-worker-cpu"}]
    assert [budget["maxUnavailable"] for budget in budgets] == [1, 1, 1]


def test_what_scales_reads_metrics_that_there_are() -> None:
    explained = {*re.findall(r"`(tracehouse_\w+)`", (ROOT / "docs" / "operations.md").read_text())}
    rules = yaml.safe_load((HERE / "prometheus-adapter.yaml").read_text())["rules"]
    given = {rule["name"]["as"]: rule for rule in (*rules["external"], *rules["custom"])}
    read = [metric for scaler in of_kind("HorizontalPodAutoscaler") for metric in scaler["spec"]["metrics"]]

    assert {metric[metric["type"].lower()]["metric"]["name"] for metric in read} == given.keys()
    for rule in given.values():
        assert {*re.findall(r"tracehouse_\w+", rule["seriesQuery"] + rule["metricsQuery"])} <= explained
    assert {scaler["spec"]["scaleTargetRef"]["name"] for scaler in of_kind("HorizontalPodAutoscaler")} <= PODS.keys()


def test_kserve_runs_inference_alone_with_the_settings_of_the_manifests() -> None:
    """KServe's own schemas are in no package, so that this looks at what they would not find as well."""
    runtime = yaml.safe_load((KSERVE / "serving-runtime.yaml").read_text())
    service = yaml.safe_load((KSERVE / "inference-service.yaml").read_text())
    [runs] = runtime["spec"]["containers"]
    model = service["spec"]["predictor"]["model"]
    infer = container(INFER)

    assert (runtime["kind"], service["kind"]) == ("ServingRuntime", "InferenceService")
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"]["name"] in {one["name"] for one in runtime["spec"]["supportedModelFormats"]}
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert runs["name"] == "kserve-container", "by which KServe finds it"
    for probe in ("readinessProbe", "livenessProbe"):
        assert "security" not in ROUTES[runs[probe]["httpGet"]["path"]]["get"]
    assert (runs["args"], runs["envFrom"], runs["volumeMounts"]) == (
        infer["args"], infer["envFrom"], infer["volumeMounts"],
    )  # fmt: skip
    pod = {"containers": runtime["spec"]["containers"], "volumes": runtime["spec"]["volumes"]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": pod}
    assert kubernetes_validate.validate(manifest, "1.33.0", strict=True)
    assert "labels" not in runtime["spec"], "pods with those of infer.yaml would count for its autoscaling"
