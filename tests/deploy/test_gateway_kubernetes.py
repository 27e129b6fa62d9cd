"""The rendered manifests of the gateway. `make deploy-check` validates them against Kubernetes' schemas."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pytest
import yaml

from ragstore_gateway import __version__
from ragstore_gateway.settings import load
from scripts.render_manifests import KUBERNETES, kustomize, render
from tests.deploy.dockerfile import GATEWAY_DOCKERFILE, assignments, stages

Manifest: TypeAlias = dict[str, Any]

IMAGE = stages(GATEWAY_DOCKERFILE)[-1]
ENVIRON = dict(assignments(IMAGE.value("ENV")))


@cache
def manifests() -> dict[str, Manifest]:
    """The manifests by kind: there is one of each."""
    if not kustomize():
        pytest.skip("kubectl not found, or too old: the manifests cannot be rendered")
    found: list[Manifest] = list(yaml.safe_load_all(render(KUBERNETES / "gateway")))
    assert len({manifest["kind"] for manifest in found}) == len(found)
    return {manifest["kind"]: manifest for manifest in found}


def pod() -> Manifest:
    spec: Manifest = manifests()["Deployment"]["spec"]["template"]["spec"]
    return spec


def container() -> Manifest:
    (only,) = pod()["containers"]
    found: Manifest = only
    return found


def test_it_has_what_replicas_need() -> None:
    assert manifests().keys() == {
        *("ServiceAccount", "ConfigMap", "Service", "Deployment", "PodDisruptionBudget"),
        *("HorizontalPodAutoscaler", "NetworkPolicy"),
    }


def test_all_is_in_the_namespace_of_the_store() -> None:
    assert {found["metadata"]["namespace"] for found in manifests().values()} == {"ragstore"}


def test_the_pod_and_the_container_are_restricted() -> None:
    security = container()["securityContext"]
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_user_is_the_image_s() -> None:
    security = pod()["securityContext"]
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == IMAGE.value("USER")


def test_the_image_has_the_version_of_the_code() -> None:
    assert container()["image"] == f"ragstore-gateway:{__version__}"


def test_the_port_is_the_image_s() -> None:
    (port,) = container()["ports"]
    assert str(port["containerPort"]) == ENVIRON["RAGSTORE_GATEWAY_PORT"]


def test_its_variables_are_settings() -> None:
    variables = {entry["name"]: entry["value"] for entry in container()["env"] if "value" in entry}
    load({**manifests()["ConfigMap"]["data"], **variables})


def test_no_replica_starts_without_the_database_that_all_share() -> None:
    (database,) = (entry for entry in container()["env"] if entry["name"] == "RAGSTORE_GATEWAY_DATABASE_URL")
    assert database["valueFrom"]["secretKeyRef"] == {"name": "ragstore-gateway", "key": database["name"]}
    ports = [port["port"] for rule in manifests()["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]]
    assert 5432 in ports


def test_a_call_from_the_gateway_reaches_the_store() -> None:
    policy = manifests()["NetworkPolicy"]["spec"]["egress"]
    targets = [rule["to"][0].get("podSelector", {}).get("matchLabels", {}) for rule in policy]
    assert {"app.kubernetes.io/name": "ragstore"} in targets


def test_requests_in_flight_complete_before_the_pod_is_killed() -> None:
    seconds = pod()["terminationGracePeriodSeconds"]
    variables = {pair["name"]: pair.get("value", "") for pair in container()["env"]}
    settings = load({"RAGSTORE_GATEWAY_DRAIN_SECONDS": variables["RAGSTORE_GATEWAY_DRAIN_SECONDS"]})
    assert settings.drain_seconds >= 5
    assert seconds > settings.drain_seconds + settings.shutdown_seconds
    assert "lifecycle" not in container()


def test_a_component_adds_the_scrape_configuration(tmp_path: Path) -> None:
    folders = {"resources": KUBERNETES / "gateway", "components": KUBERNETES / "components/gateway-monitoring"}
    kustomization = {key: [os.path.relpath(folder, tmp_path.resolve())] for key, folder in folders.items()}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    (monitor,) = [each for each in yaml.safe_load_all(render(tmp_path)) if each["kind"] == "ServiceMonitor"]
    (expression,) = monitor["spec"]["selector"]["matchExpressions"]
    assert expression["operator"] == "In"
    assert manifests()["Service"]["metadata"]["labels"][expression["key"]] in expression["values"]


@cache
def with_tracing() -> dict[str, Manifest]:
    """The manifests with the component of traces, by kind."""
    if not kustomize():
        pytest.skip("kubectl not found, or too old: the manifests cannot be rendered")
    with TemporaryDirectory(dir=KUBERNETES) as folder:
        overlay = {"resources": ["../gateway"], "components": ["../components/gateway-tracing"]}
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        found: list[Manifest] = list(yaml.safe_load_all(render(Path(folder))))
    return {manifest["kind"]: manifest for manifest in found}


def test_traces_may_leave_and_have_a_destination() -> None:
    rules = with_tracing()["NetworkPolicy"]["spec"]["egress"]
    assert [4318] in [[port["port"] for port in rule["ports"]] for rule in rules]
    (only,) = with_tracing()["Deployment"]["spec"]["template"]["spec"]["containers"]
    environ = {pair["name"]: pair.get("value") for pair in only["env"]}
    assert environ["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://otel-collector.observability.svc:4318"


def test_the_patches_of_traces_name_what_the_gateway_has() -> None:
    component = yaml.safe_load((KUBERNETES / "components/gateway-tracing/kustomization.yaml").read_text())
    policy = yaml.safe_load((KUBERNETES / "gateway/networkpolicy.yaml").read_text())
    first, second = (each["target"].get("name") for each in component["patches"])
    assert re.fullmatch(first, policy["metadata"]["name"])
    assert second is None
    assert policy["spec"]["egress"]
    (workload,) = yaml.safe_load_all((KUBERNETES / "gateway/workload.yaml").read_text())
    assert workload["spec"]["template"]["spec"]["containers"][0]["env"]


def test_names_are_resolved_also_by_a_cache_on_the_node() -> None:
    policy = yaml.safe_load((KUBERNETES / "gateway/networkpolicy.yaml").read_text())
    assert {"ipBlock": {"cidr": "169.254.20.10/32"}} in [to for rule in policy["spec"]["egress"] for to in rule["to"]]


def source(name: str) -> Manifest:
    """A manifest among the sources, which needs no kustomize."""
    found: Manifest = yaml.safe_load((KUBERNETES / "gateway" / name).read_text())
    return found


def test_the_autoscaler_says_how_many_replicas() -> None:
    scaler = source("autoscaling.yaml")["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ragstore-gateway"}
    assert scaler["minReplicas"] >= 2
    assert "replicas" not in source("workload.yaml")["spec"]
    assert "autoscaling.yaml" in source("kustomization.yaml")["resources"]


def test_replicas_spread_over_zones_and_nodes() -> None:
    spec = source("workload.yaml")["spec"]["template"]["spec"]
    keys = [constraint["topologyKey"] for constraint in spec["topologySpreadConstraints"]]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
