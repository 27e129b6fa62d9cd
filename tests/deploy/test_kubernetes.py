"""The rendered overlays of k8s/. `make deploy-check` validates them against Kubernetes' schemas."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import pytest
import yaml

from ragstore import __version__
from ragstore.settings import load, unknown
from scripts.render_manifests import KUBERNETES, kustomize, plain_manifests, render
from tests.deploy.dockerfile import assignments, stages

WORKLOADS = {"remote": "Deployment", "embedded": "StatefulSet"}
ENVIRON = dict(assignments(stages()[-1].value("ENV")))

Manifest: TypeAlias = dict[str, Any]

both = pytest.mark.parametrize("overlay", WORKLOADS)


@cache
def manifests(overlay: str) -> dict[str, Manifest]:
    """The manifests of an overlay, by kind: it has one of each."""
    if not kustomize():
        pytest.skip("kubectl not found, or too old: the overlays cannot be rendered")
    found: list[Manifest] = list(yaml.safe_load_all(render(KUBERNETES / "overlays" / overlay)))
    assert len({manifest["kind"] for manifest in found}) == len(found)
    return {manifest["kind"]: manifest for manifest in found}


def workload(overlay: str) -> Manifest:
    spec: Manifest = manifests(overlay)[WORKLOADS[overlay]]["spec"]
    return spec


def pod(overlay: str) -> Manifest:
    spec: Manifest = workload(overlay)["template"]["spec"]
    return spec


def container(overlay: str) -> Manifest:
    (only,) = pod(overlay)["containers"]
    found: Manifest = only
    return found


def variables(overlay: str) -> dict[str, str]:
    """The variables of the container; variables of a secret are empty."""
    return {pair["name"]: pair.get("value", "") for pair in container(overlay)["env"]}


def test_manifests_without_patches_are_complete_and_in_no_other_namespace() -> None:
    found: list[Manifest] = [each for path in plain_manifests() for each in yaml.safe_load_all(path.read_text())]
    assert {"Namespace", "Service", "Deployment", "NetworkPolicy"} <= {manifest["kind"] for manifest in found}
    assert all(manifest["apiVersion"] and manifest["metadata"]["name"] for manifest in found)
    assert {manifest["metadata"].get("namespace", "ragstore") for manifest in found} == {"ragstore"}


def test_remote_has_what_replicas_need() -> None:
    assert manifests("remote").keys() == {
        *("Namespace", "ServiceAccount", "ConfigMap", "Service", "Deployment", "PodDisruptionBudget"),
        *("HorizontalPodAutoscaler", "NetworkPolicy"),
    }


def test_embedded_has_no_replicas_to_look_after() -> None:
    assert manifests("embedded").keys() == {
        *("Namespace", "ServiceAccount", "Service", "StatefulSet", "NetworkPolicy"),
    }


@both
def test_all_is_in_the_namespace(overlay: str) -> None:
    others = [found for kind, found in manifests(overlay).items() if kind != "Namespace"]
    assert {found["metadata"]["namespace"] for found in others} == {"ragstore"}


@both
def test_the_namespace_enforces_restricted_pods(overlay: str) -> None:
    labels = manifests(overlay)["Namespace"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@both
def test_the_pod_is_restricted(overlay: str) -> None:
    security = pod(overlay)["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}


@both
def test_the_container_is_restricted(overlay: str) -> None:
    security = container(overlay)["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}


@both
def test_the_user_is_the_image_s(overlay: str) -> None:
    security = pod(overlay)["securityContext"]
    assert f"{security['runAsUser']}:{security['runAsGroup']}" == stages()[-1].value("USER")


@both
def test_no_token_of_kubernetes_is_in_the_pod(overlay: str) -> None:
    assert pod(overlay)["serviceAccountName"] == "ragstore"
    assert pod(overlay)["automountServiceAccountToken"] is False
    assert manifests(overlay)["ServiceAccount"]["automountServiceAccountToken"] is False


@both
def test_kubernetes_adds_no_variable_that_is_a_setting(overlay: str) -> None:
    assert pod(overlay)["enableServiceLinks"] is False


@both
@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", "/health/live"), ("livenessProbe", "/health/live"), ("readinessProbe", "/health/ready")],
)
def test_a_probe_asks_the_right_endpoint(overlay: str, probe: str, path: str) -> None:
    assert container(overlay)[probe]["httpGet"] == {"path": path, "port": "http"}


@both
def test_the_port_is_the_image_s(overlay: str) -> None:
    assert container(overlay)["ports"] == [{"name": "http", "containerPort": int(ENVIRON["RAGSTORE_PORT"])}]


@both
def test_the_keys_come_from_a_secret(overlay: str) -> None:
    (keys,) = [volume["secret"] for volume in pod(overlay)["volumes"] if "secret" in volume]
    assert keys["secretName"] == "ragstore-keys"
    assert keys["items"] == [{"key": "keys", "path": "keys"}]


@both
def test_the_keys_lie_where_the_setting_says(overlay: str) -> None:
    assert {"name": "RAGSTORE_KEYS_FILE", "value": "/etc/ragstore/keys"} in container(overlay)["env"]
    mounts = {mount["name"]: mount for mount in container(overlay)["volumeMounts"]}
    assert mounts["keys"] == {"name": "keys", "mountPath": "/etc/ragstore", "readOnly": True}


@both
def test_running_requests_may_end_before_the_pod_is_killed(overlay: str) -> None:
    settings = load(variables(overlay))
    assert settings.drain_seconds >= 5
    assert pod(overlay)["terminationGracePeriodSeconds"] > settings.drain_seconds + settings.shutdown_seconds
    assert "lifecycle" not in container(overlay)


@both
def test_the_container_has_requests_and_limits(overlay: str) -> None:
    assert {"cpu", "memory"} <= container(overlay)["resources"]["requests"].keys()
    assert {"cpu", "memory"} <= container(overlay)["resources"]["limits"].keys()


@both
def test_only_labelled_pods_and_prometheus_may_call(overlay: str) -> None:
    policy = manifests(overlay)["NetworkPolicy"]["spec"]
    callers, prometheus = policy["ingress"]
    labelled = {"podSelector": {"matchLabels": {"ragstore-access": "true"}}}
    namespace = {"namespaceSelector": {"matchLabels": {"ragstore-access": "true"}}}
    assert callers["from"] == [labelled, labelled | namespace]
    assert prometheus["from"][0]["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == {"http"}


@both
def test_the_policies_choose_the_pods(overlay: str) -> None:
    labels = workload(overlay)["template"]["metadata"]["labels"].items()
    for kind, path in (("NetworkPolicy", "podSelector"), ("Service", "selector")):
        selector = manifests(overlay)[kind]["spec"][path]
        assert selector.get("matchLabels", selector).items() <= labels


def test_remote_calls_dns_and_chroma_alone() -> None:
    policy = manifests("remote")["NetworkPolicy"]["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert [sorted({port["port"] for port in rule["ports"]}) for rule in policy["egress"]] == [[53], [8000]]
    assert all(rule["to"] for rule in policy["egress"])


def test_embedded_calls_nobody() -> None:
    policy = manifests("embedded")["NetworkPolicy"]["spec"]
    assert "Egress" in policy["policyTypes"]
    assert not policy.get("egress")


def test_the_address_of_chroma_is_in_the_namespace_that_may_be_called() -> None:
    environ = manifests("remote")["ConfigMap"]["data"]
    assert load(environ).chroma_url == "http://chromadb.chroma.svc:8000"
    to = manifests("remote")["NetworkPolicy"]["spec"]["egress"][1]["to"]
    assert to == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "chroma"}}}]


@both
def test_every_ragstore_variable_is_a_setting(overlay: str) -> None:
    assert unknown(variables(overlay) | manifests(overlay).get("ConfigMap", {}).get("data", {})) == []


def test_the_settings_reach_the_container() -> None:
    name = manifests("remote")["ConfigMap"]["metadata"]["name"]
    assert container("remote")["envFrom"] == [{"configMapRef": {"name": name}}]


def test_the_autoscaler_says_how_many_replicas() -> None:
    scaler = manifests("remote")["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ragstore"}
    assert scaler["minReplicas"] >= 2
    assert "replicas" not in workload("remote")


def test_a_drain_leaves_all_replicas_but_one() -> None:
    assert manifests("remote")["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_replicas_spread_over_zones_and_nodes() -> None:
    keys = [constraint["topologyKey"] for constraint in pod("remote")["topologySpreadConstraints"]]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]


def test_a_rollout_takes_no_replica_before_another_is_ready() -> None:
    assert workload("remote")["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_embedded_is_one_with_a_volume_of_its_own() -> None:
    assert workload("embedded")["replicas"] == 1
    (claim,) = workload("embedded")["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]


def test_the_volume_is_where_embedded_chroma_writes() -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in container("embedded")["volumeMounts"]}
    assert mounts["data"] == ENVIRON["RAGSTORE_DATA_PATH"]


@pytest.mark.parametrize(
    ("overlay", "image"),
    [("remote", f"ragstore:{__version__}"), ("embedded", f"ragstore:{__version__}-embedded")],
)
def test_the_image_is_this_version_s(overlay: str, image: str) -> None:
    assert container(overlay)["image"] == image


def test_the_token_for_chroma_comes_from_a_secret_that_need_not_exist() -> None:
    (token,) = [pair for pair in container("remote")["env"] if pair["name"] == "RAGSTORE_CHROMA_TOKEN"]
    assert token["valueFrom"]["secretKeyRef"] == {"name": "ragstore-chroma", "key": "token", "optional": True}
