"""The overlay with both services: the gateway with its workers, beside the store, and a nightly copy of its state."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any, TypeAlias

import pytest
import yaml

from ragstore_gateway import __version__
from ragstore_gateway.settings import load
from scripts.render_manifests import KUBERNETES, kustomize, render

Manifest: TypeAlias = dict[str, Any]

GATEWAY, WORKER = "ragstore-gateway", "ragstore-gateway-worker"


@cache
def rendered() -> dict[tuple[str, str], Manifest]:
    """The manifests, by kind and name."""
    if not kustomize():
        pytest.skip("kubectl not found, or too old: the overlay cannot be rendered")
    found: list[Manifest] = list(yaml.safe_load_all(render(KUBERNETES / "overlays/both")))
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in found}


def spec(kind: str, name: str) -> Manifest:
    """The specification of a manifest."""
    found: Manifest = rendered()[kind, name]["spec"]
    return found


def egress(name: str) -> list[Manifest]:
    """The rules of a policy for the connections of its pods."""
    rules: list[Manifest] = spec("NetworkPolicy", name)["egress"]
    return rules


@pytest.mark.parametrize("name", [GATEWAY, WORKER])
def test_providers_and_websites_are_reached_and_private_networks_are_not(name: str) -> None:
    (public,) = [
        rule for rule in egress(name) if any(to.get("ipBlock", {}).get("cidr") == "0.0.0.0/0" for to in rule["to"])
    ]
    assert {port["port"] for port in public["ports"]} == {80, 443}

    def reached(address: str) -> bool:
        ip = ip_address(address)
        blocks = [to["ipBlock"] for to in public["to"]]
        return any(
            ip in ip_network(block["cidr"]) and not any(ip in ip_network(each) for each in block["except"])
            for block in blocks
        )

    assert all(map(reached, ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07::1"]))
    private = ["10.1.2.3", "172.20.0.1", "192.168.1.1", "100.100.1.1", "169.254.169.254", "127.0.0.1", "224.0.0.1"]
    assert not any(map(reached, [*private, "::1", "fd00:ec2::254", "fe80::1", "::ffff:10.1.2.3", "2002:a00:1::1"]))
    labels = [
        to["namespaceSelector"]["matchLabels"]
        for rule in egress(name)
        for to in rule["to"]
        if len(to) == 1 and "namespaceSelector" in to
    ]
    assert {"ragstore-gateway-provider": "true"} in labels


def container(name: str) -> Manifest:
    """The container of a Deployment."""
    (only,) = spec("Deployment", name)["template"]["spec"]["containers"]
    found: Manifest = only
    return found


def labels(name: str) -> dict[str, str]:
    """The labels of a Deployment's pods."""
    found: dict[str, str] = spec("Deployment", name)["template"]["metadata"]["labels"]
    return found


def config(name: str) -> dict[str, str]:
    """The variables that a container has from its ConfigMap."""
    (source,) = (each["configMapRef"]["name"] for each in container(name)["envFrom"] if "configMapRef" in each)
    found: dict[str, str] = rendered()["ConfigMap", source]["data"]
    return found


def test_it_has_both_services_in_one_namespace() -> None:
    assert {name for kind, name in rendered() if kind == "Deployment"} == {"ragstore", GATEWAY, WORKER}
    assert {each["metadata"].get("namespace", "ragstore") for each in rendered().values()} == {"ragstore"}
    assert config(GATEWAY)["RAGSTORE_URL"] == "http://ragstore:8080"
    assert labels(GATEWAY)["ragstore-access"] == labels(WORKER)["ragstore-access"] == "true"


def test_workers_run_the_jobs_that_the_gateway_leaves_to_them() -> None:
    assert container(WORKER)["command"] == ["ragstore-gateway", "worker"]
    assert "command" not in container(GATEWAY)
    assert config(GATEWAY) == config(WORKER)
    assert load({**config(GATEWAY), "RAGSTORE_GATEWAY_DATABASE_URL": "postgresql://host/db"}).ingestion_workers


def test_a_worker_has_the_image_the_settings_and_the_secrets_of_the_gateway() -> None:
    gateway, worker = container(GATEWAY), container(WORKER)
    assert gateway["image"] == worker["image"] == f"ragstore-gateway:{__version__}"
    assert worker["envFrom"] == gateway["envFrom"]
    drained = [each for each in gateway["env"] if each["name"] != "RAGSTORE_GATEWAY_DRAIN_SECONDS"]
    assert worker["env"] == drained
    for name in ("resources", "securityContext", "volumeMounts", "livenessProbe", "startupProbe"):
        assert worker[name] == gateway[name], name


@pytest.mark.parametrize("name", ["ragstore", GATEWAY, WORKER])
def test_replicas_scale_spread_and_leave_a_node_one_by_one(name: str) -> None:
    scaler = spec("HorizontalPodAutoscaler", name)
    assert (scaler["scaleTargetRef"]["name"], scaler["minReplicas"]) == (name, 2)
    assert "replicas" not in spec("Deployment", name)
    budget = spec("PodDisruptionBudget", name)
    assert budget["maxUnavailable"] == 1
    constraints = spec("Deployment", name)["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in constraints] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    for selector in (budget["selector"], *(each["labelSelector"] for each in constraints)):
        assert selector["matchLabels"] == {"app.kubernetes.io/name": name}


def test_callers_reach_the_gateway_and_no_worker() -> None:
    selector = spec("Service", GATEWAY)["selector"].items()
    assert selector <= labels(GATEWAY).items()
    assert not selector <= labels(WORKER).items()
    (monitoring,) = spec("NetworkPolicy", WORKER)["ingress"]
    assert [each["podSelector"]["matchLabels"] for each in monitoring["from"]] == [
        {"app.kubernetes.io/name": "prometheus"}
    ]


def test_a_worker_may_call_everything_that_the_gateway_calls() -> None:
    assert spec("NetworkPolicy", WORKER)["egress"] == spec("NetworkPolicy", GATEWAY)["egress"]


def test_prometheus_finds_the_workers_and_their_traces_have_a_destination() -> None:
    (expression,) = spec("ServiceMonitor", GATEWAY)["selector"]["matchExpressions"]
    for name in (GATEWAY, WORKER):
        assert rendered()["Service", name]["metadata"]["labels"][expression["key"]] in expression["values"]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in [each["name"] for each in container(WORKER)["env"]]


def test_the_copy_of_the_state_runs_before_the_export_of_the_vectors_and_reaches_the_database() -> None:
    minutes = {}
    for name in ("ragstore-gateway-backup", "ragstore-backup"):
        minute, hour, *_ = spec("CronJob", name)["schedule"].split()
        minutes[name] = 60 * int(hour) + int(minute)
    assert minutes["ragstore-gateway-backup"] < minutes["ragstore-backup"]
    (copy,) = spec("CronJob", "ragstore-gateway-backup")["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert copy["image"] == container(GATEWAY)["image"]
    assert [each["valueFrom"]["secretKeyRef"]["name"] for each in copy["env"]] == [GATEWAY]
    assert {"name": "backup", "mountPath": "/backup"} in copy["volumeMounts"]
    ports = [
        each["port"] for rule in spec("NetworkPolicy", "ragstore-gateway-backup")["egress"] for each in rule["ports"]
    ]
    assert 5432 in ports
