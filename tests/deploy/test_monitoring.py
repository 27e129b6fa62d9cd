"""The dashboard and the alerts: over exactly what the service exports, and firing for what they are for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from scripts import prometheus_rules
from scripts.metrics_table import exported
from scripts.prometheus_rules import pages_address
from scripts.render_manifests import kustomize, render
from tests.deploy.dockerfile import ROOT
from tests.support.gateways import start_gateway
from tests.support.servers import running

MONITORING = ROOT / "k8s/monitoring"
PAGE = (ROOT / "docs/monitoring.md").read_text()
RULES: dict[str, Any] = yaml.safe_load((MONITORING / "rules.yaml").read_text())
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text())
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
GATEWAY_DASHBOARD: dict[str, Any] = json.loads((MONITORING / "gateway-dashboard.json").read_text())
DASHBOARDS = {"ragstore": DASHBOARD, "ragstore_gateway": GATEWAY_DASHBOARD}

each_dashboard = pytest.mark.parametrize("service", DASHBOARDS)

NOT_THE_SERVICES = {"up"}
"""Metrics that Prometheus adds itself."""

EMBEDDED = {
    *("ragstore_chroma_process_resident_memory_bytes", "ragstore_chroma_process_cpu_seconds_total"),
    *("ragstore_data_volume_bytes", "ragstore_data_volume_free_bytes"),
}
"""Metrics that only a service with embedded Chroma exports. tests/system/test_chroma_process.py reads them."""

PARTS = {"histogram": ("_bucket", "_sum", "_count")}


def names(expression: str) -> set[str]:
    """The metrics that an expression names."""
    outside = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(?:by|on)\s*\([^)]*\)", " ", expression)
    return set(re.findall(r"\b(?:ragstore_\w+|process_\w+|up)\b", outside))


def panels(service: str) -> list[dict[str, Any]]:
    """The panels of a service's dashboard, without the rows."""
    return [panel for panel in DASHBOARDS[service]["panels"] if panel["type"] != "row"]


def shown_by_panels(service: str) -> set[str]:
    return set().union(*(names(target["expr"]) for panel in panels(service) for target in panel["targets"]))


def named_by_alerts() -> set[str]:
    return set().union(*(names(rule["expr"]) for rule in ALERTS))


def series(service: str) -> set[str]:
    """The names of the series that a service declares."""
    return {metric.name + part for metric in exported(service) for part in PARTS.get(metric.kind, ("",))}


def names_at(url: str) -> set[str]:
    """The names that Prometheus gets from a live service."""
    found = set()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", httpx.get(f"{url}/metrics").text, flags=re.M):
        found |= {name + part for part in PARTS.get(kind, ("",))}
    return found


@pytest.fixture(scope="module")
def live(http: httpx.Client) -> set[str]:
    """The names of a live store."""
    return names_at(str(http.base_url).rstrip("/"))


@pytest.fixture(scope="module")
def live_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """The names of a live gateway, with the store in its process."""
    with running(start_gateway(tmp_path_factory.mktemp("gateway"))) as served:
        yield names_at(served.url)


def test_every_metric_that_a_panel_shows_is_there(live: set[str]) -> None:
    assert shown_by_panels("ragstore") - live - EMBEDDED == set()


def test_every_metric_that_a_panel_of_the_gateway_shows_is_there(live_gateway: set[str]) -> None:
    assert shown_by_panels("ragstore_gateway") - live_gateway == set()


def test_every_metric_that_an_alert_names_is_there(live: set[str], live_gateway: set[str]) -> None:
    assert named_by_alerts() - live - live_gateway - EMBEDDED == NOT_THE_SERVICES


@each_dashboard
def test_every_metric_of_ours_is_on_the_dashboard(service: str) -> None:
    shown = shown_by_panels(service)
    missing = [
        metric.name
        for metric in exported(service)
        if not {metric.name + part for part in PARTS.get(metric.kind, ("",))} & shown
    ]
    assert missing == []


def test_every_metric_of_a_live_service_is_in_the_table(live: set[str]) -> None:
    assert {name for name in live if name.startswith("ragstore_")} | EMBEDDED == series("ragstore")


def test_every_metric_of_a_live_gateway_is_in_the_table(live_gateway: set[str]) -> None:
    found = {name for name in live_gateway if name.startswith("ragstore_gateway_")}
    assert found == series("ragstore_gateway")


@pytest.mark.parametrize("metric", [*exported(), *exported("ragstore_gateway")], ids=lambda metric: metric.name)
def test_names_and_units_are_as_prometheus_has_them(metric: Any) -> None:
    assert re.fullmatch(r"ragstore(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not re.search(r"_(ms|millis|milliseconds|minutes|kb|mb|percent)(_|$)", metric.name)
    if "duration" in metric.name or "wait" in metric.name:
        assert metric.name.endswith("_seconds")
    assert metric.meaning


@each_dashboard
def test_panels_overlap_nowhere(service: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARDS[service]["panels"]:
        index = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(index["x"], index["x"] + index["w"])
            for y in range(index["y"], index["y"] + index["h"])
        }
        assert index["x"] + index["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


@each_dashboard
def test_panels_have_numbers_of_their_own_a_unit_and_a_description(service: str) -> None:
    numbers = [panel["id"] for panel in DASHBOARDS[service]["panels"]]
    assert len(set(numbers)) == len(numbers)
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in panels(service))


@each_dashboard
def test_every_panel_asks_only_for_the_chosen_jobs_and_instances(service: str) -> None:
    for panel in panels(service):
        for target in panel["targets"]:
            selectors = re.findall(r"(?:ragstore|process)_\w+\{([^}]*)\}", target["expr"])
            assert len(selectors) == len(re.findall(r"\b(?:ragstore|process)_\w+", target["expr"]))
            assert all('job=~"$job", instance=~"$instance"' in selector for selector in selectors)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_tells_how_bad_it_is_and_where_its_section_is(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"Ragstore([A-Z][a-z]+)+", rule["alert"])
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"]
    runbook = f"{pages_address()}/monitoring.html#{rule['alert'].lower()}"
    assert rule["annotations"]["runbook_url"] == runbook
    assert f"\n### {rule['alert']}\n" in PAGE


def test_every_alert_has_a_test() -> None:
    tests = yaml.safe_load((MONITORING / "rules.test.yaml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == {rule["alert"] for rule in ALERTS}


def test_the_operator_gets_the_same_rules() -> None:
    manifest = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    assert manifest["spec"] == RULES, "run: make generate"


def test_the_address_of_the_runbooks_can_be_set_without_a_change_of_the_repository(tmp_path: Path) -> None:
    prometheus_rules.main(["--pages", "https://pages.example.org/", "--output", str(tmp_path)])
    for name in ("rules.yaml", "prometheusrule.yaml", "rules.test.yaml"):
        text = (tmp_path / "k8s/monitoring" / name).read_text()
        found = set(re.findall(r"runbook_url: (\S+)/monitoring.html#", text))
        assert found == {"https://pages.example.org"}
        assert text.replace("https://pages.example.org", pages_address()) == (MONITORING / name).read_text()


def test_the_alerts_fire_for_what_they_are_for() -> None:
    """With promtool, if it is installed: `make deploy-check` says so if it is not."""
    promtool = shutil.which("promtool")
    if promtool is not None:
        for command in (["check", "rules", "rules.yaml"], ["test", "rules", "rules.test.yaml"]):
            run = subprocess.run([promtool, *command], cwd=MONITORING, capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stdout + run.stderr


def test_the_dashboard_is_where_a_grafana_sidecar_looks_for_it() -> None:
    if not kustomize():
        pytest.skip("kubectl not found, or too old: the dashboard's ConfigMap cannot be rendered")
    manifests = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(render(MONITORING))}
    assert manifests.keys() == {"ConfigMap", "PrometheusRule"}
    assert manifests["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(manifests["ConfigMap"]["data"]["ragstore.json"]) == DASHBOARD
    assert json.loads(manifests["ConfigMap"]["data"]["ragstore-gateway.json"]) == GATEWAY_DASHBOARD
    assert {manifest["metadata"]["namespace"] for manifest in manifests.values()} == {"ragstore"}
