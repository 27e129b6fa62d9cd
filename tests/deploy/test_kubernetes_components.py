"""The components of k8s/components, in the overlay that has all of them, and in the embedded one."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from scripts.render_manifests import KUBERNETES, render
from tests.deploy.dockerfile import ROOT

Manifest: TypeAlias = dict[str, Any]

TRACING = KUBERNETES / "components/tracing"


@cache
def complete() -> dict[tuple[str, str], Manifest]:
    """The manifests of the overlay, by kind and name."""
    found: list[Manifest] = list(yaml.safe_load_all(render(KUBERNETES / "overlays/complete")))
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in found}


def pod(kind: str, name: str) -> Manifest:
    """The specification of a workload's pods."""
    spec: Manifest = complete()[kind, name]["spec"]["template"]["spec"]
    return spec


def egress(name: str) -> list[Manifest]:
    """The rules for connections of a policy's pods."""
    rules: list[Manifest] = complete()["NetworkPolicy", name]["spec"]["egress"]
    return rules


@pytest.mark.parametrize("overlay", ["remote", "embedded"])
def test_an_overlay_alone_needs_no_operator(overlay: str) -> None:
    kinds = {each["apiVersion"] for each in yaml.safe_load_all(render(KUBERNETES / "overlays" / overlay))}
    assert not [kind for kind in kinds if "monitoring.coreos.com" in kind]


def test_prometheus_finds_the_metrics() -> None:
    monitor = complete()["ServiceMonitor", "ragstore"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("http", "/metrics")
    assert endpoint["authorization"]["type"] == "Bearer"
    service = complete()["Service", "ragstore"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert "http" in [port["name"] for port in service["spec"]["ports"]]


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PrometheusRule"])
def test_the_operator_s_kinds_have_a_release_label(kind: str) -> None:
    assert complete()[kind, "ragstore"]["metadata"]["labels"]["release"] == "prometheus"


def test_the_dashboard_is_part_of_the_monitoring() -> None:
    assert complete()["ConfigMap", "ragstore-dashboard"]["data"].keys() == {"ragstore.json", "ragstore-gateway.json"}


def test_traces_may_leave_and_have_a_destination() -> None:
    assert [4318] in [[port["port"] for port in rule["ports"]] for rule in egress("ragstore")]
    environ = {pair["name"]: pair.get("value") for pair in pod("Deployment", "ragstore")["containers"][0]["env"]}
    assert environ["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://otel-collector.observability.svc:4318"


def test_tracing_can_be_added_to_the_embedded_overlay(tmp_path: Path) -> None:
    overlay = KUBERNETES / "overlays/embedded"
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump({"resources": [_relative(overlay, tmp_path)], "components": [_relative(TRACING, tmp_path)]})
    )
    kinds = {each["kind"]: each for each in yaml.safe_load_all(render(tmp_path))}
    assert [4318] in [[port["port"] for port in rule["ports"]] for rule in kinds["NetworkPolicy"]["spec"]["egress"]]


def _relative(folder: Path, start: Path) -> str:
    return os.path.relpath(folder.resolve(), start.resolve())


def test_chroma_is_the_one_that_the_service_calls() -> None:
    addresses = [each["data"].get("RAGSTORE_CHROMA_URL") for each in complete().values() if each["kind"] == "ConfigMap"]
    assert "http://chromadb:8000" in addresses
    selector = complete()["Service", "chromadb"]["spec"]["selector"]
    assert selector.items() <= complete()["StatefulSet", "chromadb"]["spec"]["template"]["metadata"]["labels"].items()
    allowed = [rule["to"] for rule in egress("ragstore") if {"port": 8000, "protocol": "TCP"} in rule["ports"]]
    assert [{"podSelector": {"matchLabels": selector}}] in allowed
    (callers,) = complete()["NetworkPolicy", "chromadb"]["spec"]["ingress"]
    assert callers["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "ragstore"}}}]
    assert egress("chromadb") == []


def test_an_init_container_repairs_the_data_that_chroma_opens() -> None:
    spec = pod("StatefulSet", "chromadb")
    (repair,), (chroma,) = spec["initContainers"], spec["containers"]
    assert repair["command"] == ["chroma-repair", "/data"]
    assert repair["image"].startswith("ragstore:")
    for container in (repair, chroma):
        assert {"name": "data", "mountPath": "/data"} in container["volumeMounts"]


def test_chroma_has_the_tested_version() -> None:
    version = pod("StatefulSet", "chromadb")["containers"][0]["image"].rpartition(":")[2]
    assert f"\nchromadb=={version} " in (ROOT / "requirements/embedded.txt").read_text()


def test_the_backup_exports_every_collection_and_is_admitted() -> None:
    template = complete()["CronJob", "ragstore-backup"]["spec"]["jobTemplate"]["spec"]["template"]
    assert template["metadata"]["labels"]["ragstore-access"] == "true"
    (container,) = template["spec"]["containers"]
    assert container["command"] == ["ragstore", "export", "--all", "/backup", "--force"]
    assert {"name": "backup", "mountPath": "/backup"} in container["volumeMounts"]


@pytest.mark.parametrize("name", ["ragstore", "ragstore-backup"])
def test_names_are_resolved_also_by_a_cache_on_the_node(name: str) -> None:
    assert {"ipBlock": {"cidr": "169.254.20.10/32"}} in [to for rule in egress(name) for to in rule["to"]]
